"""``sfumato release FILE -o DIR`` and ``sfumato run PROJECT``: anonymize a table, verify the result and write it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli import console, options
from sfumato.job.request import READING, Request, source_of, split_names

if TYPE_CHECKING:
    from sfumato.job.job import Job
    from sfumato.methods.base import Method
    from sfumato.methods.search_budget import SearchProgress
    from sfumato.release.linked import LinkedRelease
    from sfumato.release.release import Release
    from sfumato.report.summary import Summary
    from sfumato.schema.schema import Schema

PROJECT = "sfumato.toml"


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions:
    """All options of a request; those of methods come from the flags that are declared for them."""

    file: list[str] | None = typer.Argument(
        None,
        metavar="[FILE]…",
        help=f"{options.FILE_HELP} Not needed with --project. Several files are linked tables of the same people: they "
        "need --person, and roles are given as --quasi visits.year.",
    )
    out: str | None = typer.Option(
        None,
        "-o",
        "--out",
        metavar="DIR",
        help="Folder to write to; an older release in it is replaced. Or the URL of a database, with --into.",
    )
    place: options.PlaceOptions
    into: str | None = typer.Option(None, "--into", metavar="TABLE", help="Table to write, if -o is a URL.")
    replace: bool = typer.Option(False, "--replace", help="Replace the table that --into names, if it exists.")
    method: str | None = typer.Option(
        None,
        "--method",
        help="Method by name or class: boxes (default), generalize, Noise, …; see `sfumato methods`. auto: the one "
        "that `sfumato recommend` names.",
    )
    flags: options.MethodOptions
    option: list[str] = typer.Option([], "--option", metavar="NAME=VALUE", help="Any option of the method; repeatable.")
    assess: bool = typer.Option(False, "--assess", help="Also assess the release, including correct matches.")
    reference: str | None = typer.Option(
        None, "--reference", metavar="FILE", help="Assess against these people of the same population, not in FILE."
    )
    holdout: float | None = typer.Option(
        None, "--holdout", metavar="SHARE", help="Or: assess against a random share of the rows, which is not released."
    )
    require: list[str] = typer.Option(
        [], "--require", metavar="WHAT", help="Write nothing unless this passes: assessment (implies --assess)."
    )
    earlier: list[str] = typer.Option(
        [],
        "--earlier",
        metavar="DIR",
        help="Count also who fits a person in this earlier release and the new one; repeatable (implies --assess).",
    )
    roles: options.RoleOptions
    project: str | None = typer.Option(
        None,
        "--project",
        metavar="TOML",
        help="Take input, schema, method, options and target from a project file; what is given here counts more.",
    )
    engine: str | None = typer.Option(None, "--engine", help=options.ENGINE_HELP)
    master: str | None = options.MASTER
    memory: str | None = options.MEMORY
    csv_formulas: str | None = typer.Option(
        None,
        "--csv-formulas",
        metavar="keep|escape",
        help="Text in released.csv that spreadsheets take for a formula (= + - @): escape it (default), or keep it.",
    )
    language: str | None = typer.Option(None, "--language", metavar="CODE", help=options.LANGUAGE_HELP)
    format: list[str] = typer.Option(
        [],
        "--format",
        metavar="FORMAT",
        help="Format of the released rows besides Parquet and CSV: sav (SPSS), dta (Stata), xpt (SAS), xlsx. "
        "Repeatable; parquet alone leaves the CSV out.",
    )
    pseudonyms: list[str] = typer.Option(
        [], "--pseudonyms", metavar="COLUMN", help="Release an identifier as keyed pseudonyms; repeatable."
    )
    key: str | None = typer.Option(
        None,
        "--key",
        metavar="FILE",
        help="Secret key of pseudonyms and shifted dates; made if it does not exist. Keep it apart from the release.",
    )
    ledger: str | None = typer.Option(
        None,
        "--ledger",
        metavar="FILE",
        help="Private file that knows what earlier releases told about whom; made if it does not exist, with a key "
        "beside it. k people then fit each person in all its releases. Needs --person.",
    )
    budget: str | None = typer.Option(
        None,
        "--budget",
        metavar="FILE",
        help="Private file with the privacy budget of these people, which a differentially private release is paid "
        "from; refused when it is spent. Made if it does not exist and --budget-epsilon is given.",
    )
    budget_epsilon: float | None = typer.Option(None, "--budget-epsilon", help="Epsilon of a new budget, in all.")
    budget_delta: float | None = typer.Option(None, "--budget-delta", help="Delta of a new budget, in all; 1e-6.")
    shift_dates: list[str] = typer.Option(
        [],
        "--shift-dates",
        metavar="A,B,C",
        help="Shift all dates of a person by the same random number of days, before the method. No guarantee.",
    )
    by: str | None = typer.Option(None, "--by", metavar="COLUMN", help="Column that tells people apart: --shift-dates.")
    days: int | None = typer.Option(None, "--days", help="Largest shift of dates; 180. Of several files: shift all.")
    rows_not_people: bool = typer.Option(
        False,
        "--rows-not-people",
        help="Count rows although people have several of them: an identifier that is removed repeats. Told in the "
        "manifest and the report.",
    )
    facts: int | None = typer.Option(
        None, "--facts", help="Of several files: rows of a person that an intruder may know besides her first; 1."
    )
    index_date: str | None = typer.Option(
        None,
        "--index-date",
        metavar="COLUMN",
        help="Of several files: a date of each person since which all other dates are counted in days.",
    )
    reading: options.ReadingOptions

    @property
    def request(self) -> Request:
        """What was asked for here, and in the project file."""
        from sfumato.job.project_files import read_project

        same = [
            "into",
            "method",
            "reference",
            "holdout",
            "require",
            "engine",
            "master",
            "memory",
            "csv_formulas",
            "language",
        ]
        private = ("key", "ledger", "budget", "budget_epsilon", "budget_delta")
        given = Request(
            input=self.file[0] if self.file else None,
            target=self.out,
            options=options.chosen_options(self.flags, self.option),
            schema=self.roles.schema,
            roles=self.roles.roles,
            reading=self.reading.given_or_none,
            replace=self.replace or None,
            assess=self.assess or None,
            rows_not_people=self.rows_not_people or None,
            formats=tuple(self.format),
            pseudonyms=_columns(self.pseudonyms),
            shift_dates=_columns(self.shift_dates),
            **vars(self.place),
            **{name: getattr(self, name) for name in (*same, *private, "earlier", "by", "days")},
        )
        return given if self.project is None else given.over(read_project(self.project))


def _columns(given: list[str]) -> tuple[str, ...]:
    return tuple(name for names in given for name in split_names(names))


@options.with_groups
def release(*, given: ReleaseOptions, seed: int | None = options.SECRET_SEED, json: bool = options.JSON) -> None:
    """Anonymize a table, verify the result and write it.

    Writes released.parquet, released.csv, manifest.json, codebook.csv, promises.sql, README.txt, report.html and
    report.json into DIR, all or nothing. Next to it, and no part of the release, is DIR.toml, the project file that
    makes the same release again (`sfumato run DIR.toml`).

    Example: sfumato release patients.csv -o out -k 5 --quasi age,zip --sensitive diagnosis --keep "mean(age)"
    Example: sfumato release patients.csv visits.csv --person id -o out -k 5 --quasi birth,visits.year
    """
    if given.file and len(given.file) > 1:
        _make_linked(given, seed=seed, as_json=json)
    else:
        _make_requested(given.request, seed=seed, as_json=json)


def run(
    *,
    project: str = typer.Argument(PROJECT, metavar="[PROJECT]", help="Project file."),
    seed: int | None = options.SECRET_SEED,
    json: bool = options.JSON,
) -> None:
    """Make the release that a project file describes.

    Every release into a folder writes such a file next to it, with its input, schema, method, options and target.

    Example: sfumato run out.toml
    """
    from sfumato.job.project_files import read_project

    _make_requested(read_project(project), seed=seed, as_json=json)


def _make_requested(request: Request, *, seed: int | None, as_json: bool) -> None:
    """Make the release, verify it, write it with its project file, and print what was found."""
    import numpy as np

    from sfumato.job.project_files import write_project
    from sfumato.job.release import make_release
    from sfumato.kernels.sorting import largest
    from sfumato.release.destination import Folder

    console.say_progress()
    written = _Written(request)
    job = request.to_job(seed=seed)
    written.announce()
    if job.method is None:
        request = _recommend(request, job)
        job = replace(job, method=request.make_method(), schema=request.roles_schema)
    job, schema = _read(job, request)
    console.say_compiling()
    assert job.method is not None
    with show_search(job.method) as method:
        released = make_release(replace(job, method=method))
    if request.holdout is not None and released.assessment is not None:
        console.say(f"· {released.assessment.reference_rows:,} rows held out as the reference and not released")
    written.show(released, as_json=as_json)
    if isinstance(job.destination, Folder):
        console.say(f"· {write_project(request.for_project_file(schema))}")
    largest.start_cache(np.zeros(1))


def _make_linked(given: ReleaseOptions, *, seed: int | None, as_json: bool) -> None:
    """Release several files of the same people together, and print what was found."""
    from sfumato.job.linked import (
        LinkedTables,
        names_of_files,
        require_linked_request,
        roles_of_tables,
        schemas_of,
    )
    from sfumato.release.destination import Folder

    request = given.request
    require_linked_request(request, given.roles.person)
    names = names_of_files(given.file or [])
    console.say_progress()
    folder = Folder(request.target or "", request.formats or None, request.csv_formulas or "escape")
    sources = [source_of(file, request.reading or READING).read() for file in given.file or []]
    named = dict(zip(names, sources, strict=True))
    schema = roles_of_tables(schemas_of(request.schema, names), request.roles, named)
    linked = LinkedTables(
        named,
        person=given.roles.person or "",
        facts=given.facts or 1,
        index_date=given.index_date,
        shift_days=given.days,
    )
    asked: dict[str, Any] = {"key": request.key, "ledger": request.ledger, "engine": request.engine or "auto"}
    asked["assess"] = bool(request.assess)
    released = linked.release_with(request.make_method(), schema=schema, into=folder, seed=seed, **asked)
    console.say(f"· written to {request.target}")
    _show_linked(released, request.target or "", as_json=as_json)


def _show_linked(released: LinkedRelease, target: str, *, as_json: bool) -> None:
    from sfumato.measures.privacy.attacks.joining import joining_attack
    from sfumato.release.target import resolve_folder
    from sfumato.report import terminal

    if as_json:
        tables = {name: one.manifest for name, one in released.tables.items()}
        found: dict[str, Any] = {"manifest": released.manifest, "tables": tables, "joining": joining_attack(released)}
        found["assessment"] = released.assessment and released.assessment.to_plain()
        console.show_json({"folder": str(resolve_folder(target))} | found)
        return
    for name, one in released.tables.items():
        assert one.manifest is not None
        console.show_text(f"{name}\n")
        console.show(terminal.treatments(one.manifest), "", terminal.findings(one.findings), "")
    console.show_text("all tables together\n")
    console.show(terminal.findings(released.findings), "")
    if released.assessment is not None:
        console.show(terminal.assessment(released.assessment), "")
    console.show_text("whoever joins the tables and knows, besides a person's row in the table of people,\n")
    console.show_text("".join(f"  {one}\n" for one in joining_attack(released)))


def _read(job: Job, request: Request) -> tuple[Job, Schema]:
    """Return the job with its table read, if it is done in memory, and the schema that the project file keeps."""
    if not job.engine.in_memory:
        return job, request.roles_schema
    fitted = request.prepare(job.fitted)
    options.say_roles(fitted.schema)
    return replace(job, source=fitted, schema=None), fitted.schema


def _recommend(request: Request, job: Job) -> Request:
    """Return the request with the recommended method and options; those that were given stay."""
    from sfumato.recommendation.recommend import recommend

    wanted: dict[str, Any] = {name: request.options.get(name) for name in ("k", "l", "population")}
    keep = request.options.get("keep") or ()
    recommended = recommend(job.source, keep, schema=job.schema, engine=job.engine, **wanted)
    if recommended.passed is False:
        console.say(f"· nothing is recommended: {recommended.verdict}")
    word = "chosen" if recommended.passed is False else "recommended"
    console.say(f"· method {recommended.method}, {word} because:")
    for reason in recommended.reasons:
        console.say(f"·   {reason}")
    chosen = {**recommended.options, **request.options}
    if "population" in chosen and "population" not in recommended.options:
        console.say(f"·   the population is not needed by {recommended.method}.")
        del chosen["population"]
    roles = [*request.roles, *(f"{name}={role}" for name, role in recommended.roles.items())]
    return replace(request, method=recommended.method, options=chosen, roles=roles)


@contextmanager
def show_search(method: Method) -> Iterator[Method]:
    """Yield the method with a progress bar for its search, if it has one; without a terminal, progress is logged.

    Ctrl-C stops the search and keeps the best so far.
    """
    from sfumato.job.release import report_search

    if not sys.stderr.isatty():
        yield method
        return
    bar = _search_bar()
    task = bar.add_task("search", total=1.0, gain=0.0, start=False, visible=False)

    def report(now: SearchProgress) -> None:
        if not bar.tasks[task].started:
            bar.start_task(task)
        bar.update(task, completed=now.share, gain=now.gain, visible=True)

    searching = report_search(method, report)
    if searching is method:
        yield method
        return
    with bar:
        yield searching


def _search_bar() -> Any:
    """Return a progress bar: share of the budget that is spent, and gain so far."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    gain = TextColumn("[green]{task.fields[gain]:.1%} better[/green]  [dim]Ctrl-C keeps it[/dim]")
    terminal = Console(stderr=True)
    return Progress(TextColumn("· search"), BarColumn(), TimeRemainingColumn(), gain, console=terminal, transient=True)


