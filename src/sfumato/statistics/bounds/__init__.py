"""What boxes imply for a statistic: value at the midpoints, and guaranteed, attained and linear intervals."""

from sfumato.statistics.bounds.budget import EstimateBudget
from sfumato.statistics.bounds.enclosure import Enclosure, Witness

__all__ = ["Enclosure", "EstimateBudget", "Witness"]
