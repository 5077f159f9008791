"""What every page offers: undo, redo and the language."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sfumato.app.pages.frame import form_of, page_of_form, redirect_to, visitor_of
from sfumato.app.texts import languages


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
