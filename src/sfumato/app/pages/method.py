"""The fourth and the fifth step: what should stay accurate, and the method with its options explained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sfumato.app.choices import Choices, Message
from sfumato.app.jobs import BackgroundJob
from sfumato.app.pages.frame import (
    Form,
    ask_for_columns,
    ask_worker,
    columns_of,
    form_of,
    position,
    redirect_to,
    render_page,
    show_progress,
    source_of,
    visitor_of,
)
from sfumato.app.record_tasks import SMALLEST_K, LatticeView, WalkLattice
from sfumato.app.tasks import Recommend, TableOverview
from sfumato.errors import RequestError
from sfumato.job.request import option_value
from sfumato.languages import ENGLISH, sentences
from sfumato.methods.base import METHODS, Method, make_method, method_class
from sfumato.params import (
    Checked,
    Choice,
    Flag,
    NamedOption,
    Number,
    OrNone,
    Probability,
    Range,
    Share,
    Tabular,
    Whole,
    in_plain_words,
    options_of,
)
from sfumato.recommendation.records import Recommendation
from sfumato.report.reproduction import summary_of
from sfumato.schema.columns import Role
from sfumato.statistics.conditions import quote
from sfumato.statistics.language import parse
from sfumato.statistics.statistic import Statistic
from sfumato.table.kinds import Kind

FIRST = ("k", "l", "population", "beta", "level", "epsilon", "kind", "search", "suppress")  # seen at once
FROM_STATISTICS = "keep"  # chosen on the page before


@dataclass(frozen=True, kw_only=True)
class OptionField:
    """An option of a method as a field of a form."""

    name: str
    value: str
    choices: tuple[str, ...]  # empty: a text field
    strengths: tuple[str, ...]  # sensible values, from weak to strong
    meaning: str
    range: str
    default: str
    is_number: bool  # which the visitor reads and writes with the decimal mark of the language
    example: str  # how a value is written that is neither a number nor a word; otherwise empty
    first: bool


async def show_method(request: Request) -> Response:
    """Show the recommendation, all methods, and the options of one."""
    choices = visitor_of(request).choices
    job = await _ask_recommendation(request)
    if job.state != "done" and job.failure is None:
        return show_progress(request, job)
    advice: Recommendation | None = job.result
    name = request.query_params.get("name") or choices.method or (advice.method if advice else "boxes")
    kind = method_class(name)
    same = kind.name == choices.method
    given = choices.options if same else advice.options if advice and advice.method == kind.name else {}
    return render_page(
        request,
        "method.html.j2",
        recommended=advice,
        failure=job.failure,
        methods={one: in_plain_words(summary_of(method_class(one))) for one in METHODS},
        kind=kind,
        summary=in_plain_words(summary_of(kind)),
        fields=fields_of(kind, given),
        keeps=takes_statistics(kind),
    )


async def choose_method(request: Request) -> Response:
    """Choose a method with its options, or the recommended one."""
    form, visitor = await form_of(request), visitor_of(request)
    kind = method_class(form.one("method"))
    is_wanted = form.one("action") == "recommended"  # whoever chooses a method need not wait for advice
    advice: Recommendation | None = (await _ask_recommendation(request)).result if is_wanted else None
    if advice is not None and advice.method == kind.name:
        given: Mapping[str, Any] = advice.options
    else:
        given = read_options(kind, form, visitor.language)
    chosen = {name: value for name, value in given.items() if name != FROM_STATISTICS or not takes_statistics(kind)}
    make_method(kind.name, **chosen)  # validate
    message = Message("method {method}", {"method": kind.name})
    visitor.history.change(message, method=kind.name, options=chosen)
    return redirect_to("/run")


async def _ask_recommendation(request: Request) -> BackgroundJob:
    choices = visitor_of(request).choices
    return await ask_worker(
        request,
        Recommend(source=source_of(request), schema=choices.schema, keep=choices.keep, population=choices.population),
    )


def options_for(choices: Choices) -> dict[str, Any]:
    """Return all options of the chosen method, with the statistics to keep if it takes them."""
    assert choices.method is not None
    keeps = choices.keep and takes_statistics(method_class(choices.method))
    return {**choices.options, **({FROM_STATISTICS: list(choices.keep)} if keeps else {})}


def takes_statistics(kind: type[Method]) -> bool:
    """Return whether a method can be told which statistics to keep; the option of this name may be another one."""
    ranges = {one.name: one.declared.range for one in options_of(kind)}
    declared = ranges.get(FROM_STATISTICS)
    return isinstance(declared, OrNone) and isinstance(declared.range, Checked)


def fields_of(kind: type[Method], given: Mapping[str, Any]) -> list[OptionField]:
    """Return the options of a method as fields, those that matter most first."""
    return [_field(one, given) for one in _offered_options(kind)]


def _offered_options(kind: type[Method]) -> list[NamedOption]:
    """Return the options that can be chosen here: not the statistics, and no table, which would open a path."""
    hidden = {FROM_STATISTICS} if takes_statistics(kind) else set()
    return [one for one in options_of(kind) if one.name not in hidden and not isinstance(_inner(one), Tabular)]


def offered_only(method: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a method that can be chosen here; what else a project file names is left out."""
    known = {one.name for one in _offered_options(method_class(method or "boxes"))}
    return {name: value for name, value in options.items() if name in known}


