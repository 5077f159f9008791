"""Counts and extremes of columns by SQL, and the kinds that follow from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from sfumato.engines.duckdb.connection import Connection
from sfumato.engines.duckdb.relation import Relation, quoted
from sfumato.table.facts import ColumnFacts
from sfumato.table.kinds import TEXT_ROWS, TEXT_SHARE, Kind

EXACTLY_COUNTED = 5_000_000  # rows up to which distinct values are counted exactly; more are estimated within about 3 %


def kinds_of(connection: Connection, relation: Relation) -> dict[str, Kind]:
    """Return the kinds of all columns, by the rules of :func:`sfumato.table.kinds.kind_of`."""
    integers = [name for name, kind in relation.types.items() if pt.is_integer(kind)]
    texts = [name for name, kind in relation.types.items() if _is_text(kind) and name not in relation.orders]
    facts = facts_of(connection, relation, integers) | facts_of(connection, relation, texts, count_distinct=True)
    return {name: _kind(name, relation, facts.get(name)) for name in relation.types}


def _kind(name: str, relation: Relation, facts: ColumnFacts | None) -> Kind:
    kind = relation.types[name]
    if name in relation.orders or pt.is_dictionary(kind):
        return Kind.ORDERED if name in relation.orders else Kind.NOMINAL
    if facts is None:
        return _kind_of_type(kind)
    if pt.is_integer(kind):
        return Kind.BOOLEAN if (facts.low, facts.high) == (0.0, 1.0) else Kind.WHOLE
    free = facts.present >= TEXT_ROWS and facts.distinct_values >= TEXT_SHARE * facts.present
    return Kind.TEXT if free else Kind.NOMINAL


def _kind_of_type(kind: pa.DataType) -> Kind:
    if pt.is_boolean(kind):
        return Kind.BOOLEAN
    if pt.is_date(kind) or pt.is_timestamp(kind):
        return Kind.DATE
    return Kind.NOMINAL if pt.is_null(kind) else Kind.CONTINUOUS


def facts_of(
    connection: Connection,
    relation: Relation,
    names: Sequence[str],
    count_distinct: bool = False,
    kinds: Mapping[str, Kind] | None = None,
) -> dict[str, ColumnFacts]:
    """Return the facts of these columns, in one scan; ``kinds`` if they are known."""
    if not names:
        return {}
    exact = relation.rows <= EXACTLY_COUNTED
    counted = [_counts(position, name, relation, count_distinct, exact) for position, name in enumerate(names)]
    found = connection.row(f"SELECT count(*) AS rows, {', '.join(counted)} FROM {relation.sql(names)}")
    return {
        name: _facts(found, position, (kinds or {}).get(name, Kind.NOMINAL), relation.types[name])
        for position, name in enumerate(names)
    }


def _counts(position: int, name: str, relation: Relation, count_distinct: bool, exact: bool) -> str:
    column, kind = quoted(name), relation.types[name]
    asked = [f"count({column}) AS present{position}"]
    number = number_sql(name, kind)
    if number:
        asked += [f"min({number}) AS low{position}", f"max({number}) AS high{position}"]
    if pt.is_floating(kind):
        asked.append(f"count_if(isinf({column})) AS infinite{position}")
    if count_distinct:
        count = f"count(DISTINCT {column})" if exact else f"approx_count_distinct({column})"
        asked.append(f"{count} AS distinct{position}")
    return ", ".join(asked)


def number_sql(name: str, kind: pa.DataType) -> str | None:
    """Return a column in the units of ``Table.numbers`` as SQL: days, microseconds, or the number itself; else None."""
    column = quoted(name)
    if pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind):
        return f"CAST({column} AS DOUBLE)"
    if pt.is_date(kind):
        return f"CAST({column} - DATE '1970-01-01' AS DOUBLE)"
    return f"CAST(epoch_us({column}) AS DOUBLE)" if pt.is_timestamp(kind) else None


def _facts(found: Mapping[str, Any], position: int, kind: Kind, stored: pa.DataType) -> ColumnFacts:
    low, high = (found.get(f"{end}{position}") for end in ("low", "high"))
    present = found[f"present{position}"]
    distinct = found.get(f"distinct{position}")
    return ColumnFacts(
        kind=kind,
        rows=found["rows"],
        missing=found["rows"] - present,
        is_floating=bool(pt.is_floating(stored)),
        low=math.nan if low is None else low,
        high=math.nan if high is None else high,
        infinite=found.get(f"infinite{position}") or 0,
        distinct=None if distinct is None else min(distinct, present),
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))
