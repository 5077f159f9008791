"""Boxes that keep chosen statistics as accurate as the wanted privacy allows (Xiang and Kreinovich)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from sfumato.errors import CannotRelease, OptionError, StatisticError
from sfumato.methods.base import Method
from sfumato.methods.boxes.axes import Axes
from sfumato.methods.boxes.diversity import DiversityRule
from sfumato.methods.boxes.edges import Edges, require_snap
from sfumato.methods.boxes.fuzzy_terms import Words, require_words
from sfumato.methods.boxes.plan import BoxesPlan
from sfumato.methods.boxes.routing import one_block, routes
from sfumato.methods.boxes.rules import Rule, Rules
from sfumato.methods.boxes.search.budget import Rounds, Seconds
from sfumato.methods.boxes.sensitivities import kept_statistics, sensitivities
from sfumato.params import require_choice, require_int, require_number, require_share
from sfumato.schema.schema import Role, Schema
from sfumato.table.intervals import BOX, interval_names

if TYPE_CHECKING:
    from sfumato.randomness import Randomness
    from sfumato.statistics.statistic import Statistic
    from sfumato.survey.survey import Survey


@dataclass(frozen=True, kw_only=True)
class Boxes(Method):
    """Replace each record by a box that at least k records share, the boxes cut so that kept statistics stay narrow.

    Numeric columns leave as ``x_low`` and ``x_high``, categories as the set of values in the box (or the covering node
    of their tree), and ``box`` numbers the boxes at random. Sensitive and other columns leave as they are.
    """

    name: ClassVar[str] = "boxes"

    k: int  # least number of records that share a box
    l: int = 1  # least number of different values of each protected column in a box
    keep: Sequence[str | Statistic] | None = (
        None  # statistics to keep accurate; None: all means, variances, correlations
    )
    importance: Sequence[float] | Mapping[str, float] | None = None  # p_C of each kept statistic; equal by default
    accuracy: Sequence[float] | Mapping[str, float] | None = None  # Δ0_C wanted, in its unit; 10 % by default
    epsilon: float | Mapping[str, float] | None = None  # how far apart two numbers must be to count as different
    edges: str = "hull"  # "hull": shrunk to the records; "cells": a true subdivision with faces between records
    snap: float | Mapping[str, float] | None = None  # precision to which faces move outward
    domain: Mapping[str, tuple[float, float]] | None = None  # declared ranges of numeric columns
    others: float = 0.1  # importance of each statistic that is not named; only where ``keep`` is given
    suppress: float = 0.0  # share of rows that may go instead of blowing up boxes
    cut: str = "width"  # "width": by the kept statistics; "median": the usual Mondrian, as a yardstick
    categories: str = "sets"  # "sets" of values, or nodes of the "tree" where a column has one
    search: Seconds | Rounds | None = None  # time to look for better boxes than the greedy ones; a number is seconds
    overlap: str = "none"  # what a search may do: "none": move cuts; "allowed": exchange records, so that boxes overlap
    rules: Sequence[str] = ()  # what an expert knows: "income matters most when age is young"
    words: Words | None = None  # corners of fuzzy sets, by column and word; else from the schema, else quantiles

    def __post_init__(self) -> None:
        require_int(self.k, name="k", at_least=2)
        require_int(self.l, name="l", at_least=1)
        if self.l > self.k:
            raise OptionError(
                "l must be at most k: a box of k records holds at most k values.", found=f"{self.l} > {self.k}"
            )
        require_choice(self.edges, name="edges", choices=("hull", "cells"))
        require_choice(self.cut, name="cut", choices=("width", "median"))
        require_choice(self.categories, name="categories", choices=("sets", "tree"))
        require_choice(self.overlap, name="overlap", choices=("none", "allowed"))
        self._check_search()
        if isinstance(self.rules, str):
            raise OptionError("rules must be a list of rules.", found="a text", fix="put it in brackets")
        for rule in self.rules:
            Rule.read(rule)
        require_words(self.words or {})
        require_number(self.others, name="others", at_least=0.0)
        require_share(self.suppress, name="suppress")
        require_snap(self.snap)
        for name, distance in self.epsilon.items() if isinstance(self.epsilon, Mapping) else [("", self.epsilon)]:
            if distance is not None:
                require_number(distance, name=f"epsilon {name}".strip(), at_least=0.0)
        if isinstance(self.keep, str):
            raise OptionError("keep must be a list of statistics.", found="a text", fix="put it in brackets")
        for name, domain in (self.domain or {}).items():
            if len(domain) != 2 or not domain[0] <= domain[1]:
                raise OptionError(f"The domain of {name!r} must be two numbers, the lower first.")

    def _check_search(self) -> None:
        if self.search is not None and not isinstance(self.search, Seconds | Rounds):
            object.__setattr__(self, "search", Seconds(require_number(self.search, name="search", above=0.0)))
        if self.search is not None and self.overlap == "allowed" and self.edges == "cells":
            raise OptionError(
                "Boxes that overlap have no cells.", found="overlap='allowed' with edges='cells'", fix="edges='hull'"
            )

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> BoxesPlan:
        if survey.rows < self.k:
            raise CannotRelease(
                f"A release with k = {self.k} needs at least {self.k} rows.",
                found=f"{survey.rows:,}",
                fix="a smaller k",
            )
        axes = Axes.of(survey, schema)
        self._require_columns(axes, schema)
        weight = next(iter(schema.names(Role.WEIGHT)), None)
        passed = schema.names(Role.SENSITIVE, Role.OTHER, Role.WEIGHT)
        sample = survey.sample([column.name for column in schema.columns])
        numeric = [name for name in sample.names if sample.kinds[name].is_numeric]
        kept = kept_statistics(
            self.keep, self.importance, self.accuracy, sample.names, [axis.name for axis in axes.numbers]
        )
        for one in kept:
            non_numeric = [name for name in one.statistic.columns if name not in numeric]
            if non_numeric:
                raise StatisticError(
                    f"{one.statistic} needs numbers, but {', '.join(map(repr, non_numeric))} has none."
                )
        weights = sensitivities(kept, axes, survey, named=self.keep is not None, others=self.others, weight=weight)
        if self.rules:
            read = [Rule.read(rule) for rule in self.rules]
            words: Words = {column.name: column.words for column in schema.columns} | dict(self.words or {})
            weights = replace(weights, rules=Rules.of(read, words, axes, survey, sample.kinds))
        diversity = DiversityRule.of(self.l, self.epsilon, schema, sample.kinds)
        block = survey.block_rows
        split = block is not None and block < survey.rows
        return BoxesPlan(
            options=self,
            axes=axes,
            kept=kept,
            sensitivities=weights,
            diversity=diversity,
            edges=Edges(kind=self.edges, snap=self.snap, domain=self.domain or {}),
            routes=routes(axes.coordinates(sample), weights.of(sample), max(block or 0, 4 * self.k), 2 * self.k)
            if split
            else one_block(),
            passed=passed,
            randomness=randomness,
            types={axis.name: sample.arrow.schema.field(axis.name).type for axis in axes.numbers},
        )

    def _require_columns(self, axes: Axes, schema: Schema) -> None:
        """Released names must not meet, and options must name columns that are there."""
        numbers = {axis.name for axis in axes.numbers}
        for option in (self.domain, self.snap):
            for name in option if isinstance(option, Mapping) else ():
                if name not in numbers:
                    raise OptionError(f"{name!r} is named in the options but is no numeric quasi-identifier.")
        names = [column.name for column in schema.columns]
        made = [part for name in numbers for part in interval_names(name, counts_missing=True)] + [BOX]
        clash = sorted(set(made) & set(names))
        if clash:
            raise OptionError(
                "The columns that boxes leave as must have names of their own.",
                found=f"already a column {', '.join(map(repr, clash))}",
                fix="rename the column",
            )