def _inner(one: NamedOption) -> Range:
    declared = one.declared.range
    return declared.range if isinstance(declared, OrNone) else declared


def _is_number(one: NamedOption) -> bool:
    return isinstance(_inner(one), Whole | Number | Share | Probability)


def _field(one: NamedOption, given: Mapping[str, Any]) -> OptionField:
    inner = _inner(one)
    empty = ("",) if isinstance(one.declared.range, OrNone) else ()
    choices = inner.choices if isinstance(inner, Choice) else ("true", "false") if isinstance(inner, Flag) else ()
    default = "" if one.default is MISSING else _text(one.default)
    return OptionField(
        name=one.name,
        value=_text(given[one.name]) if one.name in given else default or ("5" if one.name == "k" else ""),
        choices=(*empty, *choices) if choices else (),
        strengths=tuple(map(_text, one.declared.strengths)),
        meaning=in_plain_words(one.declared.meaning),
        range=in_plain_words(one.declared.range.describe(one.declared.unit)),
        default=default,
        is_number=_is_number(one),
        example='["…", "…"]' if isinstance(one.default, tuple | list) else "",
        first=one.is_required or one.name in FIRST or bool(one.declared.strengths),
    )


def read_options(kind: type[Method], form: Form, language: str = ENGLISH) -> dict[str, Any]:
    """Return the options of a form that differ from their defaults; numbers are written as in the language."""
    options: dict[str, Any] = {}
    for one in _offered_options(kind):
        text = form.one(f"option-{one.name}")
        text = sentences(language).read_number(text) if _is_number(one) else text
        default = "" if one.default is MISSING else _text(one.default)
        if f"option-{one.name}" not in form.fields or text == default:
            continue
        if text:
            options[one.name] = option_value(text)
        elif isinstance(one.declared.range, OrNone):  # emptied: without it, and not the default
            options[one.name] = None
    return options


def _text(value: Any) -> str:
    """Return the value of an option as the text of a field."""
    if value is None or value in ((), [], {}):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value).removesuffix(".0")
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError:
        return ""


# A walk through levels of recoding.


LARGEST_K = 10_000
MOST_LEVELS = 64  # columns of a lattice that an address may name


def chosen_size(choices: Choices, name: str, default: int) -> int:
    """Return an option that is a number of people or of values, as far as it was chosen."""
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
        k=size if size is not None and size >= 2 else chosen_size(choices, "k", SMALLEST_K),
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


# The fourth step: what should stay accurate.


OF_ONE = {"mean": "mean", "sd": "standard deviation", "median": "median"}  # statistics of one column, and their names


async def show_statistics(request: Request) -> Response:
    """Show the numeric columns and the chosen statistics."""
    job = await ask_for_columns(request)
    if job.state != "done":
        return show_progress(request, job)
    numeric = _numeric_columns(columns_of(job))
    keep = visitor_of(request).choices.keep
    singles = {f"{word}({quote(name)})" for word in OF_ONE for _, name in numeric}
    return render_page(
        request,
        "statistics.html.j2",
        numeric=numeric,
        of_one=OF_ONE,
        written={(word, name): f"{word}({quote(name)})" in keep for word in OF_ONE for _, name in numeric},
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
        _require_numbers(parse(one, names=known), found)
    visitor.history.change(message, keep=keep)
    return redirect_to("/statistics")


def _require_numbers(statistic: Statistic, found: TableOverview) -> None:
    """Raise if a statistic is made of categories, which no method could keep: it would be refused steps later."""
    kinds = {column.name: column.kind for column in found.inspection.columns}
    others = [name for name in statistic.columns if not kinds[name].is_numeric and kinds[name] is not Kind.BOOLEAN]
    if others and statistic.is_characteristic:
        raise RequestError(
            f"The columns of {statistic} must be numeric.",
            found=", ".join(map(repr, others)),
            fix="a column of numbers; or the number of rows with a certain value, such as count(x = 1)",
        )


def _change_keep(keep: tuple[str, ...], form: Form, names: dict[str, str]) -> tuple[tuple[str, ...], Message]:
    """Return the statistics after a change, and what the change was."""
    action = form.one("action")
    if action.startswith("remove:"):
        place = position(action.removeprefix("remove:"), len(keep))
        gone = "" if place is None else keep[place]
        return tuple(one for one in keep if one != gone), Message("not {statistic}", {"statistic": gone})
    if action == "singles":
        known = {f"{word}({quote(name)})" for word in OF_ONE for name in names.values()}
        wanted = [f"{word}({quote(names[place])})" for word in OF_ONE for place in form.all(word) if place in names]
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
        return f"corr({quote(first)}, {quote(second)})"
    outcome, regressors = names.get(form.one("outcome")), [names[one] for one in form.all("by") if one in names]
    if action == "regress" and outcome and regressors:
        return f"regress({quote(outcome)} ~ {' + '.join(map(quote, regressors))})"
    raise RequestError("The statistic needs its columns.", found="too few", fix="choose them in the lists")


def _numeric_columns(overview: TableOverview) -> list[tuple[int, str]]:
    """Return the columns that have means, with their positions."""
    return [
        (place, column.name)
        for place, column in enumerate(overview.inspection.columns)
        if column.kind.is_numeric and column.role not in (Role.IDENTIFIER, Role.WEIGHT)
    ]
