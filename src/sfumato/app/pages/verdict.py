"""The verdict on a run, and the way on from a failed test: a click, a search for the change, and the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sfumato.app.choices import Choices, Message
from sfumato.app.pages.frame import (
    Form,
    ask_worker,
    form_of,
    redirect_to,
    render_page,
    send_private_page,
    show_progress,
    source_of,
    visitor_of,
)
from sfumato.app.pages.runs import begin_run, command_of, python_of, run_of
from sfumato.app.run_tasks import FoundImprovement, ImproveRelease, SuggestCoarser, WriteEvidence
from sfumato.app.visitors import Run
from sfumato.errors import RequestError
from sfumato.languages import ENGLISH
from sfumato.languages import languages as report_languages
from sfumato.methods.base import method_class
from sfumato.params import strength_of
from sfumato.report.picture import HEIGHT, WIDTH
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.sources.derived_columns import DerivedColumn

LONGEST_TEXT = 500  # characters of a recipient or a purpose


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A change that may help a release whose tests fail, as a button."""

    action: str
    button: Message
    reason: Message


async def show_result(request: Request) -> Response:
    """Show the result of a run."""
    run = run_of(request)
    if run.result is None:
        return render_page(
            request, "failed_run.html.j2", 200 if run.job.failure else 404, run=run, failure=run.job.failure
        )
    contents = run.result.contents
    return render_page(
        request,
        "result.html.j2",
        run=run,
        report=contents,
        reason=run.result.trial.rows[0].reason if run.result.trial else "",
        picture=contents._picture,
        width=WIDTH,
        height=HEIGHT,
        command=command_of(run),
        python=python_of(run),
        files=sorted(file.name for file in run.bundle.iterdir()),
        together=run.result.together,
        offers=offers_of(run),
        has_failed=has_failed(run),
    )


def has_failed(run: Run) -> bool:
    """Whether a privacy test of the release failed."""
    found = run.result.contents.assessment if run.result else None
    return found is not None and any(one.family == "privacy" for one in found.failed)


def offers_of(run: Run) -> list[Offer]:
    """Return what may help a release whose privacy tests failed, the mildest first."""
    if not has_failed(run) or run.result is None:
        return []
    names = blamed_names(run)
    listed, offers = ", ".join(names), []
    if names:
        offers += [
            Offer(
                action="protect",
                button=Message("Protect these too"),
                reason=Message("{columns} become quasi-identifiers.", {"columns": listed}),
            ),
            Offer(
                action="coarsen",
                button=Message("Make these coarser"),
                reason=Message("Numbers in {columns} are released in wide steps, dates as years.", {"columns": listed}),
            ),
            Offer(
                action="leave",
                button=Message("Do not release these"),
                reason=Message("{columns} are left out.", {"columns": listed}),
            ),
        ]
    stronger = stronger_option(run)
    if stronger is not None:
        name, now, value = stronger
        given = {"option": name, "value": str(value), "now": str(now)}
        offers.append(
            Offer(
                action="raise",
                button=Message("Raise {option} to {value}", given),
                reason=Message("{option} is {now} now; more protects more.", given),
            )
        )
    return offers


def blamed_names(run: Run) -> tuple[str, ...]:
    """Return the columns to blame that a change can be about: those released as they are, or else sensitive ones."""
    assert run.result is not None
    blamed = run.result.contents.blamed
    others = tuple(one.name for one in blamed if one.role == Role.OTHER)
    return others or tuple(one.name for one in blamed if one.role == Role.SENSITIVE)


def stronger_option(run: Run) -> tuple[str, Any, Any] | None:
    """Return the option by which the method protects more or less, its value now and the next one; None without it."""
    option = strength_of(method_class(run.task.method))
    if option is None:
        return None
    values, now = list(option.declared.strengths), run.task.options.get(option.name, option.default)
    if now in values:
        later = values[values.index(now) + 1 :]
    else:
        later = [value for value in values if isinstance(now, int | float) and value > now]
    return (option.name, now, later[0]) if later else None


async def change_and_run(request: Request) -> Response:
    """Change the choices of a run as a button says, and run again from there."""
    run, form = run_of(request), await form_of(request)
    action = form.one("action")
    if action not in {offer.action for offer in offers_of(run)}:
        raise RequestError("This change is not offered for this run.", fix="the buttons below the verdict")
    visitor, names = visitor_of(request), blamed_names(run)
    chosen, message = run.choices, next(one.button for one in offers_of(run) if one.action == action)
    if action in ("protect", "leave"):
        role = Role.QUASI if action == "protect" else Role.IDENTIFIER
        chosen = replace(chosen, schema=_with_roles(run, dict.fromkeys(names, role)))
    elif action == "raise":
        stronger = stronger_option(run)
        assert stronger is not None
        chosen = replace(chosen, options={**chosen.options, stronger[0]: stronger[2]})
    else:
        await _coarsen(request, names)
    visitor.history.change(message, **vars(chosen))
    await begin_run(request, attacked=True, rows_not_people=run.task.rows_not_people, key=run.task.key)
    return redirect_to("/run")


