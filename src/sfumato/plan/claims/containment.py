"""Claims about released cells: they contain the original values, and their sets are short enough to be read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.plan.plan import FAULT, Claim, Evidence, Finding, format_count, format_counts
from sfumato.plan.questions import DistinctIn
from sfumato.plan.recount_sql import SqlRecount, listed, literal
from sfumato.table.group_counts import sum_by_group
from sfumato.table.groups import GroupKeys, KeyedGroups, first_rows, group_labels
from sfumato.table.intervals import (
    ANY,
    BOX,
    MISSING,
    SEPARATOR,
    Member,
    format_member,
    has_ends,
    high_name,
    is_member,
    low_name,
    missing_name,
    parse_set,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.plan import Plan
    from sfumato.plan.recount_sql import ReleasedRows
    from sfumato.plan.survey import Survey
    from sfumato.table.coding import Coded
    from sfumato.table.table import Table

Members = Mapping[str | None, frozenset[str | None]]  # a released word → the values it stands for; None: missing


@dataclass(frozen=True, eq=False, repr=False)
class MissingCounts:
    """Boxes that say how many of their rows have no value, and how many of them really have none.

    A box is listed once for each number that it states, which is once unless the method has a fault.
    """

    keys: GroupKeys
    stated: NDArray[np.float64]
    missing: NDArray[np.int64]  # rows without a value
    inside: NDArray[np.int64]  # rows without a value, or with one inside the box

    @classmethod
    def of(cls, released: Table, name: str, is_missing: NDArray[np.bool_], outside: NDArray[np.bool_]) -> MissingCounts:
        """Count the rows of each box of one block."""
        box = (BOX,) if BOX in released.kinds else released.names
        labels = group_labels(released, (missing_name(name), *box))
        first = first_rows(labels)
        return cls(
            keys=GroupKeys.of(released, box, first),
            stated=released.numbers(missing_name(name))[first],
            missing=np.bincount(labels[is_missing], minlength=len(first)),
            inside=np.bincount(labels) - np.bincount(labels[outside], minlength=len(first)),
        )

    def merge(self, other: MissingCounts) -> MissingCounts:
        """Add up the rows of boxes that have the same key and state the same number."""
        keys, stated = self.keys.followed_by(other.keys), np.concatenate([self.stated, other.stated])
        groups = KeyedGroups.of_keys(np.column_stack([keys, stated.view(np.uint64)]))
        first = first_rows(groups.labels)
        return MissingCounts(
            keys=GroupKeys(keys[first]),
            stated=stated[first],
            missing=sum_by_group(groups, np.concatenate([self.missing, other.missing])),
            inside=sum_by_group(groups, np.concatenate([self.inside, other.inside])),
        )

    def split(self, shares: int) -> list[MissingCounts]:
        """Return the boxes of each share."""
        return [
            MissingCounts(self.keys.take(own), self.stated[own], self.missing[own], self.inside[own])
            for own in self.keys.shares(shares)
        ]

    @property
    def miscounted(self) -> int:
        """Number of rows that are inside their box but in one that states a wrong number."""
        boxes = KeyedGroups.of_keys(self.keys.values)
        return int(self.inside[sum_by_group(boxes, self.missing)[boxes.labels] != self.stated].sum())


@dataclass(frozen=True, eq=False, repr=False)
class ContentCounts:
    """Rows, and those whose value is outside what was released for it, by original column."""

    rows: int
    outside: Mapping[str, int]
    boxes: Mapping[str, MissingCounts]  # of the columns whose missing values are counted

    def split(self, shares: int) -> list[ContentCounts]:
        """Return the boxes of each share; rows are counted in the first one."""
        parts = {name: boxes.split(shares) for name, boxes in self.boxes.items()}
        nothing = dict.fromkeys(self.outside, 0)
        return [
            ContentCounts(0 if share else self.rows, nothing if share else self.outside, own)
            for share in range(shares)
            for own in [{name: boxes[share] for name, boxes in parts.items()}]
        ]

    def settled(self) -> ContentCounts:
        """Return what is left of boxes that no other part has: rows in wrong boxes are outside."""
        wrong = {name: boxes.miscounted for name, boxes in self.boxes.items()}
        return ContentCounts(self.rows, {name: rows + wrong.get(name, 0) for name, rows in self.outside.items()}, {})


@dataclass(frozen=True, kw_only=True)
class Containment(Claim[ContentCounts]):
    """Every original value of ``columns`` lies inside what was released for it, and so does a missing one.

    A number lies between ``x_low`` and ``x_high``. A missing one needs ``x_missing``, which is the number of rows of
    the box without a value. A category is a member of its released set, or of what a released word ``covers`` (column →
    word → members, None for the missing value). Any other column that is released under its own name is unchanged.

    ``empty_is_unknown`` says that a range with both ends missing makes no statement about its rows, so that any value
    lies inside it.
    """

    columns: tuple[str, ...]
    covers: Mapping[str, Members] = field(default_factory=dict, repr=False)
    empty_is_unknown: bool = False

    def tally(self, evidence: Evidence) -> ContentCounts:
        original = evidence.original.select(self.columns).take(evidence.origin)
        outside: dict[str, int] = {}
        boxes: dict[str, MissingCounts] = {}
        for name in self.columns:
            if self._is_range(name, evidence):
                numbers = original.numbers(name)
                is_outside = self._outside_range(name, evidence.released, numbers)
                if missing_name(name) in evidence.released.kinds:
                    boxes[name] = MissingCounts.of(evidence.released, name, np.isnan(numbers), is_outside)
                outside[name] = int(is_outside.sum())
            elif name in self.covers or not original.kinds[name].is_numeric:
                covers = self.covers.get(name, {})
                outside[name] = _outside_set(original.coded(name), evidence.released.coded(name), covers)
            else:
                outside[name] = _count_changed(original.numbers(name), evidence.released.numbers(name))
        return ContentCounts(evidence.released.rows, outside, boxes)

    def merge(self, one: ContentCounts, other: ContentCounts) -> ContentCounts:
        boxes = dict(one.boxes)
        for name, counts in other.boxes.items():
            boxes[name] = boxes[name].merge(counts) if name in boxes else counts
        outside = {name: one.outside[name] + other.outside[name] for name in self.columns}
        return ContentCounts(one.rows + other.rows, outside, boxes)

    def finding(self, tally: ContentCounts) -> Finding:
        outside = tally.settled().outside
        broken = {name: outside[name] for name in self.columns if outside[name]}
        return self.report(
            claim=f"every original value lies inside its released range, in {', '.join(self.columns) or 'no column'}",
            held=not broken,
            found=f"values outside in {format_counts(broken, 'row')}"
            if broken
            else f"{format_count(tally.rows, 'row')} inside",
            fix=FAULT,
        )

    def words_by_value(self, column: str, values: Collection[str | None]) -> dict[str, tuple[str, ...]]:
        """Return the released words that cover each of these values of a column, apart from the value itself.

        The value itself is a word only if it covers other values, too. Values are written as members of sets.
        """
        covers = {word: members for word, members in self.covers.get(column, {}).items() if word is not None}
        nodes = {word: members for word, members in covers.items() if members != {word}}
        return {
            format_member(value): tuple(word for word, members in nodes.items() if value in members) for value in values
        }

    def _is_range(self, name: str, evidence: Evidence) -> bool:
        """Whether a column is released as a range, or has one beside it: columns of the original are none."""
        return has_ends(name, evidence.released.kinds) and low_name(name) not in evidence.original.kinds

    def _outside_range(self, name: str, released: Table, numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Rows whose number is not in its interval; a missing one is, where the box counts its missing ones."""
        low, high = released.numbers(low_name(name)), released.numbers(high_name(name))
        inside: NDArray[np.bool_] = (low <= numbers) & (numbers <= high)
        if missing_name(name) in released.kinds:
            inside |= np.isnan(numbers)
        if self.empty_is_unknown:
            inside |= np.isnan(low) & np.isnan(high)
        return ~inside


