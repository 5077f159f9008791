"""A column for local recoding: its values, the node of each value on each level, and what is released for a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.methods.classical.level_judge import Loss
from sfumato.methods.recodings.recoding import Recoded, texts
from sfumato.methods.recodings.value_groupings import Groupings
from sfumato.schema.hierarchy import ROOT
from sfumato.schema.trees import tree_for
from sfumato.table.intervals import interval_names
from sfumato.table.kinds import Kind
from sfumato.table.number_columns import number_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.recodings.quasi_columns import QuasiColumns
    from sfumato.schema.hierarchy import Tree
    from sfumato.table.table import Table


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LocalColumn:
    """A quasi-identifier and its nested groups of values."""

    name: str
    kind: Kind  # of the original column
    type: pa.DataType
    values: pa.Array  # with the missing one last, if there is one
    levels: tuple[NDArray[np.int32], ...]  # node of each value, from the values themselves to one node
    costs: tuple[NDArray[np.float64], ...]  # cost of that node
    words: tuple[tuple[str | None, ...], ...]  # word of each value's node on each level; empty for ranges
    ends: tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...] | None  # ranges of the nodes, for numbers
    how: str

    @property
    def released_names(self) -> tuple[str, ...]:
        """Names of the columns that are released for it."""
        return (self.name,) if self.ends is None else tuple(interval_names(self.name))

    @property
    def covers(self) -> Mapping[str | None, frozenset[str | None]]:
        """The original values of each released word, all as text; None for a missing one."""
        covered: dict[str | None, set[str | None]] = {}
        for words in self.words:
            for word, value in zip(words, texts(self.values), strict=True):
                covered.setdefault(word, set()).add(value)
        return {word: frozenset(members) for word, members in covered.items()}

    def positions(self, rows: Table) -> NDArray[np.int32]:
        """Return the position of each row's value."""
        coded = rows.coded(self.name)
        place = pc.index_in(coded.values, value_set=self.values).to_numpy(zero_copy_only=False)
        found: NDArray[np.int32] = place.astype(np.int32)[coded.codes]
        return found

    def groupings(self, positions: NDArray[np.int32]) -> Groupings:
        """Return the nested groupings for some rows; they are not recoded by them."""
        return Groupings(self.name, positions, self.levels, lambda groups: None, 1.0)

    def show(self, positions: NDArray[np.int32], levels: NDArray[np.int64]) -> tuple[Recoded, ...]:
        """Return the released columns of rows with these values, each on its level."""
        place = pa.array(levels * len(self.values) + positions)
        if self.ends is None:
            cells = pa.array([word for words in self.words for word in words], pa.string())
            return (Recoded(self.name, cells.take(place), Kind.NOMINAL),)
        faces = (np.concatenate([ends[side] for ends in self.ends]) for side in (0, 1))
        return tuple(
            Recoded(name, number_column(face, self.kind, self.type).take(place), self.kind)
            for name, face in zip(self.released_names, faces, strict=True)
        )


def local_column(columns: QuasiColumns, name: str, loss: Loss) -> LocalColumn:
    """Return a quasi-identifier with its tree or, without one, with nested groups made from its values."""
    maker = _Maker(columns, name)
    return LocalColumn(
        name=name,
        kind=columns.sample.table.kinds[name],
        type=columns.sample.table.arrow.column(name).type,
        values=maker.values,
        levels=maker.levels,
        costs=maker.costs(loss),
        words=() if maker.is_range else maker.words,
        ends=maker.ends if maker.is_range else None,
        how=maker.how,
    )