async def _coarsen(request: Request, names: Sequence[str]) -> None:
    """Read the table again with coarser columns; a column that was made coarser before gets a new rule."""
    source = source_of(request)
    kept = tuple(rule for rule in source.reading.derive if DerivedColumn.of(rule).name not in names)
    plain = replace(source, reading=replace(source.reading, derive=kept))
    before = {DerivedColumn.of(rule).name: rule for rule in source.reading.derive if rule not in kept}
    job = await ask_worker(request, SuggestCoarser(source=plain, columns=tuple(names)))
    rules = tuple(_twice(before.get(DerivedColumn.of(rule).name), rule) for rule in job.result or ())
    if not rules:
        raise RequestError(
            "Only numbers and dates can be made coarser here.",
            found=", ".join(names),
            fix="protect these columns, or leave them out",
        )
    visitor_of(request).reread(replace(source, reading=replace(source.reading, derive=(*kept, *rules))))


def _twice(before: str | None, rule: str) -> str:
    """Return the rule, with twice the width of the one before it, if there was one."""
    known = None if before is None else DerivedColumn.of(before)
    if known is None or known.function != "steps":
        return rule
    return str(replace(known, argument=f"{2 * float(known.argument):g}"))


def _with_roles(run: Run, roles: dict[str, Role]) -> Schema:
    """Return the schema of a run's choices with these roles."""
    columns: dict[str, Column] = {column.name: column for column in run.choices.schema.columns}
    for name, role in roles.items():
        columns[name] = replace(columns.get(name, run.task.schema[name]), role=role, reason="", pseudonym=False)
    return Schema(tuple(columns.values()))


# A search for the change.


async def improve_run(request: Request) -> Response:
    """Show how far the search for a change is, and what it found."""
    run = run_of(request)
    if run.result is None:
        raise HTTPException(404)
    job = await ask_worker(request, _search(request, run))
    if job.state != "done":
        return show_progress(request, job)
    return render_page(request, "improve.html.j2", run=run, found=job.result)


async def use_improvement(request: Request) -> Response:
    """Take the choices that the search found, and make the release with them."""
    run = run_of(request)
    await form_of(request)
    job = await ask_worker(request, _search(request, run))
    found: FoundImprovement | None = job.result
    if found is None or found.method is None:
        return redirect_to(f"/runs/{run.task.number}/improve")
    roles = {name: Role(role) for name, role in found.roles.items() if run.task.schema[name].role != role}
    roles |= dict.fromkeys(found.left_out, Role.IDENTIFIER)
    options = {name: value for name, value in found.options.items() if name != "keep" or not isinstance(value, list)}
    chosen: Choices = replace(run.choices, schema=_with_roles(run, roles), method=found.method, options=options)
    visitor_of(request).history.change(Message("improvement of run {run}", {"run": run.task.number}), **vars(chosen))
    given = {"rows_not_people": run.task.rows_not_people, "key": run.task.key}
    await begin_run(request, attacked=False, judged=found.judged, **given)  # another split could contradict it by luck
    return redirect_to("/run")


def _search(request: Request, run: Run) -> ImproveRelease:
    return ImproveRelease(
        source=run.task.source,
        folder=str(run.bundle),
        schema=run.task.schema,
        method=run.task.method,
        options=run.task.options,
        rows_not_people=run.task.rows_not_people,
    )


# The evidence: one document to print and to sign.


async def send_evidence(request: Request) -> Response:
    """Show the evidence of a run for a recipient and a purpose."""
    run = run_of(request)
    if run.result is None:
        raise HTTPException(404)
    given = Form({name: [value] for name, value in request.query_params.multi_items()})
    texts = {name: given.one(name)[:LONGEST_TEXT] for name in ("recipient", "purpose", "place")}
    language = visitor_of(request).language
    task = WriteEvidence(
        source=run.task.source,
        folder=str(run.bundle),
        language=language if language in report_languages() else ENGLISH,
        **texts,
    )
    job = await ask_worker(request, task)
    if job.state != "done":
        return show_progress(request, job)
    return send_private_page(job.result)
