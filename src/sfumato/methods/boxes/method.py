"""The method Boxes: boxes of at least k records that keep chosen statistics accurate (Xiang and Kreinovich)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import pyarrow.types as pt

from sfumato.errors import OptionError, StatisticError
from sfumato.methods.base import Method, choose_l, default_questions, require_enough_values, require_rows
from sfumato.methods.boxes.axes import Axes
from sfumato.methods.boxes.diversity import DiversityRule
from sfumato.methods.boxes.edges import Edges, require_snap
from sfumato.methods.boxes.partition import SampledRows, routes
from sfumato.methods.boxes.plan import BoxesPlan
from sfumato.methods.boxes.rules import Rule, Rules, Words, require_words
from sfumato.methods.boxes.sensitivities import (
    ACCURACY,
    AllStatistics,
    Kept,
    MomentsLookup,
    Sensitivities,
    sensitivities,
    statistics_to_keep,
)
from sfumato.methods.options import (
    SpectralBasis,
    basis_option,
    budget_option,
    group_size_option,
    reported_option,
)
from sfumato.methods.partition import Routes, least_sampled, one_block
from sfumato.methods.search_budget import SearchBudget
from sfumato.params import Checked, Choice, OrNone, Share, Whole, option, require_list, require_number
from sfumato.plan.questions import MissingIn
from sfumato.schema.columns import Role, nearest
from sfumato.schema.schema import Schema
from sfumato.statistics.language import parse
from sfumato.table.intervals import require_free_names
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from sfumato.methods.boxes.aimed import AimedStatistics
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.statistics.statistic import Statistic

log = logging.getLogger("sfumato")


def _log_diversity(diversity: DiversityRule, *, is_default: bool) -> None:
    if diversity.l > 1:
        log.info(
            "l = %d%s: every box has at least %d different values of %s",
            diversity.l,
            " (the default where a column is sensitive)" if is_default else "",
            diversity.l,
            ", ".join(map(repr, diversity.columns)),
        )


def _is_zero_or_one(sample: Table, name: str) -> bool:
    """Return whether a column holds the numbers 0 and 1, and not the words true and false."""
    return name in sample.kinds and pt.is_integer(sample.arrow.schema.field(name).type)


def _require_rules(value: object, name: str) -> None:
    require_list(value, name)
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
            raise OptionError(f"The {name} of {column!r} must be two numbers, the smaller first.")


@dataclass(frozen=True, kw_only=True)
class Boxes(Method):
    """Replace each record by a box that at least k records share, chosen so that the kept statistics stay accurate.

    A numeric column ``x`` is released as ``x_low`` and ``x_high``, a categorical column as the set of the values in the
    box (or as the tree node that covers them). The column ``box`` numbers the boxes in random order. Columns that are
    not quasi-identifiers are released as they are, except identifiers, which are removed, and sampling weights, which
    become the mean and the range of their box. The boxes minimise the uncertainty of the kept statistics (Xiang and
    Kreinovich).

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20, 21, 22, 40, 41, 42], "income": [10.0, 12.0, 11.0, 30.0, 31.0, 35.0]}
    >>> release = sf.Boxes(k=3, keep=["mean(income)"]).release(people, schema={"age": "quasi", "income": "quasi"})
    >>> release.estimate("mean(income)").low <= 21.5 <= release.estimate("mean(income)").high
    True
    """

    name: ClassVar[str] = "boxes"
    theory: ClassVar[str] = "boxes"
    one_row_per_person: ClassVar[bool] = True
    block_effect: ClassVar[str] = (
        "the first cuts are chosen from a sample; each block is then cut as in memory, so no box crosses a block"
    )
    manifest_notes: ClassVar[Mapping[str, str]] = {
        "kept": "statistics that were kept accurate",
        "edges": "where the faces of boxes are placed",
        "basis": "basis along whose directions boxes were cut",
        "overlap": "a warning that boxes may overlap",
        "l": "smallest number of different values of each protected column in a box",
        "protected by l": "columns that have at least l different values in every box",
    }

    k: int = group_size_option("Smallest number of records that share a box.", at_least=2, unit="records")
    l: int | None = reported_option(
        OrNone(Whole(at_least=1)),
        "Smallest number of different values of each sensitive column in a box, at most k. Boxes are cut by the "
        "quasi-identifiers alone and joined where they lack values, and a few others at random, so that the boxes tell "
        "nobody's value. Without a sensitive column it applies to every quasi-identifier. None: 2 if there is a "
        "sensitive column, else 1. 1: no requirement.",
        default=None,
        unit="values",
    )
    slack: int = reported_option(
        Whole(at_least=0),
        "Number of records that each box has beyond k, for a ledger: so many people of a box may leave before fewer "
        "than k are left.",
        default=0,
        unit="records",
    )
    sequence: str = reported_option(
        Choice(("people", "values")),
        'What everybody keeps over all releases of a ledger: "people", k people with l values who fit all of them; '
        '"values", only l values, and k people in each release by itself. The second is weaker and needs a sensitive '
        "column and l of at least 2; where people leave, it holds far fewer rows back.",
        default="people",
    )
    keep: Sequence[str | Statistic] | None = reported_option(
        OrNone(Checked("list of statistics", require_list)),
        'Statistics to keep accurate, such as ["corr(age, income)", "mean(income)", "logistic(died ~ age)"]: functions '
        "of moments, shares, means of groups, differences, ratios, odds ratios and models. None: all means, variances "
        "and correlations of the numeric quasi-identifiers, with equal importance.",
        default=None,
    )
    importance: Sequence[float] | Mapping[str, float] | None = reported_option(
        OrNone(Checked("one number for each kept statistic, in order or by statistic, each at least 0")),
        "Relative importance of each kept statistic. None: all are equally important.",
        default=None,
    )
    accuracy: Sequence[float] | Mapping[str, float] | None = reported_option(
        OrNone(Checked("one number for each kept statistic, in order or by statistic, each above 0")),
        "Wanted accuracy of each kept statistic: the half-width of its interval. None: 10 % of its natural scale, such "
        "as 10 % of the column's standard deviation for a mean, or 0.1 for a correlation.",
        default=None,
        unit="the unit of the statistic",
    )
    diverse: Literal["sensitive", "all"] = reported_option(
        Choice(("sensitive", "all")),
        'Columns of which each box has at least l values: the "sensitive" ones, or every quasi-identifier if there is '
        'none; or "all" of them, sensitive columns and quasi-identifiers, numbers and categories.',
        default="sensitive",
    )
    epsilon: float | Mapping[str, float] | None = reported_option(
        OrNone(Checked("number, or one for each named column, at least 0", _require_distances)),
        "Smallest difference that counts as a different value of a numeric column, for l. None: every difference "
        "counts.",
        default=None,
        unit="the unit of the column",
    )
    edges: str = reported_option(
        Choice(("hull", "cells")),
        'Where the faces of boxes are placed: "hull" shrinks a box to its records, so that each face is the value of a '
        'record; "cells" divides the whole space, with faces between the records or at values that at least k records '
        "share.",
        default="hull",
    )
    snap: float | Mapping[str, float] | None = reported_option(
        OrNone(Checked("number, or one for each named column, above 0", require_snap)),
        "Precision to which faces are rounded outward, so that they reveal less about the records. None: no rounding.",
        default=None,
        unit="the unit of the column",
    )
    domain: Mapping[str, tuple[float, float]] | None = option(
        OrNone(Checked("pair of numbers for each named column, the smaller first", _require_domains)),
        "Publicly known ranges of numeric columns. The outermost faces of cells are placed there. None: the domains of "
        "the schema or, without them, round numbers outside the data (or an extreme that at least k records share).",
        default=None,
        unit="the unit of the column",
    )
    others: float = reported_option(
        Share(below_one=True),
        "Share of the whole weight that all columns without a kept statistic get together, however many they are. 0: "
        "their boxes may be as wide as their range. Used only with keep.",
        default=0.1,
        unit="the weight",
    )
    suppress: float = reported_option(
        Share(), "Largest share of the rows that may be suppressed to avoid very wide boxes.", default=0.0, unit="rows"
    )
    cut: str = reported_option(
        Choice(("width", "median")),
        'How the space is cut: "width" to minimise the uncertainty of the kept statistics, or "median" as in the '
        "Mondrian algorithm, for comparison.",
        default="width",
    )
    categories: str = reported_option(
        Choice(("sets", "tree")),
        'How categories are released: as "sets" of values, or as the node of the column\'s generalization "tree" that '
        'covers them. With "tree", columns with a tree are also cut by it: boxes have narrow nodes, and numbers and '
        "dates are released as the intervals of nodes.",
        default="sets",
    )
    set_names: int | None = reported_option(
        OrNone(Whole(at_least=1)),
        'Largest number of names in a released set. A set of more is released as "(any)", which stands for any value '
        'of the column except a missing one; "(missing)" is added where it occurs. A column of two names is not '
        "affected. None: no limit.",
        default=50,
        unit="names",
    )
    sampling_weights: str = reported_option(
        Choice(("box-mean", "exact")),
        'How a column with the role weight is released. "box-mean": every row has the mean weight of its box, and the '
        "range of its weights rounded outward to three digits, so that a weight singles out nobody and the total of "
        'each box is kept; statistics stay guaranteed for the original weights. "exact": as it is, '
        "with a warning that tells how many weights are unique.",
        default="box-mean",
    )
    search: SearchBudget | float | None = budget_option(
        "Time limit of a search for boxes that are narrower than those of the greedy partition. None: no search."
    )
    overlap: str = reported_option(
        Choice(("none", "allowed")),
        'What the search may change: "none" moves cuts only, so that boxes do not overlap; "allowed" exchanges records '
        "between boxes, so that boxes may overlap and become narrower.",
        default="none",
    )
    basis: SpectralBasis = basis_option(
        "Numbers are cut along the components, with oblique cuts, and categories as they are. Boxes are released as "
        "hulls in the columns, which hold their records but may overlap. Not with cells, trees, a search or a ledger."
    )
    rules: Sequence[str] = reported_option(
        Checked("list of rules", _require_rules),
        'Expert rules in words, such as "income matters most when age is young". A rule changes the importance of its '
        "column for the records for which its condition is true.",
        default=(),
    )
    words: Words | None = option(
        OrNone(Checked("three or four corners for each word of each column", lambda value, name: require_words(value))),
        "Meanings of the words in rules: the corners of fuzzy sets, by column and word. None: those of the schema or, "
        "without them, quantiles of the column.",
        default=None,
        unit="the unit of the column",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.l is not None and self.l > self.k:
            raise OptionError(
                "l must be at most k, because a box of k records has at most k values.",
                found=f"l = {self.l}, k = {self.k}",
            )
        object.__setattr__(self, "search", None if self.search is None else SearchBudget.of(self.search))
        if self.search is None and self.overlap == "allowed":
            raise OptionError(
                "Boxes overlap only after a search.", found="overlap='allowed' without search", fix="search=60"
            )
        if self.search is not None and self.overlap == "allowed" and self.edges == "cells":
            raise OptionError(
                "Boxes that may overlap must have edges='hull'.", found="overlap='allowed' with edges='cells'"
            )

        cut_by_columns = self.edges == "cells" or self.categories == "tree" or self.search is not None
        if self.basis != "columns" and cut_by_columns:
            raise OptionError(
                "Cells, trees and searches place cuts at values of columns, and components have none.",
                found=f"basis={self.basis!r}, edges={self.edges!r}, categories={self.categories!r}, "
                f"{'no' if self.search is None else 'a'} search",
                fix='basis="columns"; or edges="hull", categories="sets" and no search',
            )

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> BoxesPlan:
        require_rows(survey.rows, self.k + self.slack)
        if self.l and survey.sample.is_whole:
            require_enough_values(self.l, schema, survey.sample.table)
        sample, rules = self._count_booleans(survey.sample.table), [Rule.read(rule) for rule in self.rules]
        by_tree = self.categories == "tree"
        numeric = [column.name for column in schema.columns if sample.kinds[column.name].is_numeric]
        answers = survey.ask(
            [
                *Axes.questions(schema, sample.kinds, by_tree=by_tree),
                *(Rules.questions(rules, sample.kinds) if rules else ()),
                *(MissingIn(name) for name in numeric),
                *default_questions(self.l, schema),
            ]
        )
        axes = Axes.of(answers, sample, schema, by_tree=by_tree)
        self._require_columns(axes, schema)
        kept = self._statistics_to_keep(axes, schema, numeric)
        missing = {name: answers[MissingIn(name)] for name in numeric}
        weight = next(iter(schema.names(Role.WEIGHT)), None)
        numbers = [axis.name for axis in axes.numbers]
        of_moments = [one for one in kept if one.statistic.is_characteristic]
        aimed = self._aim([one for one in kept if not one.statistic.is_characteristic], axes, sample, weight)
        moments_of = MomentsLookup.ask(survey, [one.statistic for one in of_moments], numbers, missing, weight)
        is_every = not kept and self.keep is None and bool(numbers)
        every = AllStatistics.of(numbers, moments_of, sample, ACCURACY) if is_every else None
        others = None if self.keep is None else self.others
        weights = sensitivities(of_moments, axes, moments_of, others=others, every=every, aimed=aimed)
        if rules:
            words: Words = {column.name: column.words for column in schema.columns} | dict(self.words or {})
            bound = Rules.of(rules, words, axes, answers, sample.kinds)
            if survey.sample.is_whole:
                bound.require_true(sample)
            weights = replace(weights, rules=bound)
        l = choose_l(self.l, self.k, survey.rows, schema, answers)
        diversity = DiversityRule.of(l, self.epsilon, schema, sample.kinds, every=self.diverse == "all")
        _log_diversity(diversity, is_default=self.l is None)
        return BoxesPlan(
            options=self,
            axes=axes,
            kept=kept,
            sensitivities=weights,
            diversity=diversity,
            edges=Edges(kind=self.edges, k=self.k, snap=self.snap, domain=self.domain or {}, randomness=randomness),
            routes=self._routes(survey, axes, weights, diversity),
            passed=schema.names(Role.SENSITIVE, Role.OTHER, *(() if self._pools else (Role.WEIGHT,))),
            pooled=weight if self._pools else None,
            randomness=randomness,
            types={axis.name: sample.arrow.schema.field(axis.name).type for axis in axes.numbers},
        )

    @property
    def _pools(self) -> bool:
        return self.sampling_weights == "box-mean"

    def _count_booleans(self, sample: Table) -> Table:
        """Return the table with boolean columns that a kept statistic uses as numbers, 0 and 1."""
        statistics = [parse(text, names=sample.names) for text in self.keep or ()]
        used = {name for one in statistics if one.is_characteristic for name in one.columns}
        used |= {name for one in statistics for name in one.columns if _is_zero_or_one(sample, name)}
        booleans = {name for name in used if sample.kinds.get(name) is Kind.BOOLEAN}
        return Table(sample.arrow, {**sample.kinds, **dict.fromkeys(booleans, Kind.WHOLE)}) if booleans else sample

    def _aim(self, kept: Sequence[Kept], axes: Axes, sample: Table, weight: str | None) -> AimedStatistics | None:
        """Return the function of rows for kept statistics that are no functions of moments, or None without them."""
        if not kept:
            return None
        from sfumato.methods.boxes.aimed import AimedStatistics

        return AimedStatistics.of(kept, axes, sample, weight)

    def _statistics_to_keep(self, axes: Axes, schema: Schema, numeric: Sequence[str]) -> tuple[Kept, ...]:
        """Return the statistics to keep; raise unless all their columns are numeric."""
        names = [column.name for column in schema.columns]
        numbers = [axis.name for axis in axes.numbers]
        kept = statistics_to_keep(self.keep, self.importance, self.accuracy, names, numbers)
        for one in kept:
            others = [name for name in one.statistic.columns if name not in numeric]
            if others and one.statistic.is_characteristic:
                raise StatisticError(
                    f"The columns of {one.statistic} must be numeric.",
                    found=f"{', '.join(map(repr, others))}",
                    fix=f"statistics of numbers; of categories, counts are estimated after the release: "
                    f"count({others[0]} = VALUE)",
                )
        return kept

    def _routes(self, survey: Survey, axes: Axes, weights: Sensitivities, diversity: DiversityRule) -> Routes:
        """Make the first cuts on the sample, so that blocks have about the size that the engine wants."""
        if survey.block_rows is None or survey.block_rows >= survey.rows:
            return one_block()
        sample = survey.sample
        rows = SampledRows(
            axes.coordinates(sample.table), weights.of(sample.table), diversity.protect(sample.table, axes), axes
        )
        most = max(survey.block_rows, 4 * self.k) * sample.share
        return routes(rows, most, least_sampled(self.k, sample.share))

    def _require_columns(self, axes: Axes, schema: Schema) -> None:
        """Raise unless the options name existing columns and the released names are free."""
        numbers = {axis.name for axis in axes.numbers}
        for name in self.words or {}:
            if name not in schema:
                known = [column.name for column in schema.columns]
                raise OptionError(f"words must name columns of the table, not {name!r}.", found=nearest(name, known))
        for named in (self.domain, self.snap):
            for name in named if isinstance(named, Mapping) else ():
                if name not in numbers:
                    raise OptionError("domain and snap must name numeric quasi-identifiers.", found=repr(name))
        pooled = schema.names(Role.WEIGHT) if self._pools else ()
        require_free_names({*numbers, *pooled}, [column.name for column in schema.columns])
