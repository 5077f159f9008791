"""Groups of at least k rows: how they are made, searched for less squared error, and what is released for them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.errors import CannotRelease
from sfumato.methods.partition import BoxPartition, join_runs, label_sets
from sfumato.methods.search_budget import SearchBudget, SearchReporter, SpentBudget
from sfumato.plan.claims.sensitive_groups import SensitiveCounts, distinct_values
from sfumato.plan.plan import SearchTrace, Trace
from sfumato.table.intervals import high_name, low_name, missing_name
from sfumato.table.kinds import Kind, number_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.methods.recodings.group_rules import SensitiveColumn
    from sfumato.table.encoder import Encoder
    from sfumato.table.table import Table

NEIGHBOURS = 30  # smallest number of neighbours of a row through which groups are neighbours
FEW = 20_000  # rows up to which neighbours are exact
CELL = 4096  # rows of a cell in which the neighbours of a larger table are searched

log = logging.getLogger("sfumato")


def search_groups(
    matrix: NDArray[np.float64], labels: NDArray[np.int64], k: int, budget: SearchBudget, generator: np.random.Generator
) -> tuple[NDArray[np.int64], SearchTrace]:
    """Improve groups until the budget is spent or the user interrupts; the squared error never increases."""
    from sfumato.methods.microaggregate.search_kernels import (
        STEPS,
        Annealing,
        partition_of,
        search_groups,
        squared_errors,
    )

    values = np.ascontiguousarray(matrix)
    partition = partition_of(labels, k)
    before = squared_errors(values, partition)
    near = _neighbours(values, min(len(values), max(NEIGHBOURS, 4 * k)))
    search_groups(values, partition, near, k, 0, 0.0, generator)  # compiles the kernel before the time starts
    reporter, stop = SearchReporter(SpentBudget(budget)), "budget"
    annealing = Annealing(partition, before, len(values) / k)
    try:
        while reporter.spent.share < 1.0 and before > 0.0:
            saved = search_groups(values, annealing.partition, near, k, STEPS, annealing.heat, generator)
            annealing.take(saved)
            reporter.report(1.0 - annealing.least / before)
    except KeyboardInterrupt:  # takes effect between two rounds
        stop = "interrupted"
    partition = annealing.best
    trace = SearchTrace(
        overlap="allowed",
        rounds=reporter.spent.rounds,
        seconds=reporter.spent.seconds,
        stop=stop,
        before=before,
        after=squared_errors(values, partition),
        widths_before=(),
        widths_after=(),
        cost="squared error",
    )
    log.info("search: %d rounds, %.1f %% gained, ended by %s", trace.rounds, 100.0 * trace.gain, trace.stop)
    return partition.labels, trace


def _neighbours(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return neighbours of each row, nearest first: all rows are searched, or those of its cell in a large table."""
    from sfumato.kernels.neighbours import nearest
    from sfumato.methods.microaggregate.cell_kernels import cut

    if len(values) <= FEW:
        return nearest(values, values, count).index
    order = np.arange(len(values))
    starts = cut(values, order, max(CELL, 4 * count))
    near = np.empty((len(values), count), dtype=np.int64)
    for rows in np.split(order, starts[1:-1]):
        near[rows] = rows[nearest(values[rows], values[rows], count).index]
    return near


if TYPE_CHECKING:
    Labels = NDArray[np.int64]

COLUMNWISE = ("each-column", "optimal-1d")
JOINED_NEAR = 16  # nearest groups among which one is chosen to join
COMMON_VALUES = 30  # of a sensitive column; groups with other values are not told apart by these
GAINS = (0.2, 1.1)  # of V-MDAV: for scattered and for clustered rows; the better result is used


@dataclass(frozen=True, repr=False)
class RowGrouping:
    """A partition of the rows of a block."""

    labels: Labels  # group of each row, from 0 without gaps

    @cached_property
    def runs(self) -> BoxPartition:
        """The same groups as runs of rows."""
        ends = np.cumsum(np.bincount(self.labels))
        return BoxPartition(np.argsort(self.labels, kind="stable"), np.concatenate([[0], ends]), np.empty((0, 4)))


@dataclass(frozen=True, repr=False)
class SearchedGrouping:
    """Groups, and what a search did to find them."""

    groups: RowGrouping
    trace: Trace


