"""Questions about rows in files, answered by SQL or in one pass over batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from sfumato.engines.stored.survey import Scan, SqlDialect
from sfumato.survey.questions import PartialAnswers
from sfumato.table.positions import chosen_within

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.engines.duckdb.connection import Connection
    from sfumato.engines.stored.relation import StoredRows
    from sfumato.survey.questions import Question


@dataclass(frozen=True, repr=False)
class DuckDBScan(Scan):
    """Reads stored rows, and counts them by SQL."""

    dialect: ClassVar[SqlDialect] = SqlDialect(
        days="{} - DATE '1970-01-01'",
        microseconds="epoch_us({})",
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
