"""Write a stream of tables into one Parquet file of the workspace."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.types as pt

from sfumato.engines.stored.relation import Relation
from sfumato.errors import OptionError, ReadError


def spooled(tables: Iterable[pa.Table], folder: Path, name: str) -> Relation:
    """Write tables with the same columns into one Parquet file; ordered columns are stored as text."""
    import pyarrow.parquet as pq

    path, orders = folder / f"{name}.parquet", dict[str, dict[str, None]]()
    writer, failure = None, ""
    try:
        for table in tables:
            _note_orders(table, orders)
            stored = pa.table([_stored(column) for column in table.columns], names=table.column_names)
            writer = writer or pq.ParquetWriter(path, stored.schema, compression="lz4")
            writer.write_table(stored.cast(writer.schema))
    except OSError as error:
        failure = error.strerror or type(error).__name__
    finally:
        if writer is not None:
            writer.close()
    if failure:
        raise OptionError(f"Temporary rows cannot be written: {failure}.", fix="free space on the disk of the target")
    if writer is None:
        raise ReadError("A table must have rows.", found="no rows")
    return Relation.of([path], {name: tuple(values) for name, values in orders.items()})


def _note_orders(table: pa.Table, orders: dict[str, dict[str, None]]) -> None:
    for one in table.schema:
        if pt.is_dictionary(one.type) and one.type.ordered:
            words = orders.setdefault(one.name, {})
            for chunk in table.column(one.name).chunks:
                words.update(dict.fromkeys(chunk.dictionary.to_pylist()))


def _stored(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pt.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column.cast(pa.string()) if pt.is_null(column.type) or pt.is_large_string(column.type) else column
