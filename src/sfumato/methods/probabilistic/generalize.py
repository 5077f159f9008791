"""Probabilistic anonymity, the whole of it: a budget of combinations, shared over columns, spent on the least distortion.

    population, k, β → budget D' → a number of values for each column → quantiles, tree cuts, pools → a verified release

LT's budget holds for equally likely combinations. Real columns depend on each other and have rare values, so the plan
also estimates, from the rows themselves, how many of them find k people who look alike, and lowers the budget until
enough of them do. ``budget="any"`` takes the budget that holds whatever the distribution is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from sfumato.errors import OptionError
from sfumato.methods.base import Method
from sfumato.methods.claims import KAnonymity
from sfumato.methods.probabilistic.buckets import SHOWN, Buckets, Shown, quantile_ends
from sfumato.methods.probabilistic.budget import (
    AnonymityBudget,
    anonymity_budget,
    require_population,
    require_probability,
)
from sfumato.methods.probabilistic.categories import with_at_most
from sfumato.methods.probabilistic.claims import ProbabilisticAnonymity
from sfumato.methods.probabilistic.matches import Matches, ShownColumn, expected_matches
from sfumato.methods.probabilistic.one_column import blocks_of, require_rows, truth_of
from sfumato.methods.probabilistic.recoding import Recoding, RecodingPlan
from sfumato.methods.probabilistic.sharing import require_weights, share_budget
from sfumato.methods.probabilistic.summaries import Points, all_points
from sfumato.params import require_choice, require_int
from sfumato.schema.schema import Role, Schema

if TYPE_CHECKING:
    from sfumato.methods.claims import Claim
    from sfumato.randomness import Randomness
    from sfumato.survey.survey import Distinct, Survey
    from sfumato.table.table import Table

Basis = Literal["exact", "chernoff", "any"]
BASES: tuple[Basis, ...] = ("exact", "chernoff", "any")
TRIES = 14  # halvings of the budget's logarithm


@dataclass(frozen=True, kw_only=True)
class Generalize(Method):
    """Everyone matches at least ``k`` of ``population`` people, with probability 1 − ``beta``, at the least distortion.

    Without a population the table is its own: the rows that find fewer than k like them, at most a share ``beta``, are
    left out, and the release is k-anonymous.
    """

    name: ClassVar[str] = "generalize"

    k: int
    population: float | None = None  # people an intruder may choose from, those of the table among them
    beta: float = 0.1  # probability
    weights: Mapping[str, float] | None = None  # how much each column matters; 1 where none is given
    budget: Basis = "exact"  # combinations by the binomial tail, by LT's formula, or for any distribution at all
    within: int = 1  # rows that must look alike inside the table; smaller groups are left out
    represent: Shown = "range"

    def __post_init__(self) -> None:
        require_int(self.k, name="k", at_least=1)
        require_probability(self.beta, name="beta")
        if self.population is not None and require_population(self.population) < self.k:
            raise OptionError(
                "The population must hold at least k people.", found=f"population {self.population:,.0f}, k {self.k:,}"
            )
        require_weights(self.weights)
        require_choice(self.budget, name="budget", choices=BASES)
        require_int(self.within, name="within", at_least=1)
        require_choice(self.represent, name="represent", choices=SHOWN)

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> RecodingPlan:
        """Spend the budget on the columns, from the survey alone."""
        ...
