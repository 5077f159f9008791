"""What a reader says beside the rows, as metadata of an Arrow table: the labels of columns, and notes for the user."""

from __future__ import annotations

import json
import warnings

import pyarrow as pa

from sfumato.errors import SfumatoWarning

LABEL, NOTES = b"sfumato label", b"sfumato notes"


def with_notes(table: pa.Table, notes: list[str]) -> pa.Table:
    """Return the table with notes for the user; they name columns and counts, and quote no cell."""
    return table.replace_schema_metadata({NOTES: json.dumps(notes)} if notes else None)


def say_notes(table: pa.Table, file: str) -> None:
    """Warn of what the reader noted."""
    for note in json.loads((table.schema.metadata or {}).get(NOTES, b"[]")):
        warnings.warn(SfumatoWarning(f"{file}: {note}"), stacklevel=2)


def column_labels(table: pa.Table) -> dict[str, str]:
    """Return the labels of the columns that have one."""
    return {
        field.name: field.metadata[LABEL].decode()
        for field in table.schema
        if field.metadata and LABEL in field.metadata
    }
