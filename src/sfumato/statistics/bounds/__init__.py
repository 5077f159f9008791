"""What boxes say about a statistic: the value at midpoints, what is certain, what is attained, what is linear."""

from sfumato.statistics.bounds.budget import EstimateBudget
from sfumato.statistics.bounds.enclosure import Enclosure, Witness
from sfumato.statistics.bounds.estimates import enclose, estimate

__all__ = ["Enclosure", "EstimateBudget", "Witness", "enclose", "estimate"]
