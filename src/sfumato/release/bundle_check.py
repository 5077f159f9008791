"""Check a bundle: its files are those that were written together, and its promises hold on its released rows.

A promise that needs the original, such as "every original value lies inside its released range", was verified when the
release was made and cannot be recounted here; neither can a promise of another version or of a method of the user's
own. All others are recounted, and what the manifest says about them must be what the recount finds.

A checksum shows that a file is the one that the manifest lists. It is no signature: whoever changes a file can change
its checksum, and the one of the manifest, too. What nobody can forge is what the released rows themselves show.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from sfumato.errors import GuaranteeNotMet, ReadError, SfumatoError
from sfumato.formats.exports import FORMULAS
from sfumato.formats.text import write_text
from sfumato.languages import languages
from sfumato.plan.plan import Evidence
from sfumato.release.bundle import promises_in_sql, sha256, write_readme
from sfumato.release.manifest import Manifest, is_sealed
from sfumato.release.rows import StoredTable
from sfumato.release.target import CSV, MANIFEST, NUMBERS, PARQUET, PROMISES, README, files_in, is_file_name
from sfumato.release.verify import SHARE_ROWS, PartTallies, Recount, count_in_shares
from sfumato.version import __version__

if TYPE_CHECKING:
    from sfumato.plan.plan import Claim, Finding
    from sfumato.table.table import Table

T = TypeVar("T")
FileState = Literal["unchanged", "changed", "absent", "not listed"]

WHOLE_SECONDS = r"(:\d\d)\.0+(Z|[+-][\d:]+)?$"  # Parquet has no times in seconds: a time is read from it with zeros
NO_LESS = ("k", "l")  # options that some claim must promise: none of them means that a claim was made weaker


@dataclass(frozen=True, kw_only=True)
class FileCheck:
    """A file of a bundle, compared with its SHA-256 in the manifest.

    ``recounted`` says whether also its content was checked: the released rows, on which promises are recounted, the
    same rows as text, and the README and promises.sql, which the manifest determines. Reports and codebooks are not:
    somebody may have written them and their checksums anew.
    """

    name: str
    state: FileState
    recounted: bool = False


@dataclass(frozen=True, kw_only=True)
class BundleCheck:
    """What was found when a bundle was checked."""

    derived: ClassVar[tuple[str, ...]] = ("holds",)

    files: tuple[FileCheck, ...]
    recounted: tuple[Finding, ...]  # promises that were recounted on the released rows
    not_recounted: tuple[Finding, ...]  # promises that need the original, or that this version does not know
    by_rows: tuple[Finding, ...] = ()  # of these, promises about people, recounted in rows: k people have k rows
    faults: tuple[str, ...]  # what the manifest says and the bundle does not show

    @property
    def broken(self) -> tuple[Finding, ...]:
        """Recounted promises that do not hold."""
        return tuple(finding for finding in self.recounted if not finding.held)

    @property
    def holds(self) -> bool:
        """Whether all files are there and unchanged, and all recounted promises hold."""
        return not (self.faults or self.broken or self.wrong_files())

    def wrong_files(self, *, may_be_absent: bool = False) -> list[FileCheck]:
        """Return the files that are not as they were written; with ``may_be_absent``, those that exist."""
        right = ("unchanged", "absent") if may_be_absent else ("unchanged",)
        return [file for file in self.files if file.state not in right]

    def require_held(self, *, may_be_absent: bool = False) -> None:
        """Raise unless the bundle holds."""
        wrong = [f"{file.name} {file.state}" for file in self.wrong_files(may_be_absent=may_be_absent)]
        found = "; ".join([*(f"{finding.claim}: {finding.found}" for finding in self.broken), *self.faults, *wrong])
        fix = "get a new copy from its source, or read_release(..., verify=False) to read it without a guarantee"
        if self.broken or not all(one.held for one in self.by_rows):
            raise GuaranteeNotMet("The promises of a release must hold on its rows.", found=found, fix=fix)
        if found:
            raise ReadError("The files of a release must be as they were written.", found=found, fix=fix)


def check_bundle(folder: Path, manifest: Manifest, released: Table) -> BundleCheck:
    """Check the files of a bundle and recount the promises of its manifest on the released rows."""
    checked, in_parts = check_rows(manifest, released), (folder / PARQUET).is_dir()
    faults = (
        *_file_faults(folder, manifest),
        *_text_faults(folder / CSV, released),
        *text_file_faults(
            folder / README, (partial(write_readme, manifest, one) for one in languages()), manifest.version
        ),
        *text_file_faults(folder / PROMISES, [partial(promises_in_sql, manifest, in_parts=in_parts)], manifest.version),
        *checked.faults,
    )
    recounted = (PARQUET,) if isinstance(released, StoredTable) else (PARQUET, CSV)
    if manifest.version == __version__:
        recounted = (*recounted, README, PROMISES)
    return replace(checked, files=_files(folder, manifest.files, recounted), faults=faults)


def check_rows(manifest: Manifest, released: Table) -> BundleCheck:
    """Recount the promises of a manifest on the released rows."""
    claims = [record.to_claim() for record in manifest.claims]
    for claim in claims:
        if claim is not None:
            _require_few_columns(claim, len(released.names) + len(manifest.columns))
    findings = _recount([claim for claim in claims if claim and not claim.needs_original], released)
    recounted, not_recounted, faults = [], [], _manifest_faults(manifest, claims)
    by_rows = _recount_rows(claims, released)
    faults += [f"not even by rows {found.claim} ({found.found})" for found in by_rows if not found.held]
    for claim, written in zip(claims, manifest.findings, strict=False):
        finding = None if claim is None or claim.needs_original else next(findings)
        if finding is None:
            not_recounted.append(written)
        else:
            recounted.append(finding)
            faults += _differences(written, finding, manifest)
    return BundleCheck(
        files=(),
        recounted=tuple(recounted),
        not_recounted=tuple(not_recounted),
        by_rows=by_rows,
        faults=tuple(faults),
    )


def _recount_rows(claims: Sequence[Claim[Any] | None], released: Table) -> tuple[Finding, ...]:
    """Recount promises about people in rows, as far as the released rows show them."""
    about_people: list[Any] = [claim for claim in claims if getattr(claim, "person", None) is not None]
    about_rows = [replace(claim, person=None) for claim in about_people]
    return tuple(_recount([claim for claim in about_rows if not claim.needs_original], released))


def replace_findings(manifest: Manifest, checked: BundleCheck) -> Manifest:
    """Return the manifest with the promises as they were recounted: a text of another version may say anything."""
    recounted, others = iter(checked.recounted), iter(checked.not_recounted)
    findings = tuple(next(recounted if record.is_recounted else others) for record in manifest.claims)
    return replace(manifest, findings=findings)


def _files(folder: Path, sums: Mapping[str, str], recounted: Sequence[str]) -> tuple[FileCheck, ...]:
    listed = [name for name in sums if is_file_name(name)]  # a manifest cannot have other files opened
    others = [name for name in files_in(folder) if name not in (*listed, MANIFEST)]
    checks = [
        FileCheck(name=name, state=file_state(folder / name, sums[name]), recounted=name.split("/")[0] in recounted)
        for name in listed
    ]
    return (*checks, *(FileCheck(name=name, state="not listed") for name in others))


def file_state(file: Path, written: str | None) -> FileState:
    """Return how a file compares with its checksum."""
    try:
        if not file.is_file():  # a pipe or a device would be read without an end
            return "absent"
        return "unchanged" if sha256(file) == written else "changed"
    except OSError:
        return "absent"


def _file_faults(folder: Path, manifest: Manifest) -> list[str]:
    """Return what is wrong with the manifest as a file."""
    faults = []
    if not is_sealed((folder / MANIFEST).read_bytes().decode(errors="replace")):
        faults.append("manifest.json changed")
    if not manifest.files:
        faults.append("no checksums in the manifest")
    if manifest.covers_every_output and (manifest.rows_in is not None or _is_assessed(folder / NUMBERS)):
        faults.append("counts of the original beside a promise that covers every output")
    return faults


def _text_faults(file: Path, released: Table) -> list[str]:
    """Return whether released.csv holds other cells than released.parquet, however both are checksummed."""
    if not file.is_file() or file.stat().st_size == 0:
        return []
    if getattr(released, "most_rows", None) is not None or not hasattr(released, "arrow"):  # too large to be read whole
        return []
    for formulas in FORMULAS:
        text = io.BytesIO()
        write_text(released.arrow, text, ",", formulas)
        if text.getvalue() == file.read_bytes() or _same_cells(text.getvalue(), file.read_bytes()):
            return []
    return [f"{file.name} holds other cells than released.parquet"]


def text_file_faults(file: Path, texts: Iterable[Callable[[], str]], version: str) -> list[str]:
    """Return whether a file is none of these texts of the manifest; other versions may word them differently."""
    if version != __version__ or not file.is_file():
        return []
    content = file.read_bytes()
    return (
        []
        if any(write().encode() == content for write in texts)
        else [f"{file.name} says other things than {MANIFEST}"]
    )


def _same_cells(one: bytes, other: bytes) -> bool:
    """Whether two texts hold the same cells: another version of Arrow may write the same number otherwise."""
    tables = []
    for text in (one, other):
        try:
            names = csv.read_csv(io.BytesIO(text), csv.ReadOptions(block_size=len(text) + 1)).column_names
            convert = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
            tables.append(csv.read_csv(io.BytesIO(text), csv.ReadOptions(block_size=len(text) + 1), None, convert))
        except pa.ArrowException:
            return False
    first, second = tables
    if first.column_names != second.column_names or first.num_rows != second.num_rows:
        return False
    return all(map(_same_column, first.columns, second.columns))


def _same_column(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    one, other = (pc.replace_substring_regex(column, WHOLE_SECONDS, r"\1\2") for column in (one, other))
    if one.equals(other):
        return True
    try:
        return bool(_numbers(one).equals(_numbers(other)))
    except pa.ArrowException:
        return False


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the numbers of a column of text; an empty cell is missing. Zero has no sign: Parquet may lose it."""
    return pc.if_else(pc.equal(column, ""), None, column).cast(pa.float64())


