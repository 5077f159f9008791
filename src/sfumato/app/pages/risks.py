"""The third step: who stands alone in the table as it is, by which columns, and against which population."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sfumato.app.choices import Message
from sfumato.app.pages.frame import asked, examined, examined_by, form_of, go, shown, source_of, visitor_of, working
from sfumato.app.tasks import ALPHA, MeasureRisks
from sfumato.errors import OptionError

MOST_SETS = 25  # sets of columns that are listed


async def page(request: Request) -> Response:
    """Show the risks."""
    choices = visitor_of(request).choices
    task = MeasureRisks(source=source_of(request), schema=choices.schema, population=choices.population)
    job = await asked(request, task)
    if job.state != "done":
        return working(request, job)
    return shown(request, "risks.html.j2", risks=job.result, alpha=ALPHA, most=MOST_SETS)


async def change(request: Request) -> Response:
    """Choose the population."""
    population = (await form_of(request)).number("population")
    job = await examined(request)
    rows = examined_by(job).inspection.rows if job.state == "done" else 1
    if population is not None and population < rows:
        raise OptionError(
            "The population must include the people of the table.",
            found=f"population {population:,}, {rows:,} rows",
            fix="a population of at least the number of rows; or leave the field empty",
        )
    message = Message("population {people}" if population is not None else "no population", {"people": population or 0})
    visitor_of(request).history.change(message, population=population)
    return go("/risks")
