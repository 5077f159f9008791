"""Global recoding: one level per column, found by a search of the combinations of levels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.disclosure.sensitive_counts import SensitiveCounts
from sfumato.errors import CannotRelease, TableError
from sfumato.methods.claims import KMap, PopulationGroups
from sfumato.methods.classical.level_judge import LevelJudge, Loss
from sfumato.methods.recodings.lattice_search import Clock, FoundLevels, Judged, descend, search_levels
from sfumato.methods.recodings.level_lattice import Levels, chosen_levels
from sfumato.methods.recodings.promises import truth_of
from sfumato.methods.recodings.recoding import Recoding, RecodingPlan
from sfumato.schema.schema import Schema
from sfumato.survey.survey import blocks_wanted
from sfumato.table.group_counts import GroupCounts, KeyedGroups
from sfumato.table.groups import first_rows, group_labels
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.claims import Claim
    from sfumato.methods.classical.group_rules import GroupRules
    from sfumato.methods.recodings.quasi_columns import QuasiColumns
    from sfumato.survey.survey import Survey

MOST_COMBINATIONS = 1 << 19  # that are listed; of larger lattices, some levels are left out at first


class RecodeOptions(Protocol):
    """The options of ``Recode`` that global recoding reads; they are explained there."""

    @property
    def k(self) -> int: ...
    @property
    def suppress(self) -> float: ...
    @property
    def loss(self) -> Loss: ...
    @property
    def population(self) -> Any: ...
    @property
    def search(self) -> float: ...


@dataclass(frozen=True, kw_only=True, repr=False)
class GlobalPlan(RecodingPlan):
    """Recode every column at its level, and suppress the groups that break a rule."""

    rules: GroupRules
    population: PopulationGroups | None = None

    def kept(self, released: Table) -> NDArray[np.bool_]:
        """Mark the rows in groups that the rules allow."""
        names = self.released_names(self.quasi)
        labels = group_labels(released, names)
        sizes = np.bincount(labels)
        columns = self.rules.columns_of(released)
        counted = [(one.rule, SensitiveCounts.of(labels, one.codes, len(one.values)), one.values) for one in columns]
        people = None
        if self.population is not None:
            groups = KeyedGroups.of(released, names)
            people = np.zeros(len(sizes), dtype=np.int64)
            people[labels[first_rows(groups.labels)]] = self.population.people(GroupCounts.of(groups))
        return np.asarray(self.rules.allowed(sizes, counted, people)[labels])


def global_plan(options: RecodeOptions, columns: QuasiColumns, rules: GroupRules, survey: Survey) -> GlobalPlan:
    """Find the best combination of levels, and return the plan that applies it."""
    people = None if options.population is None else _known_people(columns, options.population)
    values = None if people is None else [_values_of(columns, people, name) for name in columns.names]
    if columns.names:
        judge = LevelJudge(
            columns.groupings,
            rules,
            rules.columns_of(columns.sample.table),
            loss=options.loss,
            suppress=options.suppress,
            people=values,
        )
        found = _searched(columns, judge, rules.is_monotone or options.suppress == 0.0, Clock(options.search))
    else:
        found = FoundLevels(levels=(), loss=0.0, counted=0, is_best=True)
    if found.levels is None:
        raise CannotRelease(
            "There must be a combination of levels that keeps all promises.",
            found=f"none, even if every column tells nothing, with at most {options.suppress:.2%} suppressed",
            fix="weaker promises, a larger share of suppressed rows, or fewer sensitive columns",
        )
    made = [column.recode(column.levels[level]) for column, level in zip(columns.groupings, found.levels, strict=True)]
    return _plan(options, columns, rules, survey, [one for one in made if one is not None], found, people)


def _searched(columns: QuasiColumns, judge: LevelJudge, is_monotone: bool, clock: Clock) -> FoundLevels:
    """Search all combinations of levels; of too many, first those of some levels, and then the neighbours."""
    groupings = columns.groupings
    top = tuple(len(column.levels) - 1 for column in groupings)
    kept = chosen_levels(groupings, MOST_COMBINATIONS)
    if kept is None:
        return descend(top, judge.order, judge, clock)
    order = [of_column[some] for of_column, some in zip(judge.order, kept, strict=True)]

    def judged(places: Levels) -> Judged:
        return judge(tuple(some[place] for some, place in zip(kept, places, strict=True)))

    found = search_levels(order, judged, has_floors=judge.has_floors, is_monotone=is_monotone, clock=clock)
    if found.levels is None or math.prod(map(len, kept)) == math.prod(len(one.levels) for one in groupings):
        return found
    start = tuple(some[place] for some, place in zip(kept, found.levels, strict=True))
    return descend(start, judge.order, judge, clock)


def _plan(
    options: RecodeOptions,
    columns: QuasiColumns,
    rules: GroupRules,
    survey: Survey,
    recodings: Sequence[Recoding],
    found: FoundLevels,
    people: Table | None,
) -> GlobalPlan:
    by_name = {recoding.name: recoding for recoding in recodings}
    shown = tuple(
        released
        for name in columns.names
        for released in (by_name[name].released_names if name in by_name else (name,))
    )
    population = None if people is None else PopulationGroups(_recoded_groups(people, columns.names, by_name))
    claims: tuple[Claim[Any], ...] = rules.claims(shown)
    if population is not None:
        claims = (KMap(k=options.k, columns=shown, population=population), *claims[1:])
    notes: dict[str, Any] = {
        "loss": round(found.loss, 6),
        "levels": dict(zip(columns.names, found.levels or (), strict=True)),
        "combinations": math.prod(len(column.levels) for column in columns.groupings) if columns.names else 1,
        "combinations counted": found.counted,
        "best of all combinations": found.is_best,
    }
    if options.loss == "granularity":
        notes["granularity"] = round(1.0 - found.loss, 6)
    return GlobalPlan(
        columns=tuple(column.name for column in columns.schema.columns),
        quasi=columns.names,
        recodings=tuple(recodings),
        promises=(*claims, *truth_of(recodings)),
        method_notes=notes,
        within=options.k,
        suppressed_at_most=options.suppress,
        parts=blocks_wanted(survey),
        rules=rules,
        population=population,
    )


def _known_people(columns: QuasiColumns, population: Table) -> Table:
    """Return the rows of the population whose values all occur in the table."""
    absent = [name for name in columns.names if name not in population.names]
    if absent:
        raise TableError(
            "The population must have all quasi-identifiers.", found=f"no column {', '.join(map(repr, absent))}"
        )
    quasi = Schema(tuple(columns.schema[name] for name in columns.names))
    people = quasi.apply(population.select(columns.names))
    known = np.ones(people.rows, dtype=bool)
    for name in columns.names:
        known &= _values_of(columns, people, name) >= 0
    return people.take(np.flatnonzero(known))


def _values_of(columns: QuasiColumns, people: Table, name: str) -> NDArray[np.int32]:
    """Return the position of each person's value among the values of the table; −1 if it is none of them."""
    coded, ours = people.coded(name), columns.sample.table.coded(name)
    try:
        same = coded.values.cast(ours.values.type)
    except pa.ArrowInvalid:  # its message quotes a cell
        same = None
    if same is None:
        raise TableError(
            f"Column {name!r} of the population must have the type of the table.",
            found=f"type {coded.values.type}, and {ours.values.type} in the table",
        )
    place = pc.fill_null(pc.index_in(same, value_set=ours.values), -1).to_numpy(zero_copy_only=False)
    row = first_rows(ours.codes.astype(np.int64))
    column = columns.groupings[columns.names.index(name)]
    return np.where(place < 0, -1, column.value_of_row[row[place]]).astype(np.int32)[coded.codes]


def _recoded_groups(people: Table, names: Sequence[str], by_name: dict[str, Recoding]) -> GroupCounts:
    """Count the people of each group, after the recoding."""
    cells: dict[str, pa.Array] = {}
    kinds = {}
    for name in names:
        if name in by_name:
            for one in by_name[name].show(by_name[name].codes(people)):
                cells[one.name], kinds[one.name] = one.cells, one.kind
        else:
            cells[name], kinds[name] = people.arrow.column(name), people.kinds[name]
    table = Table(pa.table(cells), kinds)
    return GroupCounts.of(KeyedGroups.of(table, tuple(cells)))
