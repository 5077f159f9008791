"""The analyst's side: a release from a folder, a file or a data frame; no original and no schema is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.errors import ReadError, TableError
from sfumato.release.bundle import MANIFEST, PARQUET
from sfumato.release.manifest import Manifest
from sfumato.release.release import Release
from sfumato.table.frames import as_table
from sfumato.table.table import Table


def read_release(source: Any) -> Release:
    """A release from the folder that ``write`` made, or from a file or data frame.

    A plain file or frame needs ``x_low`` and ``x_high`` columns only; its other numeric columns count as exact.
    """
    if isinstance(source, str | Path) and Path(source).is_dir():
        return _from_folder(Path(source))
    table = as_table(source)
    if not table.rows:
        raise TableError("A release must have rows.", found="none")
    return Release(table)


def _from_folder(folder: Path) -> Release:
    absent = [name for name in (MANIFEST, PARQUET) if not (folder / name).is_file()]
    if absent:
        raise ReadError(
            f"The folder {folder.name!r} must hold a release.",
            found=f"no {' and no '.join(absent)}",
            fix="name the folder that `release` wrote, or a file with x_low and x_high columns",
        )
    manifest = Manifest.from_json((folder / MANIFEST).read_bytes().decode(errors="replace"))
    table = as_table(folder / PARQUET)
    kinds = {column.name: column.kind for column in manifest.released}
    if table.rows != manifest.rows_out or set(table.names) != set(kinds):
        raise ReadError(
            "The rows of a release must be those that its manifest speaks of.",
            found=f"{table.rows:,} rows and {len(table.names)} columns, "
            f"where the manifest says {manifest.rows_out:,} and {len(kinds)}",
            fix="ask for the whole folder again",
        )
    return Release(Table(table.arrow, {name: kinds[name] for name in table.names}), manifest)
