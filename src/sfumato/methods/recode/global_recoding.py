"""Global recoding: one level per column, and what a combination of levels releases and loses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import CannotRelease, OptionError, TableError
from sfumato.kernels.jit import jit
from sfumato.methods.recodings.groupings import Groupings, JointCounts
from sfumato.methods.recodings.level_search import (
    BestLevels,
    Clock,
    Evaluation,
    Levels,
    choose_levels,
    descend,
    search_levels,
)
from sfumato.methods.recodings.losses import discernibility
from sfumato.methods.recodings.quasi_columns import QuasiColumns, promise_containment
from sfumato.methods.recodings.recoding import RecodingPlan, recode_table, released_columns
from sfumato.plan.claims.risk import KMap, PopulationGroups
from sfumato.schema.schema import Schema
from sfumato.table.group_counts import GroupCounts
from sfumato.table.groups import KeyedGroups, first_rows, group_labels
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.recodings.group_rules import GroupRules, SensitiveColumn
    from sfumato.plan.plan import Claim

# What a combination of levels would release: which groups, how many suppressed rows, and how much is lost.
#
# Losses, from 0 for the original; a suppressed row loses as much as one that tells nothing:
#
# - granularity: share of a column's values that a cell leaves open, (values − 1) ÷ (all values − 1), as a mean;
# - entropy: −log₂ of the share of the value among the rows of its group of values, as a share of the largest
#   (non-uniform entropy, Gionis and Tassa 2009);
# - discernibility: Σ n² over the groups, plus all rows for each suppressed row, ÷ rows² (Bayardo and Agrawal 2005);
# - class-size: rows ÷ released groups ÷ k (the average class size of LeFevre et al. 2006).

Loss = Literal["granularity", "entropy", "discernibility", "class-size"]
LOSSES: tuple[Loss, ...] = ("granularity", "entropy", "discernibility", "class-size")
OVERFLOW = 1 << 62  # keys of groups must fit into 64 bits


class RecodingCost:
    """The objective of a search over levels: counts the groups, suppressed rows and losses of one combination.

    ``people`` are the values of a population table in each column; if they are given, k speaks of them.
    """

    def __init__(
        self,
        columns: Sequence[Groupings],
        rules: GroupRules,
        sensitive: Sequence[SensitiveColumn],
        *,
        loss: Loss,
        suppress: float,
        people: Sequence[NDArray[np.int32]] | None = None,
    ) -> None:
        self._rules, self._loss, self._suppresses = rules, loss, suppress > 0.0
        self.rows = len(columns[0].value_of_row)
        self._most = suppress * self.rows * (1.0 + 1e-12)
        joint = JointCounts.of(_append_people(columns, people))
        self._counts = np.bincount(joint.of_row[: self.rows], minlength=len(joint.counts))
        self._people = None if people is None else np.bincount(joint.of_row[self.rows :], minlength=len(joint.counts))
        self._sensitive = [(one, one.counts(joint.of_row[: self.rows])) for one in sensitive]
        self._codes = [
            [(level[column.value_of_row].astype(np.int64), int(level.max()) + 1) for level in column.levels]
            for column in joint.columns
        ]
        by_value = value_losses(columns, loss)
        self._losses = [
            [level[column.value_of_row] for level in losses]
            for column, losses in zip(joint.columns, by_value, strict=True)
        ]
        self.order = [np.array([self._counts @ level for level in losses]) / self.rows for losses in self._losses]
        self._labels = np.empty(len(self._counts), dtype=np.int64)
        self._sizes = np.empty(len(self._counts), dtype=np.int64)

    @property
    def has_floors(self) -> bool:
        """Whether the sum of ``order`` is the least that a combination can lose."""
        return self._loss in ("granularity", "entropy")

    @property
    def is_monotone(self) -> bool:
        """Whether promises that hold for a combination hold for all coarser ones."""
        return self._rules.is_monotone or not self._suppresses

    def evaluate(self, levels: Levels) -> Evaluation:
        """Count one combination."""
        labels, sizes, people = self._group(levels)
        counted = [(one.rule, pairs.regrouped(labels), one.values) for one, pairs in self._sensitive]
        allowed = self._rules.mark_allowed(sizes, counted, people)
        kept = int(sizes[allowed].sum())
        above = 0.0
        if self._loss == "discernibility":
            above = discernibility(sizes) / self.rows**2
        elif self._loss == "class-size":
            above = self.rows / len(sizes) / self._rules.k
        if not kept or self.rows - kept > self._most or not self._rules.are_enough(sizes[allowed]):
            return Evaluation(holds=False, loss=math.inf)
        return Evaluation(holds=True, loss=self._count_loss(levels, labels, sizes, allowed), above=above)

    def _count_loss(
        self, levels: Levels, labels: NDArray[np.int64], sizes: NDArray[np.int64], allowed: NDArray[np.bool_]
    ) -> float:
        if self._loss == "class-size":
            return self.rows / int(allowed.sum()) / self._rules.k
        if self._loss == "discernibility":
            kept = sizes[allowed]
            return discernibility(kept, suppressed=self.rows - int(kept.sum())) / self.rows**2
        lost = sum(float(of_column[level]) for of_column, level in zip(self.order, levels, strict=True))
        left_out = np.flatnonzero((labels >= 0) & ~allowed[labels])  # these combinations lose everything
        for losses, level in zip(self._losses, levels, strict=True):
            more = losses[-1][left_out] - losses[level][left_out]
            lost += float(self._counts[left_out] @ more) / self.rows
        return lost

    def _group(self, levels: Levels) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
        """Return the group of each combination of values, and the rows and people of each group.

        Groups without rows, which only the population has, are left out; their label is −1.
        """
        keys, size = np.zeros(len(self._counts), dtype=np.int64), 1
        for of_column, level in zip(self._codes, levels, strict=True):
            codes, nodes = of_column[level]
            if size * nodes >= OVERFLOW:
                size = grouped(keys, self._counts, self._labels, self._sizes)
                keys = self._labels.copy()
            keys = keys * nodes + codes
            size *= nodes
        groups = grouped(keys, self._counts, self._labels, self._sizes)
        sizes = self._sizes[:groups].copy()
        if self._people is None:
            return self._labels, sizes, None
        people = np.bincount(self._labels, weights=self._people, minlength=groups).astype(np.int64)
        present = sizes > 0
        number = np.where(present, np.cumsum(present) - 1, -1)
        return number[self._labels], sizes[present], people[present]


def value_losses(columns: Sequence[Groupings], loss: Loss) -> list[list[NDArray[np.float64]]]:
    """Return the loss of each value of each column on each level, such that rows that tell nothing lose 1 in total."""
    if loss != "entropy":
        return [[column.losses(covered) for covered in column.covered] for column in columns]
    bits = [_lost_bits(column) for column in columns]
    most = sum(
        float(np.bincount(column.value_of_row, minlength=column.size) @ of_column[-1]) / len(column.value_of_row)
        for column, of_column in zip(columns, bits, strict=True)
    )
    return [[level / (most or 1.0) for level in of_column] for of_column in bits]


def _lost_bits(column: Groupings) -> list[NDArray[np.float64]]:
    """Return −log₂ of the share of each value among the rows of its group, times the weight of the column."""
    rows = np.bincount(column.value_of_row, minlength=column.size).astype(np.float64)
    bits = []
    for level in column.levels:
        together = np.bincount(level, weights=rows)[level]
        share = np.divide(rows, together, out=np.ones_like(rows), where=rows > 0.0)
        bits.append(-np.log2(share) * column.weight)
    return bits


def _append_people(columns: Sequence[Groupings], people: Sequence[NDArray[np.int32]] | None) -> tuple[Groupings, ...]:
    if people is None:
        return tuple(columns)
    return tuple(
        replace(column, value_of_row=np.concatenate([column.value_of_row, values]))
        for column, values in zip(columns, people, strict=True)
    )


MOST_COMBINATIONS = 1 << 19  # that are listed; of larger lattices, some levels are left out at first


@dataclass(frozen=True, kw_only=True, repr=False)
class GlobalPlan(RecodingPlan):
    """Recode every column at its level, and suppress the groups that break a rule."""

    population: PopulationGroups | None = None

    @property
    def needs_whole_table(self) -> bool:
        """Whether t speaks of people, whose values only the whole table tells."""
        counts_people = self.rules.person is not None and any(rule.t is not None for rule in self.rules.sensitive)
        return counts_people or super().needs_whole_table

    def rows_to_keep(self, released: Table, block: Table) -> NDArray[np.bool_]:
        """Mark the rows in groups that the rules allow; with a population, k speaks of its people."""
        if self.population is None:
            return super().rows_to_keep(released, block)
        names = self.released_names(self.quasi)
        labels, groups = group_labels(released, names), KeyedGroups.of(released, names)
        people = np.zeros(int(labels.max(initial=-1)) + 1, dtype=np.int64)
        people[labels[first_rows(groups.labels)]] = self.population.people(GroupCounts.of(groups))
        return self.rules.mark_rows(labels, block, people)


def global_plan(
    columns: QuasiColumns,
    rules: GroupRules,
    *,
    loss: Loss,
    suppress: float,
    population: Table | None,
    levels: Mapping[str, int],
    seconds: float,
    promised: GroupRules,
) -> GlobalPlan:
    """Find the best combination of levels, and return the plan that applies it; the options are those of ``Recode``.

    ``rules`` say which groups are released, and ``promised`` what is promised of them.
    """
    people = None if population is None else _known_people(columns, population)
    unknown = [name for name in levels if name not in columns.names]
    if unknown:
        raise OptionError(
            "levels must name quasi-identifiers.", found=", ".join(map(repr, unknown)), fix="leave these out"
        )
    best = _search(
        columns,
        rules,
        people,
        loss=loss,
        suppress=min(suppress, rules.suppressed_at_most),
        levels=levels,
        seconds=seconds,
    )
    if best.levels is None:
        raise CannotRelease(
            "There must be a combination of levels that keeps all promises.",
            found=f"none, even if every column tells nothing, with at most {suppress:.2%} suppressed",
            fix="weaker promises, a larger share of suppressed rows, or fewer sensitive columns",
        )
    chosen = [column.recode(column.levels[level]) for column, level in zip(columns.groupings, best.levels, strict=True)]
    recodings = {recoding.name: recoding for recoding in chosen if recoding is not None}
    shown = tuple(chain.from_iterable(released_columns(columns.names, recodings.values()).values()))
    groups = None
    claims: tuple[Claim[Any], ...] = promised.claims(shown)
    if people is not None:
        groups = PopulationGroups(GroupCounts.of(KeyedGroups.of(recode_table(people, columns.names, recodings), shown)))
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
        promises=(*claims, *promise_containment(tuple(recodings.values()))),
        method_notes=notes,
        suppressed_at_most=suppress,
        rules=rules,
        population=groups,
    )


def _search(
    columns: QuasiColumns,
    rules: GroupRules,
    people: Table | None,
    *,
    loss: Loss,
    suppress: float,
    levels: Mapping[str, int],
    seconds: float,
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
    if levels:
        among = kept or [[len(column.levels) - 1] for column in groupings]
        for place, column in enumerate(groupings):
            if column.name in levels:
                among[place] = [min(levels[column.name], len(column.levels) - 1)]
        return search_levels(cost, among=among, clock=clock)
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


# Groups of equal keys, by a hash table: the step that a search of recodings repeats thousands of times.

ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ ÷ the golden ratio: multiplication by it spreads low bits to high bits


@jit(work=lambda keys, *_: 2.0 * len(keys), seconds=1.0)  # type: ignore[untyped-decorator]
def grouped(
    keys: NDArray[np.int64], counts: NDArray[np.int64], labels: NDArray[np.int64], sizes: NDArray[np.int64]
) -> int:
    """Number equal keys alike (0, 1, … by first appearance), and add up their counts; return the number of groups.

    ``labels`` and ``sizes`` are filled in; both are as long as ``keys``. The cost is one probe of a table per key.
    """
    bits = 4
    while (1 << bits) < 2 * len(keys):
        bits += 1
    mask, shift = (1 << bits) - 1, np.uint64(64 - bits)
    table = np.full(1 << bits, -1, dtype=np.int32)  # the group in each place
    key_of = np.empty(len(keys), dtype=np.int64)
    groups = 0
    for row in range(len(keys)):
        key = keys[row]
        place = np.int64((np.uint64(key) * ODD) >> shift)
        while table[place] >= 0 and key_of[table[place]] != key:
            place = (place + 1) & mask
        group = table[place]
        if group < 0:
            group = groups
            table[place], key_of[group], sizes[group] = group, key, 0
            groups += 1
        labels[row] = group
        sizes[group] += counts[row]
    return groups