def row_groups(
    matrix: NDArray[np.float64],
    k: int,
    kind: str,
    generator: np.random.Generator,
    *,
    sensitive: Sequence[SensitiveColumn] = (),
    budget: SearchBudget | None = None,
) -> SearchedGrouping:
    """Group the rows of a matrix; with a budget, the groups are improved by a search.

    Then groups that lack diversity in a sensitive column are joined with others.
    """
    labels = _start(matrix, k, generator) if kind == "search" else GROUPINGS[kind](matrix, k, generator)
    trace = Trace()
    if budget is not None and len(matrix) >= 2 * k:
        labels, done = search_groups(matrix, labels, k, budget, generator)
        trace = Trace(searches=(done,))
    if sensitive:
        labels = join_until_diverse(matrix, labels, sensitive)
    return SearchedGrouping(RowGrouping(np.unique(labels, return_inverse=True)[1]), trace)


def join_until_diverse(matrix: NDArray[np.float64], labels: Labels, sensitive: Sequence[SensitiveColumn]) -> Labels:
    """Return groups that have the demanded number of values of each sensitive column.

    In each round, groups that lack values are joined with near ones that have other values, and about as many with each
    of these, so that few groups do not collect all others.
    """
    together = np.zeros_like(labels)
    for one in sensitive:
        if (distinct_values(one.counts(together)) < one.rule.l).any():
            raise CannotRelease(
                "All rows of a block must have k people and the demanded number of values of each sensitive column.",
                found=f"fewer values of {one.rule.column!r} in a block",
                fix="a smaller k or l, or the engine memory",
            )
    while True:
        labels = np.unique(labels, return_inverse=True)[1]
        lacking = [one for one in sensitive if (distinct_values(one.counts(labels)) < one.rule.l).any()]
        if not lacking:
            return labels
        labels = _join_once(matrix, labels, lacking[0])[labels]


