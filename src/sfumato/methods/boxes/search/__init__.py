"""The search beyond the asymptotic optimum (XK §V): evolution of partitions from the greedy one."""

from sfumato.methods.boxes.search.budget import Progress, SearchBudget
from sfumato.methods.boxes.search.evolution import Found, search

__all__ = ["Found", "Progress", "SearchBudget", "search"]
