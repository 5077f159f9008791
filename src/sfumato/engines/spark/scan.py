"""Questions about rows on a cluster: counts by aggregation, the rest by partial answers that executors make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engines.out_of_core.scan import Scan, SqlDialect
from sfumato.engines.out_of_core.source import Relation, StoredRows
from sfumato.engines.spark.cluster import Cluster
from sfumato.engines.spark.source import START, quote_name
from sfumato.plan.questions import PartialAnswers, Question

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class NumberedFile:
    """A file, and the number of its first row in the whole table."""

    path: Path
    first: int

    def batches(
        self, rows: StoredRows, names: Sequence[str], size: int
    ) -> Iterator[tuple[NDArray[np.uint64], pa.Table]]:
        """Yield batches of these columns as they are stored, with the numbers of their rows."""
        alone = Relation((self.path,), rows.relation.types, rows.relation.orders)
        for keys, arrow in alone.batches(names, size):
            yield keys + np.uint64(self.first), arrow


def numbered_files(relation: Relation) -> list[NumberedFile]:
    """Return the files of a relation that have rows."""
    numbered, first = [], 0
    for file, rows in zip(relation.files, relation.counts, strict=True):
        if rows:
            numbered.append(NumberedFile(file, first))
        first += rows
    return numbered


@dataclass(frozen=True, repr=False)
class SparkScan(Scan):
    """Reads stored rows on the executors, and counts them by aggregation."""

    dialect: ClassVar[SqlDialect] = SqlDialect(
        days="unix_date({})",
        microseconds=f"timestampdiff(MICROSECOND, {START}, {{}})",
        instant="unix_micros({})",
        is_infinite="abs({}) = double('infinity')",
        estimated_distinct="approx_count_distinct({}, 0.02)",
    )

    stored: StoredRows
    cluster: Cluster
    batch_rows: int

    @cached_property
    def frame(self) -> DataFrame:
        """All rows."""
        return self.cluster.read(self.stored.relation.files)

    def column(self, name: str) -> str:
        return quote_name(name)

    def count(self, asked: Sequence[str], names: Sequence[str]) -> Mapping[str, Any]:
        from pyspark.sql import functions

        counts: dict[str, Any] = self.cluster.table(self.frame.agg(*map(functions.expr, asked))).to_pylist()[0]
        return counts

    def distinct(self, column: str, most: int | None) -> pa.Table:
        counted = self._count_by([quote_name(column)])
        if most is not None:
            counted = counted.orderBy("rows", "key0", ascending=[False, True]).limit(most)
        return self.cluster.spooled(counted, "counting values").rename_columns([column, "number"])

    def group_sizes(self, columns: Sequence[str]) -> pa.Table:
        sizes = self._count_by(list(map(quote_name, columns))).groupBy("rows").count().orderBy("rows")
        return self.cluster.table(sizes).rename_columns(["size", "groups"])

    def values(self, column: str) -> pa.Table:
        number = self.dialect.number(quote_name(column), self.stored.relation.types[column]) or "CAST(NULL AS DOUBLE)"
        counted = self.cluster.spooled(self._count_by([number]), "counting values")
        return counted.rename_columns(["value", "rows"]).sort_by("value")

    def _count_by(self, keys: Sequence[str]) -> DataFrame:
        """Return each combination of these values and its number of rows."""
        names = [f"key{position}" for position in range(len(keys))]
        selected = self.frame.selectExpr(*[f"{key} AS {name}" for key, name in zip(keys, names, strict=True)])
        return selected.groupBy(*names).count().withColumnRenamed("count", "rows")

    def fold(self, questions: Sequence[Question[Any]]) -> PartialAnswers:
        work = partial(_fold, self.stored, tuple(questions), self.batch_rows)
        files = numbered_files(self.stored.relation)
        return self.cluster.merge_each(work, files, PartialAnswers.merge, "surveying rows")

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


def _fold(
    stored: StoredRows, questions: Sequence[Question[Any]], batch_rows: int, file: NumberedFile
) -> PartialAnswers:
    partials = PartialAnswers(questions)
    batches = file.batches(stored, partials.reads, batch_rows)
    return partials.add(stored.to_table(arrow) for _, arrow in batches)


def _take(stored: StoredRows, batch_rows: int, asked: tuple[NumberedFile, NDArray[np.int64]]) -> pa.Table:
    """Return the rows at these positions of a file, which ascend."""
    file, positions = asked
    parts, start = [], 0
    for _, batch in file.batches(stored, stored.names, batch_rows):
        first, last = np.searchsorted(positions, [start, start + batch.num_rows])
        parts.append(batch.take(pa.array(positions[first:last] - start)))
        start += batch.num_rows
    return pa.concat_tables(parts)
