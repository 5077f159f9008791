"""What a method reports about its work to the custodian: searches, expert rules, and the distance to the optimum.

None of this is written to a release. Each block reports a trace, and traces can be merged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Width:
    """The width of the interval of a kept statistic."""

    name: str
    width: float  # in the unit of the statistic


@dataclass(frozen=True, kw_only=True)
class SearchTrace:
    """A summary of a search.

    The costs of boxes are Σ_C (p_C / Δ0_C) · (half-width of C) over the kept statistics; those of groups of
    microaggregation are squared errors.
    """

    overlap: str
    rounds: int
    seconds: float
    stop: str  # "budget" or "interrupted"
    before: float
    after: float
    widths_before: tuple[Width, ...]  # of the kept statistics whose exact widths were tracked
    widths_after: tuple[Width, ...]
    cost: str = "weighted width"  # what the costs are

    @property
    def gain(self) -> float:
        """Share of the cost that was saved, from 0 to 1."""
        return 1.0 - self.after / self.before if self.before > 0.0 else 0.0


@dataclass(frozen=True, kw_only=True)
class RuleEffect:
    """The effect of one expert rule. Widths are means over the records, weighted by the truth of the rule."""

    rule: str
    column: str
    records: int
    truth: float  # sum over the records of the truth of the rule for each, from 0 to 1
    mean_factor: float  # mean over all records of the factor of this rule alone
    touched: float  # share of the records for which the rule is true to some degree, from 0 to 1
    width_without: float  # of the column's boxes without any rule, in its unit (categories: number of values − 1)
    width_with: float

    @property
    def change(self) -> float:
        """Relative change of the width of the column's boxes where the rule is true; negative if they are narrower."""
        return self.width_with / self.width_without - 1.0 if self.width_without > 0.0 else 0.0

    def merge(self, other: RuleEffect) -> RuleEffect:
        """Return the effect of the same rule on the records of both."""
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
        direction = "wider" if self.change > 0.0 else "narrower"
        return (
            f"{self.rule}: mean factor {self.mean_factor:.2f}; applies to {self.touched:.0%} of the records, where the "
            f"boxes are {abs(self.change):.0%} {direction} in {self.column}"
        )


@dataclass(frozen=True, kw_only=True)
class Optimality:
    """The first-order width that was reached and the smallest that theory allows, in units of the wanted accuracies.

    Each is Σ_C (p_C / Δ0_C) · (half-width of C): with one kept statistic, 1 means that it is as accurate as wanted.
    ``asymptotic`` is the optimum for boxes that fill the space, ``shrunk`` the optimum for boxes shrunk to their
    records, which are narrower by (k − 1)/(k + 1) per side on average. Both are estimates, because they depend on an
    estimated density. A large table is represented by ``records`` of its records, evenly spaced.
    """

    achieved: float
    asymptotic: float  # NaN if no optimum is known
    shrunk: float
    reason: str = ""  # why no optimum is known: values repeat or are missing; empty if one is known
    records: int = 0  # number of records for which all of this was computed: all of a small table, or a sample

    @property
    def ratio(self) -> float:
        """Achieved width ÷ the optimum for shrunk boxes; near 1 if the density can be estimated well."""
        return self.achieved / self.shrunk if self.shrunk > 0.0 else math.nan


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The diagnostics of one block, or of several."""

    searches: tuple[SearchTrace, ...] = ()  # one per searched block
    rules: tuple[RuleEffect, ...] = ()

    @classmethod
    def merged(cls, traces: Iterable[Trace]) -> Trace:
        """Merge the traces of all blocks."""
        searches: tuple[SearchTrace, ...] = ()
        rules: dict[str, RuleEffect] = {}
        for trace in traces:
            searches += trace.searches
            for effect in trace.rules:
                rules[effect.rule] = rules[effect.rule].merge(effect) if effect.rule in rules else effect
        return cls(searches=searches, rules=tuple(rules.values()))


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """What a method reports about a release to the custodian; it is not part of the release.

    ``compare_with_optimum`` computes the optimality when it is first asked for. It holds sampled rows of the original,
    so it is forgotten afterwards and never pickled: a pickled object has the computed optimality in its place.
    """

    searches: tuple[SearchTrace, ...] = ()
    rules: tuple[RuleEffect, ...] = ()
    compare_with_optimum: Callable[[], Optimality | None] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def optimality(self) -> Optimality | None:
        """The width that was reached and the smallest that theory allows; None if the method has no such theory."""
        found = None if self.compare_with_optimum is None else self.compare_with_optimum()
        object.__setattr__(self, "compare_with_optimum", None)
        return found

    def __getstate__(self) -> dict[str, Any]:
        computed = self.optimality
        return {**self.__dict__, "optimality": computed}
