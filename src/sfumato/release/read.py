"""Read a release from a folder, a file or a data frame. Neither the original nor a schema is needed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sfumato.errors import ReadError, TableError
from sfumato.release.bundle import MANIFEST, PARQUET
from sfumato.release.manifest import Manifest
from sfumato.release.release import Release
from sfumato.table.frames import as_table
from sfumato.table.table import Table


def read_release(source: Any) -> Release:
    """Read a release, to estimate statistics from it.

    Parameters
    ----------
    source : path or data frame
        The folder that :meth:`Release.write` wrote, or a single file (CSV, Parquet, Arrow) or data frame of released
        rows. In a file or data frame, ``x_low`` and ``x_high`` are the ends of the intervals of ``x``. All other
        numeric columns are taken as exact.

    Returns
    -------
    Release
        With the manifest of the folder; a file or data frame has none, so its ``manifest`` is None.

    Raises
    ------
    ReadError
        If the folder is incomplete, or if its rows are not those of its manifest.

    Examples
    --------
    >>> import sfumato as sf
    >>> boxes = sf.read_release({"age_low": [20, 20, 40], "age_high": [30, 30, 50]})
    >>> estimate = boxes.estimate("mean(age)")
    >>> round(estimate.low, 2), round(estimate.high, 2)
    (26.67, 36.67)
    """
    if isinstance(source, str | Path) and os.path.isdir(source):  # noqa: PTH112  (false for names that are too long)
        return _from_folder(Path(source))
    table = as_table(source)
    if not table.rows:
        raise TableError("A release must have rows.", found="none")
    return Release(table)


def _from_folder(folder: Path) -> Release:
    absent = [name for name in (MANIFEST, PARQUET) if not (folder / name).is_file()]
    if absent:
        raise ReadError(
            f"The folder {folder.name!r} must contain a release.",
            found=f"no {' and no '.join(absent)}",
            fix="give the folder that `release` wrote, or a file with x_low and x_high columns",
        )
    manifest = Manifest.from_json((folder / MANIFEST).read_bytes().decode(errors="replace"))
    table = as_table(folder / PARQUET)
    kinds = {column.name: column.kind for column in manifest.released}
    if table.rows != manifest.rows_out or set(table.names) != set(kinds):
        raise ReadError(
            "The rows of a release must match its manifest.",
            found=f"{table.rows:,} rows and {len(table.names)} columns; "
            f"the manifest has {manifest.rows_out:,} and {len(kinds)}",
            fix="get a complete copy of the folder",
        )
    return Release(Table(table.arrow, {name: kinds[name] for name in table.names}), manifest)
