"""The search for the recoding that loses least, by chains of ever finer recodings and the joint counts of the rows.

The product of the numbers of values is the number of combinations in the worst case. The joint counts show how many
rows really are in small groups, and often allow many more combinations. The candidates depend neither on k nor on β:
all combinations of levels, and chains of ever finer recodings. So a larger β or a smaller k never increases the loss.

If the table is a sample of the population, the counts have a sampling error, and choosing between candidates by them
is a selection. Then only one chain is used. It is planned on a quarter of the rows and tested, from coarse to fine,
on the others, up to the first candidate that fails. The true share of rows that match k people only falls along the
chain. So the promise can only be broken if the first candidate for which it does not hold passes its test: one test,
whose confidence is that of the promise (fixed-sequence testing).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.methods.recodings.groupings import Groupings, JointCounts
from sfumato.methods.recodings.level_search import Levels, SumOfLosses, choose_levels, search_levels
from sfumato.table.groups import rows_by_label

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.recodings.group_rules import GroupRules, SensitiveColumn

# Chains of ever finer recodings, found from the joint counts of the rows (top-down specialization).
#
# A chain starts with one group per column. Each step divides the one group, of any column, that saves most loss for
# the risk that it adds. Neither k nor β has a part in it: a chain is a fixed sequence of candidates, each finer than
# the one before. Stopping at the first violation makes the result monotone in β and k.

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


@dataclass(kw_only=True, eq=False, repr=False)
class SmallGroups:
    """The share of rows in groups of fewer than k rows."""

    k: int
    rows: int
    share: float = 0.0

    def added_risk(self, divided: Divided) -> float:
        """Return the risk that a division adds, per row of the table."""
        return float(((divided.after < self.k).sum() - (divided.before < self.k).sum()) / self.rows)

    def accept(self, divided: Divided) -> bool:
        """Take note of a division that was made; return whether the chain goes on."""
        self.share += self.added_risk(divided)
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

    def added_risk(self, divided: Divided) -> float:
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


DivisionRisk = SmallGroups | EffectiveCombinations


def refinement_chain(columns: Sequence[Groupings], risk: DivisionRisk) -> Chain:
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

    def chain(self, risk: DivisionRisk) -> Chain:
        for place, column in enumerate(self.columns):
            self._wait(place, len(column.levels) - 1, np.arange(self.rows))
        made: list[Division] = []
        while self.waiting and len(made) < MOST_STEPS:
            _, division = heapq.heappop(self.waiting)
            children, labels, divided = self._try_division(division)
            score = self._saved_loss(division) / (max(0.0, risk.added_risk(divided)) + LITTLE_RISK)
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

    def _try_division(self, division: Division) -> tuple[NDArray[np.int64], NDArray[np.int64], Divided]:
        """Return the new group of each row in the column and in all columns, and what changes."""
        rows, column = self.members[division], self.columns[division.column]
        below = column.levels[division.level - 1][column.value_of_row[rows]].astype(np.int64)
        children = np.unique(below, return_inverse=True)[1]
        labels = np.unique(self.labels[rows] * (int(children.max()) + 1) + children, return_inverse=True)[1]
        shrunk = np.bincount(children)[children] / len(rows)
        return children, labels, Divided(rows, self.alike[rows], np.bincount(labels)[labels], shrunk)

    def _saved_loss(self, division: Division) -> float:
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
        for part in rows_by_label(children):
            self._wait(division.column, division.level - 1, rows[part])


if TYPE_CHECKING:
    Recodings = list[NDArray[np.int32]]  # the group of each value, for each column

CHAIN_SIZES = (2, 10, 50, 250)  # group sizes for which a chain is planned
PLANNED_ROWS = 32_768  # rows that a chain is planned on, at most
PLANNING_PART = 4  # one row of so many plans the chain if the table is a sample
COMBINATIONS = 30_000  # of levels that are searched, at most
ROW_COMBINATIONS = 1_000_000_000  # rows × combinations of levels that are searched, at most


def least_lossy(
    columns: Sequence[Groupings], rules: GroupRules, beta: float, sensitive: Sequence[SensitiveColumn] = ()
) -> Recodings:
    """Return the recoding with the smallest loss for which the rules allow all rows but a share β.

    Not worse than the best combination of levels, as long as no more combinations than ``COMBINATIONS`` exist.
    """
    counts = JointCounts.of(columns)
    pairs = [(one, one.counts(counts.of_row)) for one in sensitive]

    def holds(recodings: Sequence[NDArray[np.int32]]) -> bool:
        return counts.share_allowed(recodings, rules, pairs) >= 1.0 - beta

    chains = [_last_that_holds(chain, columns, holds) for chain in _plan_chains(columns)]
    best = min(chains, key=lambda recodings: loss_of(columns, recodings))
    return _best_combination(columns, len(counts.counts), holds, below=loss_of(columns, best)) or best


def _best_combination(
    columns: Sequence[Groupings], rows: int, holds: Callable[[Recodings], bool], *, below: float
) -> Recodings | None:
    """Return the best combination of levels; None if there are too many or none has a loss ``below`` this."""
    kept = choose_levels(columns, min(COMBINATIONS, max(1_000, ROW_COMBINATIONS // rows)))
    if kept is None:
        return None

    def recodings(levels: Levels) -> Recodings:
        return [column.levels[level] for column, level in zip(columns, levels, strict=True)]

    losses = [np.array([column.loss(groups) for groups in column.levels]) for column in columns]
    objective = SumOfLosses(losses, lambda levels: holds(recodings(levels)))
    best = search_levels(objective, among=kept, below=below)
    return None if best.levels is None else recodings(best.levels)


def _plan_chains(columns: Sequence[Groupings]) -> list[Chain]:
    rows = len(columns[0].value_of_row)
    if rows > PLANNED_ROWS:
        chosen = np.linspace(0, rows - 1, PLANNED_ROWS).astype(np.int64)
        columns, rows = [column.of_rows(chosen) for column in columns], PLANNED_ROWS
    return [refinement_chain(columns, SmallGroups(k=k, rows=rows)) for k in CHAIN_SIZES if 2 * k <= rows or k == 2]


def _last_that_holds(chain: Chain, columns: Sequence[Groupings], holds: Callable[[Recodings], bool]) -> Recodings:
    """Return the finest candidate of a chain for which the promise holds, or the first one; by bisection."""
    low, high = 0, len(chain) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if holds(chain.groups(columns, middle)):
            low = middle
        else:
            high = middle
    return chain.groups(columns, low)


def refine_by_tests(
    columns: Sequence[Groupings], population: int, passes: Callable[[Recodings, NDArray[np.int64]], bool]
) -> Recodings:
    """Return the finest candidate of a chain before the first that fails, if the rows are a sample of a population.

    ``passes`` tests a candidate on some rows: on those that did not plan the chain, and on all.
    """
    rows = np.arange(len(columns[0].value_of_row))
    plans = rows % PLANNING_PART == 0
    planned = rows[plans][:: max(1, int(plans.sum()) // PLANNED_ROWS)]
    risk = EffectiveCombinations(rows=len(planned), most=float(population))
    chain = refinement_chain([column.of_rows(planned) for column in columns], risk)
    last = 0
    for steps in range(1, len(chain) + 1):
        candidate = chain.groups(columns, steps)
        if not (passes(candidate, rows[~plans]) and passes(candidate, rows)):
            break
        last = steps
    return chain.groups(columns, last)


def loss_of(columns: Sequence[Groupings], recodings: Sequence[NDArray[np.int32]]) -> float:
    """Return the loss of a recoding, from 0 (nothing changed) to 1 (nothing told); 1 − the granularity."""
    return sum(column.loss(groups) for column, groups in zip(columns, recodings, strict=True))
