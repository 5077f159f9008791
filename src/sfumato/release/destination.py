"""Where a release goes: a folder, or another place such as a table of a database. All of it goes there, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.release.bundle import require_target
from sfumato.sources.base import Destination

if TYPE_CHECKING:
    from sfumato.release.release import Release


@dataclass(frozen=True)
class Folder(Destination):
    """A folder on a disk, and how the release is written there; see :meth:`Release.write`."""

    path: str | Path
    formats: Sequence[str] | None = None
    csv_formulas: str = "escape"
    make_report: Callable[[Release], Any] | None = None  # None: the release makes its report
    language: str = "en"  # of the report and the README

    def require_free(self) -> None:
        require_target(self.path)

    def write(self, release: Release) -> None:
        report = None if self.make_report is None else self.make_report(release)
        given: Any = {"formats": self.formats, "csv_formulas": self.csv_formulas, "language": self.language}
        release.write(self.path, report=report, **given)


def destination_of(into: Any) -> Destination | None:
    """Return the destination that a user gave: a destination, the path of a folder, or None."""
    return into if into is None or isinstance(into, Destination) else Folder(into)
