"""Categories made coarser: by a tree, by pooling the rare ones, or by joining neighbours in their order (LT §4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.methods.probabilistic.buckets import merged_to, quantile_ends
from sfumato.methods.probabilistic.recoding import ValueMap, texts
from sfumato.methods.probabilistic.tree_cuts import Branch, CountedTree, cut_with_at_most, lowest_cut
from sfumato.schema.columns import Column
from sfumato.schema.hierarchy import Tree
from sfumato.schema.trees import tree_for
from sfumato.survey.questions import Distinct
from sfumato.table.intervals import MISSING
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

POOL = ("other", "any other", "all others")  # a pool is called by the first word that is not a value


def with_at_most(most: int, column: Column, kind: Kind, distinct: Distinct) -> ValueMap:
    """At most ``most`` different words, a missing one included: by the column's tree, its order, or a pool."""
    missing_values = distinct.values.null_count
    tree = tree_for(column, distinct.values)
    if tree is None and kind is not Kind.ORDERED:
        return pooled(column.name, distinct, _most_frequent(distinct.counts, most))
    if most - missing_values < 1:
        return _worded(column.name, distinct, [None] * len(distinct.values), how="left empty")
    if tree is None:
        return joined(column.name, distinct, buckets=most - missing_values)
    cut = cut_with_at_most(_counted(column.name, distinct, tree), most - missing_values)
    return cut_tree(column.name, distinct, tree, cut)


def with_at_least(k: int, column: Column, kind: Kind, distinct: Distinct) -> ValueMap:
    """At least k rows for every word: by the column's tree, its order, or a pool."""
    tree = tree_for(column, distinct.values)
    if tree is not None:
        cut = lowest_cut(_counted(column.name, distinct, tree), k)
        return _hiding_few_missing(cut_tree(column.name, distinct, tree, cut), k)
    if kind is Kind.ORDERED:
        groups = max(1, int(distinct.counts.sum()) // k)
        return _hiding_few_missing(joined(column.name, distinct, buckets=groups, k=k), k)
    return pooled(column.name, distinct, _frequent(distinct.counts, k))


def pooled(name: str, distinct: Distinct, keep: NDArray[np.bool_]) -> ValueMap:
    """Keep some values as they are and pool the others under one word."""
    named = texts(distinct.values)
    pool = next(word for word in POOL if word not in named)
    shown = [None if text == MISSING else text for text in named]
    words = [word if kept else pool for word, kept in zip(shown, keep, strict=True)]
    return _worded(name, distinct, words, how=f"{int((~keep).sum()):,} rare values pooled")


def _most_frequent(counts: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
    """Which values stay when at most ``most`` words may be shown: all, or the most frequent and one pool."""
    if len(counts) <= most:
        return np.ones(len(counts), dtype=bool)
    keep = np.zeros(len(counts), dtype=bool)
    keep[np.argsort(-counts, kind="stable")[: most - 1]] = True
    return keep


def _frequent(counts: NDArray[np.int64], k: int) -> NDArray[np.bool_]:
    """Which values stay when every word must stand in at least k rows: the fewest rows are pooled."""
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
    """Show the branch of the cut that covers each value; a missing value stays missing."""
    places = tree.positions(distinct.values, column=name)
    word_of = [*CountedTree(tree, np.zeros(tree.size, np.int64)).words(cut), None]  # −1, a missing value, is the last
    levels = sorted({branch.level for branch in cut})
    how = f"level {levels[0]} of its tree" if len(levels) == 1 else f"levels {levels[0]} to {levels[-1]} of its tree"
    return _worded(name, distinct, [word_of[place] for place in places], how=how)


def _counted(name: str, distinct: Distinct, tree: Tree) -> CountedTree:
    """The tree with the rows that hold each of its values."""
    places = tree.positions(distinct.values, column=name)
    present = places >= 0
    return CountedTree(tree, np.bincount(places[present], distinct.counts[present], tree.size).astype(np.int64))


def joined(name: str, distinct: Distinct, *, buckets: int, k: int = 1) -> ValueMap:
    """Join neighbours of an ordered column into at most ``buckets`` runs of nearly equal size, each of k rows."""
    named = [text for text in texts(distinct.values) if text != MISSING]
    counts = distinct.counts[: len(named)]  # the missing one is last
    ends = quantile_ends(counts.astype(np.float64), buckets)
    ends = merged_to(k, ends, np.diff(np.cumsum(counts)[ends - 1], prepend=0).astype(np.float64))
    words: list[str | None] = []
    for start, end in zip(np.append(0, ends)[:-1].tolist(), ends.tolist(), strict=True):
        words += [named[start] if end - start == 1 else f"{named[start]}–{named[end - 1]}"] * (end - start)
    words += [None] * (len(distinct.values) - len(named))
    return _worded(name, distinct, words, how=f"neighbours joined to {len(ends):,} runs")


def _hiding_few_missing(coarse: ValueMap, k: int) -> ValueMap:
    """The same words, except that the rarest is shown as missing where fewer than k rows are missing or present."""
    words: list[str | None] = coarse.cells.to_pylist()
    rows: dict[str | None, int] = {}
    for word, count in zip(words, coarse.distinct.counts, strict=True):
        rows[word] = rows.get(word, 0) + int(count)
    present = sum(count for word, count in rows.items() if word is not None)
    if None not in rows or present == 0 or (rows[None] >= k and present >= k):
        return coarse
    rarest = min((word for word in rows if word is not None), key=lambda word: rows[word])
    return replace(coarse, cells=pa.array([None if word == rarest else word for word in words], pa.string()))


def _worded(name: str, distinct: Distinct, words: Sequence[str | None], *, how: str) -> ValueMap:
    return ValueMap(name=name, kind=Kind.NOMINAL, distinct=distinct, cells=pa.array(words, pa.string()), how=how)
