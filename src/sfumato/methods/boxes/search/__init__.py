"""The search for better boxes (XK §V): an evolutionary search that starts from the greedy partition."""

from sfumato.methods.boxes.search.budget import Progress, SearchBudget
from sfumato.methods.boxes.search.evolution import Found, search

__all__ = ["Found", "Progress", "SearchBudget", "search"]
