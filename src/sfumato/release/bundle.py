"""Write a release to a folder, with labels that say what its columns mean: all of it, or nothing.

The files are written to a hidden folder next to the target, flushed to disk, and put in place by one rename. After a
crash or on a full disk the folder holds the old release or the new one, never a mix. A failed write leaves no files.
The manifest is written last, with the SHA-256 of every other file.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import pyarrow as pa

from sfumato.errors import OptionError, ReadError, RequestError, warn
from sfumato.formats.arrow_files import write_parquet
from sfumato.formats.exports import EXPORTS, export, require_exportable
from sfumato.formats.raw_files import write_whole
from sfumato.formats.text import write_text
from sfumato.params import require_choice
from sfumato.release import target as place
from sfumato.release.manifest import Manifest
from sfumato.release.target import CSV, MANIFEST, PARQUET
from sfumato.table.intervals import BOX, high_name, low_name, missing_name, original_name

if TYPE_CHECKING:
    from sfumato.table.table import Table


class RenderedReport(Protocol):
    """The report of a release: a page, and all its numbers as JSON text."""

    @property
    def page(self) -> str:
        """The page."""

    @property
    def numbers(self) -> str:
        """The numbers."""


def released_labels(manifest: Manifest, released: Sequence[str]) -> dict[str, str]:
    """Return the labels of the released columns that have one; the ends of ranges say what they are."""
    known = {column.name: column.label for column in manifest.columns}
    labels = {name: _label(name, released, known, manifest.shifted) for name in released}
    return {name: label for name, label in labels.items() if label}


def _label(name: str, released: Sequence[str], known: dict[str, str], shifted: Sequence[str]) -> str:
    if name in known:
        return known[name]
    base = original_name(name, released, known)
    meaning = known.get(base) or base
    what = "shifted date" if base in shifted else "value"
    if name == low_name(base):
        return f"{meaning}: lower end of the range that contains the {what}"
    if name == high_name(base):
        return f"{meaning}: upper end of the range that contains the {what}"
    if name == missing_name(base):
        return f"{meaning}: number of rows of the box without a value"
    return "number of the box: its rows share all ranges" if name == BOX else ""


FORMATS = ("csv", "parquet", *(suffix.removeprefix(".") for suffix in EXPORTS))
DEFAULT_FORMATS = ("csv",)  # released.parquet is always written: it is the release of record
EMBEDDED, EMBEDDED_ROWS = b"sfumato.manifest", b"sfumato.rows"  # metadata of released.parquet
HASHED_ROWS = 100_000  # that are in memory as text at a time
PRIVATE = 0o700  # nobody else reads a bundle that is not complete


def write(
    table: Table,
    manifest: Manifest,
    report: Mapping[str, bytes],
    folder: str | Path,
    *,
    formats: Sequence[str] = DEFAULT_FORMATS,
    csv_formulas: str = "escape",
) -> Path:
    """Write released rows, manifest and report into ``folder``, all or nothing, and return its absolute path.

    The folder must not exist, be empty, or contain an older bundle, which is then replaced as a whole and keeps its
    modes. A symbolic link stays, and the folder that it leads to is written. ``report`` maps the names of the files of
    the report to their contents. What one of the ``formats`` cannot hold gives a warning.
    """
    notes: list[str] = []
    fill = partial(fill_bundle, table, manifest, report, formats, csv_formulas)
    written = _put(lambda fresh: notes.extend(fill(fresh)), folder)
    _warn_of_formats(notes)
    return written


def fill_bundle(
    table: Table,
    manifest: Manifest,
    report: Mapping[str, bytes],
    formats: Sequence[str],
    csv_formulas: str,
    fresh: Path,
) -> list[str]:
    """Write all files of a bundle into a new folder, and return what formats cannot hold."""
    notes: list[str] = []
    write_whole(fresh / PARQUET, partial(write_parquet, with_manifest(table.arrow, manifest)))
    if "csv" in formats:
        write_whole(fresh / CSV, lambda file: write_text(table.arrow, file, ",", csv_formulas))
    labels = released_labels(manifest, table.names)
    for name in (f"released.{format}" for format in formats if f".{format}" in EXPORTS):
        notes.extend(export(table, fresh / name, labels).notes)
        place.force_to_disk(fresh / name)
    _seal(fresh, manifest, report)
    return notes


def write_linked(
    parts: Mapping[str, Callable[[Path], list[str]]], names: str, finish: Callable[[Path], str], folder: str | Path
) -> Path:
    """Write several bundles into one folder, each into its own, all or nothing.

    ``names`` is a manifest that names the tables: it is there first, so that a killed writer's files are known to be
    its own. ``finish`` returns the final one.
    """
    notes: list[str] = []

    def fill(fresh: Path) -> None:
        write_whole(fresh / MANIFEST, partial(_write_content, names.encode()))
        for name, fill_part in parts.items():
            (fresh / name).mkdir()
            notes.extend(fill_part(fresh / name))
            place.force_to_disk(fresh / name)
        write_whole(fresh / MANIFEST, partial(_write_content, finish(fresh).encode()))

    written = _put(fill, folder)
    _warn_of_formats(notes)
    return written


def _warn_of_formats(notes: Sequence[str]) -> None:
    if notes:
        warn(f"What the rows look like elsewhere (released.parquet is exact): {' '.join(dict.fromkeys(notes))}")


def with_manifest(rows: pa.Table, manifest: Manifest) -> pa.Table:
    """Return the rows with their manifest as metadata, which a Parquet file keeps wherever it is copied to."""
    alone = replace(manifest, files={})  # checksums are those of the files of a folder
    return rows.replace_schema_metadata({EMBEDDED: alone.to_json(), EMBEDDED_ROWS: _rows_sha256(rows)})


def embedded_manifest(file: Path, rows: pa.Table) -> str | None:
    """Return the manifest in the metadata of a Parquet file; None without one, or if it is that of other rows.

    A program that changes rows may keep the metadata, so the manifest is bound to the cells.
    """
    import pyarrow.parquet as pq

    found: Mapping[bytes, bytes] = {}
    with contextlib.suppress(pa.ArrowException, OSError, ValueError):
        found = pq.read_schema(file).metadata or {}
    if EMBEDDED not in found or found.get(EMBEDDED_ROWS, b"").decode(errors="replace") != _rows_sha256(rows):
        return None
    return found[EMBEDDED].decode(errors="replace")


def _rows_sha256(rows: pa.Table) -> str:
    """Return the SHA-256 of the cells and names as text, whatever the types of Arrow that hold them."""
    digest = hashlib.sha256()
    for first in range(0, rows.num_rows, HASHED_ROWS):
        text = io.BytesIO()
        write_text(rows.slice(first, HASHED_ROWS), text, ",", "keep")
        digest.update(text.getvalue())
    return digest.hexdigest()


def check_formats(formats: str | Sequence[str] | None, *, in_parts: bool = False) -> tuple[str, ...]:
    """Return the formats of the released rows; raise if one is unknown or cannot be written here.

    Formats of other programs are added to released.csv; "parquet" alone leaves it out.
    """
    if formats is None:
        return () if in_parts else DEFAULT_FORMATS
    given = [formats] if isinstance(formats, str) else list(formats)
    for format in given:
        require_choice(format, name="A format of the released rows", choices=FORMATS)
    others_only = all(f".{format}" in EXPORTS for format in given)
    chosen = tuple(dict.fromkeys([*(DEFAULT_FORMATS if others_only and not in_parts else ()), *given]))
    for format in chosen:
        if f".{format}" in EXPORTS:
            require_exportable(f".{format}")
    if in_parts and set(chosen) - {"parquet"}:
        raise OptionError(
            "Rows in parts are written as Parquet only.",
            found=f"the formats {', '.join(chosen)}",
            fix="--format parquet, or the engine 'memory' if the table fits",
        )
    return chosen


def write_parts(parts: Path, manifest: Manifest, report: Mapping[str, bytes], folder: str | Path) -> Path:
    """Move a folder of parts of the released rows, with manifest and report, into ``folder``, all or nothing.

    ``parts`` must be on the same disk as ``folder``. There is no released.csv: rows in parts are too many for one file.
    """

    def fill(fresh: Path) -> None:
        parts.rename(fresh / PARQUET)
        _seal(fresh, manifest, report)

    return _put(fill, folder)


def write_copies(files: Sequence[Path], manifest: Manifest, report: Mapping[str, bytes], folder: str | Path) -> Path:
    """Write copies of the parts of a release, with manifest and report, into ``folder``, all or nothing."""

    def fill(fresh: Path) -> None:
        (fresh / PARQUET).mkdir()
        for number, file in enumerate(files):
            shutil.copyfile(file, fresh / PARQUET / place.part_name(number))
        _seal(fresh, manifest, report)

    return _put(fill, folder)


def _put(fill: Callable[[Path], None], folder: str | Path) -> Path:
    """Fill a hidden folder next to the target, and put it in place by one rename."""
    target = place.resolve_folder(folder)
    place.sweep(target)
    require_target(folder)
    failure = ""
    try:
        with place.parents_of(target), place.fresh_sibling(target) as fresh:
            mode = stat.S_IMODE(fresh.stat().st_mode)
            fresh.chmod(PRIVATE)
            fill(fresh)
            place.keep_modes(fresh, target, mode)
            place.force_to_disk(fresh)
            place.put_in_place(fresh, target)
            with contextlib.suppress(OSError):  # already in place; only the time of the flush is uncertain
                place.force_to_disk(target.parent)
    except OSError as error:
        failure = error.strerror or type(error).__name__
    if failure:
        raise OptionError(
            f"{target.name} cannot be written: {failure}.", fix="another folder, or free space on the disk"
        )
    return Path(folder).expanduser().absolute()


def require_target(folder: str | Path) -> None:
    """Raise unless a bundle can be written to this folder without losing other files."""
    target = place.resolve_folder(folder)
    failure = ""
    try:
        _require_replaceable(target)
        place.require_writable(target)
    except OSError as error:  # a name that is too long, a folder that cannot be searched
        failure = error.strerror or type(error).__name__
    if failure:
        raise OptionError(f"The release cannot be written there: {failure}.", fix="another folder")


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _seal(fresh: Path, manifest: Manifest, files: Mapping[str, bytes]) -> None:
    """Write the other files of a bundle next to its rows, the manifest last, with the checksums of all."""
    for name, content in files.items():
        write_whole(fresh / name, partial(_write_content, content))
    sums = {name: sha256(fresh / name) for name in place.files_in(fresh)}
    bound = replace(manifest, files=sums).to_json().encode()
    write_whole(fresh / MANIFEST, partial(_write_content, bound))


def _write_content(content: bytes, file: BinaryIO) -> None:
    file.write(content)


def _require_replaceable(target: Path) -> None:
    """Raise if replacing the target would lose other files."""
    if not target.exists():
        return
    if not target.is_dir():
        raise RequestError(f"{target.name!r} must be a folder.", found="a file", fix="a folder, such as -o out")
    there = {path.name for path in target.iterdir()}
    if there and not _is_bundle(target):
        raise RequestError(
            f"The folder {target.name!r} must be empty or contain an older release.",
            found=f"other files: {len(there)}",
            fix=f"a new folder, such as -o {target.name}/release",
        )
    others = place.other_files(target)
    if others:
        raise RequestError(
            f"The folder {target.name!r} is replaced as a whole, so it must contain only a release.",
            found=f"{len(others)} other files",
            fix="move them, or choose another folder",
        )


def _is_bundle(folder: Path) -> bool:
    if place.linked_tables(folder):
        return True
    try:
        Manifest.from_json((folder / MANIFEST).read_bytes().decode(errors="replace"))
    except (OSError, ReadError):
        return False
    return True
