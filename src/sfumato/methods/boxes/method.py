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
from sfumato.methods.boxes.routing import SampledRows, one_block, routes
from sfumato.methods.boxes.rules import Rule, Rules
from sfumato.methods.boxes.search.budget import SearchBudget
from sfumato.methods.boxes.sensitivities import MomentsLookup, kept_statistics, sensitivities
from sfumato.params import Checked, Choice, Number, OrNone, Share, Whole, option, require_number
from sfumato.schema.columns import Role
from sfumato.schema.schema import Schema
from sfumato.survey.questions import MissingIn
from sfumato.table.intervals import BOX, interval_names

if TYPE_CHECKING:
    from sfumato.methods.boxes.routing import Routes
    from sfumato.methods.boxes.sensitivities import Kept, Sensitivities
    from sfumato.randomness import Randomness
    from sfumato.statistics.statistic import Statistic
    from sfumato.survey.survey import Survey


def _require_list(value: object, name: str) -> None:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise OptionError(f"{name} must be a list.", found=type(value).__name__, fix="put it in brackets")


def _require_rules(value: object, name: str) -> None:
    _require_list(value, name)
    assert isinstance(value, Sequence)
    for rule in value:
        Rule.read(rule)


def _require_distances(value: object, name: str) -> None:
    for column, distance in value.items() if isinstance(value, Mapping) else [("", value)]:
        require_number(distance, name=f"{name} {column}".strip(), at_least=0.0)


def _require_domains(value: object, name: str) -> None:
    if not isinstance(value, Mapping):
        raise OptionError(f"{name} must map columns to pairs of numbers.", found=type(value).__name__)
    for column, ends in value.items():
        if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2 or not ends[0] <= ends[1]:
            raise OptionError(f"The {name} of {column!r} must be two numbers, the lower first.")


def _require_search(value: object, name: str) -> None:
    if not isinstance(value, SearchBudget):
        require_number(value, name=name, above=0.0)


