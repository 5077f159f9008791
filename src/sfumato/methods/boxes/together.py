"""Boxes that are unions of units: of people who were together in all earlier releases that they are in.

A unit is cut by no box, so that each of its people keeps the others as candidates; see
:mod:`sfumato.plan.claims.sequence`. Units that are large enough are boxes of their own. New people join the box that
they widen least, or form boxes among themselves where that is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.boxes.axes import Axes, box_widths
from sfumato.methods.partition import BoxPartition
from sfumato.plan.claims.sequence import FREE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.partition import Protected

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
    box_of = np.empty(len(values), dtype=np.int64)
    if not len(bound):
        return split(values, weights, k, protected)
    box_of[bound] = _join_units(values[bound], weights[bound], units[bound], k, protected, split)
    if len(new):
        alone = _box_of_rows(split(values[new], weights[new], k, protected.of(new))) if len(new) >= k else None
        box_of[new] = _place_new(values, axes, box_of, bound, new, alone)
    _, labels = np.unique(box_of, return_inverse=True)
    order = np.argsort(labels, kind="stable")
    return BoxPartition(order, np.append(0, np.cumsum(np.bincount(labels))), np.empty((0, 4)))


def _box_of_rows(boxes: BoxPartition) -> NDArray[np.int64]:
    box_of = np.empty(len(boxes.order), dtype=np.int64)
    box_of[boxes.order] = boxes.numbers
    return box_of


def _join_units(
    values: NDArray[np.float64],
    weights: NDArray[np.float32],
    units: NDArray[np.int64],
    k: int,
    protected: Protected,
    split: Split,
) -> NDArray[np.int64]:
    """Return the box of each row: its unit, or several units where one has fewer than k rows.

    Units are joined by their medians; every one of them is diverse, so their unions are, too.
    """
    _, labels, sizes = np.unique(units, return_inverse=True, return_counts=True)
    least = -(-k // int(sizes.min()))
    if least == 1:
        return labels
    if least >= len(sizes):
        return np.zeros(len(values), dtype=np.int64)
    starts = np.append(0, np.cumsum(sizes)[:-1])
    medians = np.empty((len(sizes), values.shape[1]))
    for axis in range(values.shape[1]):
        order = np.lexsort((values[:, axis], labels))
        medians[:, axis] = values[order[starts + (sizes - 1) // 2], axis]
    heavy = np.add.reduceat(weights[np.argsort(labels, kind="stable")], starts, axis=0)
    none = np.zeros((len(sizes), 0))
    free = replace(protected, l=1, values=none, separation=none[0], people=np.zeros(0, np.int64))
    return _box_of_rows(split(medians, heavy, least, free))[labels]


def _place_new(
    values: NDArray[np.float64],
    axes: Axes,
    box_of: NDArray[np.int64],
    bound: NDArray[np.int64],
    new: NDArray[np.int64],
    alone: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    """Return the box of each new row: the old one that it widens least, or one of new rows where that costs less.

    Every axis counts as much as any other, whatever is to be kept now: the new people stay with the old ones in later
    releases, which may be asked to keep something else.
    """
    from scipy.spatial import cKDTree

    low, high = _hulls(values[bound], box_of[bound])
    widths, sizes = box_widths(axes, low, high), np.bincount(box_of[bound])
    usual = np.where(widths.mean(axis=0) > 0.0, widths.mean(axis=0), np.ptp(values, axis=0))
    weight = 1.0 / np.where(usual > 0.0, usual, 1.0)
    _, near = cKDTree((low + high) / 2.0 * weight).query(values[new] * weight, k=min(NEIGHBOURS, len(low)))
    near = near.reshape(len(new), -1)
    cost = np.empty(near.shape)
    for place, boxes in enumerate(near.T):
        wider = box_widths(axes, np.minimum(low[boxes], values[new]), np.maximum(high[boxes], values[new]))
        cost[:, place] = (sizes[boxes] + 1) * (wider @ weight) - sizes[boxes] * (widths[boxes] @ weight)
    best = cost.argmin(axis=1)[:, None]
    joined = np.take_along_axis(near, best, axis=1)[:, 0]
    if alone is None:
        return joined
    own = np.bincount(alone) * (box_widths(axes, *_hulls(values[new], alone)) @ weight)
    cheaper = own < np.bincount(alone, np.take_along_axis(cost, best, axis=1)[:, 0])
    return np.where(cheaper[alone], len(low) + alone, joined)


def _hulls(values: NDArray[np.float64], box_of: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lowest and the highest coordinates of each box."""
    order = np.argsort(box_of, kind="stable")
    starts = np.flatnonzero(np.diff(box_of[order], prepend=-1))
    return np.minimum.reduceat(values[order], starts), np.maximum.reduceat(values[order], starts)