class _Maker:
    """Finds what is released for the nodes of one column."""

    def __init__(self, columns: QuasiColumns, name: str) -> None:
        self._columns, self._name = columns, name
        self._grouped = columns.groupings[columns.names.index(name)]
        self.is_range = name in columns.points
        kind = columns.sample.table.kinds[name]
        table = columns.sample.table
        self.values = table.coded(name).values if self.is_range else columns.distinct[name].values
        self._tree: Tree | None = None if self.is_range else tree_for(columns.schema[name], self.values)
        self._is_ordered = kind is Kind.ORDERED
        levels = self._grouped.levels
        is_free = not self.is_range and self._tree is None and not self._is_ordered
        self.levels = (levels[0], levels[-1]) if is_free and len(levels) > 1 else levels
        self.how = "nodes of its tree" if self._tree else "ranges" if self.is_range else "runs of neighbouring values"
        if is_free:
            self.how = f"kept, or {ROOT}"

    @cached_property
    def _is_missing(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.values.is_null().to_numpy(zero_copy_only=False)
        return found

    def costs(self, loss: Loss) -> tuple[NDArray[np.float64], ...]:
        """Return the cost of each value's node: values left open, or the logarithm of the rows of the node."""
        column = self._grouped
        if loss == "granularity":
            return tuple(column.losses(np.bincount(level)[level]) for level in self.levels)
        rows = np.bincount(column.value_of_row, minlength=column.size).astype(np.float64)
        return tuple(
            column.weight * np.log2(np.maximum(np.bincount(level, weights=rows)[level], 1.0)) for level in self.levels
        )

    @property
    def words(self) -> tuple[tuple[str | None, ...], ...]:
        """The word of each value's node, on each level."""
        return tuple(self._words(level) for level in self.levels)

    def _words(self, level: NDArray[np.int32]) -> tuple[str | None, ...]:
        own = texts(self.values)
        if self._is_one_node(level) and self._is_missing.any():  # nothing is told, not even whether there is a value
            return (self._tree.names[-1][0] if self._tree else ROOT,) * len(own)
        if self._tree is not None:
            return self._node_names(level, self._tree)
        if len(own) == int(level.max(initial=-1)) + 1:
            return tuple(own)
        if not self._is_ordered:
            return (ROOT,) * len(own)
        runs: dict[int, list[str]] = {}
        for node, text in zip(level.tolist(), own, strict=True):
            if text is not None:
                runs.setdefault(node, []).append(text)
        named = {node: run[0] if len(run) == 1 else f"{run[0]}–{run[-1]}" for node, run in runs.items()}
        return tuple(None if text is None else named[node] for node, text in zip(level.tolist(), own, strict=True))

    def _node_names(self, level: NDArray[np.int32], tree: Tree) -> tuple[str | None, ...]:
        """Return the name of the lowest node of the tree that covers each group of values."""
        places = tree.positions(self.values, column=self._name)
        nodes = int(level.max(initial=-1)) + 1
        first, last = np.full(nodes, tree.size), np.full(nodes, -1)
        np.minimum.at(first, level, np.where(places < 0, tree.size, places))
        np.maximum.at(last, level, places)
        found = tree.covering(np.minimum(first, np.maximum(last, 0)), np.maximum(last, 0))
        names = [tree.names[at][node] for at, node in zip(found.levels.tolist(), found.nodes.tolist(), strict=True)]
        return tuple(
            None if gone else names[node] for node, gone in zip(level.tolist(), self._is_missing.tolist(), strict=True)
        )

    @property
    def ends(self) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...]:
        """The range of each value's node, on each level; NaN if a value is missing."""
        points = self._columns.points[self._name]
        present = ~self._is_missing
        found = []
        for number, level in enumerate(self.levels):
            low, high = np.full((2, len(self.values)), np.nan)
            if number == 0:
                low[present] = high[present] = points.values
            elif not self._is_one_node(level) or present.all():
                own = level[present]
                ends = np.append(np.flatnonzero(np.diff(own)) + 1, len(own))
                buckets = self._columns.buckets(self._name, ends)
                node = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
                low[present], high[present] = buckets.low[node], buckets.high[node]
            found.append((low, high))
        return tuple(found)

    def _is_one_node(self, level: NDArray[np.int32]) -> bool:
        return bool((level == level[0]).all()) and len(level) > 1
