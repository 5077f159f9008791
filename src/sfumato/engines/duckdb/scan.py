"""DuckDB with bounded memory and errors that quote no cell: connections, survey questions, and comparison of rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engines.out_of_core.scan import Scan, SqlDialect, histogram_of
from sfumato.engines.out_of_core.source import Relation, StoredRows, spool_tables
from sfumato.errors import OutOfMemory, ReadError
from sfumato.plan.answers import ComparedRows, EqualRowCounts
from sfumato.plan.questions import PartialAnswers, Question
from sfumato.table.table import chosen_within

if TYPE_CHECKING:
    import duckdb


@contextlib.contextmanager
def connect(folder: Path, memory: int, threads: int) -> Iterator[Connection]:
    """Yield a connection that keeps to this memory and writes what does not fit into a private folder."""
    import duckdb

    spill = folder / "duckdb"
    spill.mkdir(mode=0o700, exist_ok=True)
    settings: dict[str, Any] = {
        "memory_limit": f"{memory // 10**6}MB",
        "temp_directory": str(spill),
        "threads": threads,
        "preserve_insertion_order": False,
    }
    with contextlib.closing(duckdb.connect(":memory:", config=settings)) as database:
        yield Connection(database)


class Connection:
    """A connection to DuckDB."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database = database

    def table(self, query: str) -> pa.Table:
        """Return the result of a query."""
        import duckdb

        failure: type[Exception] | None = None
        try:
            return self._result(query)
        except duckdb.OutOfMemoryException:
            failure = OutOfMemory
        except duckdb.Error:  # its text may quote cells
            failure = ReadError
        if failure is OutOfMemory:
            raise OutOfMemory("The memory does not suffice for this table.", fix="a larger --memory")
        raise ReadError("The rows cannot be read.", found="a broken file, or a disk without space")

    def _result(self, query: str) -> pa.Table:
        return self._database.cursor().sql(query).to_arrow_table()

    def row(self, query: str) -> dict[str, Any]:
        """Return the only row of the result of a query."""
        row: dict[str, Any] = self.table(query).to_pylist()[0]
        return row


@dataclass(frozen=True, repr=False)
class DuckDBScan(Scan):
    """Reads stored rows, and counts them by SQL."""

    dialect: ClassVar[SqlDialect] = SqlDialect(
        days="{} - DATE '1970-01-01'",
        microseconds="epoch_us({})",
        instant="epoch_us({})",
        is_infinite="isinf({})",
        estimated_distinct="approx_count_distinct({})",
    )

    stored: StoredRows
    connection: Connection
    batch_rows: int

    def column(self, name: str) -> str:
        return self.stored.relation.column(name)

    def count(self, asked: Sequence[str], names: Sequence[str]) -> Mapping[str, Any]:
        return self.connection.row(f"SELECT {', '.join(asked)} FROM {self.stored.relation.sql(names)}")

    def distinct(self, column: str, most: int | None) -> pa.Table:
        name = self.column(column)
        limit = "" if most is None else f" ORDER BY number DESC LIMIT {most}"
        counted = self.connection.table(
            f"SELECT {name}, count(*) AS number FROM {self.stored.sql([column])} GROUP BY {name}{limit}"
        )
        kind = self.stored.relation.types[column]  # DuckDB has timestamps in microseconds, and in its own time zone
        return pa.table([counted.column(0).cast(kind), counted.column(1)], names=[column, "number"])

    def group_sizes(self, columns: Sequence[str]) -> pa.Table:
        names = ", ".join(map(self.column, columns)) or "1"
        groups = f"SELECT count(*) AS size FROM {self.stored.sql(columns)} GROUP BY {names}"
        return self.connection.table(f"SELECT size, count(*) AS groups FROM ({groups}) GROUP BY size ORDER BY size")

    def values(self, column: str) -> pa.Table:
        number = self.dialect.number(self.column(column), self.stored.relation.types[column])
        return self.connection.table(
            f"SELECT {number} AS value, count(*) AS rows FROM {self.stored.sql([column])} GROUP BY value ORDER BY value"
        )

    def fold(self, questions: Sequence[Question[Any]]) -> PartialAnswers:
        partials = PartialAnswers(questions)
        return partials.add(batch for _, batch in self.stored.tables(self.batch_rows, partials.reads))

    def take(self, numbers: NDArray[np.int64]) -> pa.Table:
        parts = []
        for keys, batch in self.stored.relation.batches(self.stored.names, self.batch_rows):
            here = chosen_within(numbers, int(keys[0]), batch.num_rows)
            if here.size:
                parts.append(batch.take(pa.array(here)))
        return pa.concat_tables(parts)


def compare_stored_keys(
    original: Iterable[pa.Table], released: Iterable[pa.Table], folder: Path, connection: Connection
) -> ComparedRows:
    """Compare the keys of rows, as :meth:`sfumato.engines.base.Session.compare` has them."""
    people, rows = spool_tables(original, folder, "people-keys"), spool_tables(released, folder, "released-keys")
    sizes = connection.table(
        f"SELECT size, count(*) AS groups FROM (SELECT count(*) AS size FROM {_keys(rows)} GROUP BY shown_a, shown_b) "
        "GROUP BY size ORDER BY size"
    )
    compared = ComparedRows(
        original_rows=people.rows,
        people=_count_people(people, connection),
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


def _count_people(people: Relation, connection: Connection) -> int:
    if "person_a" not in people.types:
        return people.rows
    return int(connection.row(f"SELECT count(DISTINCT (person_a, person_b)) AS people FROM {_keys(people)}")["people"])


def _equal(key: str, people: Relation, rows: Relation, connection: Connection) -> EqualRowCounts:
    """Count the people whom released rows equal in a key; who shares the ``known`` key with others is not unique."""
    on, told_apart = f"{key}_a, {key}_b", "person_a" in people.types
    count = "count(DISTINCT (person_a, person_b))" if told_apart else "count(*)"
    person = "any_value((person_a, person_b))" if told_apart else "NULL"
    those = "count(DISTINCT person) FILTER ({})" if told_apart else "count_if({})"
    query = f"""
        WITH together AS (
            SELECT {on}, {count} AS people, {person} AS person, any_value(known_a) AS a, any_value(known_b) AS b
            FROM {_keys(people)} GROUP BY {on}
        ), alone AS (
            SELECT known_a AS a, known_b AS b FROM {_keys(people)} GROUP BY known_a, known_b HAVING {count} = 1
        ), shown AS (
            SELECT {on}, count(*) AS rows FROM {_keys(rows)} GROUP BY {on}
        ), counted AS (
            SELECT people, person, coalesce(rows, 0) AS rows, people = 1 AND alone.a IS NOT NULL AS is_unique
            FROM together LEFT JOIN shown USING ({on}) LEFT JOIN alone ON together.a = alone.a AND together.b = alone.b
        )
        SELECT {those.format("is_unique")} AS is_unique, {those.format("is_unique AND rows > 0")} AS copied,
            count_if(people = 2) AS pairs, coalesce(sum(rows), 0)::BIGINT AS equal FROM counted
    """
    counts = {name: int(count) for name, count in connection.row(query).items()}  # DuckDB counts in 128 bits
    return EqualRowCounts(
        unique=counts["is_unique"], copied=counts["copied"], pairs=counts["pairs"], equal=counts["equal"]
    )
