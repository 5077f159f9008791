"""The third step: the re-identification risk of the original table."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sfumato.app.choices import Message
from sfumato.app.pages.frame import (
    ask_for_columns,
    ask_worker,
    columns_of,
    form_of,
    redirect_to,
    render_page,
    show_progress,
    source_of,
    visitor_of,
)
from sfumato.app.tasks import ALPHA, MeasureRisks
from sfumato.errors import OptionError

MOST_SETS = 25  # sets of columns that are listed


async def show_risks(request: Request) -> Response:
    """Show the risks."""
    choices = visitor_of(request).choices
    task = MeasureRisks(source=source_of(request), schema=choices.schema, population=choices.population)
    job = await ask_worker(request, task)
    if job.state != "done":
        return show_progress(request, job)
    return render_page(request, "risks.html.j2", risks=job.result, alpha=ALPHA, most=MOST_SETS)


async def change_population(request: Request) -> Response:
    """Choose the population."""
    population = (await form_of(request)).number("population")
    job = await ask_for_columns(request)
    rows = columns_of(job).inspection.rows if job.state == "done" else 1
    if population is not None and population < rows:
        raise OptionError(
            "The population must include the people of the table.",
            found=f"population {population:,}, {rows:,} rows",
            fix="a population of at least the number of rows; or leave the field empty",
        )
    message = Message("population {people}" if population is not None else "no population", {"people": population or 0})
    visitor_of(request).history.change(message, population=population)
    return redirect_to("/risks")
