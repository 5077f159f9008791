"""Everything that the report of a release shows, as one record, with verdict, promises and decisions in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from sfumato.release.rows import is_large
from sfumato.report.distributions import (
    QUESTIONS,
    BlamedColumn,
    Distribution,
    Gauge,
    IntruderView,
    ReleasedGroups,
    blamed_columns,
    distributions,
    gauges,
    groups,
    intruder_views,
)
from sfumato.report.picture import Picture, draw
from sfumato.report.reproduction import Reproduction, describe_value, reproduction
from sfumato.report.summary import summarize, treatment
from sfumato.report.usefulness import ShownStatistic, Usefulness, column_spreads, measure_widths, shown_rows
from sfumato.schema.columns import Role
from sfumato.table.intervals import BOX, original_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.release.assessment import Assessment, Score
    from sfumato.release.manifest import ClaimRecord, Manifest
    from sfumato.release.release import Release
    from sfumato.statistics.estimate import RecoveredEstimate


Tone = Literal["good", "caution", "bad"]
DRAWN_ROWS = 1_000_000  # of a large table, from which its picture is drawn
MOST_ASKED = 5  # questions of failed tests in the verdict
PASSED = {
    "privacy": "it reveals no more about its people than a sample of other people would",
    "utility": "it differs no more from the original than a sample of other people would",
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One sentence, the sentences that explain it, and whether it is good news."""

    tone: Tone
    headline: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Promise:
    """A promise with what was found on the released rows, and how."""

    kind: str
    claim: str
    found: str
    held: bool
    verified: str


def verdict(release: Release, blamed: Sequence[BlamedColumn] = ()) -> Verdict:
    """Return the verdict: privacy first, then the tests and the columns to blame, then what is not known."""
    manifest, assessment = release.manifest, release.assessment
    if manifest is None:
        return Verdict(
            tone="bad",
            headline="Nothing is known about these rows.",
            sentences=("They have no manifest, so it is not known how they were made or what they promise.",),
        )
    promises = [finding for finding in release.findings if finding.kind == "privacy"]
    broken = [finding for finding in release.findings if not finding.held]
    failed = [score for score in assessment.failed if score.family == "privacy"] if assessment else []
    sentences = (*_describe_groups(manifest), *_describe_links(manifest), *_describe_tests(assessment, manifest))
    names = () if manifest.covers_every_output else tuple(_name_failed(assessment))
    if broken:
        lost = f"{len(broken)} of {len(release.findings)} promises are broken."
        return Verdict(tone="bad", headline=f"Do not publish this release: {lost}", sentences=(*sentences, *names))
    if not promises:
        headline = "Do not rely on this release: it promises no privacy"
        headline += f", and {_count_of(len(failed), 'privacy test')} failed." if failed else "."
        advice = () if assessment else ("Assess it before it is used: `sfumato assess` measures what it reveals.",)
        return Verdict(tone="bad", headline=headline, sentences=(*sentences, *advice, *names))
    if failed:
        headline = f"The privacy promises are kept, but {_count_of(len(failed), 'privacy test')} failed."
        explained = (*sentences, *_describe_blame(release, blamed), *names)
        return Verdict(tone="caution", headline=headline, sentences=explained)
    if doubts := tuple(_doubts(manifest)):
        headline = f"The privacy promises are kept, but {' and '.join(doubts)}."
        return Verdict(tone="caution", headline=headline, sentences=(*sentences, *names))
    return Verdict(tone="good", headline="The privacy promises are kept.", sentences=(*sentences, *names))


def promises(release: Release) -> tuple[Promise, ...]:
    """Return all promises, those of privacy first."""
    manifest = release.manifest
    if manifest is None:
        return ()
    records: Sequence[ClaimRecord | None] = manifest.claims or (None,) * len(manifest.findings)
    promises_made = [
        Promise(
            kind=finding.kind,
            claim=finding.claim,
            found=finding.found,
            held=finding.held,
            verified=_describe_verification(record, finding.kind),
        )
        for finding, record in zip(manifest.findings, records, strict=False)
    ]
    return tuple(sorted(promises_made, key=lambda promise: promise.kind != "privacy"))


def decisions(release: Release, statistics: Sequence[ShownStatistic], usefulness: Usefulness) -> tuple[str, ...]:
    """Return what no program can decide, with the facts that the decision needs."""
    return tuple(_decisions(release, statistics, usefulness)) if release.manifest else ()


