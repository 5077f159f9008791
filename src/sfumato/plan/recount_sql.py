"""Promises as SQL: whoever has the released rows recounts them with DuckDB alone, without this package.

    claims + names of the released columns → promises.sql → one row per promise: promise, required, counted, holds

Each statement is complete in itself. A semicolon or two hyphens never stand inside a statement, so that a reader who
splits the text at semicolons, after removing comments, gets the same statements as DuckDB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from sfumato.table.kinds import Kind

HEADER = """\
-- The promises of this release as SQL, for DuckDB 1.3 or newer. Nothing else is needed.
-- In the folder of the release:  duckdb < promises.sql
-- Each query returns one row: the promise, what is required, what was counted, and whether it holds.
"""


REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # in place of a sign that cannot be shown


class Told(Protocol):
    """What was found when a promise was verified: its sentence and its kind."""

    @property
    def claim(self) -> str:
        """The promise in words."""

    @property
    def kind(self) -> str:
        """Privacy or integrity."""


def literal(text: str) -> str:
    """Return a text as SQL; signs that could end a statement, begin a comment or not be seen are written as numbers.

    >>> literal("it's a;b")
    "'it''s a' || chr(59) || 'b'"
    """
    pieces, plain = [], ""
    for letter in text:
        if letter == ";" or not letter.isprintable() or (letter == "-" and plain.endswith("-")):
            pieces += [_quote(plain), f"chr({ord(letter) or ord(REPLACEMENT)})"]
            plain = ""
        else:
            plain += letter
    return " || ".join(one for one in [*pieces, _quote(plain)] if one != "''") or "''"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def counted(number: str, unit: str) -> str:
    """Return SQL for a number of things, as findings write it: ``1 row``, ``2,000 rows``."""
    return f"format('{{:,}} {unit}', ({number})::BIGINT) || CASE WHEN {number} = 1 THEN '' ELSE 's' END"


def listed(name: str, number: str, unit: str, condition: str) -> str:
    """Return SQL for columns with a number of things each, of the rows for which a condition holds."""
    each = f"{name} || ' (' || {counted(number, unit)} || ')'"
    return f"string_agg({each}, ', ' ORDER BY place) FILTER (WHERE {condition})"


@dataclass(frozen=True, kw_only=True)
class SqlRecount:
    """The recount of one promise: SQL expressions over the last of some named queries."""

    required: str  # in words
    counted: str  # SQL for a text
    holds: str  # SQL for true or false
    queries: Mapping[str, str]  # name → SQL, each may use those before it

    def statement(self, promise: str) -> str:
        """Return the statement without its semicolon."""
        named = ",\n".join(f"  {name} AS ({sql})" for name, sql in self.queries.items())
        return (
            f"WITH RECURSIVE\n{named}\nSELECT {literal(promise)} AS promise,\n  {literal(self.required)} AS required,\n"
            f"  {self.counted} AS counted,\n  {self.holds} AS holds\nFROM {list(self.queries)[-1]}"
        )


@dataclass(frozen=True, kw_only=True)
class ReleasedRows:
    """The released Parquet file, or folder of parts, as SQL reads it: columns are called c1, c2, … in a statement."""

    path: str  # relative to the folder of the release
    kinds: Mapping[str, Kind]  # of the released columns, in their order

    @cached_property
    def _has_plain_names(self) -> bool:
        """Whether SQL can write all names, and tell them apart: it takes ``Age`` and ``age`` for the same."""
        plain = [name for name in self.kinds if name.isprintable() and ";" not in name and "--" not in name]
        return all(self.kinds) and len({name.casefold() for name in plain}) == len(self.kinds)

    def _identifier(self, name: str) -> str:
        if self._has_plain_names:
            return '"' + name.replace('"', '""') + '"'
        return f'"column {list(self.kinds).index(name) + 1}"'

    @cached_property
    def _source(self) -> str:
        """The rows; all columns are renamed by their places if a name cannot be written."""
        renamed = f" AS released({', '.join(map(self._identifier, self.kinds))})"
        return f"read_parquet({literal(self.path)}){'' if self._has_plain_names else renamed}"

    def cells(self, columns: Sequence[str], **others: str) -> str:
        """Return a query of these columns as c1, c2, … and of others by a name; NaN counts as missing."""
        named = [(f"c{place}", name) for place, name in enumerate(columns, 1)]
        chosen = ", ".join(f"{self._cell(name)} AS {short}" for short, name in [*named, *others.items()])
        return f"SELECT {chosen or '1 AS c0'} FROM {self._source}"

    def _cell(self, name: str) -> str:
        is_number = self.kinds[name] in (Kind.CONTINUOUS, Kind.WHOLE)
        return f"nullif({self._identifier(name)}, 'NaN'::DOUBLE)" if is_number else self._identifier(name)

    def groups(self, columns: Sequence[str]) -> dict[str, str]:
        """Return queries for the number of rows of each group that is equal in these columns, called ``members``."""
        by = f" GROUP BY {keys(columns)}" if columns else ""
        return {"cells": self.cells(columns), "groups": f"SELECT count(*) AS members FROM cells{by}"}

    def numbered(self, columns: Sequence[str], **others: str) -> dict[str, str]:
        """Return queries for the other columns of each row with the number of its group, called ``g``."""
        group = f"dense_rank() OVER (ORDER BY {keys(columns)})" if columns else "1"
        shown = "".join(f", {short}" for short in others)
        return {"cells": self.cells(columns, **others), "numbered": f"SELECT {group} AS g{shown} FROM cells"}

    def each_column(self, columns: Mapping[str, Sequence[str]], figure: str) -> dict[str, str]:
        """Return a query for a figure of the values of each column by itself, with its name and place."""
        each: list[str] = []
        for name, shown in columns.items():
            missing, by = keys(shown).replace(", ", " IS NULL AND ") + " IS NULL", keys(shown)
            values = f"SELECT {missing} AS missing, count(*) AS members FROM ({self.cells(shown)}) GROUP BY {by}"
            named = f"{len(each)} AS place, {literal(repr(name))} AS name"
            each.append(f"SELECT {named}, {figure} AS figure FROM ({values})")
        return {"columns": "\n  UNION ALL ".join(each)}

    def schema_names(self) -> str:
        """Return a query of the names of all columns, as they are in the file."""
        return f"SELECT DISTINCT name FROM parquet_schema({literal(self.path)}) WHERE num_children IS NULL"


def keys(columns: Sequence[str]) -> str:
    """Return the short names of the columns that form groups."""
    return ", ".join(f"c{place}" for place in range(1, len(columns) + 1))


def values_apart_in_sql(kind: Kind, epsilon: float, l: int, rounding: float) -> dict[str, str]:
    """Return queries for the values of each group that are at least ``epsilon`` apart.

    The smallest value is taken, then the next one that is far enough, and so on; ``rounding`` is a share of a value.
    """
    number = "v::DOUBLE"
    if kind is Kind.DATE:  # dates are counted in days, and times in microseconds
        number = "CASE typeof(v) WHEN 'DATE' THEN epoch_us(v) / 86400000000.0 ELSE epoch_us(v)::DOUBLE END"
    allowed = f"{rounding!r} * greatest(abs(x), abs(last))"
    return {
        "points": f"SELECT DISTINCT g, {number} AS x FROM numbered WHERE v IS NOT NULL",
        "chain": "SELECT g, min(x) AS last, 1 AS taken FROM points GROUP BY g\n    UNION ALL "
        "SELECT g, min(x), taken + 1 FROM chain JOIN points USING (g) "
        f"WHERE taken < {l} AND x > last AND x - last >= {epsilon!r} - {allowed} GROUP BY g, taken",
        "missing": "SELECT g, max((v IS NULL)::INTEGER) AS one FROM numbered GROUP BY g",
        "counted": "SELECT max(one) + coalesce(max(taken), 0) AS different "
        "FROM missing LEFT JOIN chain USING (g) GROUP BY g",
    }


@dataclass(frozen=True, kw_only=True)
class JoinedRows:
    """Released tables of the same people, each with the columns by which an intruder recognises a row of it."""

    rows: Mapping[str, ReleasedRows]  # by table
    columns: Mapping[str, Sequence[str]]
    person: str  # column that links them
    people: str  # table with one row for each person

    def recount(self, k: int, facts: int | None) -> SqlRecount:
        """Return the recount of the people who fit the row of a person and some of hers in the other tables.

        What can be known of a person is a list: the group of her row among the people, and then, in order, the groups
        of some of her other rows. Each group is a number that no other table has.
        """
        queries: dict[str, str] = {}
        others = [name for name in self.rows if name != self.people]
        for number, name in enumerate([self.people, *others]):
            numbered = self.rows[name].numbered(self.columns[name], person=self.person)
            queries[f"cells{number}"] = numbered["cells"]
            group = numbered["numbered"].replace("FROM cells", f"FROM cells{number}")
            queries[f"rows{number}"] = f"SELECT person, [{number}, g] AS fact FROM ({group})"
        every = "\n    UNION ALL ".join(f"SELECT * FROM rows{number}" for number in range(1, len(others) + 1))
        queries["placed"] = (
            "SELECT person, fact, row_number() OVER (PARTITION BY person ORDER BY fact) AS place "
            f"FROM ({every or 'SELECT * FROM rows0 WHERE false'})"
        )
        queries["own"] = (
            "SELECT rows0.person, rows0.fact, count(placed.place) AS own FROM rows0 "
            "LEFT JOIN placed ON rows0.person = placed.person GROUP BY ALL"
        )
        if facts is None:
            queries["known"] = (
                "SELECT own.person, [own.fact] || coalesce(list(placed.fact ORDER BY place) "
                "FILTER (WHERE place IS NOT NULL), []) AS facts, true AS largest "
                "FROM own LEFT JOIN placed ON own.person = placed.person GROUP BY own.person, own.fact"
            )
        else:
            queries["chosen"] = (
                "SELECT person, [fact] AS facts, 0::BIGINT AS place, own FROM own\n    UNION ALL "
                "SELECT chosen.person, list_append(facts, fact), placed.place, chosen.own FROM chosen JOIN placed "
                f"ON chosen.person = placed.person AND placed.place > chosen.place WHERE len(facts) <= {facts}"
            )
            queries["known"] = (
                f"SELECT DISTINCT person, facts, len(facts) - 1 = least(own, {facts}) AS largest FROM chosen"
            )
        queries["shared"] = "SELECT person, largest, count(*) OVER (PARTITION BY facts) AS people FROM known"
        fewest, told = "min(people) FILTER (WHERE largest)", "over the join of the released tables"
        return SqlRecount(
            required=f"at least {k:,} people with the same rows",
            counted=f"format('fewest people {{:,}}, of {{:,}}, {told}', {fewest}, count(DISTINCT person))",
            holds=f"{fewest} >= {k}",
            queries=queries,
        )


def write_linked_promise(finding: Told, recount: SqlRecount) -> str:
    """Return what linked tables promise together as SQL."""
    head = (
        f"{HEADER}-- What each table promises by itself is in its folder.\n\n-- 1 {_head(finding.kind, finding.claim)}"
    )
    return f"{head}{recount.statement(finding.claim)};\n"


def write_promises(promises: Sequence[tuple[Told, Any]], rows: ReleasedRows) -> str:
    """Return the promises of a release as SQL; those that the released rows cannot show are named in comments.

    Each promise comes with its claim, or None if the claim is not recorded.
    """
    parts = [_write_promise(*promise, rows) for promise in promises]
    return HEADER + "".join(f"\n-- {number} {part}" for number, part in enumerate(parts, 1))


def _write_promise(finding: Told, claim: Any, rows: ReleasedRows) -> str:
    promise, recount = finding.claim, None
    if getattr(claim, "person", None) is not None:
        claim = replace(claim, person=None)
        promise = f"{promise}; here in rows, which is less: the released rows do not tell people apart"
    if claim is not None and not claim.needs_original:
        recount = claim.recount_in_sql(rows)
    head = _head(finding.kind, promise)
    return f"{head}{recount.statement(promise)};\n" if recount else f"{head}-- Not recounted here: {_reason(claim)}.\n"


def _head(kind: str, promise: str) -> str:
    told = "".join(letter if letter.isprintable() else REPLACEMENT for letter in promise)
    return f"({kind}): {told.replace(';', ',')}\n"


def _reason(claim: Any) -> str:
    if claim is None or claim.needs_original:
        return "the released rows alone do not show it, it was verified when the release was made"
    return "it is no plain count of rows, sfumato verify computes it"
