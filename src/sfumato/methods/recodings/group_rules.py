"""Which groups of rows may be released: the rules of k-anonymity, ℓ-diversity, t-closeness and average risk.

A rule speaks of groups of rows that are equal in the quasi-identifiers. The same rules guide a search, decide which
groups are suppressed, and give the promises that are recounted on the released rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import OptionError, SchemaError
from sfumato.methods.base import choose_l, default_questions, require_enough_values
from sfumato.plan.claims.groups import Diversity, KAnonymity
from sfumato.plan.claims.risk import RiskAtMost
from sfumato.plan.claims.sensitive import DeclaredCloseness, EntropyDiversity, RecursiveDiversity, TCloseness
from sfumato.plan.claims.sensitive_groups import (
    SensitiveCounts,
    ValueTotals,
    distinct_values,
    effective_values,
    equal_distances,
    ordered_distances,
    recursive_c,
    tree_distances,
)
from sfumato.plan.questions import DistinctIn
from sfumato.schema.columns import Role
from sfumato.schema.suggested_hierarchies import tree_for
from sfumato.table.groups import first_rows, refine
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.plan import Claim
    from sfumato.plan.survey import Survey
    from sfumato.schema.hierarchies import Tree
    from sfumato.schema.schema import Schema
    from sfumato.table.table import Table

DiversityKind = Literal["distinct", "entropy", "recursive"]
DIVERSITY_KINDS: tuple[DiversityKind, ...] = ("distinct", "entropy", "recursive")
Distance = Literal["auto", "equal", "ordered", "tree"]
DISTANCES: tuple[Distance, ...] = ("auto", "equal", "ordered", "tree")
MOST_VALUES = 1_000_000  # of a sensitive column to which t applies, in a table that is released in blocks
HALVINGS = 8  # of the share of suppressed rows, before none is suppressed for t
ROUNDING = 1e-12  # by which a computed number may miss its limit


@dataclass(frozen=True, kw_only=True, repr=False)
class SensitiveRule:
    """What each group must hold of one sensitive column."""

    column: str
    l: int
    l_kind: DiversityKind
    c: float
    t: float | None
    distance: Distance  # "equal", "ordered" or "tree"
    order: tuple[str, ...] = ()  # of an ordered category
    tree: Tree | None = None
    of_table: ValueTotals | None = None  # where a block is judged: all values of the table, with their rows

    def is_diverse(self, counts: SensitiveCounts) -> NDArray[np.bool_]:
        """Mark the groups that are ℓ-diverse."""
        if self.l < 2:
            return np.ones(len(counts.starts), dtype=bool)
        if self.l_kind == "entropy":
            return np.asarray(effective_values(counts) >= self.l * (1.0 - ROUNDING))
        if self.l_kind == "recursive":
            return np.asarray(recursive_c(counts, self.l) < self.c)
        return np.asarray(distinct_values(counts) >= self.l)

    def distances(self, counts: SensitiveCounts, values: pa.Array) -> NDArray[np.float64]:
        """Return the distance between each group and all groups together; ``values`` are those of the column."""
        if self.distance == "equal":
            return equal_distances(counts)
        if self.tree is None:
            return ordered_distances(counts)
        return tree_distances(counts, self.tree.positions(values, column=self.column), self.tree)

    def in_blocks(self, survey: Survey) -> SensitiveRule:
        """Return the rule with all values of the table, by which a block is judged."""
        if self.t is None:
            return self
        asked = DistinctIn(self.column, at_most=MOST_VALUES)
        found = survey.ask([asked])[asked].require_complete(self.column)
        return replace(self, of_table=ValueTotals(found.values, found.counts))

    def nearer(self, suppressed: float) -> SensitiveRule:
        """Return the rule with a smaller t, whose groups are t-close after this share of the rows is suppressed.

        The distribution of the rows that are left is at most that share away. Where all rows of some values may be
        suppressed, the order of the values becomes shorter, and distances in it longer.
        """
        if self.t is None or self.of_table is None:
            return self
        t = self.t
        if self.distance == "ordered":
            rows = np.cumsum(np.sort(self.of_table.counts))
            lost = int(np.searchsorted(rows, suppressed * rows[-1] * (1.0 + ROUNDING), side="right"))
            t *= max(len(rows) - lost - 1, 0) / max(len(rows) - 1, 1)
        return replace(self, t=t - suppressed)

    def claims(self, columns: tuple[str, ...]) -> list[Claim[Any]]:
        """Return the promises about groups of rows that are equal in these released columns."""
        promises: list[Claim[Any]] = []
        if self.l > 1 and self.l_kind == "distinct":
            promises.append(Diversity(l=self.l, columns=columns, column=self.column))
        elif self.l > 1 and self.l_kind == "entropy":
            promises.append(EntropyDiversity(l=float(self.l), columns=columns, column=self.column))
        elif self.l > 1:
            promises.append(RecursiveDiversity(l=self.l, c=self.c, columns=columns, column=self.column))
        if self.t is not None and (self.order or self.tree is not None):
            promises.append(
                DeclaredCloseness(t=self.t, columns=columns, column=self.column, order=self.order, tree=self.tree)
            )
        elif self.t is not None:
            is_ordered = self.distance == "ordered"
            promises.append(TCloseness(t=self.t, columns=columns, column=self.column, ordered=is_ordered))
        return promises


@dataclass(frozen=True, eq=False, repr=False)
class SensitiveColumn:
    """A sensitive column of some rows."""

    rule: SensitiveRule
    codes: NDArray[np.int32]
    values: pa.Array
    people: NDArray[np.int32] | None = None  # person of each row, if a column tells people apart

    def counts(self, labels: NDArray[np.int64]) -> SensitiveCounts:
        """Count the rows of each value in each group or, if people are told apart, its people."""
        if self.people is None:
            counts = SensitiveCounts.of(labels, self.codes, len(self.values))
            return counts if self.rule.of_table is None else replace(counts, of_table=self.rule.of_table.counts)
        pairs = refine(labels, self.codes, len(self.values))
        once = first_rows(refine(pairs, self.people, int(self.people.max(initial=-1)) + 1))
        return SensitiveCounts.of(labels[once], self.codes[once], len(self.values))

    def coded_by(self, values: pa.Array) -> SensitiveColumn:
        """Return the column with these values, among which are its own."""
        place = pc.index_in(self.values.cast(values.type), value_set=values).to_numpy().astype(np.int32)
        return replace(self, codes=place[self.codes], values=values)

    def of_different_people(self) -> SensitiveColumn:
        """Return the column with one value of each person, her rarest one; her other values count for nothing.

        So l different values are those of l different people. Two values are in any group of two people; and where
        nobody has two values nothing changes.
        """
        assert self.people is not None
        rarity = np.bincount(self.codes, minlength=len(self.values))[self.codes]
        order = np.lexsort((self.codes, rarity, self.people))
        witness = np.empty(int(self.people.max(initial=-1)) + 1, dtype=np.int32)
        witness[self.people[order[::-1]]] = self.codes[order[::-1]]
        is_other = witness[self.people] != self.codes
        if self.rule.l < 3 or self.rule.l_kind != "distinct" or not is_other.any():
            return self
        nothing = pa.concat_arrays([self.values, pa.nulls(1, self.values.type)])
        codes = np.where(is_other, np.int32(len(self.values)), self.codes)
        return replace(self, codes=codes, values=nothing, rule=replace(self.rule, l=self.rule.l + 1))


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupRules:
    """What every released group must fulfil, and what all groups together must."""

    k: int = 1
    average_risk: float | None = None
    sensitive: tuple[SensitiveRule, ...] = ()
    person: str | None = None  # column that tells people apart: k and l then count people
    suppressed_at_most: float = 1.0  # share of the rows that may be suppressed, so that the rules suffice

    @property
    def allow_all(self) -> bool:
        """Whether every group may be released."""
        return self.k <= 1 and not self.sensitive

    @property
    def is_monotone(self) -> bool:
        """Whether joining groups never takes rows away from those that may be released."""
        return self.average_risk is None and all(
            rule.t is None and (rule.l < 2 or rule.l_kind == "distinct") for rule in self.sensitive
        )

    def columns_of(self, rows: Table) -> list[SensitiveColumn]:
        """Return the columns of some rows that the rules speak of.

        Where a column tells people apart it is one of them: k people are k different values of it.
        """
        if self.person is None:
            return self.sensitive_of(rows)
        people = rows.coded(self.person)
        rule = SensitiveRule(column=self.person, l=self.k, l_kind="distinct", c=1.0, t=None, distance="equal")
        return [SensitiveColumn(rule, people.codes, people.values), *self.sensitive_of(rows)]

    def people_of(self, rows: Table) -> NDArray[np.int32] | None:
        """Return the person of each row as a number; None if rows are counted."""
        return None if self.person is None else rows.coded(self.person).codes

    def sensitive_of(self, rows: Table) -> list[SensitiveColumn]:
        """Return the sensitive columns of some rows that the rules speak of."""
        columns, people = [], self.people_of(rows)
        for rule in self.sensitive:
            coded = rows.coded(rule.column)
            column = SensitiveColumn(rule, coded.codes, coded.values, people)
            if rule.of_table is not None:
                column = column.coded_by(rule.of_table.values)
            if people is None or rule.t is None:
                columns.append(column if people is None else column.of_different_people())
                continue
            columns.append(replace(column, rule=replace(rule, l=1)))
            columns.append(replace(column, rule=replace(rule, t=None)).of_different_people())
        return columns

    def mark_rows(
        self, labels: NDArray[np.int64], rows: Table, k_sizes: NDArray[np.int64] | None = None
    ) -> NDArray[np.bool_]:
        """Mark the rows that are in groups that may be released, given dense group labels."""
        columns = self.columns_of(rows)
        counted = [(one.rule, one.counts(labels), one.values) for one in columns]
        return np.asarray(self.mark_allowed(np.bincount(labels), counted, k_sizes)[labels])

    def mark_allowed(
        self,
        sizes: NDArray[np.int64],
        counted: Sequence[tuple[SensitiveRule, SensitiveCounts, pa.Array]],
        k_sizes: NDArray[np.int64] | None = None,
    ) -> NDArray[np.bool_]:
        """Mark the groups that may be released, given their sizes and sensitive values.

        ``k_sizes`` are the sizes that k speaks of, if these are others. The distribution that t-closeness compares with
        is that of the released rows, so leaving groups out may be a reason to leave out others; this is repeated until
        nothing changes.
        """
        allowed = np.asarray((sizes if k_sizes is None else k_sizes) >= self.k)
        for rule, counts, _ in counted:
            allowed &= rule.is_diverse(counts)
        while allowed.any():
            fails = np.zeros(len(sizes), dtype=bool)
            for rule, counts, values in counted:
                if rule.t is not None:
                    far = rule.distances(_of_groups(counts, allowed), values) > rule.t + ROUNDING
                    fails[np.flatnonzero(allowed)[far]] = True
            if not fails.any():
                break
            allowed &= ~fails
        return allowed

    def are_enough(self, sizes: NDArray[np.int64]) -> bool:
        """Return whether the groups that are left have the average risk that is allowed."""
        if self.average_risk is None or not len(sizes):
            return True
        return len(sizes) / float(sizes.sum()) <= self.average_risk * (1.0 + ROUNDING)

    def in_blocks(self, survey: Survey, suppress: float) -> GroupRules:
        """Return the rules by which a block of the table is judged, while a share of the rows may be suppressed.

        The distribution that t speaks of is that of all released rows, which no block knows. So groups must be closer
        to that of the table, and fewer rows are suppressed where they would have to be more than twice as close. What
        is promised is t itself, which is recounted.
        """
        whole = replace(self, sensitive=tuple(rule.in_blocks(survey) for rule in self.sensitive))
        for share in (*(suppress / 2.0**halvings for halvings in range(HALVINGS)), 0.0):
            near = tuple(rule.nearer(share) for rule in whole.sensitive)
            if all((one.t or 0.0) >= (rule.t or 0.0) / 2.0 for one, rule in zip(near, self.sensitive, strict=True)):
                break
        return replace(whole, sensitive=near, suppressed_at_most=share)

    def claims(self, columns: tuple[str, ...]) -> tuple[Claim[Any], ...]:
        """Return the promises about rows that are equal in these released columns."""
        promises: list[Claim[Any]] = [KAnonymity(k=self.k, columns=columns)]
        for rule in self.sensitive:
            promises += rule.claims(columns)
        if self.average_risk is not None:
            promises.append(RiskAtMost(average=self.average_risk, columns=columns))
        return tuple(promises)


def _of_groups(counts: SensitiveCounts, allowed: NDArray[np.bool_]) -> SensitiveCounts:
    """Return the counts of some groups, numbered anew."""
    if allowed.all():
        return counts
    number = np.cumsum(allowed) - 1
    kept = allowed[counts.group]
    values, table = counts.values, counts.of_table
    return SensitiveCounts(number[counts.group[kept]], counts.value[kept], counts.count[kept], values, table)


def make_rules(
    survey: Survey,
    schema: Schema,
    *,
    k: int,
    l: int | None,
    l_kind: DiversityKind = "distinct",
    c: float = 1.0,
    t: float | None = None,
    distance: Distance = "equal",
    average_risk: float | None = None,
) -> GroupRules:
    """Return the rules for the sensitive columns of a table; ``l`` None is 2 if there is one."""
    names = schema.names(Role.SENSITIVE)
    if not names and (t is not None or (l or 1) > 1):
        raise OptionError(
            "l and t protect sensitive columns, so there must be one.",
            found="none in the schema",
            fix="declare the role 'sensitive', or leave l and t out",
        )
    wanted = choose_l(l, k, survey.rows, schema, survey.ask(default_questions(l, schema)))
    if survey.sample.is_whole:
        require_enough_values(wanted, schema, survey.sample.table)
    rules = []
    for name in names if wanted > 1 or t is not None else ():
        order, tree, kind = _find_order(survey, schema, name, distance) if t is not None else ((), None, "equal")
        rules.append(
            SensitiveRule(column=name, l=wanted, l_kind=l_kind, c=c, t=t, distance=kind, order=order, tree=tree)
        )
    return GroupRules(k=k, average_risk=average_risk, sensitive=tuple(rules), person=schema.person)


def _find_order(
    survey: Survey, schema: Schema, name: str, distance: Distance
) -> tuple[tuple[str, ...], Tree | None, Distance]:
    """Return the order, the tree and the kind of distance of a sensitive column."""
    kind = survey.sample.table.kinds[name]
    has_order = kind.is_numeric or kind is Kind.ORDERED
    if distance == "auto":
        distance = "ordered" if has_order else "equal"
    if distance == "ordered":
        if not has_order:
            raise SchemaError(
                f"Column {name!r} must have an order, because the distance is 'ordered'.",
                found=f"kind {kind}",
                fix="declare its order, or distance='equal'",
            )
        if kind is not Kind.ORDERED:
            return (), None, distance
        values = survey.ask([DistinctIn(name)])[DistinctIn(name)].values.drop_null()
        return tuple(map(str, values.to_pylist())), None, distance
    if distance == "equal":
        return (), None, distance
    tree = tree_for(schema[name], survey.ask([DistinctIn(name)])[DistinctIn(name)].values)
    if tree is None:
        raise SchemaError(
            f"Column {name!r} must have a tree, because the distance is 'tree'.",
            found="none in the schema",
            fix="declare its tree, or distance='equal'",
        )
    return (), tree, distance
