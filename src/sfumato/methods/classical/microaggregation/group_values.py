"""What is released for a group of rows: means, medians and most frequent categories, ranges and sets, or draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.methods.set_labels import sets
from sfumato.table.intervals import high_name, low_name, missing_name
from sfumato.table.kinds import Kind
from sfumato.table.number_columns import number_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.classical.microaggregation.grouping import Groups
    from sfumato.methods.leaves import Leaves
    from sfumato.table.encoder import Encoder
    from sfumato.table.table import Table


def representatives(block: Table, name: str, groups: Groups, *, median: bool) -> pa.Array | pa.ChunkedArray:
    """Return the mean or the median of the group of each row, or its most frequent category.

    Ordered categories have a median. A value is missing if it is missing in more than half of the rows of a group.
    """
    column, kind, rows = block.arrow.column(name), block.kinds[name], pa.array(groups.labels)
    if kind.is_numeric:
        numbers = block.numbers(name)
        centres = group_medians(numbers, groups.leaves) if median else group_means(numbers, groups.leaves)
        dates = kind is Kind.DATE
        centres = np.rint(centres) if dates else centres
        return number_column(centres, kind if dates else Kind.CONTINUOUS, column.type).take(rows)
    coded = block.coded(name)
    by_order = median and kind is Kind.ORDERED
    chosen = _middle_rows(coded.codes, groups.leaves) if by_order else _commonest_rows(coded.codes, groups.leaves)
    return column.take(pa.array(chosen)).take(rows)


def group_means(numbers: NDArray[np.float64], leaves: Leaves) -> NDArray[np.float64]:
    """Return the mean of each group over the numbers that are present; NaN if more than half are missing.

    The mean of equal numbers is that number, without a rounding error.
    """
    ordered, starts = numbers[leaves.order], leaves.starts[:-1]
    is_missing = np.isnan(ordered)
    present = leaves.sizes - np.add.reduceat(is_missing, starts, dtype=np.int64)
    totals = np.add.reduceat(np.where(is_missing, 0.0, ordered).astype(np.longdouble), starts)
    means = (totals / np.maximum(present, 1)).astype(np.float64)
    means = np.clip(means, np.fmin.reduceat(ordered, starts), np.fmax.reduceat(ordered, starts))
    return np.where(2 * present >= leaves.sizes, means, np.nan)


def group_medians(numbers: NDArray[np.float64], leaves: Leaves) -> NDArray[np.float64]:
    """Return the median of each group over the numbers that are present; NaN if more than half are missing."""
    group = np.repeat(np.arange(leaves.count), leaves.sizes)
    ordered = numbers[leaves.order]
    ordered = ordered[np.lexsort((ordered, group))]  # missing numbers come last in their group
    starts = leaves.starts[:-1]
    present = leaves.sizes - np.add.reduceat(np.isnan(ordered), starts, dtype=np.int64)
    lower = ordered[starts + np.maximum(present - 1, 0) // 2]
    upper = ordered[starts + np.minimum(present // 2, leaves.sizes - 1)]
    upper = np.where(present > 0, upper, np.nan)
    return np.where(2 * present >= leaves.sizes, lower + (upper - lower) / 2.0, np.nan)


def _middle_rows(codes: NDArray[np.int32], leaves: Leaves) -> NDArray[np.int64]:
    """Return a row of each group with its lower median."""
    group = np.repeat(np.arange(leaves.count), leaves.sizes)
    order = leaves.order[np.lexsort((codes[leaves.order], group))]
    middle: NDArray[np.int64] = order[leaves.starts[:-1] + (leaves.sizes - 1) // 2]
    return middle


def _commonest_rows(codes: NDArray[np.int32], leaves: Leaves) -> NDArray[np.int64]:
    """Return a row of each group with its most frequent value; of equally frequent ones the more frequent elsewhere."""
    group = np.repeat(np.arange(leaves.count), leaves.sizes)
    overall = np.bincount(codes)
    pairs, first, counts = np.unique(group * len(overall) + codes[leaves.order], return_index=True, return_counts=True)
    owner, code = np.divmod(pairs, len(overall))
    best = np.lexsort((code, -overall[code], -counts, owner))
    rows: NDArray[np.int64] = leaves.order[first[best[np.searchsorted(owner[best], np.arange(leaves.count))]]]
    return rows


def ranges(block: Table, groups: Groups, encoder: Encoder) -> dict[str, pa.Array]:
    """Return the ends of the numbers of each group, the count of missing ones, and the set of its categories."""
    columns: dict[str, pa.Array] = {}
    leaves, rows = groups.leaves, pa.array(groups.labels)
    numbers = {number.name: number for number in encoder.numbers}
    for name in encoder.names:
        if name not in numbers:
            coded = block.coded(name)
            found = sets(leaves, coded.codes, coded.values)
            columns[name] = found.labels.take(pa.array(found.label_of[groups.labels]))
            continue
        ordered, starts = block.numbers(name)[leaves.order], leaves.starts[:-1]
        ends = {low_name(name): np.fmin.reduceat(ordered, starts), high_name(name): np.fmax.reduceat(ordered, starts)}
        for part, end in ends.items():
            columns[part] = number_column(end, block.kinds[name], numbers[name].type).take(rows)
        if numbers[name].missing is not None:
            missing = np.add.reduceat(np.isnan(ordered), starts, dtype=np.int64)
            columns[missing_name(name)] = pa.array(missing).take(rows)
    return columns


def drawn(block: Table, name: str, groups: Groups, generator: np.random.Generator) -> pa.ChunkedArray:
    """Return the column with the values of each group in random order, so that its distribution is kept."""
    leaves = groups.leaves
    group = np.repeat(np.arange(leaves.count), leaves.sizes)
    source = np.empty(block.rows, dtype=np.int64)
    source[leaves.order] = leaves.order[np.lexsort((generator.random(block.rows), group))]
    return block.arrow.column(name).take(pa.array(source))
