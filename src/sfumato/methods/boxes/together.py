"""Boxes that are unions of units: of people who were together in all earlier releases that they are in.

A unit is cut by no box, so that each of its people keeps the others as candidates; see
:mod:`sfumato.plan.claims.sequence`. New people join the unit that they widen least, or form boxes among themselves
where that is cheaper. What has fewer than k rows then is joined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.boxes.axes import Axes, box_widths
from sfumato.methods.partition import BoxPartition
from sfumato.plan.earlier_releases import FREE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.diversity import Protected

NEIGHBOURS = 12  # boxes near a new person that are tried
Split = Callable[["NDArray[np.float64]", "NDArray[np.float32]", int, "Protected"], BoxPartition]


def partition_units(
    values: NDArray[np.float64],
    weights: NDArray[np.float32],
    axes: Axes,
    units: NDArray[np.int64],
    *,
    k: int,
    protected: Protected,
    split: Split,
) -> BoxPartition:
    """Return boxes of at least k rows that contain each unit whole; ``split`` makes boxes of single rows."""
    bound, new = np.flatnonzero(units != FREE), np.flatnonzero(units == FREE)
    if not len(bound):
        return split(values, weights, k, protected)
    box_of = np.empty(len(values), dtype=np.int64)
    box_of[bound] = np.unique(units[bound], return_inverse=True)[1].ravel()
    if len(new):
        alone = _box_of_rows(split(values[new], weights[new], k, protected.of(new))) if len(new) >= k else None
        box_of[new] = _place_new(values, axes, box_of, bound, new, alone)
    labels = _join_small(values, weights, box_of, k, protected, split)
    order = np.argsort(labels, kind="stable")
    return BoxPartition(order, np.append(0, np.cumsum(np.bincount(labels))), np.empty((0, 4)))


def _box_of_rows(boxes: BoxPartition) -> NDArray[np.int64]:
    box_of = np.empty(len(boxes.order), dtype=np.int64)
    box_of[boxes.order] = boxes.numbers
    return box_of


def _join_small(
    values: NDArray[np.float64],
    weights: NDArray[np.float32],
    box_of: NDArray[np.int64],
    k: int,
    protected: Protected,
    split: Split,
) -> NDArray[np.int64]:
    """Return the box of each row after those of fewer than k rows were joined, by their medians.

    Joining each with its cheapest neighbour, round after round, gives boxes that are a twentieth wider.
    """
    labels, sizes = np.unique(box_of, return_inverse=True, return_counts=True)[1:]
    small = np.flatnonzero(sizes < k)
    if not len(small):
        return labels
    least = -(-k // int(sizes[small].min()))
    if len(small) < least:  # too few to fill a box: all others help
        small = np.arange(len(sizes))
    starts = np.append(0, np.cumsum(sizes)[:-1])
    medians = np.empty((len(sizes), values.shape[1]))
    for axis in range(values.shape[1]):
        order = np.lexsort((values[:, axis], labels))
        medians[:, axis] = values[order[starts + (sizes - 1) // 2], axis]
    heavy = np.add.reduceat(weights[np.argsort(labels, kind="stable")], starts, axis=0)
    none = np.zeros((len(small), 0))
    free = replace(protected, l=1, values=none, separation=none[0], people=np.zeros(0, np.int64))
    joined = np.arange(len(sizes))
    joined[small] = len(sizes) + _box_of_rows(split(medians[small], heavy[small], min(least, len(small)), free))
    return np.unique(joined[labels], return_inverse=True)[1].ravel()


@dataclass(frozen=True, repr=False)
class _Hulls:
    """Boxes by their lowest and highest coordinates."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    sizes: NDArray[np.int64]
    axes: Axes

    @classmethod
    def of(cls, values: NDArray[np.float64], box_of: NDArray[np.int64], axes: Axes) -> _Hulls:
        order = np.argsort(box_of, kind="stable")
        starts = np.flatnonzero(np.diff(box_of[order], prepend=-1))
        low, high = np.minimum.reduceat(values[order], starts), np.maximum.reduceat(values[order], starts)
        return cls(low, high, np.bincount(box_of), axes)

    @property
    def widths(self) -> NDArray[np.float64]:
        return box_widths(self.axes, self.low, self.high)

    def cheapest(
        self,
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        sizes: NDArray[np.int64],
        weight: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the box here that each of these joins at the least cost, and the cost: rows times widths added."""
        from scipy.spatial import cKDTree

        tree = cKDTree((self.low + self.high) / 2.0 * weight)
        near = tree.query((low + high) / 2.0 * weight, k=min(NEIGHBOURS, len(self.low)))[1].reshape(len(low), -1)
        own, here = box_widths(self.axes, low, high) @ weight, self.widths @ weight
        cost = np.empty(near.shape)
        for place, box in enumerate(near.T):
            both = box_widths(self.axes, np.minimum(low, self.low[box]), np.maximum(high, self.high[box])) @ weight
            cost[:, place] = (sizes + self.sizes[box]) * both - sizes * own - self.sizes[box] * here[box]
        best = cost.argmin(axis=1)[:, None]
        return np.take_along_axis(near, best, axis=1)[:, 0], np.take_along_axis(cost, best, axis=1)[:, 0]


def _place_new(
    values: NDArray[np.float64],
    axes: Axes,
    box_of: NDArray[np.int64],
    bound: NDArray[np.int64],
    new: NDArray[np.int64],
    alone: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    """Return the box of each new row: the unit that it widens least, or one of new rows where that costs less.

    Every axis counts as much as any other, whatever is to be kept now: the new people stay with the old ones in later
    releases, which may be asked to keep something else.
    """
    boxes = _Hulls.of(values[bound], box_of[bound], axes)
    usual = boxes.widths.mean(axis=0)
    usual = np.where(usual > 0.0, usual, np.ptp(values, axis=0))
    weight = 1.0 / np.where(usual > 0.0, usual, 1.0)
    joined, cost = boxes.cheapest(values[new], values[new], np.ones(len(new), dtype=np.int64), weight)
    if alone is None:
        return joined
    among = _Hulls.of(values[new], alone, axes)
    cheaper = among.sizes * (among.widths @ weight) < np.bincount(alone, cost)
    return np.where(cheaper[alone], len(boxes.sizes) + alone, joined)
