"""The sixth and the seventh step: make a release, compare the runs, and download what they made."""

from __future__ import annotations

import io
import shutil
import zipfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from sfumato.app.choices import Message
from sfumato.app.jobs import BackgroundJob
from sfumato.app.pages.frame import (
    REPORT_POLICY,
    ask_for_columns,
    columns_of,
    form_of,
    position,
    redirect_to,
    render_page,
    show_progress,
    source_of,
    visitor_of,
)
from sfumato.app.pages.method import options_for
from sfumato.app.projects import tree_files, write_project
from sfumato.app.run_tasks import MakeRelease
from sfumato.app.texts import languages
from sfumato.app.visitors import Run, Visitor
from sfumato.comparison.page import map_context
from sfumato.errors import RequestError
from sfumato.formats.exports import EXPORTS
from sfumato.formats.text import write_text
from sfumato.languages import ENGLISH
from sfumato.languages import languages as report_languages
from sfumato.methods.base import make_method, method_class
from sfumato.report.reproduction import command_text, python_text, summary_of
from sfumato.schema.pseudonyms import SecretKey

ATTACKED = 20_000  # rows up to which attacks are tried unless the visitor says otherwise


async def show_run(request: Request) -> Response:
    """Show what will be done, or how far it is."""
    visitor = visitor_of(request)
    choices = visitor.choices
    if choices.method is None:
        return redirect_to("/method")
    current = next((run for run in visitor.runs if not run.job.is_over), None)
    if current is not None:
        return render_page(request, "running.html.j2", run=current, job=current.job)
    job = await ask_for_columns(request)
    if job.state != "done":
        return show_progress(request, job)
    overview = columns_of(job)
    return render_page(
        request,
        "run.html.j2",
        found=overview,
        options=options_for(choices),
        summary=summary_of(method_class(choices.method)),
        attacked=overview.inspection.rows <= ATTACKED,
        formats=offered_formats(),
        needs_key=overview.schema.needs_preparation,
        last=visitor.runs[-1] if visitor.runs else None,
    )


async def start_run(request: Request) -> Response:
    """Start a run with the current choices."""
    visitor, form = visitor_of(request), await form_of(request)
    if form.one("choices") not in ("", str(visitor.history.changes)):
        raise RequestError(
            "The choices were changed since this page was shown, perhaps in another tab.",
            fix="go back, look at them, and start then",
        )
    if form.one("files"):
        formats = tuple(one for one in offered_formats() if one in form.all("format"))
        visitor.history.change(Message("files of the release"), formats=formats)
    key = _store_key(visitor, form.one("key"))
    await begin_run(
        request,
        seed=form.number("seed"),
        attacked=bool(form.one("attacked")),
        rows_not_people=bool(form.one("rows_not_people")),
        key=key,
    )
    return redirect_to("/run")


async def begin_run(request: Request, **given: Any) -> None:
    """Begin a run with the current choices, unless one is being made, or a method is not chosen yet."""
    visitor, job = visitor_of(request), await ask_for_columns(request)
    choices = visitor.choices
    if choices.method is None or job.state != "done" or any(not run.job.is_over for run in visitor.runs):
        return
    options = options_for(choices)
    make_method(choices.method, **options)  # validate before any work
    visitor.made_runs += 1
    folder = visitor.room(f"run-{visitor.made_runs}")
    task = MakeRelease(
        source=source_of(request),
        number=visitor.made_runs,
        folder=str(folder / "out"),
        schema=columns_of(job).schema,
        method=choices.method,
        options=options,
        formats=choices.formats,
        language=visitor.language if visitor.language in report_languages() else ENGLISH,
        earlier=tuple(str(run.bundle) for run in visitor.runs if run.result is not None),
        **given,
    )

    def clear_away(ended: BackgroundJob) -> None:
        if ended.state != "done":
            shutil.rmtree(folder, ignore_errors=True)

    visitor.runs.append(Run(folder=folder, choices=choices, task=task, job=visitor.jobs.ask(task, clear_away)))


def _store_key(visitor: Visitor, text: str) -> str | None:
    """Store the content of a key file where only this user can read it; None if none was given."""
    if not text:
        return None
    file = visitor.room("key") / "key"
    file.touch(0o600)
    file.write_text(f"{text}\n", encoding="utf-8")
    SecretKey.read(file)  # raises unless it is one
    return str(file)