def words_of_common_values(
    plan: Plan, survey: Survey, altered: Collection[str], least: int
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return, for columns that are released as nodes of trees, the words that cover each value.

    Only values that at least this many people share are listed: a rare one would be shown to exist. Columns whose
    words are values and sets of values are not ``altered``, and need no explanation.
    """
    if any(claim.covers_every_output for claim in plan.claims):
        return {}
    claims = {name: one for one in plan.claims if isinstance(one, Containment) for name in one.covers}
    words = {}
    for name in [name for name in claims if name in altered]:
        found = survey.ask([DistinctIn(name)])[DistinctIn(name)]
        common = found.values.filter(pa.array(found.counts >= least)).cast(pa.string()).drop_null().to_pylist()
        words[name] = claims[name].words_by_value(name, [*common, None])
    return words


def _count_changed(before: NDArray[np.float64], after: NDArray[np.float64]) -> int:
    """Number of rows whose number is not the same."""
    return int((~((before == after) | (np.isnan(before) & np.isnan(after)))).sum())


def _outside_set(original: Coded, released: Coded, covers: Members) -> int:
    """Rows whose category is not in its released set: every pair of set and value is judged once, with its count."""
    pairs = original.codes.astype(np.int64) * released.size + released.codes
    distinct, counts = np.unique(pairs, return_counts=True)
    values = original.values.cast(pa.string()).to_pylist()
    words = released.values.cast(pa.string()).to_pylist()
    members: list[frozenset[Member]] = [
        frozenset(covers[word] if word in covers else parse_set(word)) for word in words
    ]
    return sum(
        count
        for pair, count in zip(distinct.tolist(), counts.tolist(), strict=True)
        if not is_member(values[pair // released.size], members[pair % released.size])
    )


@dataclass(frozen=True, repr=False)
class NameCounts:
    """The sets of one column: the names of the longest, and the rows whose set is too long or any value."""

    longest: int
    long_rows: int
    any_rows: int

    @classmethod
    def of(cls, released: Table, name: str, most: int) -> NameCounts:
        """Count the names of every distinct cell; a set is too long if it has more than ``most``."""
        coded = released.coded(name)
        sets = [frozenset(parse_set(cell)) for cell in coded.values.cast(pa.string()).to_pylist()]
        names = np.array([len(members - {ANY, None}) for members in sets], dtype=np.int64)
        is_any = np.array([ANY in members for members in sets], dtype=bool)
        rows = np.bincount(coded.codes, minlength=coded.size)
        return cls(int(names.max(initial=0)), int(rows[names > most].sum()), int(rows[is_any].sum()))

    def merge(self, other: NameCounts) -> NameCounts:
        """Put two sets of rows together."""
        return NameCounts(
            max(self.longest, other.longest), self.long_rows + other.long_rows, self.any_rows + other.any_rows
        )


@dataclass(frozen=True, repr=False)
class SetCounts:
    """The sets of every column."""

    columns: Mapping[str, NameCounts]


@dataclass(frozen=True, kw_only=True)
class AtMostNames(Claim[SetCounts]):
    """No released set of these columns has more than ``most`` names; a longer one is released as any value.

    That every original value belongs to its set, and that a missing one is in no set of any value that does not say
    so, is the claim :class:`Containment`.
    """

    recountable: ClassVar[bool] = True

    most: int
    columns: tuple[str, ...]

    def tally(self, evidence: Evidence) -> SetCounts:
        return SetCounts({name: NameCounts.of(evidence.released, name, self.most) for name in self.columns})

    def merge(self, one: SetCounts, other: SetCounts) -> SetCounts:
        return SetCounts({name: one.columns[name].merge(other.columns[name]) for name in self.columns})

    def finding(self, tally: SetCounts) -> Finding:
        over = {name: counts.long_rows for name, counts in tally.columns.items() if counts.long_rows}
        wide = {name: counts.any_rows for name, counts in tally.columns.items() if counts.any_rows}
        longest = max((counts.longest for counts in tally.columns.values()), default=0)
        found = f"at most {longest:,}; {ANY.value} in {format_counts(wide, 'row') or 'no row'}"
        return self.report(
            claim=f"at most {format_count(self.most, 'name')} in each set of {', '.join(self.columns)}; a set of more "
            f"is {ANY.value}, which stands for any value of the column that is not missing",
            held=not over,
            found=f"more in {format_counts(over, 'row')}" if over else found,
            fix=FAULT,
        )

    def recount_in_sql(self, rows: ReleasedRows) -> SqlRecount:
        """Return the recount: a set is split at separators that no backslash escapes."""
        plain = f"replace(replace(c1, '\\\\', chr(1)), '\\{SEPARATOR}', chr(2))"
        members = f"list_distinct(string_split({plain}, '{SEPARATOR}'))"
        special = f"['{MISSING}', '{ANY.value}']"
        each = [
            f"SELECT {place} AS place, {literal(repr(name))} AS name, coalesce(max(names), 0) AS longest, "
            f"count(*) FILTER (WHERE names > {self.most}) AS long_rows, count(*) FILTER (WHERE is_any) AS any_rows "
            f"FROM (SELECT len(list_filter(members, lambda one: NOT list_contains({special}, one))) AS names, "
            f"list_contains(members, '{ANY.value}') AS is_any FROM (SELECT {members} AS members "
            f"FROM ({rows.cells([name])})))"
            for place, name in enumerate(self.columns, 1)
        ]
        over = listed("name", "long_rows", "row", "long_rows > 0")
        wide = listed("name", "any_rows", "row", "any_rows > 0")
        return SqlRecount(
            required=f"at most {format_count(self.most, 'name')} in each set",
            counted=f"coalesce('more in ' || {over}, format('at most {{:,}}', max(longest)) || "
            f"{literal(f'; {ANY.value} in ')} || coalesce({wide}, 'no row'))",
            holds="max(long_rows) = 0",
            queries={"columns": "\n  UNION ALL ".join(each)},
        )
