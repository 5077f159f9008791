"""A release on disk: all of it, or what was there before.

The files are written to a hidden folder beside the target, forced to the disk, and put in place by one rename. So a
crash or a full disk leaves the old state or the new one and never a mix, and a write that fails leaves nothing behind.
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
PICTURES = ("boxes.png", "statistics.png")  # may lie beside them


def write(
    table: Table, manifest: Manifest, report: bytes, folder: str | Path, *, beside: Mapping[str, bytes] | None = None
) -> Path:
    """Write released rows with their manifest and report into ``folder``, all or nothing.

    ``beside`` are pictures to go with them, by name. The folder must be absent, empty or an older bundle, which is then
    replaced as a whole.
    """
    target = Path(folder).absolute()
    files = {MANIFEST: manifest.to_json().encode(), REPORT: report, **(beside or {})}
    _require_replaceable(target)
    failure = ""
    try:
        with _parents_of(target), _fresh_sibling(target) as fresh:
            for name in (PARQUET, CSV):
                write_table(table.arrow, fresh / name)
            for name, content in files.items():
                write_whole(fresh / name, partial(_pour, content))
            _force_to_disk(fresh)
            _put_in_place(fresh, target)
            with contextlib.suppress(OSError):  # it is in place; only the moment it reaches the disk is open
                _force_to_disk(target.parent)
    except OSError as error:
        failure = error.strerror or type(error).__name__
    if failure:
        raise OptionError(
            f"{target.name} cannot be written: {failure}.", fix="another folder, or more room on the disk"
        )
    return target


def _pour(content: bytes, file: BinaryIO) -> None:
    file.write(content)


def _require_replaceable(target: Path) -> None:
    """Raise unless nothing is lost when the target is replaced."""
    if not target.exists():
        return
    if not target.is_dir():
        raise RequestError(f"{target.name!r} must be a folder.", found="something else", fix="another folder")
    there = {path.name for path in target.iterdir()}
    if there and not _is_bundle(target):
        raise RequestError(
            f"The folder {target.name!r} must be empty or hold an older release.",
            found=f"{len(there)} other files",
            fix="another folder",
        )
    others = there - {PARQUET, CSV, MANIFEST, REPORT, *PICTURES}
    if others:
        raise RequestError(
            f"The folder {target.name!r} is replaced as a whole, so it must hold nothing but a release.",
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
    """The folders above the target, made where they are absent and taken away again on failure."""
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
    """A new hidden folder beside the target, on the same disk; whatever is in it at the end goes."""
    fresh = target.parent / f".{target.name}.{secrets.token_hex(8)}"
    try:
        fresh.mkdir()
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _force_to_disk(folder: Path) -> None:
    """Make the names in a folder last; Windows does so by itself, and lets no folder be opened."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put_in_place(fresh: Path, target: Path) -> None:
    """Make ``fresh`` the target; what was the target is then called ``fresh``, or is gone."""
    if not target.exists() or not any(target.iterdir()):
        fresh.replace(target)  # takes the place of an empty folder in one step
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
    """Swap two folders in a single step where the system can (Linux: renameat2 with RENAME_EXCHANGE)."""
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    return rename is not None and rename(here, os.fsencode(one), here, os.fsencode(other), swap) == 0
