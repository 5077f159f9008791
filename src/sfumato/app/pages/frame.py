"""What all pages share: the visitor of a request, forms, answers of the worker, and rendering."""

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
from sfumato.app.folders import NamedFolder
from sfumato.app.jobs import Job
from sfumato.app.rendering import render
from sfumato.app.tasks import Examine, Examined, Task
from sfumato.app.visitors import Visitor
from sfumato.app.worker import Failure
from sfumato.errors import RequestError, SfumatoError

PATIENCE = 0.4  # seconds that a page waits for its numbers before it shows progress
PAGE = re.compile(r"/(open|columns|tree|risks|statistics|method|run|runs|runs/\d+)")  # addresses that show a page
LARGEST_FORM = 8_000_000  # bytes: a tree of many values


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the command gave to the server."""

    folder: NamedFolder | None = None
    most_upload: int = 10**9


def visitor_of(request: Request) -> Visitor:
    """Return the visitor, whom the guard has found."""
    found: Visitor = request.scope["visitor"]
    return found


def settings_of(request: Request) -> Settings:
    """Return what the command gave to the server."""
    found: Settings = request.app.state.settings
    return found


def source_of(request: Request) -> Source:
    """Return the table of the visitor; the pages after the first need one."""
    source = visitor_of(request).source
    if source is None:
        raise RequestError("Open a table first.")
    return source


def shown(request: Request, template: str, status: int = 200, **context: Any) -> Response:
    """Show a page."""
    return HTMLResponse(render(template, visitor_of(request), request.url.path, **context), status)


def go(path: str) -> Response:
    """Continue on another page."""
    return RedirectResponse(path, 303)


def here(request: Request) -> str:
    """Return the page that a form was on; only one of ours, so that nothing leads to another site."""
    found = urlsplit(request.headers.get("referer", ""))
    if not PAGE.fullmatch(found.path):
        return "/"
    return found.path + (f"?{found.query}" if found.query else "")


def failed(request: Request, error: SfumatoError, status: int = 400) -> Response:
    """Show an error: what must hold, what was found, and what to try."""
    failure = Failure(message=error.message, found=error.found, fix=error.fix)
    return shown(request, "failed.html.j2", status, failure=failure, back=here(request))


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
        text = self.one(name).replace(",", "").replace("_", "").replace(" ", "")
        if not text:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise RequestError(f"{name} must be a whole number.", found="something else")
        return int(text)

    def positions(self, name: str, size: int) -> list[int]:
        """Return a field with positions of columns; those that do not exist are left out."""
        return [int(text) for text in self.all(name) if text.isascii() and text.isdigit() and int(text) < size]


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
    return Form(fields)


async def ended(job: Job, patience: float = PATIENCE) -> Job:
    """Wait a moment for a job."""
    for _ in range(int(patience / 0.02)):
        if job.is_over:
            break
        await asyncio.sleep(0.02)
    return job


async def asked(request: Request, task: Task) -> Job:
    """Ask the worker of the visitor, and wait a moment for the answer."""
    return await ended(visitor_of(request).desk.ask(task))


def working(request: Request, job: Job) -> Response:
    """Show how far a job is, or why it failed; the page shows itself again when the job is over."""
    if job.failure is not None:
        return shown(request, "failed.html.j2", 422, failure=job.failure, back=None)
    if job.state == "cancelled":
        return go("/columns")
    return shown(request, "working.html.j2", job=job)


async def examined(request: Request, choices: Choices | None = None) -> Job:
    """Ask for the columns of the table."""
    chosen = choices or visitor_of(request).choices
    return await asked(request, Examine(source=source_of(request), schema=chosen.schema))


def examined_by(job: Job) -> Examined:
    """Return the columns that a finished job found."""
    found: Examined = job.result
    return found
