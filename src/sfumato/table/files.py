"""Read the bytes of regular files. Pipes, devices and folders are refused before anything is read from them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sfumato.errors import ReadError

LONGEST_SHOWN = 80  # characters of a path in a message
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
        raise ReadError(f"{shown(path)} is {what}, not a file.", fix=fix)
    return True


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
