"""Folders that only this user can read.

They are locked while their process lives, and swept after a crash.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ABANDONED = 24 * 3600.0  # seconds after which a folder is abandoned where folders cannot be locked


@dataclass(frozen=True)
class PrivateFolder:
    """A folder with mode 0700, which is removed at the end, or by the next process if this one crashes."""

    path: Path
    locks: Sequence[int]

    @classmethod
    def create(cls, prefix: str, parent: Path | None = None, ending: str = "") -> PrivateFolder:
        """Remove what crashed processes left under such names, and create a new folder with a random name."""
        parent = parent or Path(tempfile.gettempdir())
        _sweep(parent, prefix, ending)
        while True:
            path = parent / f"{prefix}{secrets.token_hex(8)}{ending}"
            path.mkdir(0o700)
            locks = lock(path)
            if path.exists():  # not swept by another process before it was locked
                return cls(path, locks)
            unlock(locks)

    def remove(self) -> None:
        """Remove the folder and everything in it."""
        try:
            shutil.rmtree(self.path, ignore_errors=True)
        finally:
            if self.path.exists():  # a signal during the removal
                shutil.rmtree(self.path, ignore_errors=True)
            unlock(self.locks)


def _sweep(parent: Path, prefix: str, ending: str) -> None:
    """Remove folders of this user whose processes have ended without removing them."""
    for path in abandoned_folders(parent, rf"{re.escape(prefix)}\w+{re.escape(ending)}"):
        shutil.rmtree(path, ignore_errors=True)


def abandoned_folders(parent: Path, name: str) -> Iterator[Path]:
    """Yield the folders of this user whose names match the pattern, and whose processes have ended.

    Each is locked until the next one is asked for, so that it cannot be removed while a new process begins to use it.
    """
    named: list[Path] = []
    with contextlib.suppress(OSError):  # the parent does not exist yet, or cannot be listed
        named = [path for path in parent.iterdir() if re.fullmatch(name, path.name)]
    for path in named:
        locks: list[int] | None = None
        with contextlib.suppress(OSError):  # one that cannot be looked into must not keep the others
            locks = _lock_abandoned(path) if _is_ours(path) else None
        if locks is not None:
            try:
                yield path
            finally:
                unlock(locks)


def lock(folder: Path) -> list[int]:
    """Lock a folder for as long as this process lives, and return the descriptor; [] where that cannot be done.

    Who sweeps a folder holds its lock, so that a folder that is there when it is locked stays.
    """
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, FileNotFoundError):  # on Windows, or swept in this moment
        return []
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return [descriptor]


def unlock(locks: Sequence[int]) -> None:
    """Give the locks of :func:`lock` back."""
    for descriptor in locks:
        os.close(descriptor)


def _lock_abandoned(folder: Path) -> list[int] | None:
    """Lock a folder in which no living process works; None if one does."""
    try:
        import fcntl
    except ImportError:
        return [] if _is_old(folder) else None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:  # a file system without locks
        is_old = _is_old(folder)
        os.close(descriptor)
        return [] if is_old else None
    return [descriptor]


def _is_old(folder: Path) -> bool:
    return time.time() - folder.stat().st_mtime > ABANDONED


def _is_ours(path: Path) -> bool:
    with contextlib.suppress(OSError):
        owner = path.lstat().st_uid
        return path.is_dir() and not path.is_symlink() and (not hasattr(os, "getuid") or owner == os.getuid())
    return False
