"""What all pages share: the visitor of a request, forms, answers of the worker, rendering, undo and the language."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from sfumato.app.choices import Choices, Source
from sfumato.app.jobs import BackgroundJob, Failure
from sfumato.app.rendering import render
from sfumato.app.tasks import Examine, TableOverview, Task
from sfumato.app.texts import languages
from sfumato.app.uploads import NamedFolder
from sfumato.app.visitors import Visitor
from sfumato.errors import RequestError, SfumatoError

PATIENCE = 0.4  # seconds that a page waits for its numbers before it shows progress
LONG_WAIT = 60.0  # seconds that a form waits for the table to be looked at
PAGE = re.compile(
    r"/(open|open/preview|columns|column|tree|risks|records|statistics|method|lattice|run|runs|runs/\d+(/improve)?)"
)  # addresses that show a page
LARGEST_FORM = 8_000_000  # bytes: a tree of many values
LONGEST_NUMBER = 18  # digits
GROUPED = re.compile(r"\d{1,3}([.,'’_ \u00a0\u202f])\d{3}(?:\1\d{3})*", re.ASCII)  # 83,000,000 and 83.000.000


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the command gave to the server."""

    folder: NamedFolder | None = None
    most_upload: int = 10**9


def visitor_of(request: Request) -> Visitor:
    """Return the visitor, whom the guard has found."""
    visitor: Visitor = request.scope["visitor"]
    return visitor


def settings_of(request: Request) -> Settings:
    """Return what the command gave to the server."""
    settings: Settings = request.app.state.settings
    return settings


def source_of(request: Request) -> Source:
    """Return the table of the visitor; the pages after the first need one."""
    source = visitor_of(request).source
    if source is None:
        raise RequestError("Open a table first.")
    return source


def render_page(request: Request, template: str, status: int = 200, **context: Any) -> Response:
    """Show a page."""
    return HTMLResponse(render(template, visitor_of(request), request.url.path, **context), status)


def redirect_to(path: str) -> Response:
    """Continue on another page."""
    return RedirectResponse(path, 303)


def page_of_form(request: Request) -> str:
    """Return the page that a form was on; only one of ours, so that nothing leads to another site."""
    address = urlsplit(request.headers.get("referer", ""))
    path = address.path.removeprefix(visitor_of(request).root)
    if not PAGE.fullmatch(path):
        return "/"
    return path + (f"?{address.query}" if address.query else "")


def show_failure(request: Request, error: SfumatoError, status: int = 400) -> Response:
    """Show an error: what must hold, what was found, and what to try."""
    failure = Failure(message=error.message, found=error.found, fix=error.fix)
    return render_page(request, "failed.html.j2", status, failure=failure, back=page_of_form(request), is_reading=False)


def position(text: str, size: int) -> int | None:
    """Return a whole number below ``size``; None for any other text, also for digits that Python refuses to read.

    >>> position("3", 5), position("5", 5), position("-1", 5), position("²", 5), position("9" * 5000, 5)
    (3, None, None, None, None)
    """
    is_number = text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER
    return int(text) if is_number and int(text) < size else None


@dataclass(frozen=True)
class Form:
    """The fields of a form."""

    fields: Mapping[str, list[str]]

    def one(self, name: str) -> str:
        """Return a field, without spaces around it; empty if it was not sent."""
        return self.fields.get(name, [""])[0].strip()

    def all(self, name: str) -> list[str]:
        """Return all values of a field."""
        return self.fields.get(name, [])

    def number(self, name: str) -> int | None:
        """Return a field that is a whole number; None if it is empty."""
        text = self.one(name)
        if not text:
            return None
        number = position(re.sub(r"\D", "", text) if GROUPED.fullmatch(text) else text, 10**LONGEST_NUMBER)
        if number is None:
            raise RequestError(
                f"{name} must be a whole number.", found="something else", fix="only digits, such as 83000000"
            )
        return number

    def positions(self, name: str, size: int) -> list[int]:
        """Return a field with positions of columns; those that do not exist are left out."""
        return [found for text in self.all(name) if (found := position(text, size)) is not None]


async def form_of(request: Request) -> Form:
    """Read a form; one that is too large is not read to the end."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_FORM:
            raise RequestError("The form must be smaller.", found=f"more than {LARGEST_FORM // 10**6} MB")
    fields: dict[str, list[str]] = {}
    for name, value in parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True):
        fields.setdefault(name, []).append(value)
    form = Form(fields)
    if form.one("table") not in ("", str(visitor_of(request).opened)):
        raise RequestError(
            "This page was about another table: one was opened or closed since, perhaps in another tab.",
            fix="the steps above, which are about the table that is open now",
        )
    return form


async def wait_for(job: BackgroundJob, patience: float = PATIENCE) -> BackgroundJob:
    """Wait a moment for a job."""
    for _ in range(int(patience / 0.02)):
        if job.is_over:
            break
        await asyncio.sleep(0.02)
    return job


async def ask_worker(request: Request, task: Task) -> BackgroundJob:
    """Ask the worker of the visitor, and wait a moment for the answer; a form waits longer, or it would be lost."""
    return await wait_for(visitor_of(request).jobs.ask(task), PATIENCE if request.method == "GET" else LONG_WAIT)


def show_progress(request: Request, job: BackgroundJob) -> Response:
    """Show how far a job is, or why it failed; the page shows itself again when the job is over."""
    if job.failure is not None:
        is_reading = isinstance(job.task, Examine)  # the first task: another one has read the table before
        return render_page(request, "failed.html.j2", 422, failure=job.failure, back=None, is_reading=is_reading)
    if job.state == "cancelled":
        return redirect_to("/columns")
    return render_page(request, "working.html.j2", job=job)


async def ask_for_columns(request: Request, choices: Choices | None = None) -> BackgroundJob:
    """Ask for the columns of the table."""
    chosen = choices or visitor_of(request).choices
    return await ask_worker(request, Examine(source=source_of(request), schema=chosen.schema))


def columns_of(job: BackgroundJob) -> TableOverview:
    """Return the columns that a finished job found."""
    overview: TableOverview = job.result
    return overview


REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"  # it has no scripts


def send_private_page(page: str) -> Response:
    """Send a page that was made for print: it has no scripts, and cannot do anything here."""
    return HTMLResponse(page, headers={"content-security-policy": REPORT_POLICY})


async def go_home(request: Request) -> Response:
    """Go to the first page, or to the table that is open."""
    return redirect_to("/open" if visitor_of(request).source is None else "/columns")


async def undo(request: Request) -> Response:
    """Take back the last choice."""
    await form_of(request)
    visitor_of(request).history.undo()
    return redirect_to(page_of_form(request))


async def redo(request: Request) -> Response:
    """Make a choice again that was taken back."""
    await form_of(request)
    visitor_of(request).history.redo()
    return redirect_to(page_of_form(request))


async def change_language(request: Request) -> Response:
    """Change the language."""
    chosen = (await form_of(request)).one("language")
    if chosen in languages():
        visitor_of(request).language = chosen
    return redirect_to(page_of_form(request))
