"""What a plan knows about the quasi-identifiers, and the recodings that it can choose within a budget (LT §3.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sfumato.methods.generalize.joint_search import least_lossy, refine_by_tests
from sfumato.methods.generalize.population import Combinations, Matches, RecodedCodes, expected_matches
from sfumato.methods.recodings.buckets import Buckets, Shown, quantile_ends
from sfumato.methods.recodings.categories import coarsen_to_at_most
from sfumato.methods.recodings.group_rules import GroupRules, SensitiveColumn
from sfumato.methods.recodings.groupings import Groupings
from sfumato.methods.recodings.quasi_columns import QuasiColumns
from sfumato.methods.recodings.recoding import Recoding, ValueMap
from sfumato.params import require_int
from sfumato.plan.claims.sensitive_groups import SensitiveCounts
from sfumato.plan.survey import Survey
from sfumato.risk.uniqueness import population_of
from sfumato.schema.schema import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.randomness import Randomness


# The division of an anonymity budget between columns (LT §3.1).
#
# The rank difference of a column with d values is proportional to 1/d. With w_i the importance of a column, the loss
# is Σ w_i/d_i. For a given product of the d_i it is smallest when every d_i is proportional to w_i. A column with
# fewer values than its share keeps all its values, and the rest of the budget is divided between the others.


def share_budget(
    budget: int, sizes: Mapping[str, int], importance: Mapping[str, float] | None = None
) -> dict[str, int]:
    """Return how many values each column may have: from 1 to its size, with a product of at most ``budget``.

    ``sizes`` are the numbers of values of the columns; ``importance`` is the relative importance of each (default 1).
    """
    budget = require_int(budget, name="budget", at_least=1)
    if not sizes:
        return {}
    complete = {name: (importance or {}).get(name, 1.0) for name in sizes}
    shares = real_shares(budget, sizes, complete)
    values = {name: min(sizes[name], max(1, math.floor(share + 1e-9))) for name, share in shares.items()}
    return _use_up(budget, sizes, complete, values)


def real_shares(budget: float, sizes: Mapping[str, int], importance: Mapping[str, float]) -> dict[str, float]:
    """Solve LT equation (1), clipped to the range from 1 to the size of each column: d_i = w_i·s.

    The scale s is the one that uses up the budget. LT removes columns with fewer values than their share one by one.
    Here Σ log d_i is written as a function of log s. Its slope is the number of columns whose share is neither one
    value nor all of them, so it is a polygon, whose corners are sorted.
    """
    most = np.array([float(size) for size in sizes.values()])
    weight = np.array([importance[name] for name in sizes])
    wanted = min(math.log(budget), float(np.log(most).sum()))
    corners = np.concatenate([-np.log(weight), np.log(most / weight)])  # where a share leaves one value, and has all
    order = np.argsort(corners, kind="stable")
    slopes = np.cumsum(np.where(order < len(most), 1, -1))
    heights = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(corners[order]))])
    at = int(np.searchsorted(heights, wanted, side="right")) - 1
    rest = (wanted - heights[at]) / slopes[at] if slopes[at] else 0.0
    scale = math.exp(corners[order[at]] + rest)
    return dict(zip(sizes, np.clip(weight * scale, 1.0, most).tolist(), strict=True))


def _use_up(
    budget: int, sizes: Mapping[str, int], importance: Mapping[str, float], values: dict[str, int]
) -> dict[str, int]:
    """Use what rounding down left over: add one value where it saves most, as long as the product allows it."""
    product = math.prod(values.values())
    while True:
        room = [
            name for name, value in values.items() if value < sizes[name] and product // value * (value + 1) <= budget
        ]
        if not room:
            return values
        best = max(room, key=lambda name: importance[name] / (values[name] * (values[name] + 1)))
        product = product // values[best] * (values[best] + 1)
        values[best] += 1


BUDGETS_PER_DOUBLING = 12  # budgets that are tried


class GeneralizeOptions(Protocol):
    """What the recodings must reach: the options of the method, explained there."""

    @property
    def k(self) -> int: ...
    @property
    def alike(self) -> int: ...
    @property
    def beta(self) -> float: ...
    @property
    def population(self) -> float | None: ...
    @property
    def importance(self) -> Mapping[str, float] | None: ...
    @property
    def budget(self) -> str: ...
    @property
    def represent(self) -> Shown: ...


@dataclass(frozen=True, kw_only=True, repr=False)
class Chosen:
    """The recodings of the quasi-identifiers, and their result."""

    recodings: tuple[Recoding, ...]
    values: Mapping[str, int]
    matches: Matches
    loss: float  # from 0 (nothing changed) to 1 (nothing told); 1 − the granularity


@dataclass(frozen=True, eq=False, repr=False)
class _Part:
    """The recoding of one column (None: released as it is), its codes in the sample, and its part of the loss."""

    name: str
    recoding: Recoding | None
    shown: RecodedCodes
    loss: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BudgetedColumns(QuasiColumns):
    """What the plan knows about the quasi-identifiers."""

    method: GeneralizeOptions
    population: int
    rules: GroupRules  # for the groups of released rows

    @classmethod
    def of_survey(
        cls, survey: Survey, schema: Schema, randomness: Randomness, method: GeneralizeOptions, rules: GroupRules
    ) -> BudgetedColumns:
        """Ask the survey about the quasi-identifiers."""
        columns = QuasiColumns.of(survey, schema, randomness, importance=method.importance, represent=method.represent)
        known = {one.name: getattr(columns, one.name) for one in fields(columns)}
        population = population_of(survey.rows, method.population)
        return cls(**known, method=method, population=population, rules=rules)

    def spend(self, most: int) -> Chosen:
        """Return the recodings that lose least within the budget ``most`` and with which enough rows match k people.

        With the budget "joint" a search of the joint counts may find recodings that lose even less.
        """
        searched = self._search() if self.method.budget == "joint" else None
        if searched is not None and not self._are_enough(searched.matches):
            searched = None
        below = math.inf if searched is None else searched.loss
        return self._within_budget(most, below=below) or searched or self._combine(self._parts(1))

    def _within_budget(self, most: int, *, below: float) -> Chosen | None:
        """Return the best recodings for the budgets up to ``most``; None if none with a loss ``below`` this is enough.

        Which budgets are tried does not depend on k and β, so that a larger ``most`` only adds some.
        """
        losses = {budget: sum(part.loss for part in self._parts(budget)) for budget in _budgets(most)}
        for budget in sorted(losses, key=lambda budget: (losses[budget], budget)):
            if losses[budget] >= below:
                return None
            tried = self._combine(self._parts(budget))
            if self._are_enough(tried.matches):
                return tried
        return None

    def _are_enough(self, matches: Matches) -> bool:
        """Return whether enough rows match k people of the population (budget "any" ensures this) and in the table."""
        least = 1.0 - self.method.beta
        return (self.method.budget == "any" or matches.share_at_least >= least) and matches.share_within >= least

    def _search(self) -> Chosen:
        """Return the recodings that lose least, from the joint counts of the rows."""
        if self.population == self.sample.rows:
            rules = replace(self.rules, k=max(self.method.k, self.method.alike))
            groups = least_lossy(self.groupings, rules, self.method.beta, self._sensitive)
        else:
            groups = refine_by_tests(self.groupings, self.population, self._passes)
        return self._combine(
            [self._part(column, column.recode(of)) for column, of in zip(self.groupings, groups, strict=True)]
        )

    def _passes(self, groups: Sequence[NDArray[np.int32]], rows: NDArray[np.int64]) -> bool:
        shown = [
            RecodedCodes(of[column.value_of_row[rows]], int(of.max()) + 1)
            for column, of in zip(self.groupings, groups, strict=True)
        ]
        return self._are_enough(self._matches(shown, rows))

    def _matches(self, shown: Sequence[RecodedCodes], rows: NDArray[np.int64]) -> Matches:
        combinations = Combinations.of(shown, len(rows))
        counted = [
            (one.rule, SensitiveCounts.of(combinations.of_row, one.codes[rows], len(one.values)), one.values)
            for one in self._sensitive
        ]
        kept = self.rules.mark_allowed(combinations.counts, counted)
        matches = expected_matches(combinations, self.population, self.method.k)
        return replace(matches, share_within=float(combinations.counts[kept].sum() / len(rows)))

    @cached_property
    def _sensitive(self) -> list[SensitiveColumn]:
        return self.rules.columns_of(self.sample.table)

    def _combine(self, parts: Sequence[_Part]) -> Chosen:
        by_name = {part.name: part for part in parts}
        recodings = tuple(part.recoding for part in parts if part.recoding is not None)
        return Chosen(
            recodings=recodings,
            values=self.sizes | {recoding.name: recoding.values for recoding in recodings},
            matches=self._matches([by_name[name].shown for name in self.names], np.arange(self.sample.rows)),
            loss=sum(part.loss for part in parts),
        )

    def _part(self, column: Groupings, recoding: Recoding | None) -> _Part:
        if recoding is None:
            return _Part(column.name, None, RecodedCodes(column.value_of_row, column.size), 0.0)
        codes = recoding.codes(self.sample.table).astype(np.int32)
        groups = np.full(column.size, recoding.code_size, dtype=np.int32)  # values that no sampled row has come last
        groups[column.value_of_row] = codes
        return _Part(column.name, recoding, RecodedCodes(codes, recoding.code_size), column.loss(groups))

    def _parts(self, budget: int) -> list[_Part]:
        """Give each column its share of the budget; what a tree or ties leave unused goes to the next columns."""
        parts: list[_Part] = []
        left, waiting = budget, dict(self.sizes)
        for name in sorted(self.distinct, key=lambda name: self.sizes[name]) + list(self.points):
            share = share_budget(left, waiting, self.importance)[name]
            size = waiting.pop(name)
            part = self._with_share(name, min(share, size))
            parts.append(part)
            left //= size if part.recoding is None else part.recoding.values
        return parts

    def _with_share(self, name: str, share: int) -> _Part:
        """Return a column with at most ``share`` values."""
        if (name, share) not in self._shares:
            recoding: Recoding | None = None
            if share < self.sizes[name]:
                recoding = self._in_buckets(name, share) if name in self.points else self._coarse(name, share)
            column = self.groupings[self.names.index(name)]
            self._shares[name, share] = self._part(column, recoding)
        return self._shares[name, share]

    @cached_property
    def _shares(self) -> dict[tuple[str, int], _Part]:
        """The recodings that were made: many budgets have columns with the same share."""
        return {}

    def _coarse(self, name: str, most: int) -> ValueMap:
        return coarsen_to_at_most(most, self.schema[name], self.sample.table.kinds[name], self.distinct[name])

    def _in_buckets(self, name: str, most: int) -> Buckets:
        """Group a numeric column into at most ``most`` values, including a missing one."""
        points = self.points[name]
        buckets = self.buckets(name, quantile_ends(points.weights, max(1, most - (points.missing > 0))))
        return replace(buckets, hidden=0) if most == 1 and points.missing else buckets


def _budgets(most: int) -> list[int]:
    """Return the budgets that are tried: whole numbers up to ``most``, in steps of 6 %, the same for every ``most``."""
    steps = math.floor(BUDGETS_PER_DOUBLING * math.log2(most)) + 1
    return sorted({math.floor(2.0 ** (step / BUDGETS_PER_DOUBLING)) for step in range(steps)})
