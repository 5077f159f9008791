"""The manifest: what is published about a release in addition to its rows.

It is an allow-list: only what is named here is written. A manifest contains names of columns, options, counts and
findings. It contains no cell, no path and no seed (anyone who knows the seed can undo the order of the rows), and
nothing about the original that the released rows do not show.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from importlib import import_module
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from sfumato.errors import ReadError
from sfumato.params import Plain, options_of, plain
from sfumato.plan.claims.containment import AtMostNames
from sfumato.plan.claims.each_column import AtMostValues, EachColumnAnonymous
from sfumato.plan.claims.groups import Diversity, KAnonymity
from sfumato.plan.claims.kept_statistics import WeightTotalsKept
from sfumato.plan.claims.risk import RiskAtMost, SampledPrivacy
from sfumato.plan.claims.rows import ColumnsAllowed, Pseudonyms, SharedHistory
from sfumato.plan.claims.sensitive import EntropyDiversity, RecursiveDiversity, TCloseness
from sfumato.plan.plan import Claim, Finding
from sfumato.schema.columns import Column, DateShift, Design, Role
from sfumato.table.kinds import Kind
from sfumato.version import __version__

if TYPE_CHECKING:
    from sfumato.schema.schema import Schema


# claims whose parameters are plain and show no cell → the module that defines them
RECORDED = {
    kind.__name__: kind.__module__
    for kind in (
        KAnonymity,
        Diversity,
        EachColumnAnonymous,
        AtMostValues,
        AtMostNames,
        EntropyDiversity,
        RecursiveDiversity,
        TCloseness,
        RiskAtMost,
        SampledPrivacy,
        ColumnsAllowed,
        Pseudonyms,
        SharedHistory,
    )
} | {"ProbabilisticAnonymity": "sfumato.methods.generalize.population"}
RECORDED["MeasuredPrivacy"] = "sfumato.plan.claims.concentrated_privacy"


@dataclass(frozen=True, kw_only=True)
class ClaimRecord:
    """A claim as data: the name of its class, and its parameters if it is one of ``RECORDED``."""

    name: str
    parameters: Mapping[str, Plain] | None

    @classmethod
    def of(cls, claim: Claim[Any]) -> ClaimRecord:
        """Record a claim."""
        name = type(claim).__name__
        if name not in RECORDED or not is_dataclass(claim):
            return cls(name=name, parameters=None)
        return cls(name=name, parameters={one.name: plain(getattr(claim, one.name)) for one in fields(claim)})

    @property
    def person(self) -> str | None:
        """The column of the original by which the promise counted people; None if it counts rows."""
        person = (self.parameters or {}).get("person")
        return person if isinstance(person, str) else None

    @property
    def is_recounted(self) -> bool:
        """Whether the promise is recounted by whoever reads the release: it is known, and the rows can show it."""
        try:
            claim = self.to_claim()
        except ReadError:  # a manifest that is read without being verified
            return False
        return claim is not None and not claim.needs_original

    def to_claim(self) -> Claim[Any] | None:
        """Return the claim, or None if its parameters are not recorded."""
        if self.name not in RECORDED:
            return None
        kind = getattr(import_module(RECORDED[self.name]), self.name)
        try:
            claim: Claim[Any] = kind(**{name: _frozen(value) for name, value in dict(self.parameters or {}).items()})
        except (TypeError, ValueError):
            pass
        else:
            return claim
        raise ReadError(
            "A promise in the manifest must have the parameters of its kind.",
            found=f"others for {self.name}",
            fix="get a new copy of the release",
        )


def _frozen(value: Any) -> Any:
    """Return the parameter of a claim from its record: tuples for lists, at all levels."""
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return {name: _frozen(item) for name, item in value.items()} if isinstance(value, dict) else value


NO_GUARANTEE = "no guarantee"
PEOPLE_COUNTED = "(people were counted when the release was made: the released rows alone do not tell them apart)"
NOT_SHOWN = "(stated: the released rows alone do not show it)"  # after a promise that no reader can recount
FORMAT = 3  # increased when older versions can no longer read a manifest
EXACT, BOX_MEAN, ALTERED, NOT_RELEASED = "exact", "box-mean", "altered", "not released"  # rules of sampling weights
SEAL = "sha256"  # in the JSON text: SHA-256 of all the rest of it


@dataclass(frozen=True, kw_only=True)
class ColumnRecord:
    """A column of the original with its role and kind."""

    name: str
    role: Role
    kind: Kind
    domain: tuple[float, float] | None = None  # declared range, which is public, in the unit of Table.numbers
    label: str = ""  # what the column means, in words
    pseudonym: bool = False  # whether an identifier was replaced by keyed pseudonyms
    shift: DateShift | None = None  # how dates were shifted before the release
    design: Design | None = None  # stratum or cluster of a survey

    @classmethod
    def of(cls, column: Column, kind: Kind) -> ColumnRecord:
        """Record a column of a schema."""
        return cls(**{one.name: getattr(column, one.name) for one in fields(cls)} | {"kind": kind})

    def to_column(self) -> Column:
        """Return the column of a schema that gives this record."""
        return Column(**{one.name: getattr(self, one.name) for one in fields(self)})


@dataclass(frozen=True, kw_only=True)
class ReleasedColumn:
    """A column of the released table."""

    name: str
    kind: Kind


class MethodNotes(Protocol):
    """What a manifest asks of a method besides its options."""

    name: ClassVar[str]
    manifest_notes: ClassVar[Mapping[str, str]]  # names of the notes that may be published, with their meanings


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """How a release was made, and what was found when its promises were verified."""

    # written with the fields, but not read back
    derived: ClassVar[tuple[str, ...]] = ("guarantee", "suppressed", "sampling_weights")

    version: str  # of sfumato
    method: str  # name of the method
    options: Mapping[str, Plain]
    columns: tuple[ColumnRecord, ...]  # of the original
    released: tuple[ReleasedColumn, ...]
    rows_in: int | None  # None if a promise covers every output, as differential privacy does
    rows_out: int
    keep: tuple[str, ...]  # statistics to keep accurate
    edges: str | None  # where the faces of boxes are placed; None without boxes
    findings: tuple[Finding, ...]
    notes: Mapping[str, Plain]  # what the method reports about its choices: texts and aggregates
    altered: tuple[str, ...] = ()  # columns whose cells were changed, so that they guarantee no interval
    unaltered: tuple[str, ...] = ()  # columns whose cells are exactly those of the original
    people_in: int | None = None  # of the original, if a column tells people apart: promises then count people
    repeated: tuple[str, ...] = ()  # removed identifiers that repeat: promises count rows, and people have several
    revealing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # unaltered columns that tell protected ones
    nodes: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)  # words that cover common values
    claims: tuple[ClaimRecord, ...] = ()  # in the order of the findings
    files: Mapping[str, str] = field(default_factory=dict, compare=False)  # SHA-256 of each file; {} before the write
    format: int = FORMAT

    @property
    def guarantee(self) -> str:
        """The privacy promises as one text, or "no guarantee" if there are none.

        A promise that a reader cannot recount, such as one about a population table or one of a method of the user's
        own, is said to be stated: a manifest may state anything.
        """
        pairs = zip_longest(self.findings, self.claims[: len(self.findings)])
        promises = [(finding.claim, record) for finding, record in pairs if finding.kind == "privacy"]
        # without any record the promises are those of a release in memory: such a bundle is refused
        shown = [
            f"{text} {NOT_SHOWN}" if record and not record.is_recounted and record.person is None else text
            for text, record in promises
        ]
        told = "; ".join(shown) or NO_GUARANTEE
        if any(record and record.person and record.person not in self.pseudonyms for _, record in promises):
            told += f" {PEOPLE_COUNTED}"
        return f"{told} (rows are counted, not people: {', '.join(self.repeated)} repeats)" if self.repeated else told

    @property
    def suppressed(self) -> int | None:
        """Number of rows that were not released, or None if it is not told.

        It is 0 if several synthetic tables are released together.
        """
        return None if self.rows_in is None else max(0, self.rows_in - self.rows_out)

    @property
    def covers_every_output(self) -> bool:
        """Whether a promise holds only if nothing else about the original is published."""
        return any(claim.covers_every_output for claim in map(ClaimRecord.to_claim, self.claims) if claim is not None)

    @property
    def weight(self) -> str | None:
        """Name of the column of sampling weights in the original, or None."""
        return next(iter(self.names(Role.WEIGHT)), None)

    @property
    def sampling_weights(self) -> str | None:
        """What was done to the sampling weights; None if there are none.

        "exact": as in the original. "box-mean": every row has the mean weight of its box, and the range of its
        weights, so that only totals and ranges of boxes are those of the original. "altered": changed in another way.
        "not released": removed.
        """
        if self.weight is None:
            return None
        if self.weight not in (column.name for column in self.released):
            return NOT_RELEASED
        if any(claim.name == WeightTotalsKept.__name__ for claim in self.claims):
            return BOX_MEAN
        return ALTERED if self.weight in self.altered else EXACT

    @classmethod
    def of(
        cls,
        *,
        method: MethodNotes,
        schema: Schema,
        kinds: Mapping[str, Kind],
        released: Mapping[str, Kind],
        rows_in: int,
        rows_out: int,
        findings: Sequence[Finding],
        claims: Sequence[Claim[Any]] = (),
        altered: Sequence[str] = (),
        unaltered: Sequence[str] = (),
        repeated: Sequence[str] = (),
        people_in: int | None = None,
        revealing: Mapping[str, tuple[str, ...]] | None = None,
        nodes: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None,
        notes: Mapping[str, Any],
    ) -> Manifest:
        """Build the manifest of a release that has just been verified."""
        reported = {one.name: getattr(method, one.name) for one in options_of(type(method)) if one.declared.reported}
        return cls(
            version=__version__,
            method=method.name,
            options={name: plain(value) for name, value in reported.items()},
            columns=tuple(ColumnRecord.of(column, kinds[column.name]) for column in schema.columns),
            released=tuple(ReleasedColumn(name=name, kind=kind) for name, kind in released.items()),
            rows_in=None if any(claim.covers_every_output for claim in claims) else rows_in,
            rows_out=rows_out,
            keep=_statistics(reported.get("keep")),
            edges=str(reported["edges"]) if "edges" in reported else None,
            findings=tuple(findings),
            claims=tuple(map(ClaimRecord.of, claims)),
            notes={name: plain(notes[name]) for name in method.manifest_notes if name in notes},
            altered=tuple(altered),
            unaltered=tuple(unaltered),
            repeated=tuple(repeated),
            people_in=None if any(claim.covers_every_output for claim in claims) else people_in,
            revealing=dict(revealing or {}),
            nodes=dict(nodes or {}),
        )

    def names(self, role: Role) -> tuple[str, ...]:
        """Return the names of the original columns with this role."""
        return tuple(column.name for column in self.columns if column.role is role)

    @property
    def pseudonyms(self) -> tuple[str, ...]:
        """The released columns that hold pseudonyms."""
        return tuple(column.name for column in self.columns if column.pseudonym)

    @property
    def shifted(self) -> tuple[str, ...]:
        """The columns whose dates were shifted before the release."""
        return tuple(column.name for column in self.columns if column.shift is not None)

    def noted_names(self, note: str) -> tuple[str, ...]:
        """Return the columns that a note of the method lists; none if there is no such note."""
        listed = self.notes.get(note)
        return tuple(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else ()

    def design(self, part: Design) -> tuple[str, ...]:
        """Return the names of the original columns that are strata, or clusters, of a survey."""
        return tuple(column.name for column in self.columns if column.design is part)

    @property
    def is_measured(self) -> bool:
        """Whether statistics are estimated from noisy measurements, which the notes tell."""
        return "moments" in self.notes and "histograms" in self.notes

    @property
    def sets(self) -> tuple[str, ...]:
        """The released columns whose cells are sets of categories: generalized categorical quasi-identifiers."""
        quasi = [column for column in self.columns if column.role is Role.QUASI and not column.kind.is_numeric]
        others = () if self.is_measured else (*self.unaltered, *self.altered)
        released = {column.name for column in self.released}.difference(others)
        return tuple(column.name for column in quasi if column.name in released)

    def to_json(self) -> str:
        """Return the manifest as JSON text, with ``guarantee``, the number of ``suppressed`` rows and its SHA-256."""
        record = asdict(self) | {name: getattr(self, name) for name in self.derived}
        record[SEAL] = seal(record)
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


def is_manifest(text: str) -> bool:
    """Whether a text looks like the JSON text of a manifest."""
    try:
        return SEAL in _mapping(text)
    except ReadError:
        return False


def is_sealed(text: str) -> bool:
    """Whether the JSON text of a manifest is as it was written; spaces and the order of its names do not count."""
    record = _mapping(text)
    written = record.pop(SEAL, None)
    return bool(written == seal(record))


def seal(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a record as it is written, whatever its order."""
    text = json.dumps(record, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _statistics(keep: Any) -> tuple[str, ...]:
    """Return the texts of one or several kept statistics."""
    if keep is None:
        return ()
    return (str(keep),) if isinstance(keep, str) or not isinstance(keep, Iterable) else tuple(map(str, keep))


def _mapping(text: str) -> dict[str, Any]:
    """Return the parsed JSON, or {} if it is not a mapping: the caller raises, so that no error quotes the text."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
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
        manifest = Manifest(
            **{name: value for name, value in record.items() if name not in (*Manifest.derived, SEAL)}
            | {
                "columns": tuple(
                    ColumnRecord(
                        name=column["name"],
                        role=Role(column["role"]),
                        kind=Kind(column["kind"]),
                        domain=_pair(column.get("domain")),
                        label=column.get("label", ""),
                        pseudonym=column.get("pseudonym", False),
                        shift=DateShift(**column["shift"]) if column.get("shift") else None,
                        design=Design(column["design"]) if column.get("design") else None,
                    )
                    for column in record["columns"]
                ),
                "released": tuple(
                    ReleasedColumn(name=column["name"], kind=Kind(column["kind"])) for column in record["released"]
                ),
                "findings": tuple(Finding(**finding) for finding in record["findings"]),
                "claims": tuple(ClaimRecord(**claim) for claim in record.get("claims", ())),
                "files": dict(record.get("files", {})),
                "keep": tuple(record["keep"]),
                "altered": tuple(record["altered"]),
                "unaltered": tuple(record["unaltered"]),
                "repeated": tuple(record.get("repeated", ())),
                "revealing": {name: tuple(others) for name, others in record.get("revealing", {}).items()},
                "nodes": {
                    name: {value: tuple(words) for value, words in one.items()}
                    for name, one in record.get("nodes", {}).items()
                },
            }
        )
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
        return None
    return manifest if _has_right_types(manifest) else None


def _has_right_types(manifest: Manifest) -> bool:
    """Return whether every field has the type that it is declared with: a dataclass takes anything."""
    texts = [manifest.version, manifest.method, manifest.edges or "", *manifest.files, *manifest.files.values()]
    texts += [*manifest.keep, *manifest.altered, *manifest.unaltered, *manifest.repeated]
    texts += [text for name, others in manifest.revealing.items() for text in (name, *others)]
    texts += [text for one in manifest.nodes.values() for words in one.values() for text in words]
    texts += [text for column in manifest.columns for text in (column.name, column.label)]
    texts += [*(column.name for column in manifest.released), *(claim.name for claim in manifest.claims)]
    texts += [text for one in manifest.findings for text in (one.claim, one.found, one.fix, one.kind)]
    mappings = [manifest.options, manifest.notes, *(one.parameters or {} for one in manifest.claims)]
    truths = [*(one.held for one in manifest.findings), *(column.pseudonym for column in manifest.columns)]
    counts = (manifest.rows_in or 0, manifest.people_in or 0, manifest.rows_out, manifest.format)
    return (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(mapping, Mapping) for mapping in mappings)
        and all(isinstance(truth, bool) for truth in truths)
        and all(type(rows) is int and rows >= 0 for rows in counts)
    )
