"""What is said of a release beside its rows: an allow-list, so that what nobody thought of stays inside.

A manifest holds names of columns, options, counts and findings. It holds no cell, no path and no seed (whoever knows
the seed can undo the order of the rows), and nothing of the original that the released rows do not show.
"""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

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
DERIVED = ("guarantee", "suppressed")  # written beside the fields, and not read back
FORMAT = 1  # raised when an older version could no longer read what is written

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]


@dataclass(frozen=True, kw_only=True)
class ColumnRecord:
    """A column of the original: what it was taken for, and so what happened to it."""

    name: str
    role: Role
    kind: Kind


@dataclass(frozen=True, kw_only=True)
class ReleasedColumn:
    """A column of the released table."""

    name: str
    kind: Kind


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """How a release was made and what was found when its promises were measured."""

    version: str  # of sfumato
    method: str  # the registry's word
    options: Mapping[str, Plain]
    columns: tuple[ColumnRecord, ...]  # of the original
    released: tuple[ReleasedColumn, ...]
    rows_in: int
    rows_out: int
    keep: tuple[str, ...]  # the statistics that were to stay accurate
    edges: str | None  # how the faces of boxes lie; None where there are no boxes
    findings: tuple[Finding, ...]
    notes: Mapping[str, Plain]  # what the method says of its choices, in words and aggregates
    # columns whose cells no longer hold what they held, so that nothing certain follows from them
    altered: tuple[str, ...] = ()
    unaltered: tuple[str, ...] = ()  # columns whose cells are exactly as they were
    format: int = FORMAT

    @property
    def guarantee(self) -> str:
        """What is promised about privacy, in words; "no guarantee" where nothing is."""
        return "; ".join(finding.claim for finding in self.findings if finding.kind == "privacy") or NO_GUARANTEE

    @property
    def suppressed(self) -> int:
        """Number of rows left out."""
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
        """What may be told of a release that was just made and verified."""
        told = {one.name: getattr(method, one.name) for one in options_of(type(method)) if one.declared.reported}
        return cls(
            version=__version__,
            method=method.name,
            options={name: plain(value) for name, value in told.items()},
            columns=tuple(
                ColumnRecord(name=column.name, role=column.role, kind=kinds[column.name]) for column in schema.columns
            ),
            released=tuple(ReleasedColumn(name=name, kind=kind) for name, kind in released.items()),
            rows_in=rows_in,
            rows_out=rows_out,
            keep=_words(told.get("keep")),
            edges=str(told["edges"]) if "edges" in told else None,
            findings=tuple(findings),
            notes={name: plain(notes[name]) for name in method.noted if name in notes},
            altered=tuple(altered),
            unaltered=tuple(unaltered),
        )

    def names(self, role: Role) -> tuple[str, ...]:
        """Names of the original columns with this role."""
        return tuple(column.name for column in self.columns if column.role is role)

    def to_json(self) -> str:
        """The manifest as JSON text, the number of suppressed rows included."""
        told = asdict(self) | {"guarantee": self.guarantee, "suppressed": self.suppressed}
        return json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """A manifest from its JSON text."""
        told = _mapping(text)
        written = told.get("format")
        if isinstance(written, int) and written > FORMAT:
            raise ReadError(
                f"This version reads manifests up to format {FORMAT}.",
                found=f"format {written}",
                fix="install a newer sfumato",
            )
        manifest = _from_mapping(told)
        if manifest is None:
            raise ReadError(
                "A manifest must be the JSON text that a release wrote.",
                found="text of another form",
                fix="read the folder that `release` wrote",
            )
        return manifest


def plain(value: Any) -> Plain:
    """A value as JSON can write it; our own records (a statistic) are told by their words, others by their type."""
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


def _words(keep: Any) -> tuple[str, ...]:
    """Kept statistics, given as words or as statistics, one or several."""
    if keep is None:
        return ()
    return (str(keep),) if isinstance(keep, str) or not isinstance(keep, Iterable) else tuple(map(str, keep))


def _mapping(text: str) -> dict[str, Any]:
    """What the JSON text says, or nothing: the caller raises, so that no error carries the text it failed on."""
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _from_mapping(told: dict[str, Any]) -> Manifest | None:
    try:
        return Manifest(
            **{name: value for name, value in told.items() if name not in DERIVED}
            | {
                "columns": tuple(
                    ColumnRecord(name=column["name"], role=Role(column["role"]), kind=Kind(column["kind"]))
                    for column in told["columns"]
                ),
                "released": tuple(
                    ReleasedColumn(name=column["name"], kind=Kind(column["kind"])) for column in told["released"]
                ),
                "findings": tuple(Finding(**finding) for finding in told["findings"]),
                "keep": tuple(told["keep"]),
                "altered": tuple(told["altered"]),
                "unaltered": tuple(told["unaltered"]),
            }
        )
    except (TypeError, KeyError, ValueError):
        return None
