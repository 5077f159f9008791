"""The partition of the space into boxes of at least k records: run on all cores, with trees, and in blocks."""

from __future__ import annotations

import functools
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.boxes.axes import Axes, box_widths
from sfumato.methods.boxes.diversity import Protected
from sfumato.methods.partition import BoxPartition, Routes, grow_routes
from sfumato.table.groups import sum_groups

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.methods.boxes.cut_kernels import CellFaces
    from sfumato.methods.boxes.partition_kernels import PartitionProblem


SHARE = 6  # cells per core, so that no core waits long for the others
NUMBERS = 60_000  # records × axes of a cell whose values fit into the cache of a core
NEAR, FAR = 8, 32  # a cell of fewer than this × k records tries every cut; small tables use the larger look-ahead
NEAR_NODES = 4  # the same where axes have trees, whose reachable cost is harder to foresee
EFFORT = 40_000_000  # limit of rows × axes² × look-ahead


def partition(
    values: NDArray[np.float64],
    weights: NDArray[np.float32],
    axes: Axes,
    *,
    k: int,
    protected: Protected,
    median: bool,
    note_cuts: bool,
    faces: CellFaces | None = None,
) -> BoxPartition:
    """Return boxes of at least k records with a small weighted sum of widths; deterministic.

    The widths are those of the records or, if ``faces`` are given, those of the cells. The median rule uses the records
    in any case.
    """
    from sfumato.methods.boxes.cut_kernels import whole_space

    rows = len(values)
    line = None if median else _only_axis(values, weights, axes, protected)
    if line is not None and rows >= k:
        return _along_line(values[:, line], weights[:, line], line, k, note_cuts=note_cuts, faces=faces)
    problem = problem_of(values, weights, axes, k=k, protected=protected, median=median, faces=faces)
    if axes.have_trees and not (median or note_cuts):
        return partition_by_trees(problem)
    whole = whole_space(problem.faces) if faces is not None and not median else np.empty((2, 0))
    splitter = functools.partial(_splitter, are_plain_hulls=faces is None and not axes.have_trees)
    cutting = _Cutting(problem, protected, splitter, np.zeros((rows if note_cuts else 0, 4)))
    cores, least = os.cpu_count() or 1, problem.lookahead * k
    for enough in (max(rows // (SHARE * cores), least), max(NUMBERS // values.shape[1], least), 0):
        boxes = cutting.boxes
        bounds = cell_bounds(problem, boxes, whole)
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(functools.partial(cutting.cut, enough), bounds, pairwise(boxes.starts.tolist())))
    return cutting.boxes


class _Cutting:
    """Records that are cut into ever smaller cells, cell by cell."""

    def __init__(
        self,
        problem: PartitionProblem,
        protected: Protected,
        splitter: Callable[[PartitionProblem, Protected], Callable[..., None]],
        cuts: NDArray[np.float64],
    ) -> None:
        self._problem, self._protected, self._splitter, self._cuts = problem, protected, splitter, cuts
        self._order = np.arange(len(problem.values))
        self._begins = self._order == 0

    @property
    def boxes(self) -> BoxPartition:
        """The cells so far."""
        return BoxPartition(self._order, np.append(np.flatnonzero(self._begins), len(self._order)), self._cuts)

    def cut(self, enough: int, bounds: NDArray[np.float64], ends: tuple[int, int]) -> None:
        """Cut one cell down to cells of at most ``enough`` records; 0: to leaves.

        A copy of its records is cut, so that they lie together in memory: most of the time would pass with waiting for
        records from all over the table.
        """
        first, last = ends
        if last - first < 2 * self._problem.k or last - first <= enough:
            return
        rows, begins, cuts = self._order[first:last].copy(), self._begins[first:last], self._cuts[first:last]
        whole = last - first == len(self._order)
        problem = self._problem if whole else _part(self._problem, rows)
        order = np.arange(len(rows))
        split = self._splitter(problem, self._protected if whole else self._protected.of(rows))
        split(order, begins, cuts, bounds, 0, len(rows), enough)
        self._order[first:last] = rows[order]
        if len(cuts):
            cuts[np.flatnonzero(begins)[1:], 2:] += first


def _splitter(problem: PartitionProblem, protected: Protected, *, are_plain_hulls: bool) -> Callable[..., None]:
    """Return the kernel that cuts a cell: if hulls must be diverse, the one that takes this into account."""
    from sfumato.methods.boxes import diverse_kernels as diverse_partition
    from sfumato.methods.boxes import partition_kernels as partition

    if protected.is_needed and are_plain_hulls and not problem.median and not len(protected.people):
        return functools.partial(diverse_partition.split, diverse_partition.DiverseProblem(problem, protected.apart))
    return functools.partial(partition.split, problem)


def cell_bounds(problem: PartitionProblem, boxes: BoxPartition, whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the lower and upper faces of each box, (boxes, 2, numeric axes), given those of the whole space.

    Without columns in ``whole`` boxes are hulls, and the result has no columns either.
    """
    from sfumato.methods.boxes.cut_kernels import cells

    return np.asarray(cells(problem.faces, problem.values, boxes.order, boxes.starts, boxes.cuts, whole))


def _only_axis(
    values: NDArray[np.float64], weights: NDArray[np.float32], axes: Axes, protected: Protected
) -> int | None:
    """Return the only axis that causes cost, if it is numeric and boxes need no diversity; None otherwise."""
    if axes.have_trees or protected.is_needed or len(protected.people):
        return None
    costly = (axis for axis in range(values.shape[1]) if weights[:, axis].any() and np.ptp(values[:, axis]) > 0.0)
    first, second = next(costly, None), next(costly, None)  # two are enough to know: the others are not looked at
    return first if second is None and first is not None and first < len(axes.numbers) else None


def _along_line(
    values: NDArray[np.float64],
    weights: NDArray[np.float32],
    axis: int,
    k: int,
    *,
    note_cuts: bool,
    faces: CellFaces | None,
) -> BoxPartition:
    """Return the cheapest boxes along one axis."""
    from sfumato.methods.boxes.cut_kernels import cheapest_ends, line_faces, note_line_cuts

    order = np.argsort(values, kind="stable")
    ordered = values[order]
    lower, upper = (ordered, ordered) if faces is None else line_faces(faces, axis, ordered)
    starts = np.concatenate([[0], cheapest_ends(lower, upper, weights[order].astype(np.float64), k)])
    cuts = np.zeros((len(order) if note_cuts else 0, 4))
    if note_cuts:
        note_line_cuts(ordered, starts, axis, cuts)
    return BoxPartition(order, starts, cuts)


def problem_of(
    values: NDArray[np.float64],
    weights: NDArray[np.float32],
    axes: Axes,
    *,
    k: int,
    protected: Protected,
    median: bool = False,
    faces: CellFaces | None = None,
) -> PartitionProblem:
    """Return the input of the kernels."""
    from sfumato.methods.boxes.cut_kernels import HULLS
    from sfumato.methods.boxes.partition_kernels import PartitionProblem
    from sfumato.methods.boxes.tally_kernels import NO_TREES, trees_of

    sizes = np.array([axis.size for axis in axes.sets if axis.steps is None], dtype=np.int64)
    return PartitionProblem(
        values=values,
        weights=weights,
        set_start=np.cumsum(sizes) - sizes,
        set_words=int(sizes.sum()) // 64 + 1,
        scale=np.array([axis.extent for axis in axes.all]),
        protected=protected.values,
        separation=protected.separation,
        k=k,
        l=protected.l,
        lookahead=NEAR_NODES
        if axes.have_trees
        else int(np.clip(EFFORT // (len(values) * len(axes.all) ** 2), NEAR, FAR)),
        median=median,
        trees=trees_of([axis.steps for axis in axes.all]) if axes.have_trees else NO_TREES,
        faces=HULLS if faces is None else faces,
        people=protected.people,
    )


# The mean sampling weight of each box.
#
# A sampling weight may be unique, and a row that is released with its own weight can be told apart from the others
# in its box. If every row of a box is released with the mean weight and the range of the box, weights tell nobody
# apart, and all totals over whole boxes are kept. Statistics of intervals lose nothing: the weighted mean of numbers in
# one interval lies in it for any weights.


@dataclass(frozen=True, eq=False, repr=False)
class BoxWeights:
    """The sampling weights of each box: their mean, and a range that holds them."""

    mean: NDArray[np.float64]  # (boxes,)
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(cls, weights: NDArray[np.float64], boxes: BoxPartition) -> BoxWeights:
        """Return the mean, exact if all weights of a box are equal, and the range, rounded outward."""
        ordered, starts = weights[boxes.order], boxes.starts[:-1]
        totals = sum_groups(ordered, np.repeat(np.arange(boxes.count), boxes.sizes))
        means = totals / boxes.sizes
        low, high = np.minimum.reduceat(ordered, starts), np.maximum.reduceat(ordered, starts)
        return cls(np.clip(means, low, high), round_outward(low, np.floor), round_outward(high, np.ceil))


WEIGHT_DIGITS = 3  # of the ends of ranges of weights, so that an end is not the weight of a person


def round_outward(numbers: NDArray[np.float64], outward: np.ufunc) -> NDArray[np.float64]:
    """Round numbers that are not negative to a few digits, down by floor or up by ceil; as they are if too large."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        places = WEIGHT_DIGITS - 1 - np.floor(np.log10(numbers))
        scale, step = 10.0 ** np.maximum(places, 0.0), 10.0 ** np.maximum(-places, 0.0)
        rounded = outward(numbers / step * scale) / scale * step
    limit = np.minimum if outward is np.floor else np.maximum
    return limit(np.where(np.isfinite(rounded), rounded, numbers), numbers)


def boxes_to_keep(
    boxes: BoxPartition, values: NDArray[np.float64], weights: NDArray[np.float32], axes: Axes, suppress: float
) -> NDArray[np.bool_]:
    """Mark the boxes to release: all but the widest, which may contain at most the share ``suppress`` of the rows.

    Only boxes that cost more than twice the average per record are suppressed: suppression is meant for outliers, and
    the allowed share need not be used up.
    """
    is_kept = np.ones(boxes.count, dtype=bool)
    if suppress:
        from sfumato.methods.boxes import cut_kernels as kernel

        low, high = kernel.hulls(values, boxes.order, boxes.starts)
        box_weight = np.add.reduceat(weights[boxes.order].astype(np.float64), boxes.starts[:-1], axis=0)
        cost = (box_weight * box_widths(axes, low, high)).sum(axis=1) / boxes.sizes
        costly = np.flatnonzero(cost > 2.0 * np.average(cost, weights=boxes.sizes))
        costly = costly[np.argsort(-cost[costly], kind="stable")]
        is_kept[costly[np.cumsum(boxes.sizes[costly]) <= suppress * boxes.order.size]] = False
    return is_kept


# The partition of a table with columns that are cut by their trees: cuts, then a second look at the costly boxes.
#
# Splitting off the children of a node leaves records over whose children are too few for a box. They remain at the
# node, in boxes that cost more than others. The records of the costliest boxes are therefore partitioned once more,
# all together: records that were left over in different cells often fit together.


CELL = 12  # a cell of at most this × k records is cut to the end in several ways
BREADTH = 2  # number of axes whose commonest child is tried in each cell
TREE_EFFORT = 100_000_000  # limit of records visited × axes², within the following numbers of visits per record
LEAST_VISITS, MOST_VISITS = 8, 60
COSTLY = (0.6, 0.8)  # quantiles of the cost per record from which on boxes are partitioned again, one after the other


def partition_by_trees(problem: PartitionProblem) -> BoxPartition:
    """Return boxes of at least k records with a small weighted sum of widths; deterministic."""
    boxes = _cut(problem)
    costs = _costs(problem, boxes)
    for quantile in COSTLY:
        per_record = costs / boxes.sizes
        costly = per_record > np.quantile(np.repeat(per_record, boxes.sizes), quantile)
        if costly.sum() < 2:
            break
        rows = boxes.order[np.repeat(costly, boxes.sizes)]
        part = _part(problem, rows)
        again = _cut(part)
        new_costs = _costs(part, again)
        if new_costs.sum() < costs[costly].sum():
            order = np.concatenate([boxes.order[np.repeat(~costly, boxes.sizes)], rows[again.order]])
            sizes = np.concatenate([boxes.sizes[~costly], again.sizes])
            boxes = BoxPartition(order, np.concatenate([[0], np.cumsum(sizes)]), np.empty((0, 4)))
            costs = np.concatenate([costs[~costly], new_costs])
    return boxes


def _cut(problem: PartitionProblem) -> BoxPartition:
    """Cut all records: greedily down to small cells, and each of these in the best of several ways."""
    from sfumato.methods.boxes.partition_kernels import split
    from sfumato.methods.boxes.tree_kernels import follow

    rows, axes = problem.values.shape
    order, begins = np.arange(rows), np.zeros(rows, dtype=np.bool_)
    split(problem, order, begins, np.empty((0, 4)), np.empty((2, 0)), 0, rows, CELL * problem.k)
    visits = int(np.clip(TREE_EFFORT // (rows * axes**2), LEAST_VISITS, MOST_VISITS))

    def finish(cell: tuple[int, int]) -> None:
        first, last = cell
        effort = np.array([visits * (last - first)])
        follow(problem, order[first:last], begins[first:last], BREADTH, np.inf, effort)

    cells = np.append(np.flatnonzero(begins), rows).tolist()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(finish, pairwise(cells)))
    return BoxPartition(order, np.append(np.flatnonzero(begins), rows), np.empty((0, 4)))


def _costs(problem: PartitionProblem, boxes: BoxPartition) -> NDArray[np.float64]:
    from sfumato.methods.boxes.tree_kernels import costs_of

    return np.asarray(costs_of(problem, boxes.order, boxes.starts))


def _part(problem: PartitionProblem, rows: NDArray[np.int64]) -> PartitionProblem:
    return problem._replace(  # take is several times as fast as an index of rows
        values=problem.values.take(rows, axis=0),
        weights=problem.weights.take(rows, axis=0),
        protected=problem.protected.take(rows, axis=0),
        people=problem.people[rows] if len(problem.people) else problem.people,
    )


# Routing of rows to blocks: the first cuts of the tree are made on a sample, so that each block can be cut alone.


@dataclass(frozen=True, repr=False)
class SampledRows:
    """Sampled rows from which the first cuts are chosen."""

    places: NDArray[np.float64]  # (rows, axes)
    weights: NDArray[np.float32]  # (rows, axes)
    protected: Protected  # columns that must be diverse in every block
    axes: Axes

    def of(self, rows: NDArray[np.int64]) -> SampledRows:
        """Return a subset of the rows."""
        return SampledRows(self.places[rows], self.weights[rows], self.protected.of(rows), self.axes)

    @property
    def widths(self) -> NDArray[np.float64]:
        """The width of the rows along each axis."""
        ends = self.places.min(axis=0, keepdims=True), self.places.max(axis=0, keepdims=True)
        return np.asarray(box_widths(self.axes, *ends)[0])

    def between_children(self, axis: int, ordered: NDArray[np.float64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those places among the sorted places where a child of the covering node ends, if there is a tree."""
        steps = self.axes.all[axis].steps
        if steps is None or not len(ends):
            return ends
        from sfumato.methods.boxes.tally_kernels import covering_widths, trees_of

        trees = trees_of([steps])
        whole = covering_widths(trees, 0, ordered[:1], ordered[-1:])
        return np.asarray(ends[covering_widths(trees, 0, ordered[ends - 1], ordered[ends]) >= whole])

    def is_diverse(self, least: int) -> bool:
        """Whether every protected column has ℓ values, and ``least`` people are here: such a block can be released."""
        if len(self.protected.people) and len(np.unique(self.protected.people)) < least:
            return False
        return all(
            _values_apart(column, distance, self.protected.l) >= self.protected.l
            for column, distance in zip(self.protected.values.T, self.protected.separation, strict=True)
        )


def routes(sample: SampledRows, most: float, least: int) -> Routes:
    """Cut the sampled rows near the median of the axis with the largest pressure, until no block exceeds ``most`` rows.

    ``most`` and ``least`` are numbers of sampled rows. Each block has at least ``least`` of them, with ℓ values of each
    protected column, so that it can be released for any other rows that are routed to it. Equal values stay in one
    block; where that is far too large, it is divided at random.
    """
    return grow_routes(
        sample.places,
        most,
        lambda rows: _cut_block(sample.of(rows), least),
        lambda rows: len(rows) >= least and sample.of(rows).is_diverse(least),
    )


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
            if all(sample.of(np.flatnonzero(side)).is_diverse(least) for side in (below, ~below)):
                return int(axis), threshold
    return None


def _values_apart(values: NDArray[np.float64], distance: float, at_most: int) -> int:
    """Count the values that are pairwise different and at least ``distance`` apart, up to ``at_most``."""
    ordered = np.unique(values)
    count, place = 0, 0
    while count < at_most and place < len(ordered):
        count += 1
        following = ordered[place] + distance
        rounding = 2.0**-51 * max(abs(ordered[place]), abs(following))  # as in ``partition_kernels.is_apart``
        place = max(int(np.searchsorted(ordered, following - rounding)), place + 1)
    return count
