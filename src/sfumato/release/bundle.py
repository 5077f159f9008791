"""Write a release to a folder: all of it, or nothing.

The files are written to a hidden folder next to the target, flushed to disk, and put in place by one rename. After a
crash or on a full disk the folder holds the old release or the new one, never a mix. A failed write leaves no files.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sfumato.errors import OptionError, ReadError, RequestError
from sfumato.release.manifest import Manifest
from sfumato.table.write import write as write_table
from sfumato.table.write import write_whole

if TYPE_CHECKING:
    from sfumato.table.table import Table

PARQUET, CSV, MANIFEST, REPORT = "released.parquet", "released.csv", "manifest.json", "report.html"
PICTURES = ("boxes.png", "statistics.png")  # optional


def write(
    table: Table,
    manifest: Manifest,
    report: bytes,
    folder: str | Path,
    *,
    beside: Mapping[str, bytes] | None = None,
    csv_formulas: str = "escape",
) -> Path:
    """Write released rows, manifest and report into ``folder``, all or nothing, and return its absolute path.

    The folder must not exist, be empty, or contain an older bundle, which is then replaced as a whole. ``beside`` maps
    the file names of pictures to their contents.
    """
    target = Path(folder).absolute()
    files = {MANIFEST: manifest.to_json().encode(), REPORT: report, **(beside or {})}
    _require_replaceable(target)
    failure = ""
    try:
        with _parents_of(target), _fresh_sibling(target) as fresh:
            for name in (PARQUET, CSV):
                write_table(table.arrow, fresh / name, formulas=csv_formulas)
            for name, content in files.items():
                write_whole(fresh / name, partial(_write_content, content))
            _force_to_disk(fresh)
            _put_in_place(fresh, target)
            with contextlib.suppress(OSError):  # already in place; only the time of the flush is uncertain
                _force_to_disk(target.parent)
    except OSError as error:
        failure = error.strerror or type(error).__name__
    if failure:
        raise OptionError(
            f"{target.name} cannot be written: {failure}.", fix="another folder, or free space on the disk"
        )
    return target


def _write_content(content: bytes, file: BinaryIO) -> None:
    file.write(content)


def _require_replaceable(target: Path) -> None:
    """Raise if replacing the target would lose other files."""
    if not target.exists():
        return
    if not target.is_dir():
        raise RequestError(f"{target.name!r} must be a folder.", found="something else", fix="another folder")
    there = {path.name for path in target.iterdir()}
    if there and not _is_bundle(target):
        raise RequestError(
            f"The folder {target.name!r} must be empty or contain an older release.",
            found=f"{len(there)} other files",
            fix="another folder",
        )
    others = there - {PARQUET, CSV, MANIFEST, REPORT, *PICTURES}
    if others:
        raise RequestError(
            f"The folder {target.name!r} is replaced as a whole, so it must contain only a release.",
            found=f"{len(others)} other files",
            fix="move them, or choose another folder",
        )


def _is_bundle(folder: Path) -> bool:
    try:
        Manifest.from_json((folder / MANIFEST).read_bytes().decode(errors="replace"))
    except (OSError, ReadError):
        return False
    return True


@contextlib.contextmanager
def _parents_of(target: Path) -> Iterator[None]:
    """Create missing parent folders of the target; remove them again on failure."""
    made = []
    try:
        for folder in reversed(target.parents):
            if not folder.exists():
                folder.mkdir()
                made.append(folder)
        yield
    except BaseException:
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


@contextlib.contextmanager
def _fresh_sibling(target: Path) -> Iterator[Path]:
    """Yield a new hidden folder next to the target, on the same disk; delete what is in it at the end."""
    fresh = target.parent / f".{target.name}.{secrets.token_hex(8)}"
    try:
        fresh.mkdir()
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _force_to_disk(folder: Path) -> None:
    """Flush the entries of a folder to disk. Windows does this itself and cannot open folders."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put_in_place(fresh: Path, target: Path) -> None:
    """Move ``fresh`` to ``target``; the old target takes the name of ``fresh`` or is deleted."""
    if not target.exists() or not any(target.iterdir()):
        fresh.replace(target)  # replaces an empty folder in one step
        return
    if _exchange(fresh, target):
        return
    aside = fresh.with_suffix(".old")
    target.replace(aside)
    try:
        fresh.replace(target)
    except BaseException:
        aside.replace(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step if the system supports it (Linux: renameat2 with RENAME_EXCHANGE)."""
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    return rename is not None and rename(here, os.fsencode(one), here, os.fsencode(other), swap) == 0
