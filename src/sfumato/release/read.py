"""Read a release from a folder, a file or a data frame. Neither the original nor a schema is needed."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from sfumato.errors import ReadError, TableError, wrap_memory_errors
from sfumato.formats.raw_files import file_format
from sfumato.formats.text import TextOptions
from sfumato.formats.type_inference import without_marks
from sfumato.machine import LEAST, OWN, memory_from
from sfumato.release.assessment import Assessment
from sfumato.release.bundle import embedded_manifest, sha256
from sfumato.release.bundle_check import BundleCheck, check_bundle, check_rows, replace_findings
from sfumato.release.manifest import Manifest, is_manifest, is_sealed
from sfumato.release.release import Release
from sfumato.release.rows import StoredTable, rows_in
from sfumato.release.target import MANIFEST, NUMBERS, PARQUET, linked_tables
from sfumato.sources.base import STORES, TableSource, scheme_of
from sfumato.sources.files import FileSource, matching_files
from sfumato.sources.frames import as_table
from sfumato.table.intervals import high_name, is_interval, low_name, original_names
from sfumato.table.kinds import MARKS
from sfumato.table.table import Table

if TYPE_CHECKING:
    from sfumato.table.kinds import Kind

CELL_BYTES = 40  # memory for a released cell: its number, sorted copies, and weights of groups


@wrap_memory_errors
def read_release(source: Any, *, verify: bool = True, memory: str | int | None = None) -> Any:
    """Read a release, to estimate statistics from it.

    A folder is verified first: its files must have the checksums of the manifest, and every promise that can be
    recounted on the released rows must hold. Promises that need the original, for example that every original value
    lies inside its released range, were verified when the release was made.

    Parameters
    ----------
    source : path, data frame or Database
        The folder that :meth:`Release.write` wrote, a table of a :class:`sfumato.Database` that a release was written
        into, or a single file (CSV, Parquet, Arrow) or data frame of released rows. The manifest of a file is the one
        beside it, if that lists the file unchanged, or the one in the metadata of released.parquet. Without a manifest
        ``x_low`` and ``x_high`` are the ends of the intervals of ``x``, and nothing is guaranteed for other columns: it
        is not known whether they were altered.
    verify : bool, default True
        Whether to verify a release with a manifest. False reads it as it is, without any guarantee.
    memory : str or int, optional
        Memory for a release in a folder, such as ``"4GB"``; a number is in bytes. A release that needs more stays in
        its files: promises are recounted part by part, and moments, counts, sums and quantiles are computed from parts,
        quantiles a little wider. Other statistics read the columns that they need. Default: a release of one file is
        read whole, and one of several files is computed in parts from 20 million rows on.

    Returns
    -------
    Release or LinkedRelease
        With its manifest; None for a data frame, and for a file whose manifest is neither beside it nor in it. The
        folder of several tables gives a :class:`LinkedRelease`; that of one of its tables a :class:`Release`.

    Raises
    ------
    ReadError
        If the folder is incomplete, or if a file is not as it was written.
    GuaranteeNotMet
        If a promise of the manifest does not hold on the released rows.

    Examples
    --------
    >>> import sfumato as sf
    >>> boxes = sf.read_release({"age_low": [20, 20, 40], "age_high": [30, 30, 50]})
    >>> estimate = boxes.estimate("mean(age)")
    >>> round(estimate.low, 2), round(estimate.high, 2)
    (26.67, 36.67)
    """
    limit = None if memory is None else memory_from(memory)
    if isinstance(source, str | Path) and scheme_of(source) in STORES:
        source = _copy_release(source)
    if isinstance(source, str) and "://" in source:
        raise ReadError(
            "A release is read from a folder or a file.",
            found="the URL of a database or server",
            fix="in Python: sf.read_release(sf.Database(url, table=…))",
        )
    if isinstance(source, str | Path):
        source = Path(source).expanduser()
        folder = _folder_of(source)
        if folder is not None and linked_tables(folder):
            from sfumato.release.linked import read_linked

            if verify:
                verify_bundle(folder, memory=memory).require_held(may_be_absent=True)
            return read_linked(folder, partial(_from_folder, memory=limit))
        if folder is not None:
            release = _from_folder(folder, limit)
            if verify:
                checked = _check(folder, release)
                checked.require_held(may_be_absent=True)
                return _replace_findings(release, checked)
            return release
    is_file = isinstance(source, Path)
    table = as_table(FileSource(source, TextOptions(marks_are_text=True)) if is_file else source)
    if not table.rows:
        raise TableError("A release must have rows.", found="none")
    text = source.manifest_text() if isinstance(source, TableSource) else None
    if is_file and os.path.isfile(source):  # noqa: PTH113  (a pattern is no file)
        text = embedded_manifest(source, table.arrow)
    if text and is_manifest(text):
        return _with_manifest(table, text, verify=verify)
    return Release(_with_empty_ends(table), _from_text=is_file and _is_text(source))


@wrap_memory_errors
def verify_bundle(folder: str | Path, *, memory: str | int | None = None) -> BundleCheck:
    """Verify a folder that :meth:`Release.write` wrote: its checksums, and every promise that can be recounted.

    Nothing is raised if a promise is broken or a file was changed: the result says so. ``memory`` is as for
    :func:`read_release`.
    """
    read = partial(_from_folder, memory=None if memory is None else memory_from(memory))
    place = _copy_release(folder) if scheme_of(folder) in STORES else Path(folder).expanduser()
    if linked_tables(place):
        from sfumato.release.linked import check_linked

        return check_linked(place, read, _check)
    return _check(place, read(place))


def _copy_release(url: str | Path) -> Path:
    """Return a copy, on this machine, of the current release in a folder of a store."""
    from sfumato.sources.stores import CURRENT, Store, current_release, local_copy

    version = current_release(Store.of(url))
    if version is None:
        raise ReadError("The folder of the store must hold a release.", found=f"no {CURRENT}", fix="its URL")
    return local_copy(f"{str(url).rstrip('/')}/{version}")


def read_one_table(source: Any, *, memory: str | None = None) -> Release:
    """Read a release of one table; that of several is refused, because each of them has columns of its own."""
    release = read_release(source, memory=memory)
    if isinstance(release, Release):
        return release
    names = list(release.tables)
    raise ReadError(
        "One table of the release must be chosen.",
        found=f"linked tables {', '.join(map(repr, names))}",
        fix=f"the folder of a table, such as {names[-1]!r} in that of the release",
    )


def read_assessed(folder: str | Path, *, memory: str | None = None) -> Release:
    """Read a release of one table with its assessment, which only the report in its folder lists."""
    release, file = read_one_table(folder, memory=memory), Path(folder).expanduser() / NUMBERS
    try:
        numbers = json.loads(file.read_bytes()) if file.is_file() else {}
    except (OSError, ValueError, RecursionError):
        numbers = {}
    told = Assessment.from_plain(numbers.get("assessment")) if isinstance(numbers, dict) else None
    return replace(release, assessment=told)


def _folder_of(source: Path) -> Path | None:
    """Return the folder of the release that is meant: this one, or the one whose manifest lists this file."""
    if os.path.isdir(source):  # noqa: PTH112  (false for names that are too long)
        return source.parent if source.name == PARQUET and (source.parent / MANIFEST).is_file() else source
    beside = source.parent / MANIFEST
    try:
        if not (source.is_file() and beside.is_file() and (source.parent / PARQUET).exists()):
            return None
        listed = Manifest.from_json(beside.read_bytes().decode(errors="replace")).files
        return source.parent if sha256(source) in listed.values() else None
    except (OSError, ReadError):
        return None


def _check(folder: Path, release: Release) -> BundleCheck:
    assert release.manifest is not None
    return check_bundle(folder, release.manifest, release.table)


def _from_folder(folder: Path, memory: int | None = None) -> Release:
    rows = folder / PARQUET
    absent = [] if (folder / MANIFEST).is_file() else [MANIFEST]
    absent += [] if rows.is_file() or (rows.is_dir() and any(rows.iterdir())) else [PARQUET]
    if absent:
        name = folder.resolve().name or str(folder)  # "." has no name of its own
        if not folder.is_dir():
            found = "a file, not a folder" if folder.exists() else f"there is no folder {name!r}"
        else:
            found = f"no {' and no '.join(absent)}"
        raise ReadError(
            f"The folder {name!r} must contain a release.", found=found, fix="give the folder that `release` wrote"
        )
    manifest = Manifest.from_json((folder / MANIFEST).read_bytes().decode(errors="replace"))
    kinds = {column.name: column.kind for column in manifest.released}
    most = None if memory is None else max(memory - OWN, LEAST) // (CELL_BYTES * max(len(kinds), 1))
    if rows.is_dir() or (most is not None and rows_in(rows) > most):
        stored = StoredTable.of(rows, kinds, most)
        _require_same(manifest, stored.rows, kinds, kinds)
        return Release(stored, manifest)
    table = as_table(rows)
    _require_same(manifest, table.rows, table.names, kinds)
    return Release(Table(table.arrow, {name: kinds[name] for name in table.names}), manifest)


def _with_manifest(table: Table, text: str, *, verify: bool) -> Release:
    """Return rows that are stored with their manifest, such as a table of a database."""
    manifest = Manifest.from_json(text)
    kinds = {column.name: column.kind for column in manifest.released}
    _require_same(manifest, table.rows, table.names, kinds)
    release = Release(Table(table.arrow, {name: kinds[name] for name in table.names}), manifest)
    if verify:
        checked = check_rows(manifest, release.table)
        faults = checked.faults if is_sealed(text) else ("the manifest changed", *checked.faults)
        replace(checked, faults=faults).require_held()
        return _replace_findings(release, checked)
    return release


def _replace_findings(release: Release, checked: BundleCheck) -> Release:
    assert release.manifest is not None
    return replace(release, manifest=replace_findings(release.manifest, checked))


def _with_empty_ends(table: Table) -> Table:
    """Return the table with ends of intervals as numbers where all are missing: a file then shows no type."""
    columns = {
        end: pa.nulls(table.rows, pa.float64())
        for name in original_names(table.names)
        if is_interval(name, table.kinds)
        for end in (low_name(name), high_name(name))
        if _is_empty(table.arrow.column(end))
    }
    if not columns:
        return table
    cells = [columns.get(name, table.arrow.column(name)) for name in table.names]
    return Table.from_arrow(pa.table(cells, names=table.names))


def _is_empty(cells: pa.ChunkedArray) -> bool:
    return bool(
        pt.is_null(cells.type) or (pt.is_string(cells.type) and without_marks(cells, MARKS).null_count == len(cells))
    )


def _is_text(file: Path) -> bool:
    return any(file_format(one) == "text" for one in matching_files(file))


def _require_same(manifest: Manifest, rows: int, names: Collection[str], kinds: Mapping[str, Kind]) -> None:
    if rows != manifest.rows_out or set(names) != set(kinds):
        raise ReadError(
            "The rows of a release must match its manifest.",
            found=f"{rows:,} rows and {len(names)} columns; the manifest has {manifest.rows_out:,} and {len(kinds)}",
            fix="get a complete copy of the folder",
        )
