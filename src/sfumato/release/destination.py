"""Where a release goes: a folder, or another place such as a table of a database. All of it goes there, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.private_folder import PrivateFolder
from sfumato.release.bundle import require_target
from sfumato.release.target import files_in
from sfumato.sources.base import STORES, Destination, scheme_of

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
        release.write(
            self.path, formats=self.formats, csv_formulas=self.csv_formulas, report=report, language=self.language
        )


@dataclass(frozen=True)
class StoreFolder(Destination):
    """A folder of a store, such as ``s3://bucket/out``; see :mod:`sfumato.sources.stores`."""

    url: str | Path
    how: Folder  # how the files are written before they are copied there; its path is not used

    def require_free(self) -> None:
        from sfumato.sources.stores import Store, current_release

        current_release(Store.of(self.url))

    def write(self, release: Release) -> None:
        private = PrivateFolder.create("sfumato-release-")
        try:
            self.staged(private.path / "release").write(release)
            self.publish(private.path / "release")
        finally:
            private.remove()

    def staged(self, folder: Path) -> Folder:
        """Return a folder of this machine that the release is written to first."""
        return replace(self.how, path=folder)

    def publish(self, folder: Path) -> None:
        """Copy what was written to the store; it counts from one moment on, or not at all."""
        from sfumato.sources.stores import Store, publish

        publish(Store.of(self.url), files_in(folder), folder)


def destination_of(into: Any) -> Destination | None:
    """Return the destination that a user gave: a destination, the path or URL of a folder, or None."""
    if into is None or isinstance(into, Destination):
        return into
    return folder_of(Folder(into))


def folder_of(folder: Folder) -> Destination:
    """Return the folder, or the one in a store if its path is a URL."""
    return StoreFolder(folder.path, folder) if scheme_of(folder.path) in STORES else folder
