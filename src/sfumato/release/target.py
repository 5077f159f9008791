"""The folder that a bundle is put into: in one step, with its link and its modes, and without losing other files.

The files are written to a hidden folder next to the target, which is locked while its writer lives. What a killed
writer left there is removed at the next write to the same place.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from sfumato.errors import OptionError, RequestError
from sfumato.formats.exports import EXPORTS
from sfumato.private_folder import abandoned_folders, lock, unlock
from sfumato.sources.base import SCHEMES, STORES, scheme_of

PARQUET, CSV, MANIFEST = "released.parquet", "released.csv", "manifest.json"
REPORT, NUMBERS = "report.html", "report.json"  # the report as a page, and all its numbers
CODEBOOK = "codebook.csv"  # what the released columns mean
README = "README.txt"  # the same in a few lines, and how to estimate
PROMISES = "promises.sql"  # the promises as queries of DuckDB
EXPORTED = tuple(f"released{suffix}" for suffix in EXPORTS)  # the same rows for other programs, on request
PICTURES = ("boxes.png", "statistics.png")  # optional
NAMES = (
    PARQUET,
    CSV,
    *EXPORTED,
    MANIFEST,
    REPORT,
    NUMBERS,
    CODEBOOK,
    PROMISES,
    README,
    *PICTURES,
)  # the files of a bundle; no other file is ever deleted

PART = re.compile(r"part-\d{5,}\.parquet")  # a file in a folder ``released.parquet``, if the rows are in parts

LONGEST = 40  # characters of the target's name in that of its hidden sibling, so that the system takes it
_UNFINISHED = re.compile(rf"\.(?:{'|'.join(map(re.escape, NAMES))})\.[0-9a-f]{{16}}")  # of a file half written


def resolve_folder(folder: str | Path) -> Path:
    """Return the absolute path of the folder, with ``~`` expanded and symbolic links resolved; a URL is refused."""
    scheme, reason = scheme_of(folder), ""
    if scheme:
        known = 'sfumato.Database(url, table="…") or, on the command line, --into TABLE'
        copied = "into= this URL when the release is made" if scheme in STORES else "a folder here, and copy it"
        raise OptionError(
            "The target must be a folder of this machine, or a table of a database.",
            found=f"a URL with the scheme {scheme}",
            fix=known if scheme in SCHEMES else copied,
        )
    try:
        return Path(folder).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, no home, a null character
        reason = getattr(error, "strerror", None) or "it is not a valid path"
    except TypeError:
        reason = "it is not a path"
    raise OptionError(f"The release cannot be written there: {reason}.", fix="the path of a folder")


def linked_tables(folder: Path) -> list[str]:
    """Return the folders of linked tables that a manifest names; none if the release is that of one table."""
    try:
        record = json.loads((folder / MANIFEST).read_bytes())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError, RecursionError):
        return []
    names = record.get("tables") if isinstance(record, dict) else None
    known = [name for name in names if isinstance(name, str) and name not in (*NAMES, "", ".", "..")] if names else []
    return [name for name in known if Path(name).name == name and (folder / name).is_dir()]


def other_files(folder: Path, tables: Sequence[str] | None = None) -> list[Path]:
    """Return what is in the folder and not part of a bundle; ``tables`` are its linked tables, if they are known."""
    tables = linked_tables(folder) if tables is None else tables
    others = [
        path for path in folder.iterdir() if path.name not in (*NAMES, *tables) and not _UNFINISHED.fullmatch(path.name)
    ]
    others += [path for name in tables for path in other_files(folder / name, ())]
    parts = folder / PARQUET
    if parts.is_dir():
        others += [path for path in parts.iterdir() if not PART.fullmatch(path.name)]
    return others


def require_writable(target: Path) -> None:
    """Raise unless the target can be made or replaced: its nearest existing parent must be a writable folder."""
    parent = next(folder for folder in target.parents if folder.exists())
    if not parent.is_dir():
        raise OptionError(f"{parent.name!r} must be a folder.", found="a file", fix="another folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OptionError(
            f"The folder {parent.name!r} must be writable.", found="no permission to write", fix="another folder"
        )


@contextlib.contextmanager
def parents_of(target: Path) -> Iterator[None]:
    """Create missing parent folders of the target; remove them again on failure."""
    created = []
    try:
        for folder in reversed(target.parents):
            if not folder.exists():
                folder.mkdir()
                created.append(folder)
        yield
    except BaseException:
        for folder in reversed(created):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


@contextlib.contextmanager
def fresh_sibling(target: Path) -> Iterator[Path]:
    """Yield a new hidden folder next to the target, locked; remove the files of a bundle in it at the end."""
    locks: list[int] = []
    fresh = _hidden_name(target)
    try:
        while True:
            fresh.mkdir()
            locks += lock(fresh)
            if fresh.exists():  # not taken for abandoned before it was locked
                break
            fresh = _hidden_name(target)
        yield fresh
    finally:
        try:
            _clear_away(fresh, target)
        except BaseException:  # a signal during the removal: finish it, then end
            _clear_away(fresh, target)
            raise
        finally:
            unlock(locks)


def sweep(target: Path) -> None:
    """Remove what killed writers left next to the target; an old release that was put aside comes back."""
    for path in abandoned_folders(target.parent, rf"{re.escape(prefix(target))}[0-9a-f]{{16}}(?:\.old)?"):
        with contextlib.suppress(OSError):  # one that stays must not keep the others
            if path.name.endswith(".old") and not target.exists():
                path.replace(target)
            else:
                remove_bundle(path)


def remove_bundle(folder: Path) -> None:
    """Delete the files of a bundle and, if nothing else is in it, the folder; no other file is ever deleted."""
    with contextlib.suppress(OSError):
        for name in linked_tables(folder):
            if not (folder / name).is_symlink():
                remove_bundle(folder / name)
        for path in folder.iterdir():
            if path.name == PARQUET and path.is_dir() and not path.is_symlink():
                _remove_parts(path)
            elif path.name in NAMES or _UNFINISHED.fullmatch(path.name):
                path.unlink(missing_ok=True)
        folder.rmdir()


def part_name(number: int) -> str:
    """Return the name of a part of the released rows."""
    return f"part-{number:05d}.parquet"


def is_file_name(name: str) -> bool:
    """Return whether this is the name of a file of a bundle, relative to its folder."""
    folder, _, file = name.partition("/")
    return name in NAMES or (folder == PARQUET and PART.fullmatch(file) is not None)


def files_in(folder: Path) -> list[str]:
    """Return the names of the files of a bundle that are there, relative to its folder."""
    there = [name for name in NAMES if (folder / name).exists()]
    if PARQUET in there and (folder / PARQUET).is_dir():
        there.remove(PARQUET)
        there += [f"{PARQUET}/{path.name}" for path in sorted((folder / PARQUET).iterdir())]
    return there


def _remove_parts(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if PART.fullmatch(path.name):
                path.unlink(missing_ok=True)
        folder.rmdir()


def keep_modes(fresh: Path, target: Path, mode: int) -> None:
    """Give the new files and their folder the modes of the bundle that they replace, or ``mode`` to a new folder."""
    for name in linked_tables(fresh):
        keep_modes(fresh / name, target / name, stat.S_IMODE(target.stat().st_mode) if target.is_dir() else mode)
    if target.is_dir():
        mode = stat.S_IMODE(target.stat().st_mode)
        for path in (fresh / name for name in files_in(fresh)):
            old = target / path.relative_to(fresh)
            new = stat.S_IMODE(path.stat().st_mode) & (mode | 0o600)  # no wider than the folder
            path.chmod(stat.S_IMODE(old.stat().st_mode) if old.is_file() else new)
    if (fresh / PARQUET).is_dir():
        (fresh / PARQUET).chmod(mode)
    fresh.chmod(mode)


def put_in_place(fresh: Path, target: Path) -> None:
    """Move ``fresh`` to ``target``; the old target takes the name of ``fresh``.

    If someone put a file into the target in the meantime, all is put back and a RequestError is raised.
    """
    if not target.exists() or not any(target.iterdir()):
        fresh.replace(target)  # replaces an empty folder in one step, and fails if it is not empty any more
        return
    tables = linked_tables(target)  # before the exchange: after it, nothing may fail
    if exchange(fresh, target):
        late = len(other_files(fresh, tables))
        if late:
            exchange(fresh, target)
    else:
        late = _replace_in_two_steps(fresh, target)
    if late:
        raise RequestError(
            f"The folder {target.name!r} is replaced as a whole, so nothing else may be put into it meanwhile.",
            found=f"{late} other files that were put there during the write",
            fix="move them, and release again",
        )


def _replace_in_two_steps(fresh: Path, target: Path) -> int:
    """Replace the target where folders cannot be exchanged; return the number of other files that prevented it."""
    aside = fresh.with_name(f"{fresh.name}.old")
    target.replace(aside)
    late = 0
    try:
        late = len(other_files(aside))
        if not late:
            fresh.replace(target)
    except BaseException:
        aside.replace(target)
        raise
    if late:
        aside.replace(target)
    else:
        remove_bundle(aside)
    return late


def exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step if the system supports it (Linux: renameat2 with RENAME_EXCHANGE)."""
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    return rename is not None and rename(here, os.fsencode(one), here, os.fsencode(other), swap) == 0


def force_to_disk(folder: Path) -> None:
    """Flush the entries of a folder to disk. Windows does this itself and cannot open folders."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def prefix(target: Path) -> str:
    """Return how the names of hidden folders next to the target begin."""
    return f".{target.name[:LONGEST]}."


def _hidden_name(target: Path) -> Path:
    return target.with_name(f"{prefix(target)}{secrets.token_hex(8)}")


def _clear_away(fresh: Path, target: Path) -> None:
    """Remove the hidden folder; files in it that are not ours go back to where their owner put them."""
    with contextlib.suppress(OSError):
        for path in other_files(fresh):
            place = target / path.relative_to(fresh)
            if not place.exists():
                path.rename(place)
    remove_bundle(fresh)
