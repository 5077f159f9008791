"""Recoding over generalization trees: the best combination of levels, or the best node for each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sfumato.errors import OptionError
from sfumato.methods.base import Method, require_rows
from sfumato.methods.options import (
    diversity_option,
    group_size_option,
    importance_option,
    reported_option,
    require_levels,
    search_option,
)
from sfumato.methods.recode.global_recoding import LOSSES, Loss
from sfumato.methods.recodings.group_rules import DISTANCES, DIVERSITY_KINDS, Distance, DiversityKind, make_rules
from sfumato.methods.recodings.quasi_columns import QuasiColumns
from sfumato.params import Checked, Choice, Number, OrNone, Probability, Share, Tabular, option
from sfumato.plan.plan import Plan
from sfumato.plan.survey import Survey, is_whole
from sfumato.sources.frames import as_table

if TYPE_CHECKING:
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema

Kind = Literal["global", "local"]
KINDS: tuple[Kind, ...] = ("global", "local")


@dataclass(frozen=True, kw_only=True)
class Recode(Method):
    """Generalize quasi-identifiers over their trees until every group of equal rows keeps the promised models.

    kind="global" uses one level per column and suppresses at most a share ``suppress`` of the rows: the combination of
    levels with the smallest ``loss``, exactly, unless the time is over first. kind="local" gives each row the
    lowest nodes that it shares with at least k − 1 others. It loses much less and suppresses nothing, but nodes of
    different groups may contain each other.

    Columns without a tree are grouped automatically: numbers and ordered categories at their quantiles, other
    categories by pooling the rare ones (global) or by "*" (local).

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": list(range(20, 80)), "city": ["Ulm", "Rom"] * 30}
    >>> schema = {"age": {"role": "quasi", "tree": "steps:5,10,20"}, "city": "quasi"}
    >>> release = sf.Recode(k=5).release(people, schema=schema)
    >>> sorted(set(release.table.arrow.column("age").to_pylist()))
    ['20–29', '30–39', '40–49', '50–59', '60–69', '70–79']
    >>> [finding.claim for finding in release.findings if finding.kind == "privacy"]
    ['5-anonymous in age, city']
    """

    name: ClassVar[str] = "recode"
    theory: ClassVar[str] = "recoding"
    one_row_per_person: ClassVar[bool] = True
    block_effect: ClassVar[str] = "levels are chosen from a sample; groups of all rows are judged by them"
    manifest_notes: ClassVar[Mapping[str, str]] = {
        "loss": "loss of all rows by the chosen measure; suppressed rows lose everything",
        "granularity": "1 − loss by granularity: share of the values that released cells tell apart, from 0 to 1",
        "levels": "level of each column, 0 for the values themselves",
        "combinations": "number of combinations of levels",
        "combinations counted": "number of combinations that the search counted; the others were ruled out",
        "best of all combinations": "whether the search ruled out every other combination",
        "groups": "number of groups of equal rows (local recoding)",
        "overlap": "whether released nodes may contain each other",
        "columns": "how each column was recoded",
    }

    k: int = group_size_option(
        "Smallest number of rows that must be equal in the quasi-identifiers; with a population, of its rows."
    )
    kind: Kind = reported_option(
        Choice(KINDS),
        'Whether a column has one level for all rows ("global") or each group of rows has its own nodes ("local").',
        default="global",
    )
    suppress: float = reported_option(
        Share(),
        "Largest share of rows that may be suppressed by global recoding; local recoding suppresses none.",
        default=0.05,
        unit="rows",
    )
    loss: Loss = reported_option(
        Choice(LOSSES),
        "What is minimised: values left open (granularity), non-uniform entropy, discernibility, or the average class "
        "size. Local recoding knows granularity and entropy.",
        default="granularity",
    )
    importance: Mapping[str, float] | None = importance_option("Relative importance of each column in the loss.")
    l: int | None = diversity_option()
    l_kind: DiversityKind = reported_option(
        Choice(DIVERSITY_KINDS),
        'How diversity is counted: "distinct" values, exp("entropy"), or "recursive" (c, l)-diversity.',
        default="distinct",
    )
    c: float = reported_option(
        Number(above=0.0),
        "With recursive diversity: the most frequent value is rarer than c times the values from the l-th on.",
        default=3.0,
    )
    t: float | None = reported_option(
        OrNone(Share()),
        "Largest distance between the distributions of a sensitive column in a group and in the release (t-closeness).",
        default=None,
    )
    distance: Distance = reported_option(
        Choice(DISTANCES),
        'Distance that t uses: all values "equal"ly far apart, by their order, or by the tree of the column. "auto": '
        '"ordered" for numbers, dates and ordered categories, otherwise "equal".',
        default="auto",
    )
    average_risk: float | None = reported_option(
        OrNone(Probability()),
        "Largest mean of 1 ÷ group size over the released rows. A risk equal to the limit is allowed.",
        default=None,
    )
    population: Any = option(
        OrNone(Tabular("table with the quasi-identifiers of a population")),
        "Table of the people of a population, among whom k is counted (k-map). None: k is counted in the release.",
        default=None,
    )
    levels: Mapping[str, int] | None = reported_option(
        OrNone(Checked("whole number from 0 for each named column", lambda value, name: require_levels(value))),
        "Level of some columns in global recoding, 0 for their own values; a level above the highest is the highest. "
        "The search chooses those of the other columns. None: those of all columns.",
        default=None,
    )
    search: float = search_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.levels is not None and self.kind == "local":
            raise OptionError("Levels are chosen for global recoding only.", found="kind 'local' with levels")
        if self.population is not None:  # a table shows no cells, whatever frame was given
            object.__setattr__(self, "population", as_table(self.population))
        if self.kind == "local" and self.loss not in ("granularity", "entropy"):
            raise OptionError("Local recoding minimises the granularity or the entropy.", found=f"loss {self.loss!r}")
        if self.kind == "local" and self.population is not None:
            raise OptionError(
                "k can be counted in a population by global recoding only.",
                found="kind 'local' with a population",
                fix="kind='global', or k counted in the release, which protects more",
            )

    @property
    def needs_whole_table(self) -> bool:
        return self.kind == "local" or self.population is not None

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> Plan:
        """Search the recodings, from the survey alone."""
        require_rows(survey.rows, self.k if self.population is None else None)
        columns = QuasiColumns.of(survey, schema, randomness, importance=self.importance)
        rules = make_rules(
            survey,
            schema,
            k=self.k,
            l=self.l,
            l_kind=self.l_kind,
            c=self.c,
            t=self.t,
            distance=self.distance,
            average_risk=self.average_risk,
        )
        if self.kind == "local":
            from sfumato.methods.recode.local_recoding import local_plan

            return local_plan(columns, rules, randomness, loss=self.loss, seconds=self.search)
        from sfumato.methods.recode.global_recoding import global_plan

        return global_plan(
            columns,
            rules if is_whole(survey) else rules.in_blocks(survey, self.suppress),
            loss=self.loss,
            suppress=self.suppress,
            population=self.population,
            levels=self.levels or {},
            seconds=self.search,
            promised=rules,
        ).in_blocks(survey)
