"""Counts and extremes of columns by SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.types as pt

from sfumato.engines.duckdb.connection import Connection
from sfumato.engines.stored.opened import EXACTLY_COUNTED, blanks_sql, column_facts
from sfumato.engines.stored.relation import Relation
from sfumato.table.facts import ColumnFacts, is_text
from sfumato.table.kinds import Kind


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
        name: column_facts(found, position, (kinds or {}).get(name, Kind.NOMINAL), relation.types[name])
        for position, name in enumerate(names)
    }


def _counts(position: int, name: str, relation: Relation, count_distinct: bool, exact: bool) -> str:
    column, kind = relation.column(name), relation.types[name]
    asked = [f"count({column}) AS present{position}"]
    number = number_sql(column, kind)
    if number:
        asked += [f"min({number}) AS low{position}", f"max({number}) AS high{position}"]
    if pt.is_floating(kind):
        asked.append(f"count_if(isinf({column})) AS infinite{position}")
    if count_distinct:
        count = f"count(DISTINCT {column})" if exact else f"approx_count_distinct({column})"
        asked.append(f"{count} AS distinct{position}")
        if is_text(kind):
            asked.append(f"{blanks_sql(column)} AS blanks{position}")
    return ", ".join(asked)


def number_sql(column: str, kind: pa.DataType) -> str | None:
    """Return a column in the units of ``Table.numbers`` as SQL: days, microseconds, or the number itself; else None."""
    if pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind):
        return f"CAST({column} AS DOUBLE)"
    if pt.is_date(kind):
        return f"CAST({column} - DATE '1970-01-01' AS DOUBLE)"
    return f"CAST(epoch_us({column}) AS DOUBLE)" if pt.is_timestamp(kind) else None
