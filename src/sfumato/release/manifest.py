"""What is said of a release beside its rows: an allow-list, so that what nobody thought of stays inside.

A manifest holds names of columns, options, counts and findings. It holds no cell, no path and no seed (whoever knows
the seed can undo the order of the rows), and nothing of the original that the released rows do not show.
"""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from sfumato.errors import ReadError
from sfumato.methods.claims import Finding
from sfumato.schema.schema import Role
from sfumato.table.kinds import Kind
from sfumato.version import __version__

if TYPE_CHECKING:
    from sfumato.methods.base import Method
    from sfumato.schema.schema import Schema
    from sfumato.table.table import Table

FORMAT = 1  # raised when an older version could no longer read what is written

# The options that may be told. A word means the same for every method; a word that is not here is never written:
# the seed above all, and what may hold values of the original (a declared domain, a path).
TELLABLE = frozenset(
    {"k", "l", "keep", "importance", "accuracy", "epsilon", "edges", "snap", "others", "suppress", "cut", "categories"}
    | {"search", "overlap", "weighting", "kind", "population", "alpha", "beta", "weights", "buckets", "cost"}
    | {"cluster_size", "repair", "basis", "tolerance", "represent", "ties", "sample", "delta", "within", "budget"}
    | {"variant", "winsorise", "marginals", "floor", "logs", "decoding", "level", "correct", "rules"}
)

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
    altered: tuple[
        str, ...
    ] = ()  # columns whose cells no longer hold what they held: nothing certain follows from them
    format: int = FORMAT

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
        original: Table,
        released: Table,
        findings: Sequence[Finding],
        notes: Mapping[str, Any],
        altered: Sequence[str] = (),
    ) -> Manifest:
        """What may be told of a release that was just made and verified."""
        told = {field.name: getattr(method, field.name) for field in fields(method) if field.name in TELLABLE}
        return cls(
            version=__version__,
            method=method.name,
            options={name: plain(value) for name, value in told.items()},
            columns=tuple(
                ColumnRecord(name=column.name, role=column.role, kind=column.kind or original.kinds[column.name])
                for column in schema.columns
            ),
            released=tuple(ReleasedColumn(name=name, kind=kind) for name, kind in released.kinds.items()),
            rows_in=original.rows,
            rows_out=released.rows,
            keep=_words(told.get("keep")),
            edges=str(told["edges"]) if "edges" in told else None,
            findings=tuple(findings),
            notes={str(name): plain(value) for name, value in notes.items()},
            altered=tuple(altered),
        )

    def names(self, role: Role) -> tuple[str, ...]:
        """Names of the original columns with this role."""
        return tuple(column.name for column in self.columns if column.role is role)

    def to_json(self) -> str:
        """The manifest as JSON text, the number of suppressed rows included."""
        told = asdict(self) | {"suppressed": self.suppressed}
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
            **{name: value for name, value in told.items() if name != "suppressed"}
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
            }
        )
    except (TypeError, KeyError, ValueError):
        return None
