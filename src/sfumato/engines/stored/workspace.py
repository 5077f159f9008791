"""A private folder for the rows that do not fit into memory: locked while its run lives, removed at its end.

It holds original rows, so nobody else may read it. What a killed run left is removed at the next start of a run with
the same target.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sfumato.errors import OptionError
from sfumato.private_folder import is_abandoned, lock, unlock
from sfumato.release import target as place
from sfumato.release.destination import Folder, destination_of

ENDING = ".work"
PRIVATE = 0o700


@contextlib.contextmanager
def workspace(into: Any) -> Iterator[Path]:
    """Yield a new private folder on the disk of the target, or of temporary files if nothing is written."""
    destination = destination_of(into)
    temporary = Path(tempfile.gettempdir()).resolve() / "sfumato"
    target = place.resolved(destination.path) if isinstance(destination, Folder) else temporary
    _sweep(target)
    with place.parents_of(target):
        folder, locks = _make_folder(target)
        try:
            yield folder
        finally:
            try:
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                if folder.exists():  # a signal during the removal
                    shutil.rmtree(folder, ignore_errors=True)
                unlock(locks)


def _make_folder(target: Path) -> tuple[Path, list[int]]:
    failure = ""
    try:
        folder = target.with_name(f"{place.prefix(target)}{secrets.token_hex(8)}{ENDING}")
        folder.mkdir(PRIVATE)
        return folder, lock(folder)
    except OSError as error:
        failure = error.strerror or type(error).__name__
    raise OptionError(f"No folder for temporary rows can be made next to {target.name!r}: {failure}.", fix="another -o")


def _sweep(target: Path) -> None:
    """Remove what killed runs left."""
    left = re.compile(rf"{re.escape(place.prefix(target))}[0-9a-f]{{16}}{re.escape(ENDING)}")
    with contextlib.suppress(OSError):  # the parent does not exist yet, or cannot be listed
        for path in target.parent.iterdir():
            if left.fullmatch(path.name) and path.is_dir() and not path.is_symlink() and is_abandoned(path):
                shutil.rmtree(path, ignore_errors=True)
