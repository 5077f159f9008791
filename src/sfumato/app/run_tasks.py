"""What the worker does with a method: make a release, find one that passes its tests, and write the evidence for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sfumato.app.tasks import TableCache, Task

if TYPE_CHECKING:
    from sfumato.comparison.records import Comparison
    from sfumato.recommendation.changes import ImprovementStep
    from sfumato.release.assessment import Assessment
    from sfumato.release.composition import Composition
    from sfumato.release.manifest import Manifest
    from sfumato.release.release import Release
    from sfumato.report.contents import Contents
    from sfumato.schema.pseudonyms import SecretKey
    from sfumato.schema.schema import FittedTable, Schema
    from sfumato.table.table import Table

MADE, ATTACKED = 0.3, 0.9  # shares of the time of a run, about, when the release is made, and when it was attacked
IMPROVE_SECONDS = 300.0  # after which no further change is tried
STEPS = 12  # into which the range of a coarsened column is cut, about


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """A release that was written: what the page shows of it, and its place on the risk–utility map."""

    contents: Contents  # those of its report, and attacks
    schema: Schema  # with a role for every column
    trial: Comparison | None  # of one run; None if no attack was asked for
    together: Composition | None  # with the runs before it; None unless it and others make groups


@dataclass(frozen=True, kw_only=True)
class MakeRelease(Task):
    """Make, verify and write a release and, if wanted, attack one of a part of the table."""

    number: int  # of the run
    folder: str
    schema: Schema
    method: str
    options: Mapping[str, Any] = field(hash=False)
    seed: int | None = None
    attacked: bool = True
    rows_not_people: bool = False
    formats: tuple[str, ...] = ("csv",)
    language: str = "en"  # of the report
    key: str | None = None  # file with the secret key of pseudonyms and shifted dates; None: one that is kept nowhere
    judged: Assessment | None = field(default=None, hash=False)  # that the search for an improvement found
    earlier: tuple[str, ...] = ()  # folders of the releases of the runs before

    def perform(self, held: TableCache) -> RunResult:
        from sfumato.comparison.compare import compare
        from sfumato.job.job import Job
        from sfumato.job.release import make_release, report_search
        from sfumato.methods.base import make_method
        from sfumato.release.destination import Folder
        from sfumato.report.contents import contents
        from sfumato.report.html import Report
        from sfumato.report.summary import summarize

        fitted = held.fit(self.source, self.schema)
        method = make_method(self.method, **self.options)
        trials: list[Comparison] = []
        shown: list[Release] = []

        def make_report(release: Release) -> Report:
            assert release.manifest is not None
            assessed = replace(release, assessment=self.judged)
            if self.attacked:
                held.report(MADE)
                trials.append(compare(_unprepared(fitted), [method], strengths=1, jobs=1, seed=self.seed))
                assessed = replace(release, assessment=trials[0].rows[0].assessment)
                held.report(ATTACKED)
            summarize(release)  # once, for the report and for the page
            shown.append(assessed.knowing(release))
            covered = release.manifest.covers_every_output  # then nothing unperturbed is shown beside it
            return Report.of(release if covered else assessed, self.language)

        of_all = MADE if self.attacked else 1.0
        searching = report_search(method, lambda now: held.report(of_all * now.share))
        folder = Folder(self.folder, self.formats, make_report=make_report, language=self.language)
        wanted: dict[str, Any] = {"method": searching, "seed": self.seed, "rows_not_people": self.rows_not_people}
        wanted |= {"key": self._own_key() if fitted.schema.needs_preparation else None}
        made = make_release(Job.of(fitted, engine="memory", into=folder, **wanted))
        return RunResult(
            contents=contents(shown[0]),
            schema=fitted.schema,
            trial=trials[0] if trials else None,
            together=self._compose(made),
        )

    def _own_key(self) -> SecretKey:
        """Return the key that the visitor gave, or a new one that is kept nowhere."""
        from sfumato.schema.pseudonyms import SecretKey

        return SecretKey.random() if self.key is None else SecretKey.read(self.key)

    def _compose(self, release: Release) -> Composition | None:
        """Return what this release and those before that make groups would tell, if all of them were given away."""
        from sfumato.release.composition import compose, promised_groups, read_releases

        if promised_groups(release) is None:
            return None
        before = [one for one in read_releases(self.earlier) if promised_groups(one) is not None]
        return compose([*before, release]) if before else None


def _unprepared(fitted: FittedTable) -> FittedTable:
    """Return the table without pseudonyms and shifts, which tell an attack nothing: identifiers are removed."""
    columns = [replace(one, pseudonym=False, facts=None, shift=None) for one in fitted.schema.columns]
    return replace(fitted, schema=replace(fitted.schema, columns=tuple(columns)))


@dataclass(frozen=True, kw_only=True)
class FoundImprovement:
    """What was tried to make a release pass its privacy tests, and the choices with which it does."""

    steps: tuple[ImprovementStep, ...]
    verdict: str
    method: str | None = None  # None: no change passes
    options: Mapping[str, Any] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)  # of the columns that are released
    left_out: tuple[str, ...] = ()  # columns that must not be released
    judged: Assessment | None = None  # on people who were kept out


@dataclass(frozen=True, kw_only=True)
class ImproveRelease(Task):
    """Look for a change with which a release passes its privacy tests."""

    folder: str  # of the release
    schema: Schema
    method: str
    options: Mapping[str, Any] = field(hash=False)
    rows_not_people: bool = False

    def perform(self, held: TableCache) -> FoundImprovement:
        from sfumato.methods.base import make_method
        from sfumato.recommendation.improve import improve

        fitted = _unprepared(held.fit(self.source, self.schema))
        found = improve(
            self.folder,
            fitted.table,
            method=make_method(self.method, **self.options),
            schema=fitted.schema,
            seconds=IMPROVE_SECONDS,
            rows_not_people=self.rows_not_people,
        )
        if found.release is None or found.release.manifest is None:
            return FoundImprovement(steps=found.steps, verdict=found.verdict)
        manifest = found.release.manifest
        known = {column.name for column in manifest.columns}
        return FoundImprovement(
            steps=found.steps,
            verdict=found.verdict,
            method=manifest.method,
            options=_given_options(manifest),
            roles={column.name: str(column.role) for column in manifest.columns},
            left_out=tuple(name for name in fitted.table.names if name not in known),
            judged=found.release.assessment,
        )


def _given_options(manifest: Manifest) -> dict[str, Any]:
    """Return the options of a release that differ from their defaults."""
    from sfumato.methods.base import method_class
    from sfumato.params import options_of, plain

    defaults = {one.name: plain(one.default) for one in options_of(method_class(manifest.method))}
    return {name: value for name, value in manifest.options.items() if value != defaults.get(name)}


@dataclass(frozen=True, kw_only=True)
class SuggestCoarser(Task):
    """Return rules that make columns coarser: numbers in wide steps, and the years of dates."""

    columns: tuple[str, ...]

    def perform(self, held: TableCache) -> tuple[str, ...]:
        table = held.table(self.source)
        return tuple(rule for name in self.columns if (rule := _coarser(table, name)))


def _coarser(table: Table, name: str) -> str:
    """Return the rule for a column; empty if it is a category, which only a tree makes coarser."""
    from sfumato.sources.derived_columns import DerivedColumn
    from sfumato.table.kinds import Kind

    if name not in table.kinds or "`" in name or table.kinds[name] not in (Kind.CONTINUOUS, Kind.WHOLE, Kind.DATE):
        return ""
    if table.kinds[name] is Kind.DATE:
        return str(DerivedColumn(name=name, function="year", column=name))
    import numpy as np

    numbers = table.numbers(name)
    width = float(np.nanmax(numbers) - np.nanmin(numbers)) / STEPS if np.isfinite(numbers).any() else 0.0
    if not 0.0 < width < math.inf:
        return ""
    return str(DerivedColumn(name=name, function="steps", column=name, argument=f"{round_up(width):g}"))


def round_up(width: float) -> float:
    """Return the next larger number that begins with 1, 2 or 5 and has no other digits.

    >>> round_up(3.2), round_up(0.07), round_up(51.0)
    (5.0, 0.1, 100.0)
    """
    size = 10.0 ** math.floor(math.log10(width))
    return next(round(step * size, 12) for step in (1.0, 2.0, 5.0, 10.0) if step * size >= width * (1 - 1e-9))


@dataclass(frozen=True, kw_only=True)
class WriteEvidence(Task):
    """Write the document that an officer signs."""

    folder: str  # of the release
    recipient: str
    purpose: str
    place: str
    language: str

    def perform(self, held: TableCache) -> str:
        from sfumato.release.read import read_assessed

        pack = read_assessed(self.folder).evidence(
            recipient=self.recipient, purpose=self.purpose, environment=self.place, language=self.language
        )
        return str(pack.page)
