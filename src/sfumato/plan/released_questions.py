"""Questions about released rows, which are answered part by part wherever the parts are, as promises are counted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.plan.plan import Claim, Evidence, Finding
from sfumato.plan.questions import ColumnQuestion, Question, outer_end
from sfumato.table.intervals import Intervals, interval_names

if TYPE_CHECKING:
    from sfumato.table.table import Table


@dataclass(frozen=True)
class Spread:
    """The ranges of a released column: how many there are, their widths together, and the ends of all of them."""

    ranges: int
    widths: float
    low: float
    high: float

    def merge(self, other: Spread) -> Spread:
        """Return the ranges of both."""
        ends = outer_end(min, self.low, other.low), outer_end(max, self.high, other.high)
        return Spread(self.ranges + other.ranges, self.widths + other.widths, *ends)

    @property
    def share(self) -> float:
        """Mean width of a range, as a share of the whole; NaN if there is no range, or if all of them are one point."""
        whole = self.high - self.low
        return self.widths / self.ranges / whole if self.ranges and whole > 0.0 else math.nan


@dataclass(frozen=True)
class SpreadOf(ColumnQuestion[Spread]):
    """Widths of the ranges ``x_low`` to ``x_high`` of a released column ``x``; rows without both ends are left out."""

    @property
    def reads(self) -> tuple[str, ...]:
        return interval_names(self.column)

    def of(self, batch: Table) -> Spread:
        ends = Intervals.of(batch, self.column)
        known = ~(np.isnan(ends.low) | np.isnan(ends.high))
        if not known.any():
            return Spread(0, 0.0, math.nan, math.nan)
        low, high = ends.low[known], ends.high[known]
        return Spread(len(low), float((high - low).sum()), float(low.min()), float(high.max()))


@dataclass(frozen=True)
class AskedOfRelease(Claim[Any]):
    """A question about the released rows, which is answered part by part as promises are counted."""

    question: Question[Any]

    def tally(self, evidence: Evidence) -> Any:
        return self.question.of(evidence.released)

    def merge(self, one: Any, other: Any) -> Any:
        return self.question.merge(one, other)

    def settle(self, share: Any, gist: Any) -> Any:
        return self.question.settle(share)

    def finding(self, tally: Any) -> Finding:
        """Return that there is no promise: the answer is not judged."""
        return self.report(claim="asked, not promised", held=True, found="an answer")