def _describe_groups(manifest: Manifest) -> Iterator[str]:
    for claim in manifest.claims:
        k = (claim.parameters or {}).get("k")
        if claim.name == "KAnonymity" and isinstance(k, int):
            others = k - 1
            theirs = f"rows of at least {others:,} other {'people' if others != 1 else 'person'}"
            yield (
                f"In the columns that others may know, each of the {manifest.rows_out:,} released rows looks exactly "
                f"like {theirs if claim.person else f'at least {others:,} other' + 's' * (others != 1)}."
            )
            break
    if manifest.people_in is not None:
        yield (
            f"The table holds {manifest.people_in:,} people in {manifest.rows_in or 0:,} rows, and every promise "
            "counts people. The column that tells them apart is not released."
        )
    if manifest.suppressed:
        yield f"{manifest.suppressed:,} of {manifest.rows_in:,} rows were not released."


def _doubts(manifest: Manifest) -> Iterator[str]:
    """Yield what the promises do not cover, and the custodian must know."""
    if manifest.pseudonyms:
        yield "pseudonyms link people across releases"
    if manifest.repeated:
        yield f"they count rows, and people have several: {', '.join(manifest.repeated)} repeats"
    if manifest.revealing:
        yield f"columns that are released unaltered tell protected ones: {', '.join(manifest.revealing)}"


def _describe_links(manifest: Manifest) -> Iterator[str]:
    for name, others in manifest.revealing.items():
        yield f"{name} is released unaltered and determines {', '.join(others)}, or is determined by it."
    if manifest.pseudonyms:
        yield (
            f"{_list_names(manifest.pseudonyms)} holds pseudonyms, which are no anonymity: rows of the same person can "
            "be linked across all tables that were made with the same key."
        )
    if manifest.shifted:
        named = _list_names(manifest.shifted)
        yield f"Dates in {named} are shifted by person. This hides nobody by itself, and guarantees nothing."


def _describe_tests(assessment: Assessment | None, manifest: Manifest) -> Iterator[str]:
    if manifest.covers_every_output:
        yield (
            "The promise holds only if nothing else about the original is published: this report contains no count of "
            "the original and no assessment."
        )
        return
    if assessment is None:
        yield "Attacks were not tried on it: this report contains no assessment."
        return
    if manifest.rows_in is not None and assessment.original_rows < manifest.rows_in:
        yield (
            f"Attacks were tried on a second release, made in the same way from {assessment.original_rows:,} of the "
            f"{manifest.rows_in:,} rows; the others, who are not in it, are what it is compared with."
        )
    tested = [score for score in assessment.scores if score.passed is not None]
    for family, about in PASSED.items():
        mine = [score for score in tested if score.family == family]
        lost = [score for score in mine if score.passed is False]
        if lost:
            yield f"{len(lost)} of {_count_of(len(mine), f'{family} test')} failed.{_ask(lost)}"
        elif mine:
            all_of = f"The {family} test" if len(mine) == 1 else f"All {len(mine)} {family} tests"
            yield f"{all_of} passed: {about}."
    if not tested:
        yield "Measures were taken, but none of them is a test: tests need people who are not in the table."


def _ask(failed: Sequence[Score]) -> str:
    """Return what failed tests ask, in plain words."""
    asked = list(dict.fromkeys(QUESTIONS[score.name][0] for score in failed if score.name in QUESTIONS))
    more = len(asked) - MOST_ASKED
    rest = f" {_count_of(more, 'more question')} {'is' if more == 1 else 'are'} under Risk." if more > 0 else ""
    return f" They ask: {' '.join(asked[:MOST_ASKED])}{rest}" if asked else ""


def _name_failed(assessment: Assessment | None) -> Iterator[str]:
    """Yield the names of the failed tests, for whoever looks them up."""
    if assessment is not None and assessment.failed:
        yield f"The failed tests: {_list_names([f'“{score.name}”' for score in assessment.failed])}."


def _describe_blame(release: Release, blamed: Sequence[BlamedColumn]) -> Iterator[str]:
    """Yield which columns make rows stand alone, and what to do about them."""
    known = [one for one in blamed if one.role != Role.SENSITIVE] or blamed  # who knows what is sensitive?
    if known:
        worst, names = known[0], [one.name for one in known]
        yield (
            f"The columns to blame are {_list_names(names)}: they are released and not protected. With {worst.name}, "
            f"{worst.alone:,} of {release.table.rows:,} rows look like no other row. Protect them too, with the role "
            "“quasi”, or do not release them; `sfumato improve DIR --table FILE -o DIR2` finds out what is enough."
        )


