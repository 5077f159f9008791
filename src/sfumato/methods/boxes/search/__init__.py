"""The search for better boxes (XK §V): an evolutionary search that starts from the greedy partition."""

from sfumato.methods.boxes.search.evolution import Found, search
from sfumato.methods.search_budget import Progress, SearchBudget

__all__ = ["Found", "Progress", "SearchBudget", "search"]
