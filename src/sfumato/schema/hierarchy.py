"""Generalization trees: every value has one node on each level, up to a single root."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import SchemaError
from sfumato.table.files import content
from sfumato.table.text import Text, TextOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROOT = "*"


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node of a tree."""

    name: str
    level: int  # 0 for a value itself
    leaves: int  # number of values below it


@dataclass(frozen=True, eq=False, repr=False)
class Covering:
    """The lowest node that covers each of several ranges of leaves."""

    levels: NDArray[np.int64]
    nodes: NDArray[np.int64]  # position of the node in its level
    leaves: NDArray[np.int64]  # number of values below the node


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """A generalization tree over values, ordered so that every subtree is contiguous.

    ``names[k]`` are the nodes of level k in that order (level 0: the values; last level: the root). Node i of level k
    covers the leaves from ``starts[k][i]`` up to, but not including, ``starts[k][i + 1]``.
    """

    names: tuple[tuple[str, ...], ...]
    starts: tuple[NDArray[np.int64], ...]

    @classmethod
    def read(cls, path: str | Path, *, separator: str = ";") -> Tree:
        """Read a tree from a CSV file without header, one line per value: value;level 1;…;* (the format of ARX)."""
        file = Path(path).expanduser()
        lines = Text.of(content(file), file.name, TextOptions(separator=separator, header=False)).lines
        columns = [pc.utf8_trim_whitespace(column).to_pylist() for column in lines.columns]
        return cls.of(list(zip(*columns, strict=True)), name=file.name)

    @classmethod
    def of(cls, lines: Sequence[Sequence[str]], *, name: str = "tree") -> Tree:
        """Build a tree from lines (value, level 1, level 2, …); a root is added if the last level has several nodes."""
        widths = {len(line) for line in lines}
        if len(widths) != 1 or widths == {0}:
            raise SchemaError(
                f"Every line of the {name} must name a node on every level.", found=f"lines of {len(widths)} lengths"
            )
        empty = sum(not cell for line in lines for cell in line)
        if empty:
            raise SchemaError(f"Every node of the {name} must have a name.", found=f"{empty:,} empty cells")
        if len({line[-1] for line in lines}) > 1:
            lines = [(*line, ROOT) for line in lines]
        for level in range(len(lines[0]) - 1):
            _require_one_parent(lines, level, name)
        return _build(_depth_first(lines))

    def __repr__(self) -> str:
        return f"Tree({self.size:,} values, {self.levels} levels)"

    @property
    def levels(self) -> int:
        """Number of levels, the values and the root included."""
        return len(self.names)

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.names[0])

    @property
    def leaves(self) -> tuple[str, ...]:
        """The values, ordered so that every subtree is contiguous."""
        return self.names[0]

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """One line per value, with its node on every level: what :meth:`of` builds a tree from."""
        names = [[level[node] for node in self._node_of(k, np.arange(self.size))] for k, level in enumerate(self.names)]
        return list(zip(*names, strict=True))

    def write(self, file: TextIO, *, separator: str = ";") -> None:
        """Write the tree as the text of a file that :meth:`read` reads."""
        csv.writer(file, delimiter=separator, lineterminator="\n").writerows(self.lines)

    def ancestors(self, value: str) -> tuple[str, ...]:
        """Return the nodes above a value, from the nearest to the root."""
        if value not in self.names[0]:
            raise SchemaError("The value is not in the tree.", found=f"{self.size:,} other values")
        leaf = self.names[0].index(value)
        return tuple(self.names[level][int(self._node_of(level, leaf))] for level in range(1, self.levels))

    def level(self, number: int) -> Mapping[str, str]:
        """Return the node on this level for each value (level 0: the value itself)."""
        if not 0 <= number < self.levels:
            raise SchemaError(f"The levels of the tree are 0 to {self.levels - 1}.", found=str(number))
        nodes = self._node_of(number, np.arange(self.size))
        return {value: self.names[number][node] for value, node in zip(self.names[0], nodes, strict=True)}

    def positions(self, values: pa.Array, *, column: str) -> NDArray[np.int64]:
        """Return the position of each value of a column among the leaves; −1 for the missing one."""
        texts = values.cast(pa.string())
        places = pc.index_in(texts, value_set=pa.array(self.names[0], pa.string()))
        absent = places.null_count - texts.null_count
        if absent:
            raise SchemaError(
                f"The tree of column {column!r} must contain every value of the column.",
                found=f"{absent:,} of {len(values) - texts.null_count:,} values that are not in the tree",
                fix="add them to the tree",
            )
        leaves: NDArray[np.int64] = pc.fill_null(places.cast(pa.int64()), -1).to_numpy()
        return leaves

    def cover(self, positions: Sequence[int] | NDArray[np.integer[Any]]) -> Node:
        """Return the lowest node that covers these leaves."""
        leaves = np.asarray(positions)
        lowest = self.covering(leaves.min(keepdims=True), leaves.max(keepdims=True))
        level, node = int(lowest.levels[0]), int(lowest.nodes[0])
        return Node(name=self.names[level][node], level=level, leaves=int(lowest.leaves[0]))

    def covering(self, low: NDArray[np.integer[Any]], high: NDArray[np.integer[Any]]) -> Covering:
        """Return the lowest node that covers the leaves from low to high, for many ranges at once.

        Subtrees are contiguous, so a node that covers the first and the last leaf of a set covers the whole set.
        """
        levels = np.full(len(low), self.levels - 1, dtype=np.int64)
        nodes = np.zeros(len(low), dtype=np.int64)
        for level in range(self.levels - 2, -1, -1):
            first = self._node_of(level, low)
            covers = first == self._node_of(level, high)
            levels[covers], nodes[covers] = level, first[covers]
        leaves = np.zeros(len(low), dtype=np.int64)
        for level in range(self.levels):
            here = levels == level
            leaves[here] = np.diff(self.starts[level])[nodes[here]]
        return Covering(levels, nodes, leaves)

    def _node_of(self, level: int, leaf: Any) -> Any:
        return np.searchsorted(self.starts[level], leaf, side="right") - 1


def _require_one_parent(lines: Sequence[Sequence[str]], level: int, name: str) -> None:
    parents: dict[str, set[str]] = {}
    for line in lines:
        parents.setdefault(line[level], set()).add(line[level + 1])
    several = sum(len(above) > 1 for above in parents.values())
    if several:
        raise SchemaError(
            f"Every node of the {name} must have one parent.", found=f"{several:,} nodes of level {level} with several"
        )


def _depth_first(lines: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return each line once, with equal ancestors together; nodes stay in the order of their first line."""
    first_seen: dict[tuple[int, str], int] = {}
    for number, line in enumerate(lines):
        for level, node in enumerate(line):
            first_seen.setdefault((level, node), number)
    once = {line[0]: line for line in lines}
    downward = range(len(lines[0]) - 1, -1, -1)
    return sorted(once.values(), key=lambda line: [first_seen[level, line[level]] for level in downward])


def _build(lines: Sequence[Sequence[str]]) -> Tree:
    names, starts = [], []
    for level in range(len(lines[0])):
        begins = [row for row, line in enumerate(lines) if row == 0 or line[level] != lines[row - 1][level]]
        names.append(tuple(lines[row][level] for row in begins))
        starts.append(np.array([*begins, len(lines)], dtype=np.int64))
    return Tree(tuple(names), tuple(starts))
