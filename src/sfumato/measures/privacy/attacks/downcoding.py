"""Downcoding: undoing part of a generalization that is as fine as it can be (Cohen, 2022).

Who knows that a generalization is minimal learns more than it says. A range that was shrunk to its records has a record
at each end. A set of categories has a record with each of its members. The lowest node of a tree that covers a group
has records below at least two of its children, and if it has only two, below each of them. In every case one row of the
group can be recoded to something finer. Rows of a group look alike, so it does not matter which of them it is.

Cells whose faces do not depend on single records, and recodings that are the same for the whole column, make such
statements wrong. The attack reports how many cells were undone, and how often its statements were right.

The last part does the same for sensitive values: which of them the groups tell because the method looked at them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.measures.confidence import guess_score
from sfumato.release.assessment import Score
from sfumato.table.groups import group_labels
from sfumato.table.intervals import BOX, Intervals, box_columns, is_interval, parse_set

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.methods.base import Method
    from sfumato.schema.hierarchies import Tree
    from sfumato.table.table import Table

Part = frozenset[str | None]  # values, None for the missing one


@dataclass(frozen=True, kw_only=True)
class Downcoding:
    """Generalized cells, statements that one row of a group is in a part of its cell, and how many of them are true."""

    cells: int  # cells that stand for more than one value
    statements: int
    true: int

    def __add__(self, other: Downcoding) -> Downcoding:
        return Downcoding(
            cells=self.cells + other.cells, statements=self.statements + other.statements, true=self.true + other.true
        )


NOTHING = Downcoding(cells=0, statements=0, true=0)


def downcode_ranges(
    low: NDArray[np.float64], high: NDArray[np.float64], truth: NDArray[np.float64], labels: NDArray[np.int64]
) -> Downcoding:
    """Attack one numeric column: one row of each group has the lowest number, and another the highest."""
    wide = low < high
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(int(labels.max()) + 1))
    least, most = np.fmin.reduceat(truth[order], starts), np.fmax.reduceat(truth[order], starts)
    first = order[starts]  # all rows of a group have the same range
    open_ = wide[first]
    true = int((least == low[first])[open_].sum() + (most == high[first])[open_].sum())
    return Downcoding(cells=int(wide.sum()), statements=2 * int(open_.sum()), true=true)


def downcode_words(
    words: NDArray[np.int64],
    parts: list[tuple[Part, ...]],
    truth: NDArray[np.int64],
    values: list[str | None],
    labels: NDArray[np.int64],
) -> Downcoding:
    """Attack one column of words: each part that a word consists of has a row of the group.

    ``words`` and ``truth`` are the released and the original cells as codes, ``parts`` what a minimal word consists
    of (empty if nothing follows), and ``values`` the original values.
    """
    groups = int(labels.max()) + 1
    word_of = np.zeros(groups, np.int64)
    word_of[labels] = words
    group, value = np.divmod(np.unique(labels * len(values) + truth), len(values))
    order = np.argsort(word_of[group], kind="stable")
    group, value = group[order], value[order]
    ends = np.searchsorted(word_of[group], np.arange(len(parts) + 1))
    total = NOTHING
    for word, own in enumerate(parts):
        own_groups, there = int((word_of == word).sum()), slice(ends[word], ends[word + 1])
        for part in own:
            member = np.array([one in part for one in values])
            hit = np.unique(group[there][member[value[there]]])
            total += Downcoding(cells=0, statements=own_groups, true=len(hit))
    return total


def minimal_parts(word: str | None, values: frozenset[str | None], tree: Tree | None) -> tuple[Part, ...]:
    """Return the parts of a word, each of which has a record if the word is minimal; none if nothing follows."""
    if word in values:
        return ()
    children = _children(word, tree) if tree is not None and word is not None else ()
    if children:
        return children if len(children) == 2 else ()
    members = [one for one in parse_set(word) if one is None or isinstance(one, str)]
    return tuple(frozenset([one]) for one in members) if len(members) > 1 and values.issuperset(members) else ()


def _children(word: str, tree: Tree) -> tuple[Part, ...]:
    """Return the leaves below each child of the lowest node with this name that has several."""
    for level in range(1, tree.levels):
        if word in tree.names[level]:
            node = tree.names[level].index(word)
            start, end = tree.starts[level][node], tree.starts[level][node + 1]
            below = tree.starts[level - 1]
            edges = below[(below >= start) & (below <= end)]
            if len(edges) > 2:
                return tuple(frozenset(tree.leaves[one:other]) for one, other in pairwise(edges))
    return ()


def downcoding_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the share of generalized cells that are undone; nothing if no cell is generalized."""
    if subject.origin is None or (subject.origin < 0).any():
        return
    undone = downcode(subject.original, subject.released, subject.origin, subject.names, subject.trees)
    if not undone.cells:
        return
    note = f"share of generalized cells; {undone.true:,} of {undone.statements:,} statements are true"
    yield guess_score("generalized cells undone", undone.true, undone.statements, undone.cells, note)


