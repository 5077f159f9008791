"""Claims about rows, columns and cells as such, and about pseudonyms and dates that were shifted before the method."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow.compute as pc

from sfumato.plan.plan import (
    FAULT,
    Claim,
    ClaimKind,
    Evidence,
    Finding,
    format_count,
    format_names,
    format_names_without_box,
)
from sfumato.plan.recount_sql import SqlRecount, counted, literal
from sfumato.schema.pseudonyms import PSEUDONYM, PSEUDONYM_BYTES, collision_probability
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.recount_sql import ReleasedRows

ROUNDING = 1e-6  # share of an end of a range by which a single-precision number may miss it; a zero is met exactly


@dataclass(frozen=True, repr=False)
class AccountedRows:
    """Rows before and after, and whether every original row is released equally often."""

    original: int
    released: int
    origins: int  # original rows that released rows are said to stand for, with repeats
    once: bool


@dataclass(frozen=True, kw_only=True)
class RowsAccountedFor(Claim[AccountedRows]):
    """Every original row is released ``times`` times or suppressed, and at most this share of them is suppressed."""

    suppressed_at_most: float = 0.0  # share of the original rows, from 0 to 1
    times: int = 1  # released rows for each original row, more than 1 if several tables are released together
    is_counted: bool = True  # whether the finding tells the number of original rows

    def tally(self, evidence: Evidence) -> AccountedRows:
        rows, origin = evidence.original.rows, evidence.origin
        known = bool(origin.size == 0 or (origin.min() >= 0 and origin.max() < rows))
        seen = np.bincount(origin if known else [], minlength=rows)
        once = known and origin.size == evidence.released.rows and bool(np.isin(seen, (0, self.times)).all())
        return AccountedRows(rows, evidence.released.rows, origin.size, once)

    def merge(self, one: AccountedRows, other: AccountedRows) -> AccountedRows:
        return AccountedRows(
            one.original + other.original,
            one.released + other.released,
            one.origins + other.origins,
            one.once and other.once,
        )

    def finding(self, tally: AccountedRows) -> Finding:
        suppressed = tally.original - tally.origins // self.times
        each = "no row lost or duplicated" if self.times == 1 else f"{self.times:,} released rows for each original row"
        allowed = f"at most {self.suppressed_at_most:.2%}" if self.suppressed_at_most else "none"
        return self.report(
            claim=f"{each}; {allowed} suppressed",
            held=tally.once and suppressed <= self.suppressed_at_most * tally.original * (1 + 1e-12),
            found=(
                f"{format_count(tally.original, 'row')} in, {tally.released:,} out, {suppressed:,} suppressed"
                if self.is_counted
                else f"{format_count(tally.released, 'row')} out"
            )
            + ("" if tally.once else "; some released rows are duplicates or have no original row"),
            fix="a larger share of suppressed rows" if tally.once else FAULT,
        )


@dataclass(frozen=True, repr=False)
class ReleasedNames:
    """The columns that were released in any block."""

    names: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class ColumnsAllowed(Claim[ReleasedNames]):
    """No other columns are released than these."""

    recountable: ClassVar[bool] = True

    names: tuple[str, ...]

    def tally(self, evidence: Evidence) -> ReleasedNames:
        return ReleasedNames(frozenset(evidence.released.names))

    def merge(self, one: ReleasedNames, other: ReleasedNames) -> ReleasedNames:
        return ReleasedNames(one.names | other.names)

    def finding(self, tally: ReleasedNames) -> Finding:
        others = sorted(tally.names.difference(self.names))
        return self.report(
            claim=f"only these columns are released: {format_names(self.names)}",
            held=not others,
            found=f"also {format_names(others)}" if others else format_count(len(tally.names), "column"),
            fix=FAULT,
        )

    def recount_in_sql(self, rows: ReleasedRows) -> SqlRecount:
        others = f"NOT name IN ({', '.join(map(literal, self.names))})"
        return SqlRecount(
            required=f"no other column than these {len(self.names):,}",
            counted=f"coalesce('also ' || string_agg(name, ', ' ORDER BY name) FILTER (WHERE {others}), "
            f"{counted('count(*)', 'column')})",
            holds=f"count(*) FILTER (WHERE {others}) = 0",
            queries={"names": rows.schema_names()},
        )


@dataclass(frozen=True, repr=False)
class NumberEnds:
    """The lowest and highest number of a column before and after; infinite the wrong way round if there is none."""

    low: float = math.inf
    high: float = -math.inf
    released_low: float = math.inf
    released_high: float = -math.inf

    @classmethod
    def of(cls, original: NDArray[np.float64], released: NDArray[np.float64]) -> NumberEnds:
        """Find the ends; missing numbers are passed over."""
        ends = [
            (np.fmin.reduce(n, initial=math.inf), np.fmax.reduce(n, initial=-math.inf)) for n in (original, released)
        ]
        return cls(*map(float, (*ends[0], *ends[1])))

    def merge(self, other: NumberEnds) -> NumberEnds:
        """The ends of the rows of both."""
        return NumberEnds(
            min(self.low, other.low),
            max(self.high, other.high),
            min(self.released_low, other.released_low),
            max(self.released_high, other.released_high),
        )

    def within(self, domain: tuple[float, float] | None) -> bool:
        """Whether the released numbers are between these, or between those of the original."""
        low, high = domain or (self.low, self.high)
        if self.released_low > self.released_high:  # no number was released
            return True
        return self.released_low >= low - ROUNDING * abs(low) and self.released_high <= high + ROUNDING * abs(high)


@dataclass(frozen=True, repr=False)
class ColumnValues:
    """The values of one column: categories that are or are not among those of the original, and ends of numbers."""

    original: frozenset[Any] = frozenset()
    unknown: frozenset[Any] = frozenset()
    has_fractions: bool = False  # whether a released number of a column of whole numbers is not whole
    ends: NumberEnds = NumberEnds()

    def split(self, shares: int) -> list[ColumnValues]:
        """Return the categories of each share; numbers are in all of them, because ends may be counted twice."""
        pairs = zip(_split_values(self.original, shares), _split_values(self.unknown, shares), strict=True)
        return [replace(self, original=original, unknown=unknown) for original, unknown in pairs]

    def settled(self) -> ColumnValues:
        """Return what is left of categories that no other part has: whether one of them is unknown."""
        return replace(self, original=frozenset(), unknown=frozenset(["unknown"] if self.unknown else []))

    def merge(self, other: ColumnValues) -> ColumnValues:
        """Look for the unknown values of both in the original values of both."""
        original = self.original | other.original
        unknown = (self.unknown | other.unknown) - original
        return ColumnValues(original, unknown, self.has_fractions or other.has_fractions, self.ends.merge(other.ends))


@dataclass(frozen=True, repr=False)
class CellValues:
    """The values of every released column."""

    columns: Mapping[str, ColumnValues]

    def split(self, shares: int) -> list[CellValues]:
        """Return the values of each share."""
        parts = {name: values.split(shares) for name, values in self.columns.items()}
        return [CellValues({name: values[share] for name, values in parts.items()}) for share in range(shares)]

    def settled(self) -> CellValues:
        """Return what is left of values that no other part has."""
        return CellValues({name: values.settled() for name, values in self.columns.items()})


def _split_values(values: frozenset[Any], shares: int) -> list[frozenset[Any]]:
    """Return the values of each share: the same share for a value in every process, which its hash would not give."""
    parts: list[set[Any]] = [set() for _ in range(shares)]
    for value in values:
        parts[zlib.crc32(repr(value).encode()) % shares].add(value)
    return [frozenset(part) for part in parts]


@dataclass(frozen=True, kw_only=True)
class ValidCells(Claim[CellValues]):
    """Every released value could be one of its column.

    A category is one of the original's. A whole number is whole. A number lies in the declared domain of its column,
    or else between the lowest and the highest number of the original, or anywhere if the column is ``unlimited``. A
    missing value is valid everywhere.
    """

    domains: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    unlimited: tuple[str, ...] = ()

    def tally(self, evidence: Evidence) -> CellValues:
        return CellValues({name: _values(name, evidence) for name in evidence.released.names})

    def merge(self, one: CellValues, other: CellValues) -> CellValues:
        nothing = ColumnValues()
        names = dict.fromkeys([*one.columns, *other.columns])
        return CellValues(
            {name: one.columns.get(name, nothing).merge(other.columns.get(name, nothing)) for name in names}
        )

    def finding(self, tally: CellValues) -> Finding:
        faults = {
            "other categories": [name for name, values in tally.columns.items() if values.unknown],
            "fractions": [name for name, values in tally.columns.items() if values.has_fractions],
            "numbers out of range": [
                name
                for name, values in tally.columns.items()
                if name not in self.unlimited and not values.ends.within(self.domains.get(name))
            ],
        }
        found = [f"{fault} in {', '.join(map(repr, sorted(names)))}" for fault, names in faults.items() if names]
        return self.report(
            claim="every category is one of the column's own, whole numbers are whole, and numbers are within the "
            f"range of their column{f', except in {format_names(self.unlimited)}' if self.unlimited else ''}",
            held=not found,
            found="; ".join(found) or "valid values only",
            fix=FAULT,
        )


def _values(name: str, evidence: Evidence) -> ColumnValues:
    """The categories of a column on both sides, or the ends of its numbers."""
    released, original = evidence.released, evidence.original
    if name not in original.kinds:
        return ColumnValues()  # whether a new column is allowed is another claim
    kind = original.kinds[name]
    if kind.is_numeric:
        numbers = released.numbers(name)
        present = numbers[~np.isnan(numbers)]
        fractions = kind is Kind.WHOLE and bool((present != np.rint(present)).any())
        return ColumnValues(has_fractions=fractions, ends=NumberEnds.of(original.numbers(name), present))
    known = frozenset(original.coded(name).values.to_pylist())
    return ColumnValues(known, frozenset(released.coded(name).values.drop_null().to_pylist()) - known)


# Claims about what was done before the method: pseudonyms by a secret key, and dates shifted by person.


@dataclass(frozen=True, repr=False)
class PseudonymCounts:
    """The pseudonyms of a column; never shown."""

    rows: int
    missing: int
    strange: int  # cells that are no pseudonyms
    values: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Pseudonyms(Claim[PseudonymCounts]):
    """A column holds pseudonyms and nothing else; with ``one_row_each``, no pseudonym is in two rows.

    The tally is not split into shares: pseudonyms are made in memory only, where all of them fit.
    """

    recountable: ClassVar[bool] = True

    column: str
    one_row_each: bool

    def tally(self, evidence: Evidence) -> PseudonymCounts:
        cells = evidence.released.arrow.column(self.column)
        fits = pc.match_substring_regex(cells, f"^{PSEUDONYM.pattern}$")
        strange = len(cells) - cells.null_count - (pc.sum(fits).as_py() or 0)
        return PseudonymCounts(len(cells), cells.null_count, strange, frozenset(cells.unique().drop_null().to_pylist()))

    def merge(self, one: PseudonymCounts, other: PseudonymCounts) -> PseudonymCounts:
        return PseudonymCounts(
            one.rows + other.rows, one.missing + other.missing, one.strange + other.strange, one.values | other.values
        )

    def finding(self, tally: PseudonymCounts) -> Finding:
        people, named = len(tally.values), tally.rows - tally.missing
        found = f"{format_count(people, 'pseudonym')} in {format_count(named, 'row')}, {tally.missing:,} missing"
        found += f", {tally.strange:,} other cells" if tally.strange else ""
        chance = collision_probability(people)
        each = "one row for each" if self.one_row_each else "several rows of a person share one"
        return self.report(
            claim=f"{self.column} holds only pseudonyms by a secret key, {each}; this is no anonymity",
            held=not tally.strange and (people == named or not self.one_row_each),
            found=f"{found}; probability that any two people share one below {max(chance, 1e-30):.1g}",
            fix=FAULT,
        )

    def recount_in_sql(self, rows: ReleasedRows) -> SqlRecount:
        strange = f"count(*) FILTER (WHERE NOT regexp_full_match(c1, '{PSEUDONYM.pattern}'))"
        people, pairs = "count(DISTINCT c1)", "count(DISTINCT c1)::DOUBLE * (count(DISTINCT c1) - 1)"
        chance = f"least(1.0, {pairs} / {2.0 ** (8 * PSEUDONYM_BYTES + 1)!r})"
        return SqlRecount(
            required="only pseudonyms" + (", each in one row" if self.one_row_each else ""),
            counted=f"{counted(people, 'pseudonym')} || ' in ' || {counted('count(c1)', 'row')} || "
            "format(', {:,} missing', count(*) - count(c1)) || "
            f"CASE WHEN {strange} = 0 THEN '' ELSE format(', {{:,}} other cells', {strange}) END || "
            f"{literal('; probability that any two people share one below ')} || "
            f"format('{{:.1g}}', greatest({chance}, 1e-30))",
            holds=f"{strange} = 0" + (f" AND {people} = count(c1)" if self.one_row_each else ""),
            queries={"cells": rows.cells([self.column])},
        )


@dataclass(frozen=True, repr=False)
class Histories:
    """The groups of each person's rows; pseudonyms are never shown."""

    groups: Mapping[str, tuple[bytes, ...]]  # pseudonym → key of the group of each of her rows

    def merge(self, other: Histories) -> Histories:
        """Put the rows of two sets of blocks together."""
        names = dict.fromkeys([*self.groups, *other.groups])
        return Histories({name: (*self.groups.get(name, ()), *other.groups.get(name, ())) for name in names})


