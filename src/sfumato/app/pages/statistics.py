"""The fourth step: what should stay accurate."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sfumato.app.choices import Message
from sfumato.app.pages.frame import (
    Form,
    ask_for_columns,
    columns_of,
    form_of,
    position,
    redirect_to,
    render_page,
    show_progress,
    visitor_of,
)
from sfumato.app.tasks import Examined
from sfumato.errors import RequestError
from sfumato.schema.columns import Role
from sfumato.statistics.conditions import quoted
from sfumato.statistics.language import parse

OF_ONE = {"mean": "mean", "sd": "standard deviation", "median": "median"}  # statistics of one column, and their names


async def show_statistics(request: Request) -> Response:
    """Show the numeric columns and the chosen statistics."""
    job = await ask_for_columns(request)
    if job.state != "done":
        return show_progress(request, job)
    numeric = _numeric_columns(columns_of(job))
    keep = visitor_of(request).choices.keep
    singles = {f"{word}({quoted(name)})" for word in OF_ONE for _, name in numeric}
    return render_page(
        request,
        "statistics.html.j2",
        numeric=numeric,
        of_one=OF_ONE,
        written={(word, name): f"{word}({quoted(name)})" in keep for word in OF_ONE for _, name in numeric},
        singles=[one for one in keep if one in singles],
        others=[one for one in keep if one not in singles],
    )


async def change_statistics(request: Request) -> Response:
    """Add statistics, remove one, or set those of single columns."""
    job, form = await ask_for_columns(request), await form_of(request)
    if job.state != "done":
        return redirect_to("/statistics")
    found, visitor = columns_of(job), visitor_of(request)
    names = {str(place): name for place, name in _numeric_columns(found)}
    keep, message = _change_keep(visitor.choices.keep, form, names)
    known = [column.name for column in found.schema.without(Role.IDENTIFIER).columns]
    for one in keep:  # here and not by the worker, which may be busy with a release for a long time
        parse(one, names=known)
    visitor.history.change(message, keep=keep)
    return redirect_to("/statistics")


def _change_keep(keep: tuple[str, ...], form: Form, names: dict[str, str]) -> tuple[tuple[str, ...], Message]:
    """Return the statistics after a change, and what the change was."""
    action = form.one("action")
    if action.startswith("remove:"):
        place = position(action.removeprefix("remove:"), len(keep))
        gone = "" if place is None else keep[place]
        return tuple(one for one in keep if one != gone), Message("not {statistic}", {"statistic": gone})
    if action == "singles":
        known = {f"{word}({quoted(name)})" for word in OF_ONE for name in names.values()}
        wanted = [f"{word}({quoted(names[place])})" for word in OF_ONE for place in form.all(word) if place in names]
        others = [one for one in keep if one not in known]
        return (*wanted, *others), Message("statistics of single columns")
    new = _read_statistic(action, form, names)
    return (*keep, *((new,) if new not in keep else ())), Message("{statistic}", {"statistic": new})


def _read_statistic(action: str, form: Form, names: dict[str, str]) -> str:
    """Return the statistic that a form describes."""
    if action == "text":
        return form.one("text")
    first, second = names.get(form.one("first")), names.get(form.one("second"))
    if action == "corr" and first and second:
        return f"corr({quoted(first)}, {quoted(second)})"
    outcome, regressors = names.get(form.one("outcome")), [names[one] for one in form.all("by") if one in names]
    if action == "regress" and outcome and regressors:
        return f"regress({quoted(outcome)} ~ {' + '.join(map(quoted, regressors))})"
    raise RequestError("The statistic needs its columns.", found="too few", fix="choose them in the lists")


def _numeric_columns(found: Examined) -> list[tuple[int, str]]:
    """Return the columns that have means, with their positions."""
    return [
        (place, column.name)
        for place, column in enumerate(found.inspection.columns)
        if column.kind.is_numeric and column.role not in (Role.IDENTIFIER, Role.WEIGHT)
    ]
