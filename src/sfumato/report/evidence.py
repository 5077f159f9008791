"""The evidence of a release: what was found, mapped to what the law asks, as one document to print and to sign.

Figures come from the released rows, from the promises and from the assessment; each names how to recount it. What no
program can know is a question with a line to sign. It is no legal advice.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import OptionError, RequestError
from sfumato.formats.raw_files import write_whole
from sfumato.languages import ENGLISH, languages, translate_page
from sfumato.params import require_choice
from sfumato.plan.claims.concentrated_privacy import MeasuredPrivacy
from sfumato.release.bundle import rows_sha256
from sfumato.release.manifest import ClaimRecord
from sfumato.release.target import NUMBERS, PARQUET, PROMISES
from sfumato.report.contents import Contents, contents
from sfumato.report.distributions import IntruderView
from sfumato.report.html import environment
from sfumato.report.summary import percent
from sfumato.schema.columns import Role

if TYPE_CHECKING:
    from sfumato.release.assessment import Score
    from sfumato.release.manifest import Manifest
    from sfumato.release.release import Release

EMA_THRESHOLD = 0.09  # largest risk of a person, European Medicines Agency, Policy 0070
VERIFY, ASSESS = "`sfumato verify DIR`", "`sfumato assess FILE DIR --reference OTHERS`"
MANIFEST_LINE, ROWS_LINE = "manifest.json", f"count the rows of {PARQUET} that are equal in these columns"
SINGLING_OUT = ("singling out", "singling out by one column", "isolation", "copies, all columns")
LINKABILITY = ("linkability", "correct nearest matches", "correct matches by the known mechanism")
INFERENCE = ("inference of a column", "inference of a column, largest")
NOBODY = "No released row is that of a person: rows are made of noisy counts, so no risk of a row is counted."
LEARNED = "What holds for everybody like a person can be learned, whether or not the person took part."
NO_VALUES = "No promise is made about the values of sensitive columns in a group."
NOT_TRIED = "No attack of this kind was tried: assess the release, or say why not."
ABOUT_VALUES = ("Diversity", "EntropyDiversity", "RecursiveDiversity", "TCloseness", "DeclaredCloseness")


@dataclass(frozen=True, kw_only=True)
class LegalFinding:
    """What a text of the law asks, what was found, and how to recount it."""

    source: str  # the law or standard, with its place
    asks: str
    found: tuple[str, ...]
    recount: str
    open: str  # what a person must still judge; empty if nothing


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
    questions : tuple of str
        What no program can know; each has a line to sign.
    language : str
        Language of the page, such as "en" or "de".
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
    return EvidencePack(
        name=name or f"{manifest.method}, {manifest.rows_out:,} rows",
        recipient=recipient.strip(),
        purpose=purpose.strip(),
        environment=place.strip(),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        checksum=checksum,
        checksum_of=of,
        findings=tuple(_findings(report, manifest)),
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
        first = f"the first of {len(parts):,} parts, {parts[0]}; the others are in {MANIFEST_LINE}"
        return manifest.files[parts[0]], first
    return rows_sha256(
        release.table.arrow
    ), "the rows as comma-separated text; it is in the metadata of the Parquet file"


def _findings(report: Contents, manifest: Manifest) -> Iterator[LegalFinding]:
    yield from _differential_privacy(manifest)
    yield _recital_26(report, manifest)
    yield from _three_criteria(report, manifest)
    yield from _hipaa(report, manifest)
    yield LegalFinding(
        source="ISO/IEC 27559:2022, de-identification framework",
        asks="Assess the context (who receives the data, where, under which controls), assess the data, mitigate what "
        "remains, and govern the use afterwards.",
        found=(
            f"Data: {len(manifest.names(Role.QUASI))} columns are protected, {len(manifest.unaltered)} are released "
            "exactly as in the original.",
            *_say_risks(report, manifest),
            f"Mitigation: method {manifest.method}; {_say_promises(report)}",
        ),
        recount=f"{VERIFY}; {PROMISES} with DuckDB alone",
        open="The context and the governance are the recipient’s and yours: they are asked for below.",
    )
    yield _ema(report, manifest)
    yield _pseudonyms(manifest)


def _differential_privacy(manifest: Manifest) -> Iterator[LegalFinding]:
    """Say what a release by noisy measurements promises, in which unit, and what it takes for public."""
    promise = next(
        (one for one in map(ClaimRecord.to_claim, manifest.claims) if isinstance(one, MeasuredPrivacy)), None
    )
    if promise is None:
        return
    most = promise.rows_per_person
    found: Any = manifest.notes.get("found") or ()
    never: Any = manifest.options.get("never") or ()
    yield LegalFinding(
        source="NIST SP 800-226, guidelines for evaluating differential privacy guarantees",
        asks="Say the privacy loss, the unit that is protected, what is public, and what all releases about the same "
        "people cost together.",
        found=(
            f"Whether one {'row' if most is None else 'person'} is in the table changes the probability of any release "
            f"by a factor of at most e^{promise.epsilon:g}, which is {math.exp(promise.epsilon):.3g}, except with "
            f"probability {promise.delta:g}.",
            "The unit is one row: a person who has several rows is protected less."
            if most is None
            else f"The unit is one person with at most {most:,} rows: other rows of a person were left out at random "
            "before anything was counted.",
            "Public because they are declared: the names, types, domains and categories of columns, and the options of "
            "the method.",
            *(
                [f"Found by noisy counts, because it was not declared: the values of {', '.join(found)}."]
                if found
                else ()
            ),
            *([f"Declared impossible, and so public: {'; '.join(map(str, never))}."] if never else ()),
            f"The release cost {promise.rho:.4g} in zero-concentrated differential privacy, which was paid before a "
            "row was counted; releases about the same people add up.",
        ),
        recount=f"{VERIFY}; the claims in {MANIFEST_LINE}",
        open="That the noise was drawn so cannot be seen in the rows: who made the release answers for it.",
    )


def _recital_26(report: Contents, manifest: Manifest) -> LegalFinding:
    return LegalFinding(
        source="GDPR, recital 26",
        asks="Data are anonymous if no person is identifiable by any means reasonably likely to be used, by the "
        "controller or by others, considering cost, time and technology.",
        found=(*_say_risks(report, manifest), *_say_blame(report), _say_tests(report)),
        recount=f"{PROMISES} with DuckDB alone; {ROWS_LINE}; for the attacks {ASSESS}",
        open="Which means are reasonably likely for this recipient is a judgement; it is asked for below.",
    )


def _three_criteria(report: Contents, manifest: Manifest) -> Iterator[LegalFinding]:
    opinion = "Article 29 Working Party, Opinion 05/2014 (WP216)"
    alone = tuple(
        f"An intruder who knows {view.knows} finds {view.alone:,} of {report.rows_out:,} rows that look like no other."
        for view in report.intruders
    ) or (NOBODY,)
    links = (
        f"Pseudonyms in {', '.join(manifest.pseudonyms)} link the rows of a person."
        if manifest.pseudonyms
        else "No pseudonym and no identifier is released."
    )
    records = zip(manifest.claims, manifest.findings, strict=False)
    values = [f"{one.claim}: {one.found}." for record, one in records if record.name in ABOUT_VALUES]
    asked = {
        "singling out": ("Is it still possible to single out an individual?", SINGLING_OUT, alone),
        "linkability": ("Is it still possible to link records relating to an individual?", LINKABILITY, (links,)),
        "inference": (
            "Can information be inferred concerning an individual?",
            INFERENCE,
            tuple(values) or (LEARNED if manifest.is_measured else NO_VALUES,),
        ),
    }
    for criterion, (question, names, found) in asked.items():
        tested = tuple(_say_scores(report, names))
        yield LegalFinding(
            source=f"{opinion}: {criterion}",
            asks=question,
            found=(*found, *tested),
            recount=f"{PROMISES} with DuckDB alone; {ROWS_LINE}" + (f"; {ASSESS}" if tested else ""),
            open="" if tested or manifest.is_measured else NOT_TRIED,
        )


def _hipaa(report: Contents, manifest: Manifest) -> Iterator[LegalFinding]:
    yield LegalFinding(
        source="HIPAA, 45 CFR §164.514(b)(1): expert determination",
        asks="A person with appropriate knowledge determines that the risk is very small that the information could be "
        "used, alone or with other reasonably available information, to identify an individual, and documents it.",
        found=(*_say_risks(report, manifest), _say_promises(report)),
        recount=f"{VERIFY}; {ROWS_LINE}",
        open="Whether this risk is very small is the expert’s determination, to be signed below.",
    )
    by_safe_harbor = manifest.method == "safe-harbor"
    yield LegalFinding(
        source="HIPAA, 45 CFR §164.514(b)(2): safe harbor",
        asks="The 18 kinds of identifiers are removed, and the covered entity has no actual knowledge that the rest "
        "could identify an individual.",
        found=(
            "The release was made by the method safe-harbor, which removes or coarsens the 18 kinds."
            if by_safe_harbor
            else f"The release was made by the method {manifest.method}, which does not claim safe harbor.",
        ),
        recount=f"the method in {MANIFEST_LINE}",
        open="Is there actual knowledge that somebody could be identified?" if by_safe_harbor else "",
    )


def _ema(report: Contents, manifest: Manifest) -> LegalFinding:
    limit = f"{EMA_THRESHOLD:g}"
    return LegalFinding(
        source="European Medicines Agency, Policy 0070, guidance on anonymisation",
        asks=f"Where risk is measured, the largest risk of re-identification is to be at most {limit}, which groups of "
        "12 reach.",
        found=tuple(
            f"An intruder who knows {view.knows}: largest risk {view.largest_risk:.4g}, "
            f"{'at most' if view.largest_risk <= EMA_THRESHOLD else 'above'} {limit}."
            for view in report.intruders
        )
        or (NOBODY,),
        recount=ROWS_LINE,
        open="Whether noise is an answer to a guidance that counts groups is to be judged."
        if manifest.is_measured
        else "Which of the two intruders is the one to measure against depends on what is public about patients.",
    )


def _pseudonyms(manifest: Manifest) -> LegalFinding:
    names = ", ".join(manifest.pseudonyms)
    found = (
        f"{names} holds pseudonyms by a secret key. The rows stay personal data for whoever can attribute them."
        if names
        else "No column holds pseudonyms."
    )
    return LegalFinding(
        source="EDPB, Guidelines 01/2025 on pseudonymisation",
        asks="Define the pseudonymisation domain, keep the additional information apart and secured, and prevent "
        "attribution within the domain; pseudonymised data are personal data.",
        found=(found,),
        recount=f"{PROMISES} with DuckDB alone; the columns in {MANIFEST_LINE}",
        open="Who is in the pseudonymisation domain, and who keeps the key?" if names else "",
    )


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
    elif report.assessment is not None and report.assessment.failed:
        yield "Why are the failed tests acceptable for this recipient?"
    yield from report.decisions
    yield "For how long does this judgement hold, and who repeats it when other data become available?"


def _say_risks(report: Contents, manifest: Manifest) -> Iterator[str]:
    yield from (NOBODY,) if manifest.is_measured else map(_say_risk, report.intruders)


def _say_risk(view: IntruderView) -> str:
    return (
        f"An intruder who knows {view.knows} ({', '.join(view.columns)}): largest risk {view.largest_risk:.4g}, mean "
        f"risk {view.mean_risk:.4g}."
    )


def _say_blame(report: Contents) -> Iterator[str]:
    for one in report.blamed:
        yield f"With {one.name}, which is not protected, {one.alone:,} rows look like no other."


def _say_tests(report: Contents) -> str:
    if report.assessment is None:
        return "Attacks were not tried, or nothing about them may be published."
    return f"Attacks, as {NUMBERS} lists them: {report.assessment.verdict}."


def _say_promises(report: Contents) -> str:
    held = [promise.claim for promise in report.promises if promise.kind == "privacy" and promise.held]
    return f"promised and recounted: {'; '.join(held)}." if held else "no privacy is promised."


def _say_scores(report: Contents, names: Sequence[str]) -> Iterator[str]:
    scores: Sequence[Score] = report.assessment.scores if report.assessment else ()
    for score in scores:
        if score.name in names:
            ends = (
                ""
                if score.low is None or score.high is None
                else f", 95 % interval {score.low:.3f} to {score.high:.3f}"
            )
            passed = {True: "; the test passed", False: "; the test failed", None: ""}[score.passed]
            yield f"Attack “{score.name}”: {percent(score.value)}{ends}{passed}."
