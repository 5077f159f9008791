"""How close the boxes come to the theoretical optimum (XK §II)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.boxes.density import log_density
from sfumato.methods.boxes.widths import contribution, half_widths
from sfumato.methods.diagnostics import Optimality
from sfumato.table.intervals import Intervals, interval_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.methods.boxes.axes import Axes, NumberAxis
    from sfumato.methods.boxes.diversity import DiversityRule
    from sfumato.methods.boxes.sensitivities import Sensitivities
    from sfumato.methods.claims import Evidence
    from sfumato.table.table import Table

RECORDS = 10_000  # records used; evenly spaced in a larger table, so that the time does not grow with it
CELLS = 1_000_000  # records × columns used; a table of many columns uses fewer records
POINTS = 1_000  # points at which the best box is computed
DISTINCT = 0.9  # share of the sampled values that must be different for a meaningful density


@dataclass(frozen=True, repr=False)
class OptimalityInput:
    """What the comparison with the optimum needs: a sample of records with their boxes.

    The comparison takes longer than a small release and is rarely read, so it is computed on request. Until then the
    sampled rows of the original are kept in memory, and only there: see :class:`.Diagnostics`.
    """

    axes: Axes
    sensitivities: Sensitivities
    diversity: DiversityRule
    k: int
    rows: Table  # sampled rows of the original
    half: NDArray[np.float64]  # half-widths of their boxes, by numeric axis
    released_rows: int

    @classmethod
    def of(
        cls, axes: Axes, sensitivities: Sensitivities, diversity: DiversityRule, k: int, evidence: Evidence
    ) -> OptimalityInput:
        """Sample the records evenly in the order of the original, so that the sample is the same at each call."""
        total, names = evidence.released.rows, [axis.name for axis in axes.numbers]
        wanted = min(RECORDS, max(POINTS, CELLS // max(1, len(axes.all))), total)
        place = np.full(evidence.original.rows, -1, dtype=np.int64)
        place[evidence.origin] = np.arange(total)
        chosen = place[place >= 0][np.linspace(0, total - 1, wanted).astype(np.int64)]
        ends = evidence.released.select([end for name in names for end in interval_names(name)]).take(chosen)
        half = np.empty((wanted, len(names)))
        for position, name in enumerate(names):
            interval = Intervals.of(ends, name)
            half[:, position] = np.nan_to_num((interval.high - interval.low) / 2.0)
        rows = evidence.original.take(evidence.origin[chosen])
        return cls(axes, sensitivities, diversity, k, rows, half, total)

    def __call__(self) -> Optimality | None:
        """Compare the width reached with the optimum for the numeric axes that matter; None if there are none.

        The optimum is asymptotic: it assumes that records have a density. If values repeat or are missing, it does not
        apply and is NaN.
        """
        numbers = self.axes.numbers
        if not numbers:
            return None
        weights = _per_unit_of_sampling(self.sensitivities, self.rows)[:, : len(numbers)]
        places = np.column_stack([axis.coordinates(self.rows) for axis in numbers])
        achieved = float(contribution(weights, self.half).mean())
        matters = (weights.mean(axis=0) > 0.0) & (places.max(axis=0) > places.min(axis=0))
        if not matters.any():
            return Optimality(achieved=achieved, asymptotic=0.0, shrunk=0.0, records=len(places))
        reason = _why_no_bound([axis for axis, one in zip(numbers, matters, strict=True) if one], places[:, matters])
        if reason:
            nan = np.nan
            return Optimality(achieved=achieved, asymptotic=nan, shrunk=nan, reason=reason, records=len(places))
        apart = np.array([self.diversity.epsilon.get(axis.name, 0.0) for axis in numbers])[matters]
        asymptotic = self._asymptotic(places[:, matters], weights[:, matters], self.diversity.l * apart / 2.0)
        shrunk = asymptotic * (self.k - 1) / (self.k + 1)
        return Optimality(achieved=achieved, asymptotic=asymptotic, shrunk=shrunk, records=len(places))

    def _asymptotic(self, places: NDArray[np.float64], weights: NDArray[np.float64], low: NDArray[np.float64]) -> float:
        """Return the mean contribution of the best boxes around some of the records."""
        some = np.linspace(0, len(places) - 1, min(POINTS, len(places))).astype(np.int64)
        log_records_per_volume = log_density(places, places[some]) + np.log(self.released_rows / len(places))
        high = (places.max(axis=0) - places.min(axis=0)) / 2.0
        widths = half_widths(weights[some], np.log(self.k) - log_records_per_volume, low, high)
        return float(contribution(weights[some], widths).mean())


def _per_unit_of_sampling(sensitivities: Sensitivities, rows: Table) -> NDArray[np.float64]:
    """Return sensitivities for sampling weights scaled to mean 1, so that their scale does not matter."""
    weights = sensitivities.of(rows).astype(np.float64)
    if sensitivities.weight is None:
        return weights
    mean = float(np.nan_to_num(rows.numbers(sensitivities.weight)).mean())
    return weights / mean if mean > 0.0 else weights


def _why_no_bound(axes: Sequence[NumberAxis], places: NDArray[np.float64]) -> str:
    """Return why no optimum is known for these columns; empty if one is known."""
    ranked = [axis.name for axis in axes if axis.nodes is not None]
    if ranked:
        return f"the tree decides where {', '.join(map(repr, ranked))} can be cut"
    missing = [axis.name for axis in axes if axis.has_missing]
    if missing:
        return f"values are missing in {', '.join(map(repr, missing))}"
    tied = [
        axis.name
        for axis, column in zip(axes, places.T, strict=True)
        if len(np.unique(column)) < DISTINCT * len(column)
    ]
    return f"values repeat in {', '.join(map(repr, tied))}, which the theory does not cover" if tied else ""
