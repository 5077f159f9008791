"""The points in each box, where a box is a product of intervals and of sets of categories."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.jit import jit
from sfumato.machine import processors

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, repr=False, eq=False)
class FittingPeople:
    """How many people fit boxes."""

    in_box: NDArray[np.int64]  # people who fit each box
    fewest: NDArray[np.int64]  # (people,): those who fit the box of hers that fewest fit; 0 if she fits none


def inside_counts(
    *,
    numbers: NDArray[np.float64],
    categories: NDArray[np.int32],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    cells: NDArray[np.int32],
    allowed: NDArray[np.bool_],
    owners: NDArray[np.int64],
) -> FittingPeople:
    """Count for each box the people with a point whose numbers are in its intervals and categories in its sets.

    ``owners`` is the person of each point, as numbers from 0. ``allowed[c, cell, category]`` says which categories of
    column c a cell contains. NaN, on either side, fits always.
    """
    people, order = int(owners.max(initial=-1)) + 1, np.argsort(numbers.T, axis=1)
    points = (
        np.ascontiguousarray(numbers),
        order,
        np.take_along_axis(numbers.T, order, axis=1),
        np.ascontiguousarray(categories, dtype=np.int32),
        np.ascontiguousarray(allowed),
        np.ascontiguousarray(owners, dtype=np.int64),
    )
    boxes = (np.ascontiguousarray(low), np.ascontiguousarray(high), np.ascontiguousarray(cells, dtype=np.int32))

    def count(first: int, last: int) -> FittingPeople:
        found = FittingPeople(np.zeros(last - first, dtype=np.int64), np.zeros(people, dtype=np.int64))
        some = (one[first:last] for one in boxes)
        _count(*points, *some, np.full(people, -1, dtype=np.int64), found.in_box, found.fewest)
        return found

    ends = np.linspace(0, len(low), processors() + 1).astype(np.int64).tolist()
    with ThreadPoolExecutor(processors()) as pool:
        parts = list(pool.map(count, ends[:-1], ends[1:]))
    fewest = np.stack([np.where(part.fewest == 0, np.iinfo(np.int64).max, part.fewest) for part in parts]).min(axis=0)
    fewest[fewest == np.iinfo(np.int64).max] = 0
    return FittingPeople(np.concatenate([part.in_box for part in parts]), fewest)


@jit
def _fewest(ordered, low, high):
    """Return the column, of those without NaN, in which the fewest points fit, and where they are in its order.

    The column is −1, and all points are to be looked at, if there is none.
    """
    points = ordered.shape[1]
    best, first, last = -1, 0, points
    for column in range(len(ordered)):
        if points > 0 and not (np.isnan(ordered[column, -1]) or np.isnan(low[column]) or np.isnan(high[column])):
            start = np.searchsorted(ordered[column], low[column], side="left")
            end = np.searchsorted(ordered[column], high[column], side="right")
            if end - start < last - first:
                best, first, last = column, start, end
    return best, first, last


@jit(work=lambda numbers, *others: 0.02 * len(others[5]) * numbers.size)
def _count(numbers, order, ordered, categories, allowed, owners, low, high, cells, last_box, counts, fewest):
    for box in range(len(low)):
        axis, first, last = _fewest(ordered, low[box], high[box])
        for place in range(first, last):
            point = order[axis, place] if axis >= 0 else place
            inside = True
            for column in range(numbers.shape[1]):
                value = numbers[point, column]
                if value < low[box, column] or value > high[box, column]:
                    inside = False
                    break
            if inside:
                for column in range(categories.shape[1]):
                    if not allowed[column, cells[box, column], categories[point, column]]:
                        inside = False
                        break
            if inside and last_box[owners[point]] != box:  # another row of somebody who was counted adds nothing
                last_box[owners[point]] = box
                counts[box] += 1
        for place in range(first, last):
            owner = owners[order[axis, place] if axis >= 0 else place]
            if last_box[owner] == box and (fewest[owner] == 0 or counts[box] < fewest[owner]):
                fewest[owner] = counts[box]


@dataclass(frozen=True, repr=False, eq=False)
class SortedPoints:
    """Points, with their order along each column, by which the few that may be in a box are found."""

    points: NDArray[np.float64]
    order: NDArray[np.int64]
    ordered: NDArray[np.float64]

    @classmethod
    def of(cls, points: NDArray[np.float64]) -> SortedPoints:
        """Sort the points along each column."""
        order = np.argsort(points.T, axis=1)
        return cls(np.ascontiguousarray(points), order, np.take_along_axis(points.T, order, axis=1))

    def inside(self, low: NDArray[np.float64], high: NDArray[np.float64], most: int) -> NDArray[np.int64]:
        """Return up to ``most`` points that are in each box (one row per box), −1 where there are fewer."""
        found = np.full((len(low), most), -1, dtype=np.int64)
        boxes = (np.ascontiguousarray(side) for side in (low, high))
        _find(self.points, self.order, self.ordered, *boxes, found)
        return found


@jit(work=lambda points, order, ordered, low, high, found: 0.02 * len(low) * points.size)
def _find(points, order, ordered, low, high, found):
    for box in range(len(low)):
        axis, first, last = _fewest(ordered, low[box], high[box])
        used = 0
        for place in range(first, last):
            point = order[axis, place] if axis >= 0 else place
            inside = True
            for column in range(points.shape[1]):
                if points[point, column] < low[box, column] or points[point, column] > high[box, column]:
                    inside = False
                    break
            if inside:
                found[box, used] = point
                used += 1
                if used == found.shape[1]:
                    break
