"""The search beyond the asymptotic optimum (XK §V): evolution of partitions from the greedy one."""

from sfumato.methods.boxes.search.budget import Progress, Rounds, Seconds
from sfumato.methods.boxes.search.evolution import Found, SearchTrace, search

__all__ = ["Found", "Progress", "Rounds", "SearchTrace", "Seconds", "search"]