def _require_few_columns(claim: Claim[Any], most: int) -> None:
    """Raise if a claim names a column twice, or more columns than there are, before anything is grouped by them."""
    columns = getattr(claim, "columns", ())
    listed = [one for many in columns.values() for one in many] if isinstance(columns, Mapping) else list(columns)
    if len(listed) > most or len(set(listed)) < len(listed):
        raise ReadError(
            "A promise in the manifest must fit the released rows.",
            found=f"{type(claim).__name__} names {len(listed):,} columns, more than there are or one of them twice",
            fix="get a new copy from its source",
        )


def _is_assessed(report: Path) -> bool:
    """Whether the numbers of a report contain an assessment; a file that cannot be read is found by its checksum."""
    try:
        numbers = json.loads(report.read_bytes()) if report.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(numbers, dict) and bool(numbers.get("assessment") or numbers.get("gauges"))


def _manifest_faults(manifest: Manifest, claims: list[Claim[Any] | None]) -> list[str]:
    """Return what is wrong with what the manifest says."""
    faults = []
    if len(manifest.claims) != len(manifest.findings):
        faults.append(f"{len(manifest.findings)} findings for {len(manifest.claims)} promises")
    for name in NO_LESS:
        option = manifest.options.get(name)
        claimed = [value for claim in claims if isinstance(value := getattr(claim, name, None), int)]
        if isinstance(option, int) and claimed and max(claimed) < option:
            faults.append(f"option {name} is {option}, but {max(claimed)} is promised")
    return faults


