"""Everything that the report of a release shows, as one record: the page and its JSON twin are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.report.distributions import Distribution, distributions
from sfumato.report.picture import Picture, draw
from sfumato.report.reproduction import Reproduction, listed, reproduction
from sfumato.report.risk import Gauge, ReleasedGroups, gauges, groups
from sfumato.report.summary import MOST_ROWS, Summary, summarize, treatment
from sfumato.report.usefulness import Usefulness, column_spreads
from sfumato.report.verdict import Promise, Verdict, decisions, promises, verdict
from sfumato.report.widths import ShownStatistic, shown_statistics

if TYPE_CHECKING:
    from sfumato.release.assessment import Assessment, Score
    from sfumato.release.manifest import Manifest
    from sfumato.release.release import Release
    from sfumato.statistics.recovered_estimate import RecoveredEstimate

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
    rows_out: int
    guarantee: str | None  # None if it is not known
    version: str | None
    made_by: Reproduction | None
    keep: tuple[str, ...]
    promises: tuple[Promise, ...]
    columns: tuple[ReportedColumn, ...]
    more_columns: int  # that are not listed
    groups: ReleasedGroups | None
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
        found = [option.value for option in (self.made_by.options if self.made_by else ()) if option.name == "k"]
        return int(found[0]) if found and found[0].isdigit() else None


def contents(release: Release, summary: Summary | None = None) -> Contents:
    """Compute the contents from the released rows, the manifest and what was measured while the release was made."""
    manifest, assessment = release.manifest, release.assessment
    shown = summary or summarize(release)
    fits = release.table.rows <= MOST_ROWS
    statistics = shown_statistics(release, shown.estimates)
    return Contents(
        verdict=verdict(release),
        rows_in=manifest.rows_in if manifest else None,
        rows_out=release.table.rows,
        guarantee=manifest.guarantee if manifest else None,
        version=manifest.version if manifest else None,
        made_by=reproduction(manifest) if manifest else None,
        keep=manifest.keep if manifest else (),
        promises=promises(release),
        columns=_columns(release, fits=fits),
        more_columns=max(0, len(manifest.columns) - MOST_COLUMNS) if manifest else 0,
        groups=groups(release) if fits else None,
        gauges=gauges(assessment) if assessment else (),
        assessment=assessment,
        statistics=statistics,
        recovered=shown.recovered,
        usefulness=shown.usefulness,
        changes=utility_changes(assessment),
        decisions=decisions(release, statistics, shown.usefulness),
        notes=tuple((name, listed(value)) for name, value in manifest.notes.items()) if manifest else (),
        _picture=draw(release.table, *shown.pictured) if shown.pictured else None,
    )


def _columns(release: Release, *, fits: bool) -> tuple[ReportedColumn, ...]:
    manifest: Manifest | None = release.manifest
    if manifest is None:
        return ()
    covers = column_spreads(release) if fits else {}
    shapes = distributions(release) if fits else {}
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
