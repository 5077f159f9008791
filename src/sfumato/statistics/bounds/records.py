"""The records of a statistic in the forms that its enclosures need, each computed once for all parts."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from sfumato.statistics.bounds.attained_rows import ReleasedRows
from sfumato.statistics.bounds.perturbation import Perturbation
from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes
from sfumato.statistics.weighted_boxes import WeightedBoxes

MAX_SPLIT_RECORDS = 4000  # up to this number of records each gets its own box, because terms of order 1/N matter


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """The records of a statistic, split and scaled once for all its parts.

    ``rows`` are the released rows, if a box is one part although its rows differ (:mod:`.attained_rows`).
    """

    boxes: WeightedBoxes
    rows: ReleasedRows | None = None

    @functools.cached_property
    def split(self) -> WeightedBoxes:
        """One box per record in small tables."""
        return self.boxes.split_into_records(MAX_SPLIT_RECORDS)

    @functools.cached_property
    def problem(self) -> ScaledBoxes:
        """The split boxes in scaled units."""
        return ScaledBoxes.of(self.split)

    @functools.cached_property
    def perturbation(self) -> Perturbation | None:
        """Quick bounds for the coefficients of a regression of the first column on the others."""
        return Perturbation.of(self.problem.merged)
