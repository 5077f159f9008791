"""Chains of ever finer recodings, found from the joint counts of the rows (top-down specialization).

A chain starts with one group per column. Each step divides the one group, of any column, that saves most loss for the
risk that it adds. Neither k nor β has a part in it: a chain is a fixed sequence of candidates, each finer than the
one before, and whoever goes down it until a promise breaks gets a result that only improves with a larger β or a
smaller k.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from sfumato.methods.recodings.value_groupings import Groupings

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_STEPS = 400
HALF = 0.5  # a chain ends when this share of the rows is in small groups
LITTLE_RISK = 1e-4  # share of rows; divisions that add less risk than this are compared by what they save
WEIGHTS = np.geomspace(1.0, 1e7, 15)


class Division(NamedTuple):
    """A step of a chain: the group of this value on this level is divided into its groups one level below."""

    column: int
    level: int
    value: int


@dataclass(frozen=True, repr=False)
class Chain:
    """A sequence of divisions, from one group per column on."""

    divisions: tuple[Division, ...]

    def __len__(self) -> int:
        return len(self.divisions)

    def groups(self, columns: Sequence[Groupings], steps: int) -> list[NDArray[np.int32]]:
        """Return the group of each value, for each column, after so many divisions."""
        heights = [np.full(column.size, len(column.levels) - 1) for column in columns]
        for place, level, value in self.divisions[:steps]:
            groups = columns[place].levels[level]
            heights[place][groups == groups[value]] = level - 1
        return [_at_heights(column, height) for column, height in zip(columns, heights, strict=True)]


def _at_heights(column: Groupings, heights: NDArray[np.int64]) -> NDArray[np.int32]:
    groups = np.empty(column.size, dtype=np.int64)
    for level in np.unique(heights).tolist():
        here = heights == level
        groups[here] = level * column.size + column.levels[level][here]
    return np.unique(groups, return_inverse=True)[1].astype(np.int32)


@dataclass(frozen=True, eq=False, repr=False)
class Divided:
    """The rows of a group before and after its division."""

    rows: NDArray[np.int64]
    before: NDArray[np.int64]  # number of rows that are equal to each row in all columns, before
    after: NDArray[np.int64]
    shrunk: NDArray[np.float64]  # rows of the row's new group ÷ rows of the divided group, in the column


class Risk(Protocol):
    """What a division costs."""

    def added(self, divided: Divided) -> float:
        """Return the risk that a division adds, per row of the table."""
        ...

    def accept(self, divided: Divided) -> bool:
        """Take note of a division that was made; return whether the chain goes on."""
        ...


@dataclass(kw_only=True, eq=False, repr=False)
class SmallGroups:
    """The share of rows in groups of fewer than k rows."""

    k: int
    rows: int
    share: float = 0.0

    def added(self, divided: Divided) -> float:
        return float(((divided.after < self.k).sum() - (divided.before < self.k).sum()) / self.rows)

    def accept(self, divided: Divided) -> bool:
        self.share += self.added(divided)
        return self.share <= HALF


@dataclass(kw_only=True, eq=False, repr=False)
class EffectiveCombinations:
    """The logarithm of the effective number of combinations: what the logarithm of LT's product of sizes is a limit of.

    It is the mean of −log p over the rows, where p is the probability of a row's combination, estimated from the other
    rows and from the product of the shares of its values, with weights 1 and A. A is the likeliest one: large for
    independent columns, for which the joint counts of a few rows say little.
    """

    rows: int
    most: float  # the chain ends when there are more effective combinations than this
    alike: NDArray[np.float64] = field(init=False)  # number of equal rows of each row
    independent: NDArray[np.float64] = field(init=False)  # product of the shares of its values
    weight: float = float(WEIGHTS[-1])

    def __post_init__(self) -> None:
        self.alike, self.independent = np.full(self.rows, float(self.rows)), np.ones(self.rows)

    def added(self, divided: Divided) -> float:
        prior = self.weight * self.independent[divided.rows]
        before = np.log(divided.before - 1.0 + prior)
        after = np.log(divided.after - 1.0 + prior * divided.shrunk)
        return float((before - after).sum() / self.rows)

    def accept(self, divided: Divided) -> bool:
        self.alike[divided.rows] = divided.after
        self.independent[divided.rows] *= divided.shrunk
        likelihood = [
            float(np.log((self.alike - 1.0 + one * self.independent) / (self.rows - 1.0 + one)).mean())
            for one in WEIGHTS.tolist()
        ]
        best = int(np.argmax(likelihood))
        self.weight = float(WEIGHTS[best])
        return -likelihood[best] <= math.log(self.most)


def refinement_chain(columns: Sequence[Groupings], risk: Risk) -> Chain:
    """Return the chain in which every division saves most loss for the risk that it adds."""
    return _Descent(columns).chain(risk)


class _Descent:
    """The state of a chain: the groups of the columns with their rows, and the equal rows."""

    def __init__(self, columns: Sequence[Groupings]) -> None:
        self.columns = columns
        self.rows = len(columns[0].value_of_row) if columns else 0
        self.labels = np.zeros(self.rows, dtype=np.int64)
        self.label_count = 1
        self.alike = np.full(self.rows, self.rows, dtype=np.int64)
        self.waiting: list[tuple[float, Division]] = []  # heap: the last known score, negative
        self.members: dict[Division, NDArray[np.int64]] = {}

    def chain(self, risk: Risk) -> Chain:
        for place, column in enumerate(self.columns):
            self._wait(place, len(column.levels) - 1, np.arange(self.rows))
        made: list[Division] = []
        while self.waiting and len(made) < MOST_STEPS:
            _, division = heapq.heappop(self.waiting)
            children, labels, divided = self._divided(division)
            score = self._saved(division) / (max(0.0, risk.added(divided)) + LITTLE_RISK)
            if self.waiting and -score > self.waiting[0][0]:  # another one may be better now
                heapq.heappush(self.waiting, (-score, division))
                continue
            made.append(division)
            self._divide(division, children, labels, divided)
            if not risk.accept(divided):
                break
        return Chain(tuple(made))

    def _wait(self, place: int, level: int, rows: NDArray[np.int64]) -> None:
        """Queue the group that these rows form on a level, or the highest group below it that can be divided."""
        if not len(rows):
            return
        column = self.columns[place]
        value = int(column.value_of_row[rows[0]])
        while level and column.covered[level - 1][value] == column.covered[level][value]:
            level -= 1
        if level:
            division = Division(place, level, value)
            self.members[division] = rows
            heapq.heappush(self.waiting, (-np.inf, division))

    def _divided(self, division: Division) -> tuple[NDArray[np.int64], NDArray[np.int64], Divided]:
        """Return the new group of each row in the column and in all columns, and what changes."""
        rows, column = self.members[division], self.columns[division.column]
        children = _numbered(column.levels[division.level - 1][column.value_of_row[rows]].astype(np.int64))
        number = int(children.max()) + 1
        labels = _numbered(self.labels[rows] * number + children)
        shrunk = np.bincount(children)[children] / len(rows)
        return children, labels, Divided(rows, self.alike[rows], np.bincount(labels)[labels], shrunk)

    def _saved(self, division: Division) -> float:
        """Return the loss that a division saves, per row of the table."""
        column = self.columns[division.column]
        values = column.value_of_row[self.members[division]]
        fewer = column.covered[division.level][values] - column.covered[division.level - 1][values]
        return column.weight * float(fewer.sum()) / column.size / self.rows

    def _divide(
        self, division: Division, children: NDArray[np.int64], labels: NDArray[np.int64], divided: Divided
    ) -> None:
        rows = self.members.pop(division)
        self.labels[rows] = self.label_count + labels
        self.label_count += int(labels.max()) + 1
        self.alike[rows] = divided.after
        order = np.argsort(children, kind="stable")
        for part in np.split(rows[order], np.cumsum(np.bincount(children))[:-1]):
            self._wait(division.column, division.level - 1, part)


def _numbered(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number equal keys densely from 0."""
    numbered: NDArray[np.int64] = np.unique(keys, return_inverse=True)[1]
    return numbered
