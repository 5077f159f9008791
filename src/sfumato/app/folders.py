"""Files below the folder that the command names; nothing outside of it can be reached, also not by links."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sfumato.app.uploads import ENDINGS
from sfumato.errors import ReadError

MOST = 500  # files that are listed
DEEPEST = 6  # folders below the named one


@dataclass(frozen=True)
class NamedFolder:
    """A folder whose tables may be opened by path."""

    path: Path

    def find(self, given: str) -> Path:
        """Return the file at a path relative to the folder; raise if it leads outside, or if there is no file."""
        found: Path | None = None
        try:
            root = self.path.resolve(strict=True)
            found = (root / given).resolve(strict=True)
            inside = found.is_relative_to(root) and found.is_file()
        except (OSError, ValueError, RuntimeError):  # it does not exist, its name is not valid, or links in a circle
            inside = False
        if found is None or not inside:
            raise ReadError(
                "The path must lead to a file below the folder that the command names.",
                fix="choose one of the listed files",
            )
        return found

    def _is_inside(self, file: Path) -> bool:
        """Whether a file of the folder may be opened: a link must not lead outside."""
        return not file.is_symlink() or file.resolve().is_relative_to(self.path.resolve())

    def tables(self) -> list[str]:
        """Return the relative paths of files that may be tables."""
        found: list[str] = []
        for folder, folders, files in os.walk(self.path):
            here = Path(folder).relative_to(self.path)
            folders[:] = sorted(one for one in folders if not one.startswith(".")) if len(here.parts) < DEEPEST else []
            found += [
                (here / one).as_posix()
                for one in sorted(files)
                if one.lower().endswith(ENDINGS) and not one.startswith(".") and self._is_inside(Path(folder, one))
            ]
            if len(found) >= MOST:
                break
        return found[:MOST]