def _describe_verification(record: ClaimRecord | None, kind: str) -> str:
    claim = record.to_claim() if record else None
    if claim is None and kind == "privacy":
        return "stated when the release was made; its rows alone do not show it"
    if claim is None or claim.needs_original:
        return "compared with the original when the release was made"
    return "recounted on the released rows; `sfumato verify DIR` repeats it"


def _decisions(release: Release, statistics: Sequence[ShownStatistic], usefulness: Usefulness) -> Iterator[str]:
    manifest = release.manifest
    assert manifest is not None
    quasi, exact = manifest.names(Role.QUASI), [n for n in manifest.unaltered if n not in manifest.names(Role.QUASI)]
    yield (
        MEASURED
        if manifest.is_measured
        else f"Are these all the columns that others may know about a person: {_list_names(quasi)}? "
        "Only they are protected; a column that is missing here needs the role “quasi”."
    )
    if exact:
        yield f"May {_list_names(exact)} be published exactly as in the original?"
    if manifest.pseudonyms:
        yield (
            "Who keeps the key of the pseudonyms, apart from this release? Whoever has it, or another release with the "
            "same pseudonyms, can link people; the law treats such rows as data about persons."
        )
    k = next((k for claim in manifest.claims if (k := (claim.parameters or {}).get("k"))), None)
    if k:
        who = "rows, which may be those of fewer people," if manifest.repeated else "people"
        yield f"Is hiding among {k} {who} enough for this table and these recipients?"
    if not any(finding.kind == "privacy" for finding in release.findings):
        yield "The method promises no privacy: is what was measured enough for these recipients?"
    if manifest.covers_every_output:
        yield "Is nothing else about the original published, such as its number of rows or an assessment?"
    elif release.assessment is None:
        yield "Should attacks be tried before it is published? `sfumato release … --assess --holdout 0.3` does so."
    elif release.assessment.failed:
        yield "Are the failed tests acceptable here? They are listed under Risk and Utility."
    if manifest.suppressed:
        yield f"Do the {manifest.suppressed:,} people who were left out differ from the others, so that results shift?"
    useless = [one.estimate.name for one in statistics if one.words == "useless"]
    if useless or usefulness.concerns:
        named = _list_names(list(dict.fromkeys([*useless, *(concern.about for concern in usefulness.concerns)])))
        yield f"Is the release still useful where it says little: {named}?"
    yield "Who receives it, for which purpose, on which legal basis, and what are they forbidden to do with it?"


MEASURED = (
    "Were the types, domains and categories of all columns chosen without looking at the table, and were all releases "
    "about the same people paid from one privacy budget?"
)


