"""The folder that holds what visitors upload and release: private, removed at the end, and swept after a crash.

It is locked while its process lives. The next start removes folders that no living process has locked.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sfumato.release.target import is_abandoned, lock, unlock

PREFIX = "sfumato-app-"


@dataclass(frozen=True)
class PrivateFolder:
    """A folder that only this user can read."""

    path: Path
    locks: tuple[int, ...]

    @classmethod
    def made(cls, parent: Path | None = None) -> PrivateFolder:
        """Remove what crashed processes left, and make a new folder."""
        where = parent or Path(tempfile.gettempdir())
        sweep(where)
        while True:
            path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=where))  # mode 0700
            locks = lock(path)
            if path.exists():  # not swept by another process before it was locked
                return cls(path, tuple(locks))
            unlock(locks)

    def remove(self) -> None:
        """Remove the folder and everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        unlock(list(self.locks))


def sweep(where: Path) -> None:
    """Remove folders of processes that have ended without removing them."""
    with contextlib.suppress(OSError):
        for path in where.iterdir():
            if path.name.startswith(PREFIX) and _is_ours(path) and is_abandoned(path):
                shutil.rmtree(path, ignore_errors=True)


def _is_ours(path: Path) -> bool:
    with contextlib.suppress(OSError):
        found = path.lstat()
        return path.is_dir() and not path.is_symlink() and (not hasattr(os, "getuid") or found.st_uid == os.getuid())
    return False
