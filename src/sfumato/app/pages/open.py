"""The first step: upload a table, open one below the named folder, or try the demo."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sfumato.app.choices import Source
from sfumato.app.pages.frame import Form, form_of, redirect_to, render_page, settings_of, visitor_of
from sfumato.app.uploads import EXPANDED, TooLarge, receive, require_expandable, safe_name, shown_name
from sfumato.errors import OptionError, ReadError, SfumatoError
from sfumato.project.reading import Reading

SEPARATORS = {"": None, "comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
HEADERS = {"": None, "yes": True, "no": False}
DECIMALS = {"": None, "point": ".", "comma": ","}


async def show_tables(request: Request) -> Response:
    """Show what can be opened."""
    folder = settings_of(request).folder
    tables = None if folder is None else await run_in_threadpool(folder.tables)
    most = settings_of(request).most_upload
    return render_page(request, "open.html.j2", tables=tables, folder=folder, most=most)


async def upload_table(request: Request) -> Response:
    """Take an upload: its body is the file, and the address says its name and how to read it."""
    visitor, most = visitor_of(request), settings_of(request).most_upload
    given = Form({name: [value] for name, value in request.query_params.multi_items()})
    room, source, error = visitor.room_for_table(), None, None
    try:
        target = room / safe_name(given.one("name"))
        await receive(request.stream(), target, most=most, declared=request.headers.get("content-length", ""))
        await run_in_threadpool(require_expandable, target, EXPANDED * most)
        source = Source(path=str(target), name=shown_name(given.one("name")), reading=_reading(given))
    except SfumatoError as refused:
        error = refused
    except OSError as refused:
        error = ReadError(f"The upload cannot be stored: {refused.strerror or 'the system refused'}.")
    finally:
        if source is None:
            visitor.refuse(room)
    if error is not None or source is None:
        status = 413 if isinstance(error, TooLarge) else 422
        answer = JSONResponse({"error": str(error)}, status)
        answer.headers["connection"] = "close"  # the rest of the body is not read
        return answer
    await run_in_threadpool(visitor.open, source)
    return JSONResponse({"next": "/columns"})


async def open_path(request: Request) -> Response:
    """Open a file below the folder that the command names."""
    folder, form = settings_of(request).folder, await form_of(request)
    if folder is None:
        raise OptionError("The command must name a folder to open files by path.", fix="sfumato app --folder DIR")
    found = await run_in_threadpool(folder.find, form.one("path"))
    await run_in_threadpool(require_expandable, found, EXPANDED * settings_of(request).most_upload)
    source = Source(path=str(found), name=found.name, reading=_reading(form), below=str(folder.path.resolve()))
    await run_in_threadpool(visitor_of(request).open, source)
    return redirect_to("/columns")


async def open_demo(request: Request) -> Response:
    """Open the table of ``sfumato demo``."""
    visitor = visitor_of(request)
    target = visitor.room_for_table() / "diabetes.parquet"
    source = Source(path=str(target), name=target.name, reading=Reading(), is_demo=True)
    await run_in_threadpool(visitor.open, source)
    return redirect_to("/columns")


async def read_again(request: Request) -> Response:
    """Read the same table in another way."""
    visitor, form = visitor_of(request), await form_of(request)
    if visitor.source is not None:
        known = visitor.source
        source = replace(known, reading=_reading(form))
        await run_in_threadpool(visitor.open, source)
    return redirect_to("/columns")


async def close_table(request: Request) -> Response:
    """Forget the table, and remove what was stored."""
    visitor = visitor_of(request)
    with contextlib.suppress(OSError):
        await run_in_threadpool(visitor.forget)
    return redirect_to("/open")


def _reading(form: Form) -> Reading:
    """Return how to read a text file, from the fields of a form."""
    missing = form.one("missing")
    return Reading(
        separator=SEPARATORS.get(form.one("separator")),
        encoding=form.one("encoding") or None,
        decimal=DECIMALS.get(form.one("decimal")),
        missing=(missing,) if missing else (),
        header=HEADERS.get(form.one("header")),
        sheet=form.one("sheet") or None,
    )