def _differences(written: Finding, recounted: Finding, manifest: Manifest) -> list[str]:
    """Return what the manifest says of a promise that the recount does not; other versions may word it differently."""
    if written.kind != recounted.kind or not written.held:
        return [f"the manifest says of {recounted.claim!r} what the recount does not find"]
    same = replace(written, fix="") == replace(recounted, fix="")
    if manifest.version != __version__ or same or not recounted.held:
        return []
    return [
        f"the manifest says {written.claim!r} ({written.found}), the recount {recounted.claim!r} ({recounted.found})"
    ]


def _recount(claims: Sequence[Claim[Any]], released: Table) -> Iterator[Finding]:
    """Recount claims, one part of the rows after the other; a claim that does not fit them is an error."""
    if claims and isinstance(released, StoredTable) and released.rows > SHARE_ROWS:
        return iter(_recount_in_shares(claims, released))
    recounts = [Recount(claim) for claim in claims]
    for part in released.parts() if recounts else ():
        evidence = Evidence(part, part.select([]), np.arange(part.rows))
        for recount in recounts:
            _count_fitting(recount.claim, partial(recount.add, evidence))
    return iter([_count_fitting(recount.claim, recount.finding) for recount in recounts])


def _recount_in_shares(claims: Sequence[Claim[Any]], released: StoredTable) -> tuple[Finding, ...]:
    """Recount claims with the tallies of parts in temporary files, so that memory does not grow with the groups."""

    def counted() -> Iterator[PartTallies]:
        for part in released.parts():
            evidence = Evidence(part, part.select([]), np.arange(part.rows))
            yield PartTallies(tuple(_count_fitting(claim, partial(claim.tally, evidence)) for claim in claims))

    return count_in_shares(claims, counted(), released.rows).findings(claims)


def _count_fitting(claim: Claim[Any], count: Callable[[], T]) -> T:
    """Return what the claim counts; one that does not fit the released rows is an error of the manifest."""
    reason = ""
    try:
        return count()
    except SfumatoError as error:
        reason = error.message
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, ZeroDivisionError):
        reason = "its parameters are not valid"
    raise ReadError(
        "A promise in the manifest must fit the released rows.",
        found=f"{type(claim).__name__}: {reason}",
        fix="get a new copy from its source",
    )
