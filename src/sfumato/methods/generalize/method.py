"""Probabilistic anonymity: an anonymity budget is divided between the columns, and each column is generalized to it.

    population, k, β → budget D' → number of values per column → search of the joint counts → verified release

LT's budget holds for equally likely combinations. Real columns depend on each other and have rare values. The plan
therefore also estimates, from the rows, how many rows match at least k people, and lowers the budget until enough of
them do. From there a search of the joint counts looks for recodings that lose less. ``budget="any"`` uses the budget
that holds for every distribution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sfumato.errors import OptionError
from sfumato.methods.base import Method, require_rows
from sfumato.methods.generalize.population import ProbabilisticAnonymity
from sfumato.methods.generalize.quasi_recodings import BudgetedColumns
from sfumato.methods.options import diversity_option, group_size_option, importance_option, reported_option
from sfumato.methods.recodings.buckets import SHOWN, Shown
from sfumato.methods.recodings.group_rules import GroupRules, make_rules
from sfumato.methods.recodings.quasi_columns import promise_containment
from sfumato.methods.recodings.recoding import RecodingPlan, released_columns
from sfumato.params import Checked, Choice, OrNone, Probability, Whole
from sfumato.plan.survey import Survey
from sfumato.risk.anonymity_budget import anonymity_budget, require_population
from sfumato.schema.schema import Schema

if TYPE_CHECKING:
    from sfumato.plan.plan import Claim
    from sfumato.randomness import Randomness

Basis = Literal["joint", "exact", "chernoff", "any"]
BASES: tuple[Basis, ...] = ("joint", "exact", "chernoff", "any")


@dataclass(frozen=True, kw_only=True)
class Generalize(Method):
    """Generalize quasi-identifiers until rows match at least k people of a population, with little distortion.

    With a ``population``, at least a share 1 − ``beta`` of the rows match at least ``k`` of its people, with 95 %
    confidence if the table is a random sample of the population. Without one, the table is its own population and the
    release is k-anonymous: rows in groups of fewer than k rows, at most a share ``beta``, are suppressed. So are
    rows in groups with fewer than ``l`` values of a sensitive column. (Lodha and Thomas.)

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": list(range(20, 80)), "city": ["Ulm", "Rom"] * 30}
    >>> release = sf.Generalize(k=5).release(people, schema={"age": "quasi", "city": "quasi"})
    >>> [finding.held for finding in release.findings if finding.kind == "privacy"]
    [True]
    """

    name: ClassVar[str] = "generalize"
    theory: ClassVar[str] = "probabilistic"
    one_row_per_person: ClassVar[bool] = True
    block_effect: ClassVar[str] = (
        "ranges are chosen from the joint counts of a sample; the promise is counted on all rows"
    )
    manifest_notes: ClassVar[Mapping[str, str]] = {
        "combinations before": "number of possible combinations of values",
        "combinations after": "number of possible combinations after recoding",
        "combinations allowed": "the anonymity budget for equally likely combinations; the search may exceed it",
        "granularity": "share of the values of the columns that released values tell apart, from 0 to 1",
        "share of rows that match k people, expected": "estimated from the rows",
        "share of rows that match k people, at least": "lower limit with 95 % confidence",
        "values before": "number of values of each column",
        "values after": "number of values of each column after recoding",
        "columns": "how each column was recoded",
    }

    k: int = group_size_option(
        "Smallest number of people of the population that each row must match in the quasi-identifiers.", unit="people"
    )
    population: float | None = reported_option(
        OrNone(Checked("whole number of people, at least k", lambda value, name: require_population(value))),
        "Number of people among whom an intruder searches, including those of the table. None: the rows of the table.",
        default=None,
    )
    beta: float = reported_option(
        Probability(),
        "Largest share of rows that may match fewer than k people. Without a population, the largest share of rows "
        "that may be suppressed.",
        default=0.1,
        unit="share of rows",
    )
    importance: Mapping[str, float] | None = importance_option(
        "Relative importance of each column: more important columns keep more values."
    )
    budget: Basis = reported_option(
        Choice(BASES),
        'How the number of allowed combinations of values is found: "joint" by a search of the joint counts of the '
        'rows, which starts from "exact"; "exact" from the binomial tail, "chernoff" from the formula of Lodha and '
        'Thomas, "any" so that it holds for every distribution of the combinations.',
        default="joint",
    )
    within: int = reported_option(
        Whole(at_least=1),
        "Smallest number of released rows that must be equal in the quasi-identifiers. Rows in smaller groups, at most "
        "a share beta, are suppressed.",
        default=1,
        unit="rows",
    )
    l: int | None = diversity_option(" Rows in less diverse groups, at most a share beta, are suppressed.")
    represent: Shown = reported_option(
        Choice(SHOWN),
        "What is released for a group of numbers: its range (two columns), its median or mean, or a label.",
        default="range",
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
        rules = replace(make_rules(survey, schema, k=self.k, l=self.l), k=self.alike)
        quasi = BudgetedColumns.of_survey(survey, schema, randomness, self, rules)
        most = self.combinations(quasi.population)
        spent = quasi.spend(most)
        released = released_columns(quasi.names, spent.recodings)
        return RecodingPlan(
            columns=tuple(column.name for column in schema.columns),
            quasi=quasi.names,
            recodings=spent.recodings,
            promises=(*self._promises(quasi.population, most, released, rules), *promise_containment(spent.recodings)),
            method_notes={
                "combinations before": math.prod(quasi.sizes.values()),
                "combinations after": math.prod(spent.values.values()),
                "combinations allowed": most,
                "granularity": round(1.0 - spent.loss, 6),
                "share of rows that match k people, expected": round(spent.matches.share, 6),
                "share of rows that match k people, at least": math.floor(1e6 * spent.matches.share_at_least) / 1e6,
                "values before": dict(quasi.sizes),
                "values after": dict(spent.values),
            },
            rules=rules,
            suppressed_at_most=0.0 if rules.allow_all else self.beta,
        ).in_blocks(survey)

    def combinations(self, population: int) -> int:
        """Return the budget: the number of combinations that may be released if all are equally likely.

        The search of budget "joint" starts from it and may release more.
        """
        budget = anonymity_budget(population, self.k, self.beta)
        return {"chernoff": budget.chernoff, "any": budget.any_distribution}.get(self.budget, budget.exact)

    @property
    def alike(self) -> int:
        """Smallest number of released rows that are equal in the quasi-identifiers."""
        return max(self.k, self.within) if self.population is None else self.within

    def _promises(
        self, population: int, most: int, released: Mapping[str, tuple[str, ...]], rules: GroupRules
    ) -> tuple[Claim[Any], ...]:
        alike, *diverse = rules.claims(tuple(name for names in released.values() for name in names))
        if self.population is None:
            return (alike, *diverse)
        matches = ProbabilisticAnonymity(
            k=self.k,
            population=population,
            beta=self.beta,
            most=None if self.budget == "joint" else most,
            any_distribution=self.budget == "any",
            columns=released,
        )
        return (matches, alike, *diverse) if self.within > 1 else (matches, *diverse)
