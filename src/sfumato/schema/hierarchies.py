"""Generalization trees: every value has one node on each level, up to a root; and the intervals of their nodes."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.errors import SchemaError
from sfumato.formats.raw_files import read_bytes
from sfumato.formats.text import Text, TextOptions
from sfumato.table.kinds import write_numbers

if TYPE_CHECKING:
    from sfumato.schema.columns import Column


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
        lines = Text.of(read_bytes(file), file.name, TextOptions(separator=separator, header=False)).lines
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


PERIODS = (1, 3, 6, 12, 120)  # months of the levels of a calendar tree: month, quarter, half-year, year, decade
DAY = 86_400_000_000  # in microseconds

Ends = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


def node_ends(column: Column, tree: Tree, values: pa.Array) -> list[Ends]:
    """Return the lower and upper ends of the nodes of each level, in the unit of ``Table.numbers``.

    A step or a calendar period has the ends of its definition; any other node has those of the numbers below it.
    ``values`` are the values of the column. Other leaves of the tree count if they can be read as such a value.
    """
    leaves = _leaf_numbers(column.name, tree, values)
    ends: list[Ends] = [(leaves, leaves)]
    defined = [*_defined_ends(column, tree, leaves, values.type)]
    for level in range(1, tree.levels):
        first_child = np.searchsorted(tree.starts[level - 1][:-1], tree.starts[level][:-1])
        low, high = np.fmin.reduceat(ends[-1][0], first_child), np.fmax.reduceat(ends[-1][1], first_child)
        if level <= len(defined):
            low, high = np.fmin(low, defined[level - 1][0]), np.fmax(high, defined[level - 1][1])
        ends.append((low, high))
    if column.domain is not None:  # every value lies in it, so nothing is lost
        ends[1:] = [(np.maximum(low, column.domain[0]), np.minimum(high, column.domain[1])) for low, high in ends[1:]]
    return ends


def step_widths(column: Column) -> list[float]:
    """Return the widths that a column declares by "steps:" and numbers."""
    try:
        return [float(width) for width in (column.tree or "").partition(":")[2].split(",")]
    except ValueError:
        pass
    raise SchemaError(f"The steps of column {column.name!r} must be numbers.", fix='tree = "steps:5,10,50"')


def _leaf_numbers(name: str, tree: Tree, values: pa.Array) -> NDArray[np.float64]:
    """Return the number of each leaf, NaN if it cannot be read."""
    present = values.drop_null()
    places = pc.index_in(pa.array(tree.leaves, pa.string()), value_set=present.cast(pa.string()))
    numbers = np.full(tree.size, np.nan)
    known = np.flatnonzero(places.is_valid())
    numbers[known] = _as_floats(name, present.take(places.drop_null()))
    for leaf in np.flatnonzero(np.isnan(numbers)):
        try:
            numbers[leaf] = _as_floats(name, pa.array([tree.leaves[leaf]]).cast(values.type))[0]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue  # no cell of the table has this value, so it cannot lie outside the ends of its node
    return numbers


def _as_floats(name: str, values: pa.Array) -> NDArray[np.float64]:
    numbers = np.empty(len(values))
    write_numbers(pa.chunked_array([values]), numbers, name=name)
    return numbers


def _defined_ends(column: Column, tree: Tree, leaves: NDArray[np.float64], kind: pa.DataType) -> Iterator[Ends]:
    """Return the ends of the levels above the leaves that are defined as steps or as calendar periods."""
    method = (column.tree or "").partition(":")[0]
    if method == "steps":
        widths = step_widths(column)
        whole = pt.is_integer(kind) and all(width.is_integer() for width in widths)
        for level, width in enumerate(widths, start=1):
            begin = np.floor(leaves[tree.starts[level][:-1]] / width) * width
            yield begin, begin + width - (1.0 if whole else 0.0)
    elif method == "calendar" and getattr(kind, "tz", None) is None:
        unit, by_day = (DAY, 1) if pt.is_timestamp(kind) else (1, 0)
        if by_day:
            begin = np.floor(leaves[tree.starts[1][:-1]] / unit) * unit
            yield begin, begin + unit - 1.0
        for level, months in enumerate(PERIODS, start=1 + by_day):
            days = np.floor(leaves[tree.starts[level][:-1]] / unit).astype("datetime64[D]")
            yield _period(days, months, unit)


def _period(days: NDArray[np.datetime64], months: int, unit: int) -> Ends:
    """Return the first and the last moment of the periods of so many months that contain these days."""
    since_year_0 = days.astype("datetime64[M]").astype(np.int64) + 1970 * 12
    begin = since_year_0 // months * months - 1970 * 12
    first, after = (month.astype("datetime64[M]").astype("datetime64[D]") for month in (begin, begin + months))
    return first.astype(np.float64) * unit, after.astype(np.float64) * unit - 1.0
