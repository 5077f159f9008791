"""Released rows in parts, from the written files to the release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.engines.stored.parts import Parts
from sfumato.methods.diagnostics import Diagnostics, Trace
from sfumato.release.bundle import write_parts
from sfumato.release.destination import Folder, destination_of
from sfumato.release.release import Release
from sfumato.release.stored import StoredTable
from sfumato.release.target import PARQUET

if TYPE_CHECKING:
    from sfumato.table.kinds import Kind


@dataclass(frozen=True, repr=False)
class OutOfCoreWork:
    """Rows that were written in parts."""

    parts: Parts

    @property
    def released_kinds(self) -> Mapping[str, Kind]:
        return self.parts.kinds

    @property
    def released_rows(self) -> int:
        return self.parts.rows

    @property
    def released_table(self) -> StoredTable:
        """The released rows, in their files."""
        return self.parts.table()

    def diagnostics(self) -> Diagnostics:
        """Return what the blocks reported."""
        trace = Trace.merged([part.trace for part in self.parts.parts])
        return Diagnostics(searches=trace.searches, rules=trace.rules)

    def write(self, release: Release, into: Any) -> Release:
        """Return the release; a folder ``into`` takes over the files, all or nothing."""
        manifest = release.manifest
        assert manifest is not None
        destination = destination_of(into)
        if not isinstance(destination, Folder):
            if destination:
                destination.write(release)
            return replace(release, table=release.table.select(release.table.names))  # the files will be removed
        folder = write_parts(self.parts.folder, manifest, release.report_files(), destination.path)
        kinds = {column.name: column.kind for column in manifest.released}
        return replace(release, table=StoredTable.of(folder / PARQUET, kinds))