def _list_names(names: Sequence[str]) -> str:
    """List all names: a person signs these sentences, so nothing is left out."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names) or "none"


def _count_of(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


MOST_COLUMNS = 400  # listed in the report

# what a score of utility says, in one sentence
MEANINGS = {
    "change in means": "How far the mean of a column moves, in its standard deviations.",
    "change in variances": "How far the variance of a column moves, relative to it.",
    "change in correlations": "How far the correlation of two columns moves.",
    "change in rank correlations": "The same for ranks, which outliers do not dominate.",
    "change in distributions, median": "Largest difference of the two cumulative distributions of a column, 0 to 1.",
    "change in distributions, largest": "The same, in the column that changes most.",
    "rows per group, mean": "How many rows look alike, on average.",
    "rows that a row resembles, mean": "How many rows look like a random row, on average.",
    "granularity": "How precise a released cell is: 1 is exact, 0 says nothing.",
    "entropy lost by recoding": "Share of the information in the columns that broader categories lose.",
    "change in eigenvalues": "How far the main directions of variation change.",
    "squared error (SSE/SST)": "Share of the variation between people that is lost.",
    "absolute error (IL1s)": "Mean distance between an original and its released value, in standard deviations.",
    "propensity (0: like the original)": "How well a model tells released from original rows: 0 not at all, 1 always.",
    "overlap of regression intervals, mean": "How much confidence intervals of regressions overlap: 1 is the same.",
    "accuracy of classifiers": "How often a model trained on the release predicts the original correctly.",
    "kernel components that differ": "A component is a nonlinear combination of columns in which people vary most; so "
    "many of them have another distribution than in the original.",
    "shift of kernel components, largest": "Largest difference between the distributions of a component, 0 to 1.",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class ReportedColumn:
    """A column of the original: its role, how it is released, how precise a cell is, and its distribution."""

    name: str
    label: str  # what the column means, in words; may be empty
    kind: str
    role: str
    released_as: str
    covers: float | None  # mean share of the column's range, or categories, that a released cell leaves open
    distribution: Distribution | None


@dataclass(frozen=True, kw_only=True, repr=False)
class UtilityChange:
    """A score of utility with its meaning."""

    score: Score
    meaning: str


@dataclass(frozen=True, kw_only=True, repr=False)
class Contents:
    """The contents of the report, in its order; fields that start with _ are not part of the JSON twin."""

    verdict: Verdict
    rows_in: int | None
    people_in: int | None
    rows_out: int
    guarantee: str | None  # None if it is not known
    version: str | None
    made_by: Reproduction | None
    keep: tuple[str, ...]
    promises: tuple[Promise, ...]
    columns: tuple[ReportedColumn, ...]
    more_columns: int  # that are not listed
    groups: ReleasedGroups | None
    intruders: tuple[IntruderView, ...]
    blamed: tuple[BlamedColumn, ...]
    gauges: tuple[Gauge, ...]
    assessment: Assessment | None
    statistics: tuple[ShownStatistic, ...]
    recovered: tuple[RecoveredEstimate, ...]
    usefulness: Usefulness
    changes: tuple[UtilityChange, ...]
    decisions: tuple[str, ...]
    notes: tuple[tuple[str, str], ...]  # of the method
    _picture: Picture | None

    @property
    def least(self) -> int | None:
        """Option k of the method, if it has one."""
        values = [option.value for option in (self.made_by.options if self.made_by else ()) if option.name == "k"]
        return int(values[0]) if values and values[0].isdigit() else None


def contents(release: Release) -> Contents:
    """Compute the contents from the released rows, the manifest and what was measured while the release was made.

    An assessment is left out if a promise holds only without it: it counts the original exactly.
    """
    if release.manifest is not None and release.manifest.covers_every_output:
        release = replace(release, assessment=None).knowing(release)
    manifest, assessment = release.manifest, release.assessment
    shown = summarize(release)
    statistics = measure_widths(release, shown.estimates)
    blamed = blamed_columns(release)
    return Contents(
        verdict=verdict(release, blamed),
        rows_in=manifest.rows_in if manifest else None,
        people_in=manifest.people_in if manifest else None,
        rows_out=release.table.rows,
        guarantee=manifest.guarantee if manifest else None,
        version=manifest.version if manifest else None,
        made_by=reproduction(manifest) if manifest else None,
        keep=manifest.keep if manifest else (),
        promises=promises(release),
        columns=_columns(release),
        more_columns=max(0, len(manifest.columns) - MOST_COLUMNS) if manifest else 0,
        groups=groups(release),
        intruders=intruder_views(release),
        blamed=blamed,
        gauges=gauges(assessment) if assessment else (),
        assessment=assessment,
        statistics=statistics,
        recovered=shown.recovered,
        usefulness=shown.usefulness,
        changes=utility_changes(assessment),
        decisions=decisions(release, statistics, shown.usefulness),
        notes=tuple((name, describe_value(value)) for name, value in manifest.notes.items()) if manifest else (),
        _picture=_draw(release, *shown.pictured) if shown.pictured else None,
    )


def _draw(release: Release, x: str, y: str) -> Picture | None:
    """Draw two columns, those of a large table from some of its rows."""
    table = release.table
    if not is_large(table):
        return draw(table, x, y, release.names)
    names = [name for name in table.names if name == BOX or original_name(name, table.kinds, release.names) in (x, y)]
    picture, whole = draw(shown_rows(release, names, DRAWN_ROWS), x, y, release.names), groups(release)
    return replace(picture, boxes=whole.groups) if picture and whole else picture


def _columns(release: Release) -> tuple[ReportedColumn, ...]:
    manifest: Manifest | None = release.manifest
    if manifest is None:
        return ()
    covers, shapes = column_spreads(release), distributions(release)
    return tuple(
        ReportedColumn(
            name=column.name,
            label=column.label,
            kind=str(column.kind),
            role=str(column.role),
            released_as=treatment(column, manifest),
            covers=covers.get(column.name),
            distribution=shapes.get(column.name),
        )
        for column in manifest.columns[:MOST_COLUMNS]
    )


def utility_changes(assessment: Assessment | None) -> tuple[UtilityChange, ...]:
    """Return what an assessment says about utility, with what each score means."""
    scores = [score for score in assessment.scores if score.family == "utility"] if assessment else []
    return tuple(UtilityChange(score=score, meaning=MEANINGS.get(score.name, score.note)) for score in scores)
