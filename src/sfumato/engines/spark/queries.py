"""Questions about rows on a cluster: counts by aggregation, the rest by partial answers that executors make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.engines.spark.files import NumberedFile, numbered_files
from sfumato.engines.spark.source import quoted
from sfumato.engines.stored.opened import EXACTLY_COUNTED, blanks_sql, column_facts
from sfumato.engines.stored.survey import Scan
from sfumato.survey.questions import PartialAnswers
from sfumato.table.facts import ColumnFacts, is_text
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from sfumato.engines.spark.cluster import Cluster
    from sfumato.engines.stored.relation import StoredRows
    from sfumato.survey.questions import Question


@dataclass(frozen=True, repr=False)
class SparkScan(Scan):
    """Reads stored rows on the executors, and counts them by aggregation."""

    stored: StoredRows
    cluster: Cluster
    batch_rows: int

    @cached_property
    def frame(self) -> DataFrame:
        """All rows."""
        return self.cluster.read(self.stored.relation.files)

    def facts(self, names: Sequence[str], count_distinct: bool = False) -> Mapping[str, ColumnFacts]:
        from pyspark.sql import functions

        if not names:
            return {}
        types = self.stored.relation.types
        exact = self.stored.rows <= EXACTLY_COUNTED
        counted = [
            f"{sql} AS {alias}{position}"
            for position, name in enumerate(names)
            for alias, sql in _counts(name, types[name], count_distinct, exact).items()
        ]
        asked = self.frame.agg(*map(functions.expr, ["count(1) AS rows", *counted]))
        found = self.cluster.table(asked).to_pylist()[0]
        return {
            name: column_facts(found, position, self.stored.kinds.get(name, Kind.NOMINAL), types[name])
            for position, name in enumerate(names)
        }

    def distinct(self, column: str, most: int | None) -> pa.Table:
        found = self._counted([quoted(column)])
        if most is not None:
            found = found.orderBy("rows", "key0", ascending=[False, True]).limit(most)
        return self.cluster.table(found).rename_columns([column, "number"])

    def group_sizes(self, columns: Sequence[str]) -> pa.Table:
        sizes = self._counted(list(map(quoted, columns))).groupBy("rows").count().orderBy("rows")
        return self.cluster.table(sizes).rename_columns(["size", "groups"])

    def values(self, column: str) -> pa.Table:
        number = number_sql(column, self.stored.relation.types[column]) or "CAST(NULL AS DOUBLE)"
        found = self.cluster.table(self._counted([number]).orderBy("key0"))
        return found.rename_columns(["value", "rows"])

    def _counted(self, keys: Sequence[str]) -> DataFrame:
        """Return each combination of these values and its number of rows."""
        names = [f"key{position}" for position in range(len(keys))]
        selected = self.frame.selectExpr(*[f"{key} AS {name}" for key, name in zip(keys, names, strict=True)])
        return selected.groupBy(*names).count().withColumnRenamed("count", "rows")

    def fold(self, questions: Sequence[Question[Any]]) -> PartialAnswers:
        work = partial(_fold, self.stored, tuple(questions), self.batch_rows)
        partials = self.cluster.each(work, numbered_files(self.stored.relation), "surveying rows")
        return reduce(PartialAnswers.merge, partials)

    def take(self, numbers: NDArray[np.int64]) -> pa.Table:
        files = numbered_files(self.stored.relation)
        ends = np.searchsorted(numbers, [file.first for file in files] + [self.stored.rows])
        asked = [
            (file, numbers[start:end] - file.first)
            for file, start, end in zip(files, ends[:-1], ends[1:], strict=True)
            if end > start
        ]
        parts = self.cluster.each(partial(_take, self.stored, self.batch_rows), asked, "drawing a sample")
        return pa.concat_tables(parts)


def number_sql(name: str, kind: pa.DataType) -> str | None:
    """Return a column in the units of ``Table.numbers`` as SQL: days, microseconds, or the number itself; else None."""
    column = quoted(name)
    if pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind):
        return f"CAST({column} AS DOUBLE)"
    if pt.is_date(kind):
        return f"CAST(unix_date({column}) AS DOUBLE)"
    since = f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {column})"
    return f"CAST({since} AS DOUBLE)" if pt.is_timestamp(kind) else None


def _counts(name: str, kind: pa.DataType, count_distinct: bool, exact: bool) -> dict[str, str]:
    column, number = quoted(name), number_sql(name, kind)
    asked = {"present": f"count({column})"}
    if number:
        asked |= {"low": f"min({number})", "high": f"max({number})"}
    if pt.is_floating(kind):
        asked["infinite"] = f"count_if(abs({column}) = double('infinity'))"
    if count_distinct:
        asked["distinct"] = f"count(DISTINCT {column})" if exact else f"approx_count_distinct({column}, 0.02)"
        if is_text(kind):
            asked["blanks"] = blanks_sql(column)
    return asked


def _fold(
    stored: StoredRows, questions: Sequence[Question[Any]], batch_rows: int, file: NumberedFile
) -> PartialAnswers:
    partials = PartialAnswers(questions)
    batches = file.batches(stored, partials.reads, batch_rows)
    return partials.add(stored.typed(arrow) for _, arrow in batches)


def _take(stored: StoredRows, batch_rows: int, asked: tuple[NumberedFile, NDArray[np.int64]]) -> pa.Table:
    """Return the rows at these positions of a file, which ascend."""
    file, positions = asked
    parts, start = [], 0
    for _, batch in file.batches(stored, stored.names, batch_rows):
        first, last = np.searchsorted(positions, [start, start + batch.num_rows])
        parts.append(batch.take(pa.array(positions[first:last] - start)))
        start += batch.num_rows
    return pa.concat_tables(parts)
