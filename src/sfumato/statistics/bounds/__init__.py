"""What boxes imply for a statistic: value at the midpoints, and guaranteed, attained and linear intervals."""

from sfumato.statistics.bounds.budget import EstimateBudget
from sfumato.statistics.bounds.enclosure import Enclosure, Witness
from sfumato.statistics.bounds.estimates import enclose, estimate

__all__ = ["Enclosure", "EstimateBudget", "Witness", "enclose", "estimate"]
