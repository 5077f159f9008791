"""Compare all rows of two tables: keys of the rows go to disk, and DuckDB groups and joins them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from sfumato.engines.duckdb.connection import Connection
from sfumato.engines.stored.relation import Relation
from sfumato.engines.stored.spool import spooled
from sfumato.engines.stored.survey import histogram_of
from sfumato.survey.equal_rows import ComparedRows, EqualRowCounts


def compare_stored_keys(
    original: Iterable[pa.Table], released: Iterable[pa.Table], folder: Path, connection: Connection
) -> ComparedRows:
    """Compare the keys of rows, as :meth:`sfumato.engines.base.Session.compare` has them."""
    people, rows = spooled(original, folder, "people-keys"), spooled(released, folder, "released-keys")
    sizes = connection.table(
        f"SELECT size, count(*) AS groups FROM (SELECT count(*) AS size FROM {_keys(rows)} GROUP BY shown_a, shown_b) "
        "GROUP BY size ORDER BY size"
    )
    compared = ComparedRows(
        original_rows=people.rows,
        released_rows=rows.rows,
        whole=_equal("whole", people, rows, connection),
        known=_equal("known", people, rows, connection),
        groups=histogram_of(sizes),
    )
    for file in (*people.files, *rows.files):
        file.unlink(missing_ok=True)
    return compared


def _keys(relation: Relation) -> str:
    named = ", ".join(f"{relation.column(name)} AS {name}" for name in relation.types)
    return f"(SELECT {named} FROM {relation.sql(list(relation.types))})"


def _equal(key: str, people: Relation, rows: Relation, connection: Connection) -> EqualRowCounts:
    """Count the people whom released rows equal in a key; who shares the ``known`` key with others is not unique."""
    on = f"{key}_a, {key}_b"
    query = f"""
        WITH together AS (
            SELECT {on}, count(*) AS people, any_value(known_a) AS a, any_value(known_b) AS b
            FROM {_keys(people)} GROUP BY {on}
        ), alone AS (
            SELECT known_a AS a, known_b AS b FROM {_keys(people)} GROUP BY known_a, known_b HAVING count(*) = 1
        ), shown AS (
            SELECT {on}, count(*) AS rows FROM {_keys(rows)} GROUP BY {on}
        ), counted AS (
            SELECT people, coalesce(rows, 0) AS rows, people = 1 AND alone.a IS NOT NULL AS is_unique
            FROM together LEFT JOIN shown USING ({on}) LEFT JOIN alone ON together.a = alone.a AND together.b = alone.b
        )
        SELECT count_if(is_unique) AS is_unique, count_if(is_unique AND rows > 0) AS copied,
            count_if(people = 2) AS pairs, coalesce(sum(rows), 0)::BIGINT AS equal FROM counted
    """
    counts = {name: int(count) for name, count in connection.row(query).items()}  # DuckDB counts in 128 bits
    return EqualRowCounts(
        unique=counts["is_unique"], copied=counts["copied"], pairs=counts["pairs"], equal=counts["equal"]
    )
