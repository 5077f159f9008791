"""Probabilistic anonymity: an anonymity budget is divided between the columns, and each column is generalized to it.

    population, k, β → budget D' → number of values per column → quantiles, tree cuts, pools → verified release

LT's budget holds for equally likely combinations. Real columns depend on each other and have rare values. The plan
therefore also estimates, from the rows, how many rows match at least k people, and lowers the budget until enough of
them do. ``budget="any"`` uses the budget that holds for every distribution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from sfumato.disclosure.anonymity_budget import anonymity_budget, require_population
from sfumato.errors import OptionError
from sfumato.methods.base import Method
from sfumato.methods.claims import KAnonymity
from sfumato.methods.probabilistic.buckets import SHOWN, Buckets, Shown, quantile_ends
from sfumato.methods.probabilistic.category_recoding import with_at_most
from sfumato.methods.probabilistic.columnwise import MOST_VALUES, require_rows, truth_of
from sfumato.methods.probabilistic.population_anonymity import ProbabilisticAnonymity
from sfumato.methods.probabilistic.population_matches import Combinations, Matches, ShownColumn, expected_matches
from sfumato.methods.probabilistic.recoding import Recoding, RecodingPlan, ValueMap
from sfumato.methods.probabilistic.sharing import require_importance, share_budget
from sfumato.params import Checked, Choice, OrNone, Probability, Whole, option
from sfumato.schema.columns import Role
from sfumato.schema.schema import Schema
from sfumato.survey.quantile_sketches import Points, all_points
from sfumato.survey.questions import DistinctIn, FactsOf
from sfumato.survey.survey import Sample, Survey, blocks_wanted

if TYPE_CHECKING:
    from sfumato.methods.claims import Claim
    from sfumato.randomness import Randomness
    from sfumato.survey.questions import Distinct
    from sfumato.table.facts import ColumnFacts

Basis = Literal["exact", "chernoff", "any"]
BASES: tuple[Basis, ...] = ("exact", "chernoff", "any")
TRIES = 14  # bisection steps on the logarithm of the budget


@dataclass(frozen=True, kw_only=True)
class Generalize(Method):
    """Generalize quasi-identifiers until rows match at least k people of a population, with little distortion.

    With a ``population``, at least a share 1 − ``beta`` of the rows match at least ``k`` of its people, with 95 %
    confidence if the table is a random sample of the population. Without one, the table is its own population and the
    release is k-anonymous: rows in groups of fewer than k rows, at most a share ``beta``, are suppressed. (Lodha and
    Thomas.)

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": list(range(20, 80)), "city": ["Ulm", "Rom"] * 30}
    >>> release = sf.Generalize(k=5).release(people, schema={"age": "quasi", "city": "quasi"})
    >>> [finding.held for finding in release.findings if finding.kind == "privacy"]
    [True]
    """

    name: ClassVar[str] = "generalize"
    noted: ClassVar[Mapping[str, str]] = {
        "combinations before": "number of possible combinations of values",
        "combinations after": "number of possible combinations after recoding",
        "combinations allowed": "the anonymity budget",
        "share of rows that match k people, expected": "estimated from the rows",
        "share of rows that match k people, at least": "lower limit with 95 % confidence",
        "values before": "number of values of each column",
        "values after": "number of values of each column after recoding",
        "columns": "how each column was recoded",
    }

    k: int = option(
        Whole(at_least=1),
        "Smallest number of people of the population that each row must match in the quasi-identifiers.",
        unit="people",
        reported=True,
    )
    population: float | None = option(
        OrNone(Checked("whole number of people, at least k", lambda value, name: require_population(value))),
        "Number of people among whom an intruder searches, including those of the table. None: the rows of the table.",
        default=None,
        reported=True,
    )
    beta: float = option(
        Probability(),
        "Largest share of rows that may match fewer than k people. Without a population, the largest share of rows "
        "that may be suppressed.",
        default=0.1,
        unit="share of rows",
        reported=True,
    )
    importance: Mapping[str, float] | None = option(
        OrNone(Checked("number above 0 for each named column", lambda value, name: require_importance(value))),
        "Relative importance of each column: more important columns keep more values. 1 for columns that are not "
        "named; None: 1 for all.",
        default=None,
        reported=True,
    )
    budget: Basis = option(
        Choice(BASES),
        'How the number of allowed combinations of values is computed: "exact" from the binomial tail, "chernoff" from '
        'the formula of Lodha and Thomas, "any" so that it holds for every distribution of the combinations.',
        default="exact",
        reported=True,
    )
    within: int = option(
        Whole(at_least=1),
        "Smallest number of released rows that must be equal in the quasi-identifiers. Rows in smaller groups, at most "
        "a share beta, are suppressed.",
        default=1,
        unit="rows",
        reported=True,
    )
    represent: Shown = option(
        Choice(SHOWN),
        "What is released for a group of numbers: its range (two columns), its median or mean, or a label.",
        default="range",
        reported=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.population is not None and self.population < self.k:
            raise OptionError(
                "The population must have at least k people.", found=f"population {self.population:,.0f}, k {self.k:,}"
            )

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> RecodingPlan:
        """Choose the recodings of the columns within the budget, from the survey alone."""
        require_rows(survey.rows, self.alike)
        quasi = _QuasiIdentifiers.of(survey, schema, self)
        most = self.combinations(quasi.population)
        spent = quasi.spend(most)
        released = {name: (name,) for name in quasi.names} | {one.name: one.released_names for one in spent.recodings}
        return RecodingPlan(
            columns=tuple(column.name for column in schema.columns),
            quasi=quasi.names,
            recodings=spent.recodings,
            promises=(*self._promises(quasi.population, most, released), *truth_of(spent.recodings)),
            method_notes={
                "combinations before": math.prod(quasi.sizes.values()),
                "combinations after": math.prod(spent.values.values()),
                "combinations allowed": most,
                "share of rows that match k people, expected": round(spent.matches.share, 6),
                "share of rows that match k people, at least": math.floor(1e6 * spent.matches.share_at_least) / 1e6,
                "values before": dict(quasi.sizes),
                "values after": dict(spent.values),
            },
            within=self.alike,
            suppressed_at_most=self.beta if self.alike > 1 else 0.0,
            parts=blocks_wanted(survey),
        )

    def combinations(self, population: int) -> int:
        """Return the budget: the number of combinations that may be released."""
        found = anonymity_budget(population, self.k, self.beta)
        return {"exact": found.exact, "chernoff": found.chernoff, "any": found.any_distribution}[self.budget]

    @property
    def alike(self) -> int:
        """Smallest number of released rows that are equal in the quasi-identifiers."""
        return max(self.k, self.within) if self.population is None else self.within

    def _promises(self, population: int, most: int, released: Mapping[str, tuple[str, ...]]) -> tuple[Claim[Any], ...]:
        alike = KAnonymity(k=self.alike, columns=tuple(name for names in released.values() for name in names))
        if self.population is None:
            return (alike,)
        found = ProbabilisticAnonymity(
            k=self.k,
            population=population,
            beta=self.beta,
            most=most,
            any_distribution=self.budget == "any",
            columns=released,
        )
        return (found, alike) if self.within > 1 else (found,)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Spent:
    """The recodings for one budget, and their result."""

    recodings: tuple[Recoding, ...]
    values: Mapping[str, int]
    matches: Matches


@dataclass(frozen=True, kw_only=True, repr=False)
class _QuasiIdentifiers:
    """What the plan knows about the quasi-identifiers."""

    method: Generalize
    schema: Schema
    names: tuple[str, ...]
    sample: Sample
    population: int
    points: Mapping[str, Points]  # of the numeric columns, in the sample
    facts: Mapping[str, ColumnFacts]  # of the numeric columns, in the whole table
    distinct: Mapping[str, Distinct]  # of the other columns

    @classmethod
    def of(cls, survey: Survey, schema: Schema, method: Generalize) -> _QuasiIdentifiers:
        names, sample = schema.names(Role.QUASI), survey.sample
        _require_known(method.importance, names)
        kinds = sample.table.kinds
        numeric = [name for name in names if kinds[name].is_numeric and schema[name].tree is None]
        others = [name for name in names if name not in numeric]
        answers = survey.ask(
            [
                *(FactsOf(name, count_distinct=True) for name in numeric),
                *(DistinctIn(name, MOST_VALUES) for name in others),
            ]
        )
        return cls(
            method=method,
            schema=schema,
            names=names,
            sample=sample,
            population=_people(method.population, survey.rows),
            points={name: all_points(sample.table.numbers(name)) for name in numeric},
            facts={name: answers[FactsOf(name, count_distinct=True)] for name in numeric},
            distinct={name: answers[DistinctIn(name, MOST_VALUES)].require_complete(name) for name in others},
        )

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Number of values of each column, including a missing one."""
        counted = {name: facts.distinct_values + (facts.missing > 0) for name, facts in self.facts.items()}
        counted |= {name: len(distinct.values) for name, distinct in self.distinct.items()}
        return {name: counted[name] for name in self.names}

    def _ends(self, name: str) -> tuple[float, float]:
        """Return the declared or observed ends of a numeric column."""
        return self.schema[name].domain or (self.facts[name].low, self.facts[name].high)

    def spend(self, most: int) -> _Spent:
        """Return the recodings for the largest budget up to ``most`` with which enough rows match k people."""
        spent = self._spent(most)
        if self._is_enough(spent):
            return spent
        low, high = 0.0, math.log(most)
        spent = self._spent(1)
        for _ in range(TRIES):
            middle = (low + high) / 2.0
            tried = self._spent(max(1, math.floor(math.exp(middle))))
            if self._is_enough(tried):
                spent, low = tried, middle
            else:
                high = middle
        return spent

    def _is_enough(self, spent: _Spent) -> bool:
        """Return whether enough rows match k people of the population (budget "any" ensures this) and in the table."""
        least = 1.0 - self.method.beta
        matches_people = self.method.budget == "any" or spent.matches.share_at_least >= least
        return matches_people and spent.matches.share_within >= least

    def _spent(self, budget: int) -> _Spent:
        recodings = self._recodings(budget)
        by_name = {recoding.name: recoding for recoding in recodings}
        shown = []
        for name in self.names:
            if name in by_name:
                shown.append(
                    ShownColumn(by_name[name].codes(self.sample.table).astype(np.int32), by_name[name].code_size)
                )
            else:
                coded = self.sample.table.coded(name)
                shown.append(ShownColumn(coded.codes, coded.size))
        values = self.sizes | {recoding.name: recoding.values for recoding in recodings}
        combinations = Combinations.of(shown, self.sample.rows)
        matches = expected_matches(combinations, self.population, self.method.k, within=self.method.alike)
        return _Spent(recodings=tuple(recodings), values=values, matches=matches)

    def _recodings(self, budget: int) -> list[Recoding]:
        """Give each column its share of the budget; what a tree or ties leave unused goes to the next columns."""
        found: list[Recoding] = []
        left, waiting = budget, dict(self.sizes)
        for name in sorted(self.distinct, key=lambda name: self.sizes[name]) + list(self.points):
            share = share_budget(left, waiting, self.method.importance)[name]
            values = waiting.pop(name)
            if share < values:
                recoding = self._buckets(name, share) if name in self.points else self._coarse(name, share)
                found.append(recoding)
                values = recoding.values
            left //= values
        return found

    def _coarse(self, name: str, most: int) -> ValueMap:
        return with_at_most(most, self.schema[name], self.sample.table.kinds[name], self.distinct[name])

    def _buckets(self, name: str, most: int) -> Buckets:
        """Group a numeric column into at most ``most`` values, including a missing one."""
        points = replace(self.points[name], missing=self.facts[name].missing)
        ends = quantile_ends(points.weights, max(1, most - (points.missing > 0)))
        buckets = Buckets.of_points(self.sample.table, name, points, ends, shown=self.method.represent)
        buckets = buckets.as_cells(self._ends(name))
        return replace(buckets, hidden=0) if most == 1 and points.missing else buckets


def _people(population: float | None, rows: int) -> int:
    if population is None:
        return rows
    people = require_population(population)
    if people < rows:
        raise OptionError(
            "The population must include the people of the table.",
            found=f"population {people:,}, {rows:,} rows",
            fix="a population of at least the number of rows, or None to use the table itself",
        )
    return people


def _require_known(importance: Mapping[str, float] | None, names: tuple[str, ...]) -> None:
    unknown = [name for name in importance or {} if name not in names]
    if unknown:
        raise OptionError(
            "Only quasi-identifiers can have an importance.",
            found=f"importance of {', '.join(map(repr, unknown))}",
            fix=f"give the importance of {', '.join(map(repr, names))} only",
        )