class _Written:
    """What is printed of a release that was written."""

    def __init__(self, request: Request) -> None:
        self._out, self._table = request.target or "", request.into

    def announce(self) -> None:
        """Say that an older release will be replaced, if there is one."""
        from sfumato.release.target import MANIFEST

        if self._table is None and (Path(self._out).expanduser() / MANIFEST).exists():
            console.say(f"· the older release in {self._out} will be replaced")

    def show(self, released: Release, *, as_json: bool) -> None:
        """Print how columns are released, the findings and the kept statistics."""
        from sfumato.release.target import resolve_folder
        from sfumato.report.summary import summarize
        from sfumato.sources.base import scheme_of

        folder = self._out if scheme_of(self._out) else str(resolve_folder(self._out))  # as it is if it is in a store
        place = {"table": self._table} if self._table else {"folder": folder}
        console.say(f"· written to {self._table or self._out}")
        with console.after(f"the release is complete in {self._table or self._out}"):
            (_show_json if as_json else _show_text)(released, summarize(released), place)


def _show_json(released: Release, summary: Summary, place: dict[str, str]) -> None:
    shown: dict[str, Any] = {**place, "manifest": released.manifest, "estimates": summary.estimates}
    shown |= {"recovered": summary.recovered, "usefulness": summary.usefulness}
    shown |= {"searches": released.diagnostics.searches, "rules": released.diagnostics.rules}
    console.show_json(shown | {"assessment": released.assessment and released.assessment.to_plain()})


def _show_text(released: Release, summary: Summary, place: dict[str, str]) -> None:
    from sfumato.report import terminal

    assert released.manifest is not None
    diagnostics = released.diagnostics
    parts = [terminal.treatments(released.manifest), terminal.findings(released.findings)]
    parts += [terminal.estimates(summary.estimates)] if summary.estimates else []
    parts += [terminal.recovered_estimates(summary.recovered)] if summary.recovered else []
    parts += [terminal.usefulness(summary.usefulness)] if summary.usefulness.concerns else []
    parts += [terminal.searches(diagnostics.searches)] if diagnostics.searches else []
    parts += [terminal.rules(diagnostics.rules)] if diagnostics.rules else []
    parts += [terminal.assessment(released.assessment)] if released.assessment else []
    for part in parts:
        console.show(part, "")
