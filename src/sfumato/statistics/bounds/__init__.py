"""What boxes imply for a statistic: value at the midpoints, and guaranteed, attained and linear intervals."""

from sfumato.statistics.bounds.enclosure import Enclosure, EstimateBudget, Witness

__all__ = ["Enclosure", "EstimateBudget", "Witness"]
