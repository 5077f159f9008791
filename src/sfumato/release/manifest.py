"""The manifest: what is published about a release in addition to its rows.

It is an allow-list: only what is named here is written. A manifest contains names of columns, options, counts and
findings. It contains no cell, no path and no seed (anyone who knows the seed can undo the order of the rows), and
nothing about the original that the released rows do not show.
"""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato.errors import ReadError
from sfumato.methods.claims import Finding
from sfumato.params import options_of
from sfumato.schema.columns import Role
from sfumato.table.kinds import Kind
from sfumato.version import __version__

if TYPE_CHECKING:
    from sfumato.methods.base import Method
    from sfumato.schema.schema import Schema

NO_GUARANTEE = "no guarantee"
FORMAT = 1  # increased when older versions can no longer read a manifest

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]


@dataclass(frozen=True, kw_only=True)
class ColumnRecord:
    """A column of the original with its role and kind."""

    name: str
    role: Role
    kind: Kind
    domain: tuple[float, float] | None = None  # declared range, which is public, in the unit of Table.numbers


@dataclass(frozen=True, kw_only=True)
class ReleasedColumn:
    """A column of the released table."""

    name: str
    kind: Kind


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """How a release was made, and what was found when its promises were verified."""

    derived: ClassVar[tuple[str, ...]] = ("guarantee", "suppressed")  # written with the fields, but not read back

    version: str  # of sfumato
    method: str  # name of the method
    options: Mapping[str, Plain]
    columns: tuple[ColumnRecord, ...]  # of the original
    released: tuple[ReleasedColumn, ...]
    rows_in: int
    rows_out: int
    keep: tuple[str, ...]  # statistics to keep accurate
    edges: str | None  # where the faces of boxes are placed; None without boxes
    findings: tuple[Finding, ...]
    notes: Mapping[str, Plain]  # what the method reports about its choices: texts and aggregates
    altered: tuple[str, ...] = ()  # columns whose cells were changed, so that they guarantee no interval
    unaltered: tuple[str, ...] = ()  # columns whose cells are exactly those of the original
    format: int = FORMAT

    @property
    def guarantee(self) -> str:
        """The privacy promises as one text, or "no guarantee" if there are none."""
        return "; ".join(finding.claim for finding in self.findings if finding.kind == "privacy") or NO_GUARANTEE

    @property
    def suppressed(self) -> int:
        """Number of rows that were not released."""
        return self.rows_in - self.rows_out

    @classmethod
    def of(
        cls,
        *,
        method: Method,
        schema: Schema,
        kinds: Mapping[str, Kind],
        released: Mapping[str, Kind],
        rows_in: int,
        rows_out: int,
        findings: Sequence[Finding],
        altered: Sequence[str] = (),
        unaltered: Sequence[str] = (),
        notes: Mapping[str, Any],
    ) -> Manifest:
        """Build the manifest of a release that has just been verified."""
        reported = {one.name: getattr(method, one.name) for one in options_of(type(method)) if one.declared.reported}
        return cls(
            version=__version__,
            method=method.name,
            options={name: plain(value) for name, value in reported.items()},
            columns=tuple(
                ColumnRecord(name=column.name, role=column.role, kind=kinds[column.name], domain=column.domain)
                for column in schema.columns
            ),
            released=tuple(ReleasedColumn(name=name, kind=kind) for name, kind in released.items()),
            rows_in=rows_in,
            rows_out=rows_out,
            keep=_statistics(reported.get("keep")),
            edges=str(reported["edges"]) if "edges" in reported else None,
            findings=tuple(findings),
            notes={name: plain(notes[name]) for name in method.noted if name in notes},
            altered=tuple(altered),
            unaltered=tuple(unaltered),
        )

    def names(self, role: Role) -> tuple[str, ...]:
        """Return the names of the original columns with this role."""
        return tuple(column.name for column in self.columns if column.role is role)

    @property
    def sets(self) -> tuple[str, ...]:
        """The released columns whose cells are sets of categories: generalized categorical quasi-identifiers."""
        quasi = [column for column in self.columns if column.role is Role.QUASI and not column.kind.is_numeric]
        released = {column.name for column in self.released} - set(self.unaltered) - set(self.altered)
        return tuple(column.name for column in quasi if column.name in released)

    def to_json(self) -> str:
        """Return the manifest as JSON text, with ``guarantee`` and the number of ``suppressed`` rows."""
        record = asdict(self) | {name: getattr(self, name) for name in self.derived}
        return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read a manifest from its JSON text."""
        record = _mapping(text)
        written = record.get("format")
        if isinstance(written, int) and written > FORMAT:
            raise ReadError(
                f"This version reads manifests up to format {FORMAT}.",
                found=f"format {written}",
                fix="install a newer sfumato",
            )
        manifest = _from_mapping(record)
        if manifest is None:
            raise ReadError(
                "A manifest must be the JSON text that a release wrote.",
                found="other text",
                fix="read the folder that `release` wrote",
            )
        return manifest


def plain(value: Any) -> Plain:
    """Return a value that JSON can represent; records of this package become their text, other objects their type."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value) if type(value).__module__.startswith("sfumato.") else type(value).__name__


def _statistics(keep: Any) -> tuple[str, ...]:
    """Return the texts of one or several kept statistics."""
    if keep is None:
        return ()
    return (str(keep),) if isinstance(keep, str) or not isinstance(keep, Iterable) else tuple(map(str, keep))


def _mapping(text: str) -> dict[str, Any]:
    """Return the parsed JSON, or {} if it is not a mapping: the caller raises, so that no error quotes the text."""
    try:
        record = json.loads(text)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _pair(ends: Any) -> tuple[float, float] | None:
    if ends is None:
        return None
    low, high = ends
    return float(low), float(high)


def _from_mapping(record: dict[str, Any]) -> Manifest | None:
    """Return the manifest, or None if a field is missing or wrong."""
    try:
        return Manifest(
            **{name: value for name, value in record.items() if name not in Manifest.derived}
            | {
                "columns": tuple(
                    ColumnRecord(
                        name=column["name"],
                        role=Role(column["role"]),
                        kind=Kind(column["kind"]),
                        domain=_pair(column.get("domain")),
                    )
                    for column in record["columns"]
                ),
                "released": tuple(
                    ReleasedColumn(name=column["name"], kind=Kind(column["kind"])) for column in record["released"]
                ),
                "findings": tuple(Finding(**finding) for finding in record["findings"]),
                "keep": tuple(record["keep"]),
                "altered": tuple(record["altered"]),
                "unaltered": tuple(record["unaltered"]),
            }
        )
    except (TypeError, KeyError, ValueError):
        return None
