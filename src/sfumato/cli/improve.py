"""``sfumato improve DIR --table FILE -o DIR2``: from failed privacy tests to a release that passes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from sfumato.cli import console, options


@options.with_groups
def improve(
    *,
    release: str = typer.Argument(..., metavar="DIR", help="Folder of the release to improve."),
    table: str = typer.Option(..., "--table", metavar="FILE", help="The original that it was made from."),
    out: str = typer.Option(..., "-o", "--out", metavar="DIR2", help="Folder for the improved release."),
    holdout: float = typer.Option(0.3, "--holdout", metavar="SHARE", help="Share of rows that trials test against."),
    seconds: float | None = typer.Option(None, "--seconds", help="Time after which no further change is tried."),
    key: str | None = typer.Option(None, "--key", metavar="FILE", help="Secret key of pseudonyms and shifted dates."),
    language: str = typer.Option("en", "--language", metavar="CODE", help=options.LANGUAGE_HELP),
    reading: options.ReadingOptions,
    seed: int | None = options.SECRET_SEED,
    json: bool = options.JSON,
) -> None:
    """Find a change with which a release passes its privacy tests, and write that release.

    Changes are tried on held-out people: protect the columns to blame too, a larger k, leave these columns out, draw
    rows from a model. Method, options and roles are those of DIR.toml next to the folder, or else of its manifest.
    If no change passes, nothing is written and the exit code is 1.

    Example: sfumato improve out --table patients.csv -o better
    """
    from sfumato.errors import CannotRelease
    from sfumato.job.request import READING, file_source
    from sfumato.recommendation.improve import improve as find_improvement
    from sfumato.release.bundle import require_target

    require_target(out)
    console.say_progress("sfumato")
    console.say_compiling()
    project = _project(release)
    known = project.get("reading") or READING
    source = file_source(table, reading.given_or_none or known).read()
    chosen: dict[str, Any] = {name: project[name] for name in ("method", "schema") if name in project}
    found = find_improvement(release, source, holdout=holdout, seconds=seconds, key=key, seed=seed, **chosen)
    if found.release is None:
        for step in found.steps:
            console.say(f"· {step}")
        raise CannotRelease(found.verdict, fix="fewer columns, another method (`sfumato compare`), or no release")
    found.release.write(out, language=language)
    _show(found, out, as_json=json)


def _project(folder: str) -> dict[str, Any]:
    """Return method, schema and reading of the project file next to a release; nothing without one."""
    from sfumato.job.project_files import HEAD, read_project

    place = Path(folder).expanduser().resolve()
    file = place.with_name(f"{place.name}.toml")
    if not file.is_file() or not file.read_bytes().startswith(HEAD.encode()):
        return {}
    request = read_project(str(file))
    return {"method": request.make_method(), "schema": request.roles_schema, "reading": request.reading}


def _show(found: Any, out: str, *, as_json: bool) -> None:
    if as_json:
        steps = [{**vars(step), "passed": step.passed} for step in found.steps]
        console.show_json({"folder": out, "verdict": found.verdict, "steps": steps, "manifest": found.release.manifest})
    else:
        console.show_text(f"{found}\n")
        console.say(f"· written to {out}")
