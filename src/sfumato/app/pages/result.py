"""The seventh step: what a run made, several runs on the risk–utility map, and the way back to one of them."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sfumato.app.choices import Message
from sfumato.app.pages.frame import form_of, position, redirect_to, render_page, visitor_of
from sfumato.app.recipes import command_of, python_of
from sfumato.app.visitors import Run
from sfumato.report.comparison_page import map_context
from sfumato.report.picture import HEIGHT, WIDTH

MOST_RUNS = 10**9  # numbers that an address may name


async def show_result(request: Request) -> Response:
    """Show the result of a run."""
    run = run_of(request)
    if run.made is None:
        return render_page(
            request, "failed_run.html.j2", 200 if run.job.failure else 404, run=run, failure=run.job.failure
        )
    contents = run.made.contents
    return render_page(
        request,
        "result.html.j2",
        run=run,
        report=contents,
        reason=run.made.trial.rows[0].reason if run.made.trial else "",
        picture=contents._picture,
        width=WIDTH,
        height=HEIGHT,
        command=command_of(run),
        python=python_of(run),
        files=sorted(file.name for file in run.bundle.iterdir()),
    )


async def compare_runs(request: Request) -> Response:
    """Show all runs, and where they lie on the risk–utility map."""
    from sfumato.comparison.records import Comparison  # slow to import

    visitor = visitor_of(request)
    runs = [run for run in visitor.runs if run.made is not None]
    placed = [run for run in runs if run.made and run.made.trial and not run.made.trial.rows[0].reason]
    context: dict[str, Any] = {}
    if placed:
        trials = [run.made.trial for run in placed if run.made and run.made.trial]
        whole = Comparison(
            rows=tuple(trial.rows[0] for trial in trials),
            original_rows=trials[0].original_rows,
            reference_rows=trials[0].reference_rows,
        )
        context = map_context(whole, numbers=[run.number for run in placed])
        context["marked"] = {run.number: row for run, row in zip(placed, whole.rows, strict=True)}
    return render_page(
        request, "runs.html.j2", runs=runs, failed=[run for run in visitor.runs if run.job.failure], **context
    )


async def restore_choices(request: Request) -> Response:
    """Take the choices of a run again."""
    await form_of(request)
    run = run_of(request)
    chosen = run.choices
    visitor_of(request).history.change(
        Message("back to run {run}", {"run": run.number}),
        schema=chosen.schema,
        population=chosen.population,
        keep=chosen.keep,
        method=chosen.method,
        options=chosen.options,
    )
    return redirect_to("/run")


def run_of(request: Request) -> Run:
    """Return the run that the address names."""
    number = position(request.path_params["number"], MOST_RUNS)
    run = None if number is None else visitor_of(request).run(number)
    if run is None:
        raise HTTPException(404)
    return run
