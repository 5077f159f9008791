"""The folder of a comparison: one small file per finished trial, so that a killed comparison can go on.

A file holds scores and options, and no cell. Its name contains a hash of the table, the schema, the split and the
method with its options: after a change of any of them the trial is made again, and an old file is ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sfumato.comparison.records import ComparedMethod
from sfumato.comparison.trials import Trial
from sfumato.errors import OptionError, RequestError
from sfumato.release.target import resolved
from sfumato.schema.schema import FittedTable
from sfumato.table.hashing import row_keys
from sfumato.table.write import is_unfinished, write_whole
from sfumato.version import __version__

TRIALS, RESULT, REPORT = "trials", "comparison.json", "report.html"


def digest_of(table: FittedTable) -> str:
    """Return a hash of all cells in their order, of their kinds and of the schema, as hexadecimal digits."""
    digest = hashlib.sha256(row_keys(table.table).tobytes())
    digest.update(repr((sorted(table.table.kinds.items()), table.schema)).encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class ComparisonFolder:
    """A folder, and the hash of what all trials share: table, schema and split."""

    path: Path
    shared: str

    @classmethod
    def prepare(cls, folder: str | Path, shared: str) -> ComparisonFolder:
        """Make the folder, or accept one that holds a comparison."""
        require_folder(folder)
        path = resolved(folder)
        reason = ""
        try:
            (path / TRIALS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or type(error).__name__
        if reason:
            raise OptionError(f"The comparison cannot be written there: {reason}.", fix="another folder")
        for left in filter(_is_unfinished, (*path.iterdir(), *(path / TRIALS).iterdir())):
            with contextlib.suppress(OSError):  # a comparison does not need it
                left.unlink()
        return cls(path, shared)

    def read(self, trial: Trial) -> ComparedMethod | None:
        """Return the record of a finished trial; None if there is none, or if its file cannot be read."""
        try:
            return ComparedMethod.from_plain(json.loads(self._file(trial).read_bytes()))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, trial: Trial, row: ComparedMethod) -> None:
        """Write the record of a trial, completely or not at all."""
        _put(self._file(trial), json.dumps(row.to_plain(), indent=1, ensure_ascii=False, allow_nan=False))

    def finish(self, files: Mapping[str, str]) -> None:
        """Write the result and the report."""
        for name, text in files.items():
            _put(self.path / name, text)

    def _file(self, trial: Trial) -> Path:
        key = hashlib.sha256("\0".join((__version__, self.shared, trial.identity)).encode()).hexdigest()[:20]
        return self.path / TRIALS / f"{trial.method.name}-{key}.json"


def require_folder(folder: str | Path) -> None:
    """Raise unless the folder does not exist, is empty or holds a comparison."""
    path = resolved(folder)
    if path.exists() and not path.is_dir():
        raise RequestError(f"{path.name!r} must be a folder.", found="something else", fix="another folder")
    files = path.iterdir() if path.exists() else ()
    others = [one for one in files if one.name not in (TRIALS, RESULT, REPORT) and not _is_unfinished(one)]
    is_release = path.exists() and (path / REPORT).exists() and not (path / TRIALS).exists()
    if others or is_release:
        raise RequestError(
            f"The folder {path.name!r} must be empty or hold a comparison.",
            found=f"{len(others)} other files" if others else "a report without a comparison",
            fix="another folder",
        )


def _is_unfinished(path: Path) -> bool:
    """Whether a comparison that was killed while it wrote a file left this behind."""
    return is_unfinished(path, (".json", ".html"))


def _put(path: Path, text: str) -> None:
    write_whole(path, lambda file: file.write(text.encode()))
