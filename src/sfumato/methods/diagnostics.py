"""What a method reports of its own work to the custodian: searches, expert rules, and how near it came to the limit.

Nothing of it is written beside a release. Blocks report traces, which merge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Width:
    """The width of the interval of a kept statistic."""

    name: str
    width: float  # in the unit of the statistic


@dataclass(frozen=True, kw_only=True)
class SearchTrace:
    """What a search did. Costs are Σ_C (p_C / Δ0_C) · (half-width of C) over the kept statistics, as in Optimality."""

    overlap: str
    rounds: int
    seconds: float
    stop: str  # "budget" or "interrupted"
    before: float
    after: float
    widths_before: tuple[Width, ...]  # of the kept statistics whose exact widths were followed
    widths_after: tuple[Width, ...]

    @property
    def gain(self) -> float:
        """The share of the cost that was saved, from 0 to 1."""
        return 1.0 - self.after / self.before if self.before > 0.0 else 0.0


@dataclass(frozen=True, kw_only=True)
class RuleEffect:
    """What one expert rule did. Widths are means over the records, each counted as far as the rule is true of it."""

    rule: str
    column: str
    records: int
    truth: float  # sum over the records of how far the rule is true of each, from 0 to 1
    mean_factor: float  # of this rule alone, over all records
    touched: float  # share of the records of which it is true at all, from 0 to 1
    width_without: float  # of the column's boxes if there were no rules, in its unit (categories: members less one)
    width_with: float

    @property
    def change(self) -> float:
        """By what share the boxes of the column became wider (or, below 0, narrower) where the rule is true."""
        return self.width_with / self.width_without - 1.0 if self.width_without > 0.0 else 0.0

    def merge(self, other: RuleEffect) -> RuleEffect:
        """The effect of the same rule on the records of both."""
        records, truth = self.records + other.records, self.truth + other.truth

        def mean(one: float, two: float, weight: float, other_weight: float) -> float:
            total = weight + other_weight
            return (one * weight + two * other_weight) / total if total > 0.0 else 0.0

        return replace(
            self,
            records=records,
            truth=truth,
            mean_factor=mean(self.mean_factor, other.mean_factor, self.records, other.records),
            touched=mean(self.touched, other.touched, self.records, other.records),
            width_without=mean(self.width_without, other.width_without, self.truth, other.truth),
            width_with=mean(self.width_with, other.width_with, self.truth, other.truth),
        )

    def __str__(self) -> str:
        way = "wider" if self.change > 0.0 else "narrower"
        return (
            f"{self.rule}: factor {self.mean_factor:.2f} on average, {self.touched:.0%} of the records touched, "
            f"{self.column} {abs(self.change):.0%} {way} there"
        )


@dataclass(frozen=True, kw_only=True)
class Optimality:
    """The linear width that was reached and the least that theory allows, all in units of the wanted accuracies.

    Each is Σ_C (p_C / Δ0_C) · (half-width of C), so that 1 means: a single kept statistic is as accurate as was wanted.
    ``asymptotic`` is the optimum for boxes that fill the space, ``shrunk`` for boxes shrunk to their records, which are
    narrower by (k − 1)/(k + 1) per side on average. Both rest on an estimated density, so they are estimates too.
    """

    achieved: float
    asymptotic: float  # NaN where no limit holds
    shrunk: float
    reason: str = ""  # why no limit holds: values repeat or are missing; empty where one does

    @property
    def ratio(self) -> float:
        """Achieved width ÷ the limit for shrunk boxes; near 1 where the density can be estimated well."""
        return self.achieved / self.shrunk if self.shrunk > 0.0 else math.nan


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What happened in one block, or in several."""

    searches: tuple[SearchTrace, ...] = ()  # one per block that was searched
    rules: tuple[RuleEffect, ...] = ()

    @classmethod
    def merged(cls, traces: Iterable[Trace]) -> Trace:
        """The traces of all blocks in one."""
        searches: tuple[SearchTrace, ...] = ()
        rules: dict[str, RuleEffect] = {}
        for trace in traces:
            searches += trace.searches
            for effect in trace.rules:
                rules[effect.rule] = rules[effect.rule].merge(effect) if effect.rule in rules else effect
        return cls(searches=searches, rules=tuple(rules.values()))


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """What a method reports of a release: known where it was made, and not released with it."""

    searches: tuple[SearchTrace, ...] = ()
    rules: tuple[RuleEffect, ...] = ()
    optimality: Optimality | None = None  # None for a method without such a theory
