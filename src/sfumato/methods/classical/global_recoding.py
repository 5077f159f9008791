"""Global recoding: one level per column, found by a search of the combinations of levels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.disclosure.sensitive_counts import SensitiveCounts
from sfumato.errors import CannotRelease, TableError
from sfumato.methods.claims import KMap, PopulationGroups
from sfumato.methods.classical.level_judge import Loss, RecodingCost
from sfumato.methods.recodings.level_search import BestLevels, Clock, choose_levels, descend, search_levels
from sfumato.methods.recodings.promises import truth_of
from sfumato.methods.recodings.recoding import Recoding, RecodingPlan, released_columns
from sfumato.schema.schema import Schema
from sfumato.table.group_counts import GroupCounts, KeyedGroups
from sfumato.table.groups import first_rows, group_labels
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.claims import Claim
    from sfumato.methods.classical.group_rules import GroupRules
    from sfumato.methods.recodings.quasi_columns import QuasiColumns

MOST_COMBINATIONS = 1 << 19  # that are listed; of larger lattices, some levels are left out at first


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


def global_plan(
    columns: QuasiColumns,
    rules: GroupRules,
    *,
    loss: Loss,
    suppress: float,
    population: Table | None,
    seconds: float,
    parts: int,
) -> GlobalPlan:
    """Find the best combination of levels, and return the plan that applies it; the options are those of ``Recode``."""
    people = None if population is None else _known_people(columns, population)
    best = _search(columns, rules, people, loss=loss, suppress=suppress, seconds=seconds)
    if best.levels is None:
        raise CannotRelease(
            "There must be a combination of levels that keeps all promises.",
            found=f"none, even if every column tells nothing, with at most {suppress:.2%} suppressed",
            fix="weaker promises, a larger share of suppressed rows, or fewer sensitive columns",
        )
    chosen = [column.recode(column.levels[level]) for column, level in zip(columns.groupings, best.levels, strict=True)]
    recodings = {recoding.name: recoding for recoding in chosen if recoding is not None}
    shown = tuple(chain.from_iterable(released_columns(columns.names, recodings.values()).values()))
    groups = None if people is None else PopulationGroups(_recoded_groups(people, columns.names, recodings))
    claims: tuple[Claim[Any], ...] = rules.claims(shown)
    if groups is not None:
        claims = (KMap(k=rules.k, columns=shown, population=groups), *claims[1:])
    notes: dict[str, Any] = {
        "loss": round(best.loss, 6),
        "levels": dict(zip(columns.names, best.levels, strict=True)),
        "combinations": math.prod(len(column.levels) for column in columns.groupings),
        "combinations counted": best.counted,
        "best of all combinations": best.is_best,
    }
    if loss == "granularity":
        notes["granularity"] = round(1.0 - best.loss, 6)
    return GlobalPlan(
        columns=tuple(column.name for column in columns.schema.columns),
        quasi=columns.names,
        recodings=tuple(recodings.values()),
        promises=(*claims, *truth_of(tuple(recodings.values()))),
        method_notes=notes,
        within=rules.k,
        suppressed_at_most=suppress,
        parts=parts,
        rules=rules,
        population=groups,
    )


def _search(
    columns: QuasiColumns, rules: GroupRules, people: Table | None, *, loss: Loss, suppress: float, seconds: float
) -> BestLevels:
    """Search all combinations of levels; of too many, first those of some levels, and then the neighbours."""
    groupings, clock = columns.groupings, Clock(seconds)
    if not groupings:
        return BestLevels(levels=(), loss=0.0, counted=0, is_best=True)
    cost = RecodingCost(
        groupings,
        rules,
        rules.columns_of(columns.sample.table),
        loss=loss,
        suppress=suppress,
        people=None if people is None else [_values_of(columns, people, name) for name in columns.names],
    )
    kept = choose_levels(groupings, MOST_COMBINATIONS)
    if kept is None:
        return descend(tuple(len(column.levels) - 1 for column in groupings), cost, clock)
    best = search_levels(cost, among=kept, clock=clock)
    if best.levels is None or math.prod(map(len, kept)) == math.prod(len(column.levels) for column in groupings):
        return best
    return descend(best.levels, cost, clock)


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
