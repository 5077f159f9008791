"""Single records of the table: who is at risk and why, and which column tells which."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sfumato.app.pages.frame import (
    ask_for_columns,
    ask_worker,
    columns_of,
    render_page,
    show_progress,
    source_of,
    visitor_of,
)
from sfumato.app.pages.method import chosen_size
from sfumato.app.record_tasks import SMALLEST_K, FindRecords, MapAssociations


async def show_records(request: Request) -> Response:
    """Show the riskiest records, the groups that violate a promise, and which column tells which."""
    choices, source = visitor_of(request).choices, source_of(request)
    task = FindRecords(
        source=source, schema=choices.schema, k=chosen_size(choices, "k", SMALLEST_K), l=chosen_size(choices, "l", 2)
    )
    found = await ask_worker(request, task)
    if not found.is_over or found.failure is not None:
        return show_progress(request, found)
    overview = await ask_for_columns(request)
    if overview.state != "done":
        return show_progress(request, overview)
    told = await ask_worker(request, MapAssociations(source=source, schema=choices.schema))
    if not told.is_over or told.failure is not None:
        return show_progress(request, told)
    places = {column.name: place for place, column in enumerate(columns_of(overview).schema.columns)}
    return render_page(request, "records.html.j2", found=found.result, told=told.result, places=places)
