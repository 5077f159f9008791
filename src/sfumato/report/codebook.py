"""The codebook of a release: what each released column means, as a CSV file. It contains no cell."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sfumato.release.labels import released_labels
from sfumato.report.summary import MOST_ROWS, treatment
from sfumato.table.exports import EXPORTS, file_names
from sfumato.table.intervals import original_name, original_names
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from sfumato.release.release import Release

HEADER = ("column", "label", "kind", "made from", "role", "what was done", "categories")


def codebook(release: Release, formats: Sequence[str] = ()) -> str:
    """Return the codebook as the text of a CSV file, one line for each column of the release.

    Categories are counted in tables that fit into memory. A column whose name a format cannot hold has its name in that
    format in a further column.
    """
    manifest = release.manifest
    assert manifest is not None
    names = [column.name for column in manifest.released]
    labels, records = released_labels(manifest, names), {column.name: column for column in manifest.columns}
    renamed = {
        f"name in {format}": file_names(names, EXPORTS[f".{format}"]) for format in formats if f".{format}" in EXPORTS
    }
    renamed = {title: new for title, new in renamed.items() if any(name != new[name] for name in names)}
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow([*HEADER, *renamed])
    for column in manifest.released:
        base = original_name(column.name, names, records)
        record = records.get(base)
        done = (record.role, treatment(record, manifest)) if record else ("", "added by the method")
        cells = [column.name, labels.get(column.name, ""), column.kind, base if record else "", *done]
        cells += [_categories(release, column.name), *(new[column.name] for new in renamed.values())]
        out.writerow([_safe(str(cell)) for cell in cells])
    shown = set(original_names(names, records))
    for record in manifest.columns:
        if record.name not in shown:
            cells = ["", record.label, record.kind, record.name, record.role, treatment(record, manifest)]
            out.writerow([_safe(str(cell)) for cell in cells] + [""] * (1 + len(renamed)))
    return text.getvalue()


def _safe(text: str) -> str:
    """Return text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _categories(release: Release, name: str) -> str:
    """Return the number of categories of a released column; their names are cells, which only the release holds."""
    table = release.table
    if not isinstance(table, Table) or table.rows > MOST_ROWS or table.kinds[name] not in (Kind.NOMINAL, Kind.ORDERED):
        return ""
    values = table.coded(name).values
    return str(len(values) - values.null_count)