@dataclass(frozen=True, kw_only=True)
class SharedHistory(Claim[Histories]):
    """What the rows of a person show together, which pseudonyms in ``column`` link, is shared by at least k people.

    All her rows, or any ``facts`` of them (k^m-anonymity, Terrovitis, Mamoulis and Kalnis 2008): whoever knows that
    many of her rows, by the released ``columns``, is left with at least k people. The tally is not split into shares:
    pseudonyms are made in memory only.
    """

    kind: ClassVar[ClaimKind] = "privacy"
    recountable: ClassVar[bool] = True

    k: int
    columns: tuple[str, ...]
    column: str
    facts: int | None = None

    def tally(self, evidence: Evidence) -> Histories:
        found = evidence.groups(self.columns)
        keys = [key.tobytes() for key in found.keys.values]
        groups: dict[str, list[bytes]] = {}
        names = evidence.released.arrow.column(self.column).to_pylist()
        for name, label in zip(names, found.labels.tolist(), strict=True):
            groups.setdefault(name, []).append(keys[label])
        return Histories({name: tuple(rows) for name, rows in groups.items()})

    def finding(self, tally: Histories) -> Finding:
        known: Counter[tuple[bytes, ...]] = Counter()
        for rows in tally.groups.values():
            known.update(self._known(rows, largest_only=False))
        fewest = min(
            (known[facts] for rows in tally.groups.values() for facts in self._known(rows, largest_only=True)),
            default=0,
        )
        what = "all rows" if self.facts is None else f"any {format_count(self.facts, 'row')}"
        return self.report(
            claim=f"{what} of a person, linked by pseudonyms in {self.column!r}, fit at least {self.k} people in "
            f"{format_names_without_box(self.columns)}",
            held=fewest >= self.k or not tally.groups,
            found=f"fewest people {fewest:,}, of {len(tally.groups):,}",
            fix="no pseudonyms; or, for an intruder who knows few rows of a person, facts = 1 in the schema",
        )

    def recount_in_sql(self, rows: ReleasedRows) -> SqlRecount:
        """Return the recount: what can be known of a person is a sorted list of the groups of some of her rows."""
        queries = rows.numbered(self.columns, person=self.column)
        if self.facts is None:
            queries |= {"known": "SELECT person, list_sort(list(g)) AS facts, true AS largest FROM numbered GROUP BY 1"}
        else:
            queries |= {
                "placed": "SELECT person, g, row_number() OVER (PARTITION BY person ORDER BY g) AS place, "
                "count(*) OVER (PARTITION BY person) AS own FROM numbered",
                "chosen": "SELECT person, [g] AS facts, place, own FROM placed\n    UNION ALL "
                "SELECT chosen.person, list_append(facts, g), placed.place, chosen.own FROM chosen JOIN placed "
                "ON chosen.person IS NOT DISTINCT FROM placed.person AND placed.place > chosen.place "
                f"WHERE len(facts) < {self.facts}",
                "known": f"SELECT DISTINCT person, facts, len(facts) = least(own, {self.facts}) AS largest FROM chosen",
            }
        queries["shared"] = "SELECT person, largest, count(*) OVER (PARTITION BY facts) AS people FROM known"
        fewest = "min(people) FILTER (WHERE largest)"
        everybody = "count(DISTINCT person) + max((person IS NULL)::INTEGER)"
        return SqlRecount(
            required=f"at least {format_count(self.k, 'person')} with the same rows",
            counted=f"format('fewest people {{:,}}, of {{:,}}', {fewest}, {everybody})",
            holds=f"{fewest} >= {self.k}",
            queries=queries,
        )

    def _known(self, rows: tuple[bytes, ...], *, largest_only: bool) -> set[tuple[bytes, ...]]:
        """Return what an intruder may know of these rows: all of them, or any ``facts`` of them, and fewer."""
        ordered = sorted(rows)
        if self.facts is None:
            return {tuple(ordered)}
        most = min(self.facts, len(ordered))
        return {known for size in range(most if largest_only else 1, most + 1) for known in combinations(ordered, size)}

    @property
    def protects(self) -> tuple[str, ...]:
        return self.columns if self.k > 1 else ()


@dataclass(frozen=True, kw_only=True)
class DatesShifted(Claim[None]):
    """All dates of a person were shifted by the same days; made only after this was verified on the original."""

    columns: tuple[str, ...]
    by: str
    days: int
    people: int

    def tally(self, evidence: Evidence) -> None:
        return None

    def merge(self, one: None, other: None) -> None:
        return None

    def finding(self, tally: None) -> Finding:
        people = format_count(self.people, "person").replace("persons", "people")
        return self.report(
            claim=f"all dates of a person in {', '.join(self.columns)} are shifted by the same 1 to {self.days:,} days "
            "to either side, and all promises speak of the shifted dates; the shift guarantees no privacy",
            held=True,
            found=f"distances between the dates of {people} kept, compared before the method",
        )