@dataclass(frozen=True, kw_only=True)
class Boxes(Method):
    """Replace each record by a box that at least k records share, cut so that chosen statistics stay accurate.

    A numeric column ``x`` is released as ``x_low`` and ``x_high``, a categorical column as the set of the values in the
    box (or as the node of its tree that covers them), and ``box`` numbers the boxes at random. Sensitive and other
    columns are released as they are. The boxes minimise the uncertainty of the kept statistics (Xiang and Kreinovich).

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20, 21, 22, 40, 41, 42], "income": [10.0, 12.0, 11.0, 30.0, 31.0, 35.0]}
    >>> release = sf.Boxes(k=3, keep=["mean(income)"]).release(people, schema={"age": "quasi", "income": "quasi"})
    >>> release.estimate("mean(income)").low <= 21.5 <= release.estimate("mean(income)").high
    True
    """

    name: ClassVar[str] = "boxes"
    noted: ClassVar[Mapping[str, str]] = {
        "kept": "statistics that were to stay accurate",
        "edges": "how the faces of boxes are placed",
        "overlap": "that boxes may overlap, and what is known against it",
    }

    k: int = option(Whole(at_least=2), "Smallest number of records that share a box.", unit="records", reported=True)
    l: int = option(
        Whole(at_least=1),
        "Smallest number of different values of each sensitive column in a box; at most k. Without a sensitive column "
        "it holds for every quasi-identifier. 1 asks for nothing.",
        default=1,
        unit="values",
        reported=True,
    )
    keep: Sequence[str | Statistic] | None = option(
        OrNone(Checked("list of statistics", _require_list)),
        'Statistics to keep accurate, such as ["corr(age, income)", "mean(income)"]. None keeps all means, variances '
        "and correlations of the numeric quasi-identifiers alike.",
        default=None,
        reported=True,
    )
    importance: Sequence[float] | Mapping[str, float] | None = option(
        OrNone(Checked("one number for each kept statistic, in order or by statistic, each at least 0")),
        "How much each kept statistic counts, relative to the others. Equal by default.",
        default=None,
        reported=True,
    )
    accuracy: Sequence[float] | Mapping[str, float] | None = option(
        OrNone(Checked("one number for each kept statistic, in order or by statistic, each above 0")),
        "Accuracy wanted of each kept statistic: the half-width of its interval. By default 10 % of its value or of "
        "its natural scale, whichever is larger.",
        default=None,
        unit="the unit of the statistic",
        reported=True,
    )
    epsilon: float | Mapping[str, float] | None = option(
        OrNone(Checked("number, or one for each named column, at least 0", _require_distances)),
        "Smallest difference at which two numbers count as different values, for l. None counts every difference.",
        default=None,
        unit="the unit of the column",
        reported=True,
    )
    edges: str = option(
        Choice(("hull", "cells")),
        'Where the faces of boxes are placed: "hull" shrinks a box to its records, so that each face is somebody\'s '
        'value; "cells" subdivides the space, with faces between records.',
        default="hull",
        reported=True,
    )
    snap: float | Mapping[str, float] | None = option(
        OrNone(Checked("number, or one for each named column, above 0", require_snap)),
        "Precision to which faces are moved outward, so that they show less of the records. None leaves them.",
        default=None,
        unit="the unit of the column",
        reported=True,
    )
    domain: Mapping[str, tuple[float, float]] | None = option(
        OrNone(Checked("pair of numbers for each named column, the lower first", _require_domains)),
        "Ranges of numeric columns that are public knowledge. The outermost faces of cells lie there.",
        default=None,
        unit="the unit of the column",
    )
    others: float = option(
        Number(at_least=0.0),
        "Importance of each statistic that is not kept, relative to a kept one; used only with keep.",
        default=0.1,
        reported=True,
    )
    suppress: float = option(
        Share(),
        "Largest share of the rows that may be left out instead of making boxes very wide.",
        default=0.0,
        unit="rows",
        reported=True,
    )
    cut: str = option(
        Choice(("width", "median")),
        'How space is cut: "width" by the uncertainty of the kept statistics, "median" as the usual Mondrian does, '
        "for comparison.",
        default="width",
        reported=True,
    )
    categories: str = option(
        Choice(("sets", "tree")),
        'How categories are released: as "sets" of values, or as the node of the column\'s "tree" that covers them.',
        default="sets",
        reported=True,
    )
    search: SearchBudget | float | None = option(
        OrNone(Checked("SearchBudget, or a number above 0", _require_search)),
        "Time to search for narrower boxes than the greedy ones. None does not search.",
        default=None,
        unit="seconds",
        reported=True,
    )
    overlap: str = option(
        Choice(("none", "allowed")),
        'What a search may do: "none" moves cuts only; "allowed" exchanges records, so that boxes may overlap.',
        default="none",
        reported=True,
    )
    rules: Sequence[str] = option(
        Checked("list of rules", _require_rules),
        'What an expert knows, in words: "income matters most when age is young". A rule multiplies the weight of its '
        "column where its condition is true.",
        default=(),
        reported=True,
    )
    words: Words | None = option(
        OrNone(Checked("three or four corners for each word of each column", lambda value, name: require_words(value))),
        "What the words of rules mean: corners of fuzzy sets, by column and word. By default those of the schema, and "
        "else quantiles of the column.",
        default=None,
        unit="the unit of the column",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.l > self.k:
            raise OptionError(
                "l must be at most k: a box of k records holds at most k values.", found=f"{self.l} > {self.k}"
            )
        if self.search is not None and not isinstance(self.search, SearchBudget):
            object.__setattr__(self, "search", SearchBudget(seconds=float(self.search)))
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
        sample, rules = survey.sample.table, [Rule.read(rule) for rule in self.rules]
        passed = schema.names(Role.SENSITIVE, Role.OTHER, Role.WEIGHT)
        numeric = [column.name for column in schema.columns if sample.kinds[column.name].is_numeric]
        answers = survey.ask(
            [
                *Axes.questions(schema, sample.kinds),
                *Rules.questions(rules, sample.kinds),
                *(MissingIn(name) for name in numeric),
            ]
        )
        axes = Axes.of(answers, sample, schema)
        self._require_columns(axes, schema)
        kept = self._kept(axes, schema, numeric)
        missing = {name: answers[MissingIn(name)] for name in numeric}
        weight = next(iter(schema.names(Role.WEIGHT)), None)
        moments_of = MomentsLookup.ask(survey, kept, [axis.name for axis in axes.numbers], missing, weight)
        weights = sensitivities(kept, axes, moments_of, named=self.keep is not None, others=self.others)
        if rules:
            words: Words = {column.name: column.words for column in schema.columns} | dict(self.words or {})
            weights = replace(weights, rules=Rules.of(rules, words, axes, answers, sample.kinds))
        diversity = DiversityRule.of(self.l, self.epsilon, schema, sample.kinds)
        return BoxesPlan(
            options=self,
            axes=axes,
            kept=kept,
            sensitivities=weights,
            diversity=diversity,
            edges=Edges(kind=self.edges, snap=self.snap, domain=self.domain or {}),
            routes=self._routes(survey, axes, weights, diversity),
            passed=passed,
            randomness=randomness,
            types={axis.name: sample.arrow.schema.field(axis.name).type for axis in axes.numbers},
        )

    def _kept(self, axes: Axes, schema: Schema, numeric: Sequence[str]) -> tuple[Kept, ...]:
        """The statistics to keep, all of numeric columns."""
        names = [column.name for column in schema.columns]
        numbers = [axis.name for axis in axes.numbers]
        kept = kept_statistics(self.keep, self.importance, self.accuracy, names, numbers)
        for one in kept:
            others = [name for name in one.statistic.columns if name not in numeric]
            if others:
                raise StatisticError(
                    f"{one.statistic} needs numeric columns.", found=f"{', '.join(map(repr, others))}, not numeric"
                )
        return kept

    def _routes(self, survey: Survey, axes: Axes, weights: Sensitivities, diversity: DiversityRule) -> Routes:
        """The first cuts, taken on the sample, so that the blocks have about the size that the engine wants."""
        if survey.block_rows is None or survey.block_rows >= survey.rows:
            return one_block()
        sample = survey.sample
        rows = SampledRows(
            axes.coordinates(sample.table), weights.of(sample.table), diversity.protected(sample.table, axes)
        )
        return routes(rows, max(survey.block_rows, 4 * self.k) * sample.share, 2 * self.k)

    def _require_columns(self, axes: Axes, schema: Schema) -> None:
        """Released names must not meet, and options must name columns that are there."""
        numbers = {axis.name for axis in axes.numbers}
        for named in (self.domain, self.snap):
            for name in named if isinstance(named, Mapping) else ():
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
