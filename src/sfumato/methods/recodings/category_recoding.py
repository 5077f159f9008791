"""Recodings that generalize categories: by a tree, by pooling rare values, or by joining neighbours (LT §4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.methods.recodings.buckets import merged_to, quantile_ends
from sfumato.methods.recodings.recoding import ValueMap, texts
from sfumato.methods.recodings.tree_cuts import Branch, CountedTree, cut_with_at_most, lowest_cut
from sfumato.schema.columns import Column
from sfumato.schema.hierarchy import Tree
from sfumato.schema.trees import tree_for
from sfumato.survey.questions import Distinct
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

# a pool gets the first of these names that is not a value of the column, or the last one with a number
POOL = ("other", "any other", "all others")


def with_at_most(most: int, column: Column, kind: Kind, distinct: Distinct, *, counts_missing: bool = True) -> ValueMap:
    """Recode to at most ``most`` different cells: by the column's tree, its order or a pool.

    A missing cell is one of them if ``counts_missing``; otherwise it stays missing and comes on top.
    """
    is_missing = distinct.values.is_null().to_numpy(zero_copy_only=False)
    present = most - int(is_missing.sum()) if counts_missing else most
    tree = tree_for(column, distinct.values)
    if tree is None and kind is not Kind.ORDERED:
        if counts_missing:
            return pooled(column.name, distinct, _most_frequent(distinct.counts, most))
        keep = is_missing.copy()
        keep[~is_missing] = _most_frequent(distinct.counts[~is_missing], most)
        return pooled(column.name, distinct, keep)
    if present < 1:
        return left_empty(column.name, distinct)
    if tree is None:
        return joined(column.name, distinct, buckets=present)
    return cut_tree(column.name, distinct, tree, cut_with_at_most(_counted(column.name, distinct, tree), present))


def with_at_least(k: int, column: Column, kind: Kind, distinct: Distinct) -> ValueMap:
    """Recode so that every released cell is in at least k rows: by the column's tree, its order or a pool."""
    tree = tree_for(column, distinct.values)
    if tree is not None:
        cut = lowest_cut(_counted(column.name, distinct, tree), k)
        return _hiding_few_missing(cut_tree(column.name, distinct, tree, cut), k)
    if kind is Kind.ORDERED:
        groups = max(1, int(distinct.counts.sum()) // k)
        return _hiding_few_missing(joined(column.name, distinct, buckets=groups, k=k), k)
    return pooled(column.name, distinct, _frequent(distinct.counts, k))


def pooled(name: str, distinct: Distinct, keep: NDArray[np.bool_]) -> ValueMap:
    """Keep some values as they are and pool the others under one name."""
    shown = texts(distinct.values)
    numbered = (f"{POOL[-1]} {number}" for number in range(2, len(shown) + 3))  # one of them is free
    pool = next(pool_name for pool_name in (*POOL, *numbered) if pool_name not in shown)
    cells = [text if kept else pool for text, kept in zip(shown, keep, strict=True)]
    return _recoded(name, distinct, cells, how=f"{int((~keep).sum()):,} rare values pooled")


def _most_frequent(counts: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
    """Mark the values to keep if at most ``most`` cells may be released: all, or the most frequent and one pool."""
    if len(counts) <= most:
        return np.ones(len(counts), dtype=bool)
    keep = np.zeros(len(counts), dtype=bool)
    keep[np.argsort(-counts, kind="stable")[: most - 1]] = True
    return keep


def _frequent(counts: NDArray[np.int64], k: int) -> NDArray[np.bool_]:
    """Mark the values to keep if every cell must be in at least k rows; as few rows as possible are pooled."""
    order = np.argsort(counts, kind="stable")
    rising = np.cumsum(counts[order])
    alone = int((counts < k).sum())
    if alone == 0:
        return np.ones(len(counts), dtype=bool)
    pool = max(alone, int(np.searchsorted(rising, k)) + 1)
    keep = np.ones(len(counts), dtype=bool)
    keep[order[:pool]] = False
    return keep


def cut_tree(name: str, distinct: Distinct, tree: Tree, cut: Sequence[Branch]) -> ValueMap:
    """Replace each value by the branch of the cut that covers it; a missing value stays missing."""
    places = tree.positions(distinct.values, column=name)
    # a missing value has position −1, the last element
    branch_names = [*CountedTree(tree, np.zeros(tree.size, np.int64)).names(cut), None]
    levels = sorted({branch.level for branch in cut})
    how = f"level {levels[0]} of its tree" if len(levels) == 1 else f"levels {levels[0]} to {levels[-1]} of its tree"
    return _recoded(name, distinct, [branch_names[place] for place in places], how=how)


def left_empty(name: str, distinct: Distinct) -> ValueMap:
    """Release a missing value for every value."""
    return _recoded(name, distinct, [None] * len(distinct.values), how="left empty")


def _counted(name: str, distinct: Distinct, tree: Tree) -> CountedTree:
    """Return the tree with the number of rows of each of its values."""
    places = tree.positions(distinct.values, column=name)
    present = places >= 0
    return CountedTree(tree, np.bincount(places[present], distinct.counts[present], tree.size).astype(np.int64))


def joined(name: str, distinct: Distinct, *, buckets: int, k: int = 1) -> ValueMap:
    """Join neighbouring values of an ordered column to at most ``buckets`` runs of similar size, each of k rows."""
    counts = distinct.counts[: len(distinct.values) - distinct.values.null_count]  # a missing value comes last
    ends = quantile_ends(counts.astype(np.float64), buckets)
    ends = merged_to(k, ends, np.diff(np.cumsum(counts)[ends - 1], prepend=0).astype(np.float64))
    return joined_runs(name, distinct, ends)


def joined_runs(name: str, distinct: Distinct, ends: NDArray[np.int64]) -> ValueMap:
    """Join neighbouring values of an ordered column to runs that end at these positions; a missing value stays so."""
    named = [text for text in texts(distinct.values) if text is not None]
    cells: list[str | None] = []
    for start, end in zip(np.append(0, ends)[:-1].tolist(), ends.tolist(), strict=True):
        cells += [named[start] if end - start == 1 else f"{named[start]}–{named[end - 1]}"] * (end - start)
    cells += [None] * (len(distinct.values) - len(named))
    return _recoded(name, distinct, cells, how=f"neighbouring values joined to {len(ends):,} runs")


def _hiding_few_missing(coarse: ValueMap, k: int) -> ValueMap:
    """Return the same recoding, but release the rarest cell as missing if fewer than k rows are missing or present."""
    cells: list[str | None] = coarse.cells.to_pylist()
    rows: dict[str | None, int] = {}
    for cell, count in zip(cells, coarse.distinct.counts, strict=True):
        rows[cell] = rows.get(cell, 0) + int(count)
    present = sum(count for cell, count in rows.items() if cell is not None)
    if None not in rows or present == 0 or (rows[None] >= k and present >= k):
        return coarse
    rarest = min((cell for cell in rows if cell is not None), key=lambda cell: rows[cell])
    return replace(coarse, cells=pa.array([None if cell == rarest else cell for cell in cells], pa.string()))


def _recoded(name: str, distinct: Distinct, cells: Sequence[str | None], *, how: str) -> ValueMap:
    return ValueMap(name=name, kind=Kind.NOMINAL, distinct=distinct, cells=pa.array(cells, pa.string()), how=how)
