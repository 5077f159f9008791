"""Read the bytes of regular files, and write files completely or not at all.

Pipes, devices and folders are refused before anything is read from them. A file is first written under a temporary name
and then moved, so that a partial file is never left.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Callable
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from sfumato.errors import OptionError, ReadError

LONGEST_SHOWN = 80  # characters of a path in a message
MOST_LISTED = 10_000  # files of a folder whose names are compared
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".jsonl", ".gz")  # endings of tables
UNFINISHED = re.compile(r"\.(.+)\.[0-9a-f]{16}")  # a temporary name
FOLDER_FIX = "pass a file, or a pattern such as 'folder/*.parquet'"
NOT_REGULAR = {  # what the file is → what to try
    stat.S_IFDIR: ("a folder", FOLDER_FIX),
    stat.S_IFIFO: ("a pipe", "write its content to a file first"),
    stat.S_IFSOCK: ("a socket", "write its content to a file first"),
    stat.S_IFCHR: ("a device", "pass a file"),
    stat.S_IFBLK: ("a device", "pass a file"),
}


def is_there(path: Path) -> bool:
    """Return whether a path exists; raise a ReadError if the system cannot even look it up, or if it is no file."""
    reason = ""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except ValueError:  # a zero byte, or half of a character
        reason = "its name is not valid"
    if reason:
        raise ReadError(f"{shown(path)} cannot be read: {reason}.", fix="check the path")
    what, fix = NOT_REGULAR.get(stat.S_IFMT(mode), ("", ""))
    if what:
        fix = _table_in(path) or fix
        raise ReadError(f"{shown(path)} is {what}, not a file.", fix=fix)
    return True


def near_name(path: Path) -> str:
    """Return what to try instead of a path that does not exist: the file with the most similar name."""
    with contextlib.suppress(OSError, ValueError):
        if not path.parent.is_dir():
            return f"check the folder: there is no {str(path.parent)[:LONGEST_SHOWN]!r}"
        names = {one.name.lower(): one.name for one in islice(path.parent.iterdir(), MOST_LISTED)}
        near = get_close_matches(path.name.lower(), names, n=1)
        if near:
            return repr(str(path.parent / names[near[0]]))
    return "check the path"


def _table_in(folder: Path) -> str:
    """Return what to try instead of a folder: a table in it; empty if there is none, or if it is not a folder."""
    with contextlib.suppress(OSError, ValueError):
        first = next((one for one in sorted(folder.iterdir()) if one.suffix.lower() in TABLES and one.is_file()), None)
        return "" if first is None else f"{str(folder / first.name)!r}, or a pattern such as {str(folder / '*')!r}"
    return ""


def content(file: Path) -> bytes:
    """Return all bytes of a regular file."""
    reason, fix = "", "check the path"
    try:
        if is_there(file):
            return file.read_bytes()
        reason = os.strerror(2)
    except OSError as error:
        reason, fix = error.strerror or "it cannot be opened", "check its permissions"
    except MemoryError:
        reason, fix = "there is not enough memory", "a smaller file, or a machine with more memory"
    raise ReadError(f"{shown(file)} cannot be read: {reason}.", fix=fix)


def shown(path: Path | str) -> str:
    """Return the name of a file for a message, shortened if it is very long."""
    name = Path(path).name or str(path)
    return name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}…"


def is_unfinished(path: Path, endings: tuple[str, ...]) -> bool:
    """Whether a file with such an ending was left behind by :func:`write_whole` whose process was killed.

    >>> is_unfinished(Path(".comparison.json.0123456789abcdef"), (".json",)), is_unfinished(Path(".bashrc"), (".json",))
    (True, False)
    """
    name = UNFINISHED.fullmatch(path.name)
    return name is not None and name[1].endswith(endings)


def write_whole(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Write a file completely or not at all: ``fill`` writes to a temporary file, which then replaces ``path``."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    reason = ""
    try:
        with temporary.open("xb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
    finally:
        temporary.unlink(missing_ok=True)  # it does not exist after a successful replace
    if reason:
        raise OptionError(f"{path.name} cannot be written: {reason}.", fix="choose another folder, or free disk space")