def downcode(
    original: Table,
    released: Table,
    origin: NDArray[np.int64],
    names: tuple[str, ...],
    trees: Mapping[str, Tree],
) -> Downcoding:
    """Attack these columns of a release; ``trees`` are the generalization trees that the intruder knows."""
    words = [name for name in names if name in released.kinds and not released.kinds[name].is_numeric]
    grouped = (
        [BOX]
        if BOX in released.kinds
        else list(dict.fromkeys([*box_columns(released.names, known=original.names), *words]))
    )
    labels = group_labels(released, grouped)
    total = NOTHING
    for name in names:
        if is_interval(name, released.kinds):
            ends = Intervals.of(released, name)
            truth = original.numbers(name)[origin]
            total += downcode_ranges(ends.low, ends.high, truth, labels)
        elif name in words:
            total += _downcode_column(original, released, origin, name, trees.get(name), labels)
    return total


def _downcode_column(
    original: Table,
    released: Table,
    origin: NDArray[np.int64],
    name: str,
    tree: Tree | None,
    labels: NDArray[np.int64],
) -> Downcoding:
    before, after = original.coded(name), released.coded(name)
    values = before.values.cast(pa.string()).to_pylist()
    known = frozenset(values)
    cells = after.values.cast(pa.string()).to_pylist()
    parts = [minimal_parts(word, known, tree) for word in cells]
    coarse = np.array([word is not None and word not in known for word in cells])
    undone = downcode_words(after.codes.astype(np.int64), parts, before.codes[origin].astype(np.int64), values, labels)
    return undone + Downcoding(cells=int(coarse[after.codes].sum()), statements=0, true=0)


# What a partition tells about sensitive values (minimality attack, Wong, Fu, Wang and Pei 2007).
#
# Whoever knows the method and the quasi-identifiers can try which assignments of the released values make the method
# form the released groups. If all of those give a person the same value, the groups told it.


@dataclass(frozen=True, kw_only=True)
class MinimalityResult:
    """What the groups of a release tell about sensitive values, beyond the values that are listed in each group."""

    runs: int  # alternative assignments that were tried
    people: int  # rows whose groups came about again in enough of them to judge
    certain: int  # of these, rows whose value was the same each time, although their group has several
    largest_gain: float  # largest probability of a value, given the groups, minus its share in the group


def try_assignments(
    method: Method, table: Mapping[str, Any], schema: Mapping[str, Any], *, runs: int, seed: int, enough: int = 10
) -> MinimalityResult:
    """Deal the sensitive values of each released group to its rows at random, and see when the group comes about again.

    The table has one sensitive column and no column ``row``. Groups that come about fewer than ``enough`` times are not
    judged.
    """
    generator = np.random.default_rng(seed)
    column = next(name for name, role in schema.items() if role == "sensitive")
    values = np.asarray(table[column]).copy()
    released = _groups_of(method, table, schema)
    dealt: dict[frozenset[int], list[NDArray[Any]]] = {group: [] for group in released}
    for _ in range(runs):
        for group in released:
            rows = sorted(group)
            values[rows] = generator.permutation(values[rows])
        for group in _groups_of(method, {**table, column: values.copy()}, schema) & released:
            dealt[group].append(values[sorted(group)])
    judged = [np.stack(found) for found in dealt.values() if len(found) >= enough]
    gains = [_gain(found) for found in judged]
    return MinimalityResult(
        runs=runs,
        people=sum(found.shape[1] for found in judged),
        certain=sum(int(((found == found[0]).all(axis=0) & (len(np.unique(found)) > 1)).sum()) for found in judged),
        largest_gain=max(gains, default=0.0),
    )


def _gain(found: NDArray[Any]) -> float:
    """Largest share of a value among the assignments of one row, minus its share in the group; (assignments, rows)."""
    return max(float(((found == value).mean(axis=0) - (found[0] == value).mean()).max()) for value in np.unique(found))


def _groups_of(method: Method, table: Mapping[str, Any], schema: Mapping[str, Any]) -> set[frozenset[int]]:
    """Return the rows of each group that the method releases."""
    numbered = {**table, "row": np.arange(len(next(iter(table.values())))) + 0.5}
    sensitive = [name for name, role in schema.items() if role == "sensitive"]
    released = method.release(numbered, schema={**schema, "row": "other"}).table
    labels = group_labels(released, [name for name in released.names if name not in ("row", *sensitive)])
    rows = (released.numbers("row") - 0.5).astype(np.int64)
    return {frozenset(rows[labels == label].tolist()) for label in range(int(labels.max(initial=-1)) + 1)}