async def send_key(request: Request) -> Response:
    """Make a new secret key, which its owner keeps: it is stored nowhere else."""
    visitor = visitor_of(request)
    await form_of(request)
    file = visitor.room("key") / "key"
    SecretKey.create(file)
    content = file.read_bytes()
    shutil.rmtree(file.parent, ignore_errors=True)
    return _save(content, "sfumato-key.txt", "text/plain; charset=utf-8")


def offered_formats() -> list[str]:
    """Return the formats of released rows that can be written on this machine."""
    return ["csv", *(suffix.removeprefix(".") for suffix, one in EXPORTS.items() if all(map(find_spec, one.modules)))]


async def cancel_job(request: Request) -> Response:
    """End a job; nothing of it stays."""
    visitor, form = visitor_of(request), await form_of(request)
    job = visitor.jobs.find(form.one("job"))
    is_run = any(run.job is job for run in visitor.runs)
    if job is not None:
        await run_in_threadpool(visitor.jobs.cancel, job)
    visitor.runs = [run for run in visitor.runs if run.job.state != "cancelled"]
    return redirect_to("/run" if is_run else "/open")


async def send_state(request: Request) -> Response:
    """Tell the script of the page how far a job is."""
    visitor = visitor_of(request)
    job = visitor.jobs.find(request.path_params["job"])
    if job is None:
        return JSONResponse({"over": True})
    run = next((one for one in visitor.runs if one.job is job), None)
    is_there = run is not None and job.state in ("done", "failed")  # the page of a run that failed says why
    address = f"/runs/{run.task.number}" if run is not None and is_there else None
    return JSONResponse(
        {
            "over": job.is_over,
            "state": job.state,
            "said": [languages()[visitor.language].say(line) for line in job.said[-12:]],
            "share": job.share,
            "seconds": round(job.elapsed, 1),
            "next": address,
        }
    )


# How to make a run again: as a command, as Python, as a schema file and as a project file.


OUT = "out"


def command_of(run: Run) -> str:
    """Return the command; it is given in the folder that holds the table and ``schema.toml``.

    There is no seed in it: whoever knows the seed can undo the order of the rows.
    """
    name = run.task.source.name
    file = f"./{name}" if name.startswith("-") else name  # it would be read as an option
    return command_text(
        run.task.method,
        run.task.options,
        file=file,
        folder=OUT,
        arguments=[
            *run.task.source.reading.to_arguments(),
            *(["--rows-not-people"] * run.task.rows_not_people),
            *(word for one in run.task.formats if run.task.formats != ("csv",) for word in ("--format", one)),
        ],
    )


def python_of(run: Run) -> str:
    """Return the same in Python."""
    given = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in run.task.source.reading.options.items()
    }
    options = "".join(f", {name}={value!r}" for name, value in given.items())
    file = f"sf.read({run.task.source.name!r}{options})" if options else None
    expression = python_text(
        method_class(run.task.method).__name__,
        run.task.options,
        file=run.task.source.name,
        folder=OUT,
        arguments=", rows_not_people=True" if run.task.rows_not_people else "",
        table=file,
    )
    return f"import sfumato as sf\n\n{expression}\n"


def schema_of(run: Run) -> str:
    """Return the schema file, which names edited trees in a folder beside it."""
    return run.task.schema.to_toml(_home(run))


def project_of(run: Run) -> str:
    """Return the project file; ``sfumato run`` makes the release again. There is no seed in it, and no key."""
    task = run.task
    chosen = replace(run.choices, schema=task.schema, method=task.method, options=task.options)
    return write_project(task.source, chosen, _home(run), rows_not_people=task.rows_not_people or None)


def _home(run: Run) -> Path:
    """Return the folder from which the paths of trees are those of :func:`tree_files`."""
    return run.folder.parent


# The seventh step: several runs on the risk–utility map, and the way back to one of them.


MOST_RUNS = 10**9  # numbers that an address may name


def run_of(request: Request) -> Run:
    """Return the run that the address names."""
    number = position(request.path_params["number"], MOST_RUNS)
    run = None if number is None else visitor_of(request).run(number)
    if run is None:
        raise HTTPException(404)
    return run


