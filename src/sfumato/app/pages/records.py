"""Single records of the table: who is at risk and why, which column tells which, and levels of recoding."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sfumato.app.choices import Choices, Message
from sfumato.app.pages.frame import (
    ask_worker,
    form_of,
    position,
    redirect_to,
    render_page,
    show_progress,
    source_of,
    visitor_of,
)
from sfumato.app.record_tasks import SMALLEST_K, FindRecords, LatticeView, MapAssociations, WalkLattice
from sfumato.errors import RequestError
from sfumato.methods.base import make_method

LARGEST_K = 10_000
MOST_LEVELS = 64  # columns of a lattice that an address may name


async def show_records(request: Request) -> Response:
    """Show the riskiest records, the groups that violate a promise, and which column tells which."""
    choices, source = visitor_of(request).choices, source_of(request)
    task = FindRecords(source=source, schema=choices.schema, k=_k_of(choices), l=_whole(choices, "l", 2))
    found = await ask_worker(request, task)
    if not found.is_over or found.failure is not None:
        return show_progress(request, found)
    told = await ask_worker(request, MapAssociations(source=source, schema=choices.schema))
    if not told.is_over or told.failure is not None:
        return show_progress(request, told)
    return render_page(request, "records.html.j2", found=found.result, told=told.result)


def _k_of(choices: Choices) -> int:
    return _whole(choices, "k", SMALLEST_K)


def _whole(choices: Choices, name: str, default: int) -> int:
    value = choices.options.get(name)
    return value if type(value) is int and 1 <= value <= LARGEST_K else default


async def show_lattice(request: Request) -> Response:
    """Show one combination of levels, and the ones next to it."""
    given = request.query_params
    job = await ask_worker(request, _walk(request, given.get("k", ""), given.get("at", "")))
    if job.state != "done":
        return show_progress(request, job)
    view: LatticeView = job.result
    return render_page(request, "lattice.html.j2", view=view)


def _walk(request: Request, k: str, at: str) -> WalkLattice:
    """Return the task for what an address or a form names; anything else is a start."""
    choices = visitor_of(request).choices
    size = position(k, LARGEST_K + 1)
    levels = [position(one, 1000) for one in at.split(".")[:MOST_LEVELS]] if at else []
    return WalkLattice(
        source=source_of(request),
        schema=choices.schema,
        k=size if size is not None and size >= 2 else _k_of(choices),
        levels=tuple(level or 0 for level in levels),
    )


async def use_levels(request: Request) -> Response:
    """Choose the method that recodes at the levels that are shown."""
    form, visitor = await form_of(request), visitor_of(request)
    job = await ask_worker(request, _walk(request, form.one("k"), form.one("at")))
    view: LatticeView | None = job.result
    if view is None or not form.one("at"):
        raise RequestError("The levels must be looked at before they are used.", fix="the page of levels")
    levels = {column.name: level for column, level in zip(view.columns, view.node.levels, strict=True)}
    options = {"k": view.k, "levels": levels, "suppress": min(1.0, round(view.node.suppressed + 0.0005, 3))}
    options = options if view.node.suppressed else {**options, "suppress": 0.0}
    make_method("recode", **options)
    visitor.history.change(Message("levels of recoding"), method="recode", options=options)
    return redirect_to("/run")