def _join_once(matrix: NDArray[np.float64], labels: Labels, sensitive: SensitiveColumn) -> Labels:
    """Return the new label of each group, after groups that lack values of one column were joined with others."""
    counts = sensitive.counts(labels)
    sizes = np.bincount(labels)
    centres = np.column_stack([np.bincount(labels, weights=column) / sizes for column in matrix.T])
    spread = np.random.default_rng(0).normal(size=centres.shape)  # so that equal centres have different neighbours
    centres += 1e-6 * (centres.std(axis=0) + 1e-9) * spread
    joined = np.arange(len(centres))
    for groups, others in _by_values(counts, sensitive.rule.l):
        most = np.zeros(len(centres), dtype=np.int64)
        most[others] = -(-len(groups) // len(others))
        _join_near(centres, joined, groups, most)
    return joined


def _by_values(counts: SensitiveCounts, l: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the groups with fewer than l values that have the same common ones, and the groups with other values."""
    common = np.argsort(-np.bincount(counts.value), kind="stable")[:COMMON_VALUES]
    ends = np.append(counts.starts[1:], len(counts.value))
    same: dict[tuple[int, ...], list[int]] = {}
    for group in np.flatnonzero(distinct_values(counts) < l):
        values = counts.value[counts.starts[group] : ends[group]]
        same.setdefault(tuple(values[np.isin(values, common)].tolist()), []).append(int(group))
    for shared, groups in sorted(same.items()):
        yield np.array(groups), np.unique(counts.group[~np.isin(counts.value, shared)])


def _join_near(centres: NDArray[np.float64], joined: Labels, groups: Labels, most: NDArray[np.int64]) -> None:
    """Join each of some groups with a near one, the nearest first; at most ``most`` with each.

    A group that another one was joined with, or that was joined before, stays as it is in this round.
    """
    from sfumato.kernels.neighbours import nearest

    is_free = (joined == np.arange(len(joined))) & (np.bincount(joined, minlength=len(joined)) == 1)
    waiting = groups[is_free[groups]]
    while len(waiting):
        others = np.flatnonzero((most > 0) & (joined == np.arange(len(joined))))
        found = nearest(centres[waiting], centres[others], min(JOINED_NEAR, len(others)))
        for place in np.argsort(found.distance, axis=None, kind="stable"):
            group, partner = waiting[place // found.index.shape[1]], others[found.index.flat[place]]
            if group != partner and is_free[group] and joined[partner] == partner and most[partner] > 0:
                joined[group], is_free[group], is_free[partner] = partner, False, False
                most[partner] -= 1
        left = waiting[is_free[waiting]]
        if len(left) == len(waiting):
            return
        waiting = left


def column_groups(block: Table, name: str, k: int, kind: str, people: NDArray[np.int32] | None) -> RowGrouping:
    """Group the values of one column: k neighbouring values each, or with the least squared error.

    Missing numbers are placed below all others, and categories by their order. Groups of fewer than k people, if they
    are told apart, are joined with the next ones.
    """
    values = block.numbers(name) if block.kinds[name].is_numeric else block.coded(name).codes.astype(np.float64)
    present = values[~np.isnan(values)]
    low, high = (present.min(), present.max()) if present.size else (0.0, 0.0)
    labels = line_groups(np.where(np.isnan(values), low - max(1.0, 2.0 * (high - low)), values), k, kind)
    return RowGrouping(labels if people is None else join_runs(labels, people, k))


def line_groups(values: NDArray[np.float64], k: int, kind: str = "optimal-1d") -> Labels:
    """Group numbers along a line into runs of at least k."""
    from sfumato.kernels.grouping_1d import SQUARED, cheapest_groups

    order = np.argsort(values, kind="stable")
    labels = np.zeros(len(values), dtype=np.int64)
    if kind == "each-column":
        labels[order] = np.minimum(np.arange(len(values)) // k, max(len(values) // k - 1, 0))
    elif len(values) >= k:
        ends = cheapest_groups(values[order], np.ones(len(values), dtype=np.int64), k, SQUARED)[0]
        labels[order] = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    return labels


def squared_error(matrix: NDArray[np.float64], labels: Labels) -> float:
    """Return the sum of squared distances of rows to the means of their groups."""
    sizes = np.bincount(labels)
    means = [np.bincount(labels, weights=column) / sizes for column in matrix.T]
    return float(sum(((column - mean[labels]) ** 2).sum() for column, mean in zip(matrix.T, means, strict=True)))


def _start(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    """Return the groups from which a search starts: those of the tree or, in a small table, the better of MDAV's."""
    kinds = ("mdav", "tree") if len(matrix) <= FEW else ("tree",)
    starts = (GROUPINGS[kind](matrix, k, generator) for kind in kinds)
    return min(starts, key=lambda labels: squared_error(matrix, labels))


def _mdav(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    from sfumato.methods.microaggregate.mdav_kernels import mdav

    return mdav(matrix, k)


def _vmdav(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    from sfumato.methods.microaggregate.mdav_kernels import vmdav

    return min((vmdav(matrix, k, gain) for gain in GAINS), key=lambda labels: squared_error(matrix, labels))


def _tree(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    from sfumato.methods.microaggregate.cell_kernels import cell_groups

    return cell_groups(matrix, k)


def _single(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    """Group along the one column whose groups have the least squared error in all columns."""
    return min((line_groups(column, k) for column in matrix.T), key=lambda labels: squared_error(matrix, labels))


def _projection(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    """Group along the first principal component."""
    from sfumato.kernels.eigenvectors import principal_axes

    centred = matrix - matrix.mean(axis=0)
    return line_groups(centred @ principal_axes(centred).vectors[:, 0], k)


def _spanning_tree(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    from sfumato.methods.microaggregate.clustering import in_cells, spanning_tree_groups

    return in_cells(spanning_tree_groups, matrix, k)


def _pairs(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    from sfumato.methods.microaggregate.clustering import in_cells, pair_groups

    return in_cells(pair_groups, matrix, k)


def _ward(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    from sfumato.methods.microaggregate.clustering import in_cells, ward_groups

    return in_cells(ward_groups, matrix, k)


def _fuzzy(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    from sfumato.methods.microaggregate.clustering import fuzzy_groups

    return fuzzy_groups(matrix, k, generator)


def _fuzzy_drawn(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    from sfumato.methods.microaggregate.clustering import fuzzy_groups

    return fuzzy_groups(matrix, k, generator, drawn=True)


GROUPINGS: Mapping[str, Callable[[NDArray[np.float64], int, np.random.Generator], Labels]] = {
    "mdav": _mdav,
    "vmdav": _vmdav,
    "tree": _tree,
    "single": _single,
    "projection": _projection,
    "fuzzy": _fuzzy,
    "fuzzy-drawn": _fuzzy_drawn,
    "spanning-tree": _spanning_tree,
    "pairs": _pairs,
    "ward": _ward,
}


# What is released for a group of rows: means, medians and most frequent categories, ranges and sets, or draws.


def representatives(block: Table, name: str, groups: RowGrouping, *, median: bool) -> pa.Array | pa.ChunkedArray:
    """Return the mean or the median of the group of each row, or its most frequent category.

    Ordered categories have a median. A value is missing if it is missing in more than half of the rows of a group.
    """
    column, kind, rows = block.arrow.column(name), block.kinds[name], pa.array(groups.labels)
    if kind.is_numeric:
        numbers = block.numbers(name)
        centres = group_medians(numbers, groups.runs) if median else group_means(numbers, groups.runs)
        dates = kind is Kind.DATE
        centres = np.rint(centres) if dates else centres
        return number_column(centres, kind if dates else Kind.CONTINUOUS, column.type).take(rows)
    coded = block.coded(name)
    by_order = median and kind is Kind.ORDERED
    chosen = _middle_rows(coded.codes, groups.runs) if by_order else _commonest_rows(coded.codes, groups.runs)
    return column.take(pa.array(chosen)).take(rows)


def group_means(numbers: NDArray[np.float64], runs: BoxPartition) -> NDArray[np.float64]:
    """Return the mean of each group over the numbers that are present; NaN if more than half are missing.

    The mean of equal numbers is that number, without a rounding error.
    """
    ordered, starts = numbers[runs.order], runs.starts[:-1]
    is_missing = np.isnan(ordered)
    present = runs.sizes - np.add.reduceat(is_missing, starts, dtype=np.int64)
    totals = np.add.reduceat(np.where(is_missing, 0.0, ordered).astype(np.longdouble), starts)
    means = (totals / np.maximum(present, 1)).astype(np.float64)
    means = np.clip(means, np.fmin.reduceat(ordered, starts), np.fmax.reduceat(ordered, starts))
    return np.where(2 * present >= runs.sizes, means, np.nan)


def group_medians(numbers: NDArray[np.float64], runs: BoxPartition) -> NDArray[np.float64]:
    """Return the median of each group over the numbers that are present; NaN if more than half are missing."""
    group = runs.numbers
    ordered = numbers[runs.order]
    ordered = ordered[np.lexsort((ordered, group))]  # missing numbers come last in their group
    starts = runs.starts[:-1]
    present = runs.sizes - np.add.reduceat(np.isnan(ordered), starts, dtype=np.int64)
    lower = ordered[starts + np.maximum(present - 1, 0) // 2]
    upper = ordered[starts + np.minimum(present // 2, runs.sizes - 1)]
    upper = np.where(present > 0, upper, np.nan)
    return np.where(2 * present >= runs.sizes, lower + (upper - lower) / 2.0, np.nan)


def _middle_rows(codes: NDArray[np.int32], runs: BoxPartition) -> NDArray[np.int64]:
    """Return a row of each group with its lower median."""
    group = runs.numbers
    order = runs.order[np.lexsort((codes[runs.order], group))]
    return np.asarray(order[runs.starts[:-1] + (runs.sizes - 1) // 2])


def _commonest_rows(codes: NDArray[np.int32], runs: BoxPartition) -> NDArray[np.int64]:
    """Return a row of each group with its most frequent value; of equally frequent ones the more frequent elsewhere."""
    group = runs.numbers
    overall = np.bincount(codes)
    pairs, first, counts = np.unique(group * len(overall) + codes[runs.order], return_index=True, return_counts=True)
    owner, code = np.divmod(pairs, len(overall))
    best = np.lexsort((code, -overall[code], -counts, owner))
    return np.asarray(runs.order[first[best[np.searchsorted(owner[best], np.arange(runs.count))]]])


def ranges(block: Table, groups: RowGrouping, encoder: Encoder) -> dict[str, pa.Array]:
    """Return the ends of the numbers of each group, the count of missing ones, and the set of its categories."""
    columns: dict[str, pa.Array] = {}
    runs, rows = groups.runs, pa.array(groups.labels)
    numbers = {number.name: number for number in encoder.numbers}
    for name in encoder.names:
        if name not in numbers:
            coded = block.coded(name)
            sets = label_sets(runs, coded.codes, coded.values)
            columns[name] = sets.labels.take(pa.array(sets.label_of[groups.labels]))
            continue
        ordered, starts = block.numbers(name)[runs.order], runs.starts[:-1]
        ends = {low_name(name): np.fmin.reduceat(ordered, starts), high_name(name): np.fmax.reduceat(ordered, starts)}
        for part, end in ends.items():
            columns[part] = number_column(end, block.kinds[name], numbers[name].type).take(rows)
        if numbers[name].missing is not None:
            missing = np.add.reduceat(np.isnan(ordered), starts, dtype=np.int64)
            columns[missing_name(name)] = pa.array(missing).take(rows)
    return columns


def draw_cells(block: Table, name: str, groups: RowGrouping, generator: np.random.Generator) -> pa.ChunkedArray:
    """Return the column with the values of each group in random order, so that its distribution is kept."""
    runs = groups.runs
    group = runs.numbers
    source = np.empty(block.rows, dtype=np.int64)
    source[runs.order] = runs.order[np.lexsort((generator.random(block.rows), group))]
    return block.arrow.column(name).take(pa.array(source))
