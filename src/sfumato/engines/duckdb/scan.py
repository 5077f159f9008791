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

from sfumato.engines.out_of_core.scan import Scan, SqlDialect, compare_keys
from sfumato.engines.out_of_core.source import Relation, StoredRows, spool_tables
from sfumato.errors import OutOfMemory, ReadError
from sfumato.plan.answers import ComparedRows
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
    compared = compare_keys(_keys(people), _keys(rows), "person_a" in people.types, connection.table)
    for file in (*people.files, *rows.files):
        file.unlink(missing_ok=True)
    return compared


def _keys(relation: Relation) -> str:
    named = ", ".join(f"{relation.column(name)} AS {name}" for name in relation.types)
    return f"(SELECT {named} FROM {relation.sql(list(relation.types))})"
