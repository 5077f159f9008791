"""Routing of rows to blocks: the first cuts of the tree are made on a sample, so that each block can be cut alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.boxes.box_widths import box_widths
from sfumato.methods.routes import grown_routes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.axes import Axes
    from sfumato.methods.boxes.diversity import Protected
    from sfumato.methods.routes import Routes


@dataclass(frozen=True, repr=False)
class SampledRows:
    """Sampled rows from which the first cuts are chosen."""

    places: NDArray[np.float64]  # (rows, axes)
    weights: NDArray[np.float32]  # (rows, axes)
    protected: Protected  # columns that must be diverse in every block
    axes: Axes

    def of(self, rows: NDArray[np.int64]) -> SampledRows:
        """Return a subset of the rows."""
        values = self.protected.values[rows]
        return SampledRows(self.places[rows], self.weights[rows], replace(self.protected, values=values), self.axes)

    @property
    def widths(self) -> NDArray[np.float64]:
        """The width of the rows along each axis."""
        ends = self.places.min(axis=0, keepdims=True), self.places.max(axis=0, keepdims=True)
        widths: NDArray[np.float64] = box_widths(self.axes, *ends)[0]
        return widths

    def between_children(self, axis: int, ordered: NDArray[np.float64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those places among the sorted places where a child of the covering node ends, if there is a tree."""
        steps = self.axes.all[axis].steps
        if steps is None or not len(ends):
            return ends
        from sfumato.kernels.covering import covering_widths, trees_of

        trees = trees_of([steps])
        whole = covering_widths(trees, 0, ordered[:1], ordered[-1:])
        between: NDArray[np.int64] = ends[covering_widths(trees, 0, ordered[ends - 1], ordered[ends]) >= whole]
        return between

    @property
    def is_diverse(self) -> bool:
        """Whether every protected column has ℓ values; then any block that contains these rows can be released."""
        return all(
            _values_apart(column, distance, self.protected.l) >= self.protected.l
            for column, distance in zip(self.protected.values.T, self.protected.separation, strict=True)
        )


def routes(sample: SampledRows, most: float, least: int) -> Routes:
    """Cut the sampled rows near the median of the axis with the largest pressure, until no block exceeds ``most`` rows.

    ``most`` and ``least`` are numbers of sampled rows. Each block has at least ``least`` of them, with ℓ values of each
    protected column, so that it can be released for any other rows that are routed to it. Equal values stay in one
    block, so a block of equal rows may exceed ``most``.
    """
    return grown_routes(sample.places, most, lambda rows: _cut_block(sample.of(rows), least))


def _cut_block(sample: SampledRows, least: int) -> tuple[int, float] | None:
    """Return axis and threshold of the best cut that leaves ``least`` rows and enough diversity on both sides."""
    places = sample.places
    pressure = sample.weights.mean(axis=0) * sample.widths
    for axis in np.argsort(-pressure, kind="stable"):
        if pressure[axis] <= 0.0:
            return None
        ordered = np.sort(places[:, axis])
        ends = np.append(np.flatnonzero(ordered[1:] > ordered[:-1]), -1)[:-1] + 1  # rows before each change of value
        ends = sample.between_children(int(axis), ordered, ends)
        ends = ends[(ends >= least) & (len(ordered) - ends >= least)]
        if len(ends):
            threshold = float(ordered[ends[np.argmin(np.abs(ends - len(ordered) // 2))] - 1])
            below = places[:, axis] <= threshold
            if all(sample.of(np.flatnonzero(side)).is_diverse for side in (below, ~below)):
                return int(axis), threshold
    return None


def _values_apart(values: NDArray[np.float64], distance: float, at_most: int) -> int:
    """Count the values that are pairwise different and at least ``distance`` apart, up to ``at_most``."""
    ordered = np.unique(values)
    found, place = 0, 0
    while found < at_most and place < len(ordered):
        found += 1
        place = max(int(np.searchsorted(ordered, ordered[place] + distance)), place + 1)
    return found
