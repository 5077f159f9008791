"""The sixth step: make the release, with progress, and cancel it."""

from __future__ import annotations

import shutil

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sfumato.app.jobs import BackgroundJob
from sfumato.app.pages.frame import (
    ask_for_columns,
    columns_of,
    form_of,
    redirect_to,
    render_page,
    show_progress,
    source_of,
    visitor_of,
)
from sfumato.app.pages.method import options_for
from sfumato.app.tasks import MakeRelease
from sfumato.app.visitors import Run
from sfumato.errors import RequestError
from sfumato.methods.registry import make_method, method_class
from sfumato.report.reproduction import summary_of

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
    found = columns_of(job)
    return render_page(
        request,
        "run.html.j2",
        found=found,
        options=options_for(choices),
        summary=summary_of(method_class(choices.method)),
        attacked=found.inspection.rows <= ATTACKED,
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
    choices, job = visitor.choices, await ask_for_columns(request)
    if choices.method is None or job.state != "done" or any(not run.job.is_over for run in visitor.runs):
        return redirect_to("/run")
    options, seed, schema = options_for(choices), form.number("seed"), columns_of(job).schema
    make_method(choices.method, **options)  # validate before any work
    visitor.made_runs += 1
    folder = visitor.room(f"run-{visitor.made_runs}")
    task = MakeRelease(
        source=source_of(request),
        number=visitor.made_runs,
        folder=str(folder / "out"),
        schema=schema,
        method=choices.method,
        options=options,
        seed=seed,
        attacked=bool(form.one("attacked")),
    )

    def clear_away(ended: BackgroundJob) -> None:
        if ended.state != "done":
            shutil.rmtree(folder, ignore_errors=True)

    made = Run(
        number=task.number,
        folder=folder,
        source=task.source,
        choices=choices,
        schema=schema,
        method=choices.method,
        options=options,
        seed=seed,
        job=visitor.jobs.ask(task, clear_away),
    )
    visitor.runs.append(made)
    return redirect_to("/run")


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
    made = f"/runs/{run.number}" if run is not None and is_there else None
    return JSONResponse(
        {
            "over": job.is_over,
            "state": job.state,
            "said": job.said[-12:],
            "share": job.share,
            "seconds": round(job.elapsed, 1),
            "next": made,
        }
    )
