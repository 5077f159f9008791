"""The evidence of a release: what was found, mapped to what the law asks, as one document to print and to sign.

Figures come from the released rows, from the promises and from the assessment; each names how to recount it. What no
program can know is a question with a line to sign. It is no legal advice.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import OptionError, RequestError
from sfumato.formats.raw_files import write_whole
from sfumato.languages import ENGLISH, languages, translate_page
from sfumato.params import require_choice
from sfumato.plan.recount_sql import ReleasedRows
from sfumato.release.bundle import rows_sha256
from sfumato.release.target import MANIFEST, NUMBERS, PARQUET, PROMISES
from sfumato.report.contents import Contents, contents
from sfumato.report.html import environment
from sfumato.report.legal_findings import ATTACKED, PROMISED, STATED, VERIFIED, LegalFinding, LegalFindings, blame_key

if TYPE_CHECKING:
    from sfumato.release.manifest import Manifest
    from sfumato.release.release import Release
    from sfumato.table.kinds import Kind


@dataclass(frozen=True, kw_only=True)
class FigureRecount:
    """How figures are counted again: in words, and as SQL for DuckDB alone where the released rows show them."""

    mark: str  # by which sentences name it, such as "R1"
    how: str
    sql: str = ""


@dataclass(frozen=True, kw_only=True, repr=False)
class EvidencePack:
    """The evidence of a release for one recipient and one purpose.

    Attributes
    ----------
    name : str
        Name of the release: that of its folder, or of its method.
    recipient, purpose, environment : str
        Who receives it, what for, and where it is used.
    date : str
        The day on which the document was made, as in 2026-05-31.
    checksum, checksum_of : str
        SHA-256 of the released table, and of what.
    findings : tuple of LegalFinding
        What was found, for each text of the law.
    recounts : tuple of FigureRecount
        How each sentence is counted again: in words, and as SQL for DuckDB alone.
    questions : tuple of str
        What no program can know; each has a line to sign.
    language : str
        Language of the page, such as "en", "de" or "fr".
    page : str
        The document as HTML, to be printed from a browser.

    Examples
    --------
    >>> import sfumato as sf
    >>> release = sf.Boxes(k=2).release({"age": [20, 21, 40, 41]}, schema={"age": "quasi"})
    >>> release.evidence(recipient="University X", purpose="study Y").recipient
    'University X'
    """

    name: str
    recipient: str
    purpose: str
    environment: str
    date: str
    checksum: str
    checksum_of: str
    findings: tuple[LegalFinding, ...]
    recounts: tuple[FigureRecount, ...]
    questions: tuple[str, ...]
    language: str
    _report: Contents

    @property
    def page(self) -> str:
        """The document as one HTML page without outside requests."""
        page = environment().get_template("evidence.html.j2").render(pack=self, report=self._report)
        return translate_page(page, self.language)

    def write(self, file: str | Path) -> Path:
        """Write the document, all or nothing, and return its absolute path."""
        path = Path(file).expanduser().absolute()
        failure = ""
        try:
            write_whole(path, partial(_write, self.page.encode()))
        except OSError as error:
            failure = error.strerror or type(error).__name__
        if failure:
            raise OptionError(f"{path.name} cannot be written: {failure}.", fix="another place")
        return path

    def __repr__(self) -> str:
        return f"EvidencePack({self.name}, {len(self.findings)} findings, {len(self.questions)} questions)"


def gather_evidence(
    release: Release,
    *,
    recipient: str,
    purpose: str,
    place: str = "",
    name: str | None = None,
    language: str = ENGLISH,
) -> EvidencePack:
    """Return the evidence of a release; ``place`` is the environment in which it is used."""
    for word, text in (("recipient", recipient), ("purpose", purpose)):
        if not isinstance(text, str) or not text.strip():
            raise OptionError(f"Evidence needs a {word}.", found="none", fix=f'{word}="University X"')
    require_choice(language, name="language", choices=languages())
    if release.manifest is None:
        raise RequestError("Evidence needs a release with a manifest.", fix="the folder that `sfumato release` wrote")
    report, manifest = contents(release), release.manifest
    checksum, of = _checksum(release, manifest)
    recounts = _recounts(report, manifest, release.table.kinds)
    return EvidencePack(
        name=name or f"{manifest.method}, {manifest.rows_out:,} rows",
        recipient=recipient.strip(),
        purpose=purpose.strip(),
        environment=place.strip(),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        checksum=checksum,
        checksum_of=of,
        findings=tuple(LegalFindings(report, manifest, {key: one.mark for key, one in recounts.items()}).all()),
        recounts=tuple(recounts.values()),
        questions=tuple(_questions(report, manifest, place.strip())),
        language=language,
        _report=report,
    )


def _write(content: bytes, file: object) -> None:
    file.write(content)  # type: ignore[attr-defined]


def _checksum(release: Release, manifest: Manifest) -> tuple[str, str]:
    if PARQUET in manifest.files:
        return manifest.files[PARQUET], f"the file {PARQUET}"
    parts = [name for name in manifest.files if name.startswith(f"{PARQUET}/")]
    if parts:
        first = f"the first of {len(parts):,} parts, {parts[0]}; the others are in {MANIFEST}"
        return manifest.files[parts[0]], first
    return rows_sha256(
        release.table.arrow
    ), "the rows as comma-separated text; it is in the metadata of the Parquet file"


def _recounts(report: Contents, manifest: Manifest, kinds: Mapping[str, Kind]) -> dict[str, FigureRecount]:
    """Return how everything is counted again, by what it is about."""
    path = PARQUET if not any(name.startswith(f"{PARQUET}/") for name in manifest.files) else f"{PARQUET}/*.parquet"
    rows = ReleasedRows(path=path, kinds=kinds)
    counted = {view.knows: view._released for view in report.intruders}
    counted |= {blame_key(one.name): one._released for one in report.blamed}
    equal = f"count the rows of {PARQUET} that are equal in these columns"
    ways: dict[str, tuple[str, Sequence[str]]] = {key: (equal, columns) for key, columns in counted.items()}
    ways |= {PROMISED: (f"{PROMISES} with DuckDB alone", ()), VERIFIED: ("`sfumato verify DIR`", ())}
    ways |= {STATED: (f"read it in {MANIFEST}", ())}
    ways |= {ATTACKED: (f"`sfumato assess FILE DIR --reference OTHERS`, and {NUMBERS}", ())}
    return {
        key: FigureRecount(mark=f"R{number}", how=how, sql=_risk_in_sql(rows, columns) if columns else "")
        for number, (key, (how, columns)) in enumerate(ways.items(), 1)
    }


def _risk_in_sql(rows: ReleasedRows, columns: Sequence[str]) -> str:
    """Return the statement that counts the groups of equal rows, and their risks."""
    named = ",\n".join(f"  {name} AS ({sql})" for name, sql in rows.groups(columns).items())
    alone = "coalesce(sum(members) FILTER (WHERE members = 1), 0)::BIGINT AS alone"
    risks = "1.0 / min(members) AS largest_risk, count(*) / sum(members) AS mean_risk"
    return f"WITH\n{named}\nSELECT count(*) AS groups, min(members) AS smallest, {alone},\n  {risks}\nFROM groups;"


def _questions(report: Contents, manifest: Manifest, place: str) -> Iterator[str]:
    yield "Are the recipient and the purpose above complete and correct, and what is the legal basis?"
    if not place:
        yield "In which environment are the data used: who has access, under which contract, with which controls?"
    else:
        yield f"Do these controls of the environment exist and work: {place}?"
    yield "Which means of identification are reasonably likely for this recipient, and which other data can be joined?"
    if report.blamed:
        names = ", ".join(one.name for one in report.blamed)
        yield f"Can nobody who receives the data know {names} of a person? These columns are not protected."
    if report.assessment is None and not manifest.covers_every_output:
        yield "Why is no attack needed before the release?"
    if report.assessment is not None and not manifest.covers_every_output:
        yield (
            "How many releases of this table were tested before this one was chosen? Each makes it likelier that one "
            "passes by chance."
        )
    if report.assessment is not None and report.assessment.failed:
        yield "Why are the failed tests acceptable for this recipient?"
    yield from report.decisions
    yield "For how long does this judgement hold, and who repeats it when other data become available?"
