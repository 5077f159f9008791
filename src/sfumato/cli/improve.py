"""``sfumato improve`` and ``sfumato optimize``: a release that passes its privacy tests, by changes or by a race."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli import console, options

if TYPE_CHECKING:
    from sfumato.sources.base import Destination


@options.with_groups
def improve(
    *,
    release: str = typer.Argument(..., metavar="DIR", help="Folder of the release to improve."),
    table: str = typer.Option(..., "--table", metavar="FILE", help="The original that it was made from."),
    out: str = typer.Option(..., "-o", "--out", metavar="DIR2", help="Folder for the improved release."),
    holdout: float = typer.Option(0.5, "--holdout", metavar="SHARE", help="Share of people whom trials test against."),
    seconds: float | None = typer.Option(None, "--seconds", help="Time after which no further change is tried."),
    key: str | None = typer.Option(None, "--key", metavar="FILE", help="Secret key of pseudonyms and shifted dates."),
    language: str = typer.Option("en", "--language", metavar="CODE", help=options.LANGUAGE_HELP),
    engine: options.EngineOptions,
    reading: options.ReadingOptions,
    seed: int | None = options.SECRET_SEED,
    json: bool = options.JSON,
) -> None:
    """Find a change with which a release passes its privacy tests, and write that release.

    Changes are tried on held-out people: protect the columns to blame too, a larger k, leave these columns out, draw
    rows from a model. Method, options and roles are those of DIR.toml next to the folder, or else of its manifest.
    If no change passes, nothing is written and the exit code is 1. Of a table that does not fit into memory, changes
    are tried on random rows, and all rows are released by its engine.

    Example: sfumato improve out --table patients.csv -o better
    """
    from sfumato.errors import CannotRelease
    from sfumato.job.job import Job
    from sfumato.job.request import READING, file_source
    from sfumato.recommendation.improve import improve as find_improvement

    options.require_language(language)
    into = _free_folder(out, language)
    console.say_progress("sfumato")
    console.say_compiling()
    project = _project(release)
    known = project.get("reading") or READING
    job = Job.of(file_source(table, reading.given_or_none or known), **vars(engine))
    chosen: dict[str, Any] = {name: project[name] for name in ("method", "schema") if name in project}
    chosen |= {"engine": job.engine, "into": into}
    found = find_improvement(release, job.source, holdout=holdout, seconds=seconds, key=key, seed=seed, **chosen)
    if found.release is None:
        for step in found.steps:
            console.say(f"· {step}")
        raise CannotRelease(found.verdict, fix="fewer columns, another method (`sfumato compare`), or no release")
    if json:
        steps = [{**vars(step), "passed": step.passed} for step in found.steps]
        console.show_json({"folder": out, "verdict": found.verdict, "steps": steps, "manifest": found.release.manifest})
    else:
        console.show_text(f"{found.text(language)}\n")
        console.say(f"· written to {out}")


@options.with_groups
def optimize(
    *,
    file: str = options.FILE,
    out: str = typer.Option(..., "-o", "--out", metavar="DIR", help="Folder for the release."),
    keep: list[str] = typer.Option(
        [], "--keep", metavar="STATISTIC", help='Statistic to keep accurate, e.g. "mean(age)"; repeatable.'
    ),
    risk: str = typer.Option(
        "passes", "--risk", metavar="TEXT", help='"passes" (all privacy tests), or for example "at most 0.09".'
    ),
    seconds: float = typer.Option(300.0, "--seconds", help="Time for the search."),
    methods: str | None = typer.Option(
        None, "--methods", metavar="A,B,C", help="Methods that race; by default all that promise no noise budget."
    ),
    strengths: int = typer.Option(3, "--strengths", min=1, metavar="N", help="Strengths per method."),
    jobs: int | None = typer.Option(
        None, "--jobs", min=1, metavar="N", help="Processes; one per processor by default."
    ),
    key: str | None = typer.Option(None, "--key", metavar="FILE", help="Secret key of pseudonyms and shifted dates."),
    rows_not_people: bool = typer.Option(
        False, "--rows-not-people", help="Count rows although people have several of them."
    ),
    language: str = typer.Option("en", "--language", metavar="CODE", help=options.LANGUAGE_HELP),
    roles: options.RoleOptions,
    place: options.PlaceOptions,
    engine: options.EngineOptions,
    reading: options.ReadingOptions,
    seed: int | None = options.SECRET_SEED,
    json: bool = options.JSON,
) -> None:
    """Search for the method and options that keep most of a table, among those that hold a risk.

    Methods race at several strengths on held-out people, and the winner is judged on people whom the search never saw.
    Then all people are released with it. If nothing holds the risk, nothing is written and the exit code is 1. Of a
    table that does not fit into memory, random rows are searched, and all rows are released by its engine.

    Example: sfumato optimize patients.csv --schema schema.toml -o out --keep "mean(age)" --seconds 120
    """
    from sfumato.errors import CannotRelease
    from sfumato.job.request import split_names
    from sfumato.recommendation.optimize import optimize as search
    from sfumato.recommendation.records import RiskLimit

    RiskLimit.parse(risk)
    options.require_language(language)
    into = _free_folder(out, language)
    job = options.job_of(file, reading, place, engine, schema=roles.given)
    table: Any = job.source
    if job.engine.in_memory:
        table = job.fitted
        options.say_roles(table.schema)
    console.say_compiling()
    given: dict[str, Any] = {"methods": None if methods is None else list(split_names(methods)), "keep": keep}
    found = search(
        table,
        schema=None if job.engine.in_memory else job.schema,
        risk=risk,
        seconds=seconds,
        strengths=strengths,
        release=True,
        progress=_say_race,
        jobs=jobs,
        key=key,
        rows_not_people=rows_not_people,
        seed=seed,
        engine=job.engine,
        into=into,
        **given,
    )
    if found.release is None:
        raise CannotRelease(found.verdict, fix="more --seconds, another --risk, or fewer columns")
    if json:
        console.show_json({"folder": out, **found.to_plain(), "manifest": found.release.manifest})
    else:
        console.show_text(f"{found.text(language)}\n")
        console.say(f"· written to {out}")


def _free_folder(out: str, language: str) -> Destination:
    """Return the folder that is written to at the end; raise before any work if it cannot be."""
    from sfumato.release.destination import Folder, folder_of

    into = folder_of(Folder(out, language=language))
    into.require_free()
    return into


def _say_race(now: Any) -> None:
    """Say which trial of a search is done, and what it found."""
    row = now.comparison.rows[-1]
    console.say(f"· round {now.round} of {now.rounds}, {now.done} of {now.trials}: {row.name}: {row.verdict}")


def _project(folder: str) -> dict[str, Any]:
    """Return method, schema and reading of the project file next to a release; nothing without one."""
    from sfumato.job.project_files import HEAD, read_project

    place = Path(folder).expanduser().resolve()
    file = place.with_name(f"{place.name}.toml")
    if not file.is_file() or not file.read_bytes().startswith(HEAD.encode()):
        return {}
    request = read_project(str(file))
    return {"method": request.make_method(), "schema": request.roles_schema, "reading": request.reading}
