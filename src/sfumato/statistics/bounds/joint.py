"""Two means, sums, counts or shares of the same people, bounded together.

Each group of equal rows has *states*: in both statistics, in one, in none, each with an interval of values. A total of
a statistic is a sum over the groups, so the largest value of any linear function of all totals takes the best state of
each group. A difference of means is not linear; it is bounded by its tangent at the best choice that was found:

    S_A/N_A − S_B/N_B = a − b + (S_A − a N_A)/N_A − (S_B − b N_B)/N_B,

where the last two terms are linear for given N, and monotone in 1/N_A and 1/N_B, of which the limits are known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.bounds.enclosure import EPS
from sfumato.statistics.conditions import ALWAYS, Clause, Condition, complement_clauses, join_clauses
from sfumato.statistics.counted_boxes import CountedBoxes

Array = NDArray[np.float64]
MOST_ROUNDS = 30  # of the search for the best choice


@dataclass(frozen=True)
class LinearForm:
    """A sum over the records that meet a condition: of 1, of a column, or of the truth of ``indicator``.

    ``divided`` by the number of these records it is a mean or a share.
    """

    where: Condition = ALWAYS
    column: str | None = None
    indicator: Condition | None = None
    divided: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class _State:
    """What a group adds to both forms in one state: whether it can have it, 0 or 1 to N, and an interval to S."""

    possible: NDArray[np.bool_]
    member: tuple[float, float]
    low: tuple[Array, Array]
    high: tuple[Array, Array]
    tied: bool  # whether both sums take the same value


@dataclass(frozen=True, eq=False, repr=False)
class Totals:
    """N and S of both forms for one choice of states and values."""

    number: tuple[float, float]
    total: tuple[float, float]

    def value(self, position: int, form: LinearForm) -> float:
        """Return the statistic of one form."""
        if not form.divided:
            return self.total[position]
        return self.total[position] / self.number[position] if self.number[position] > 0.0 else math.nan


@dataclass(frozen=True, eq=False, repr=False)
class JointForms:
    """Two linear forms of the records of a table."""

    forms: tuple[LinearForm, LinearForm]
    states: tuple[_State, ...]
    weight: Array
    pool: NDArray[np.int64] | None  # the box of each group, if only the total weights of boxes are known

    @classmethod
    def of(cls, table: CountedBoxes, first: LinearForm, second: LinearForm) -> JointForms:
        """Find the states of all groups, and of the rows that were not released."""
        atoms = [clauses for form in (first, second) for clauses in _atoms(table, form)]
        sides = [(one, complement_clauses(one)) for one in atoms]
        states = []
        for truth in itertools.product((True, False), repeat=len(atoms)):
            clauses = join_clauses([side[0] if true else side[1] for side, true in zip(sides, truth, strict=True)])
            if clauses:
                states.append(_state(table, (first, second), clauses, truth))
        pools = table.pools
        weight = table.weight if pools is None else pools.total
        pool = None if pools is None else pools.box
        if table.unseen is not None:
            weight = np.append(weight, float(table.unseen.rows))
            pool = None if pool is None else np.append(pool, len(weight) - 1)
        return cls((first, second), tuple(states), weight, pool)

    def choose(self, number: Sequence[float], total: Sequence[float]) -> tuple[float, Totals]:
        """Return the largest Σ number·N + total·S, and the totals of the choice that attains it."""
        best, size = np.full(len(self.states[0].possible), -np.inf), np.zeros(len(self.states[0].possible))
        exact = all(float(one).is_integer() for one in (*number, *total))
        add_number, add_total = (np.zeros((2, len(best))) for _ in range(2))
        for state in self.states:
            values = [
                np.where(one > 0.0, high, low) for one, low, high in zip(total, state.low, state.high, strict=True)
            ]
            if state.tied:
                values = [state.high[0] if total[0] + total[1] > 0.0 else state.low[0]] * 2
            constant = float(np.dot(number, state.member))
            gain = constant + total[0] * values[0] + total[1] * values[1]
            terms = abs(total[0] * values[0]) + abs(total[1] * values[1]) + float(np.abs(number) @ state.member)
            size = np.where(state.possible, np.maximum(size, terms), size)  # before terms cancel each other
            exact = exact and bool((terms == np.rint(terms)).all())
            better = state.possible & (gain > best)
            best = np.where(better, gain, best)
            for position in range(2):
                add_number[position] = np.where(better, state.member[position], add_number[position])
                add_total[position] = np.where(better, values[position], add_total[position])
        chosen = np.arange(len(best)) if self.pool is None else _best_of_pool(best, self.pool, len(self.weight))
        numbers, totals = ((one[:, chosen] @ self.weight).tolist() for one in (add_number, add_total))
        gains = best[chosen] * self.weight
        if exact and (gains == np.rint(gains)).all():
            return float(gains.sum()), Totals(tuple(numbers), tuple(totals))
        if self.pool is not None:
            largest = np.zeros(len(self.weight))
            np.maximum.at(largest, self.pool, size)
            size = largest
        rounding = 4.0 * (len(best) + 2) * EPS * float(size @ self.weight)
        return float(gains.sum()) + rounding, Totals(tuple(numbers), tuple(totals))

    def values(self, totals: Totals) -> tuple[float, float]:
        """Return both forms of a choice with these totals."""
        return totals.value(0, self.forms[0]), totals.value(1, self.forms[1])

    def highest(self, factors: tuple[float, float]) -> tuple[float, Totals]:
        """Return an upper bound of factor·A + factor·B, and the totals of the best choice that was found."""
        best = self._climb(factors)
        values = self.values(best)
        limits = []
        for position, form in enumerate(self.forms):
            unit = [0.0, 0.0]
            unit[position] = 1.0
            most, least = self.choose(unit, (0.0, 0.0))[0], -self.choose([-one for one in unit], (0.0, 0.0))[0]
            limits.append((least, most) if form.divided else (1.0, 1.0))
        if min(least for least, _ in limits) <= 0.0 or any(map(math.isnan, values)):
            return math.inf, best
        slack = 0.0
        for sizes in itertools.product(*(set(one) for one in limits)):
            total = [factor / size for factor, size in zip(factors, sizes, strict=True)]
            number = [
                -one * value if form.divided else 0.0
                for one, value, form in zip(total, values, self.forms, strict=True)
            ]
            constant = sum(
                one * value for one, value, form in zip(total, values, self.forms, strict=True) if not form.divided
            )
            slack = max(slack, self.choose(number, total)[0] - constant)
        high = float(np.dot(factors, values)) + slack
        if all(float(one).is_integer() for one in (*factors, *values, slack)):
            return high, best
        return high + 8.0 * EPS * (float(np.abs(factors) @ np.abs(values)) + slack), best

    def _climb(self, factors: tuple[float, float]) -> Totals:
        """Follow the tangent from the choice with the most records to a choice that no longer improves."""
        _, best = self.choose((1.0, 1.0), (1e-9 * factors[0], 1e-9 * factors[1]))
        reached = -math.inf
        for _ in range(MOST_ROUNDS):
            values = self.values(best)
            value = float(np.dot(factors, values))
            if math.isnan(value) or value <= reached:
                break
            reached, kept = value, best
            scales = [best.number[position] if form.divided else 1.0 for position, form in enumerate(self.forms)]
            total = [factor / scale for factor, scale in zip(factors, scales, strict=True)]
            number = [
                -one * mean if form.divided else 0.0 for one, mean, form in zip(total, values, self.forms, strict=True)
            ]
            _, best = self.choose(number, total)
        return best if reached == -math.inf else kept


def _atoms(table: CountedBoxes, form: LinearForm) -> list[list[Clause]]:
    """Return the conditions whose truth decides what a record adds to a form."""
    member = table.clauses([form.column] if form.column else [], form.where)
    return [member] if form.indicator is None else [member, table.clauses([], form.indicator)]


def _state(
    table: CountedBoxes, forms: tuple[LinearForm, LinearForm], clauses: Sequence[Clause], truth: Sequence[bool]
) -> _State:
    possible, truths = table.rows_meeting(clauses).most > 0.0, iter(truth)
    unseen = table.unseen
    member, low, high = [], [], []
    for form in forms:
        inside = next(truths)
        counts = inside if form.indicator is None else next(truths) and inside
        member.append(float(inside))
        start = end = np.full(len(table.count), float(counts))
        ends = (float(counts), float(counts))
        if form.column and inside:
            edges = table.clip([form.column], clauses)
            start, end = (np.nan_to_num(one[:, 0]) for one in edges)
            ends = unseen.domains.get(form.column, (0.0, 0.0)) if unseen else ends
        low.append(np.append(start, ends[0]) if unseen else start)
        high.append(np.append(end, ends[1]) if unseen else end)
    tied = all(member) and forms[0].column is not None and forms[0].column == forms[1].column
    reach = np.append(possible, True) if unseen else possible
    return _State(reach, (member[0], member[1]), (low[0], low[1]), (high[0], high[1]), tied)


def _best_of_pool(gain: Array, pool: NDArray[np.int64], pools: int) -> NDArray[np.int64]:
    """Return the group of each box that gains most: it may have all of the weight."""
    order = np.lexsort((-gain, pool))
    first = np.searchsorted(pool[order], np.arange(pools))
    return order[first]