async def compare_runs(request: Request) -> Response:
    """Show all runs, and where they lie on the risk–utility map."""
    from sfumato.comparison.records import Comparison  # slow to import

    visitor = visitor_of(request)
    runs = [run for run in visitor.runs if run.result is not None]
    placed = [run for run in runs if run.result and run.result.trial and not run.result.trial.rows[0].reason]
    context: dict[str, Any] = {}
    if placed:
        trials = [run.result.trial for run in placed if run.result and run.result.trial]
        whole = Comparison(
            rows=tuple(trial.rows[0] for trial in trials),
            original_rows=trials[0].original_rows,
            reference_rows=trials[0].reference_rows,
        )
        context = map_context(whole, numbers=[run.task.number for run in placed])
        context["marked"] = {run.task.number: row for run, row in zip(placed, whole.rows, strict=True)}
    return render_page(
        request,
        "runs.html.j2",
        runs=runs,
        failed=[run for run in visitor.runs if run.job.failure],
        together=next((found for run in runs[::-1] if run.result and (found := run.result.together)), None),
        **context,
    )


async def restore_choices(request: Request) -> Response:
    """Take the choices of a run again."""
    await form_of(request)
    run = run_of(request)
    chosen = run.choices
    visitor_of(request).history.change(
        Message("back to run {run}", {"run": run.task.number}),
        schema=chosen.schema,
        population=chosen.population,
        keep=chosen.keep,
        method=chosen.method,
        options=chosen.options,
        formats=chosen.formats,
    )
    return redirect_to("/run")


# What a visitor takes away: the bundle, the report, the schema, the project file, the command and Python.


COMMA_FILE = "released-comma.csv"


async def send_report(request: Request) -> Response:
    """Show the report, or save it: ``?save=1``."""
    run = _complete_run(request)
    name = f"report-run-{run.task.number}.html" if request.query_params.get("save") else None
    answer = FileResponse(run.bundle / "report.html", media_type="text/html", filename=name)
    answer.headers["content-security-policy"] = REPORT_POLICY
    return answer


async def send_bundle(request: Request) -> Response:
    """Save the whole bundle as a ZIP archive."""
    run = _complete_run(request)
    archive = run.folder / "bundle.zip"
    if not archive.exists():
        await run_in_threadpool(_pack, run.bundle, archive)
    run.taken.append("bundle")
    return FileResponse(archive, media_type="application/zip", filename=f"sfumato-run-{run.task.number}.zip")


async def send_recipe(request: Request) -> Response:
    """Save one of the files that make the run again, or all of them as an archive."""
    run, name = _complete_run(request), request.path_params["name"]
    texts = {
        "schema.toml": schema_of,
        "project.toml": project_of,
        "command.sh": lambda run: command_of(run) + "\n",
        "run.py": python_of,
    }
    if name == COMMA_FILE:
        run.taken.append(name)
        return _save(await run_in_threadpool(_with_decimal_comma, run.bundle), name, "text/csv; charset=utf-8")
    if name in texts:
        return _save(texts[name](run).encode(), name, "text/plain; charset=utf-8")
    if name != "project.zip":
        raise HTTPException(404)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, write in texts.items():
            archive.writestr(file, write(run))
        for file, path in tree_files(run.task.schema).items():
            archive.write(path, file)
    return _save(out.getvalue(), f"sfumato-project-{run.task.number}.zip", "application/zip")


def _with_decimal_comma(bundle: Path) -> bytes:
    """Return the released rows as many spreadsheets in Europe read them: semicolons, and commas in numbers."""
    out = io.BytesIO()
    write_text(pq.read_table(bundle / "released.parquet"), out, ";", "escape", decimal=",")
    return out.getvalue()


def _complete_run(request: Request) -> Run:
    run = run_of(request)
    if run.result is None:
        raise HTTPException(404)
    return run


def _save(content: bytes, name: str, kind: str) -> Response:
    return Response(content, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


def _pack(folder: Path, target: Path) -> None:
    """Pack the files of a bundle, and put the archive in place when it is complete."""
    fresh = target.with_suffix(".part")
    with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, Path("out") / file.relative_to(folder))
    fresh.replace(target)
