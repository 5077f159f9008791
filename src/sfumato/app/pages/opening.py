"""The first step: open a table, look at its first rows, say how it is read, and open or save a project."""

from __future__ import annotations

import contextlib
import datetime
from dataclasses import replace
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sfumato.app.choices import Message, Source
from sfumato.app.jobs import Failure
from sfumato.app.pages.frame import (
    Form,
    ask_for_columns,
    ask_worker,
    columns_of,
    form_of,
    position,
    redirect_to,
    render_page,
    settings_of,
    show_progress,
    source_of,
    visitor_of,
)
from sfumato.app.pages.method import offered_only
from sfumato.app.pages.table import with_role
from sfumato.app.projects import TREES, OpenedProject, SavedProjects, open_project, pack_project, unpack_project
from sfumato.app.tasks import LookAtFile, ShowFirstRows
from sfumato.app.uploads import EXPANDED, TooLarge, receive, require_expandable, safe_name, shown_name
from sfumato.app.visitors import Visitor
from sfumato.errors import OptionError, ReadError, RequestError, SfumatoError
from sfumato.job.project_files import read_project
from sfumato.job.request import Reading
from sfumato.methods.base import make_method
from sfumato.schema.columns import Role

SEPARATORS = {"": None, "comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
HEADERS = {"": None, "yes": True, "no": False}
DECIMALS = {"": None, "point": ".", "comma": ","}
PREVIEW = "/open/preview"
LARGEST_PROJECT = 20_000_000  # bytes
MOST_LINES = 10_000  # that may be skipped


async def show_tables(request: Request) -> Response:
    """Show what can be opened."""
    folder = settings_of(request).folder
    tables = None if folder is None else await run_in_threadpool(folder.tables)
    return render_page(
        request,
        "open.html.j2",
        tables=tables,
        folder=folder,
        most=settings_of(request).most_upload,
        saved=list(SavedProjects.of_user()),
        reading=reading_fields(Reading()),
    )


async def upload_table(request: Request) -> Response:
    """Take an upload: its body is the file, and the address says its name and how to read it."""
    visitor, most = visitor_of(request), settings_of(request).most_upload
    given = Form({name: [value] for name, value in request.query_params.multi_items()})
    room, source, error = visitor.room_for_table(), None, None
    try:
        _require_replaceable(visitor, given)
        target = room / safe_name(given.one("name"))
        reading = _reading(given)
        await receive(request.stream(), target, most=most, declared=request.headers.get("content-length", ""))
        await run_in_threadpool(require_expandable, target, EXPANDED * most)
        source = Source(path=str(target), name=shown_name(given.one("name")), reading=reading)
    except SfumatoError as refused:
        error = refused
    except OSError as refused:
        error = ReadError(f"The upload cannot be stored: {refused.strerror or 'the system refused'}.")
    finally:
        if source is None:
            visitor.refuse(room)
    if error is not None or source is None:
        return _refuse_upload(error)
    await run_in_threadpool(visitor.open, source)
    return JSONResponse({"next": PREVIEW})


def _refuse_upload(error: SfumatoError | None) -> Response:
    answer = JSONResponse({"error": str(error)}, 413 if isinstance(error, TooLarge) else 422)
    answer.headers["connection"] = "close"  # the rest of the body is not read
    return answer


async def open_path(request: Request) -> Response:
    """Open a table, or a project with its table, below the folder that the command names."""
    folder, form, visitor = settings_of(request).folder, await form_of(request), visitor_of(request)
    if folder is None:
        raise OptionError("The command must name a folder to open files by path.", fix="sfumato app --folder DIR")
    _require_replaceable(visitor, form)
    path, reading, project = await run_in_threadpool(folder.find, form.one("path")), _reading(form), None
    if path.suffix.lower() == ".toml":
        project = await run_in_threadpool(open_project, path.parent, visitor.folder / TREES, file=path.name)
        project = require_known(project)
        named = read_project(str(path)).input
        inside = Path(named or "").resolve()
        root = folder.path.resolve()
        path = await run_in_threadpool(
            folder.find, str(inside.relative_to(root)) if inside.is_relative_to(root) else ".."
        )
        reading = project.reading or reading
    await run_in_threadpool(require_expandable, path, EXPANDED * settings_of(request).most_upload)
    visitor.waiting = project or visitor.waiting
    source = Source(path=str(path), name=path.name, reading=reading, below=str(folder.path.resolve()))
    await run_in_threadpool(visitor.open, source)
    return redirect_to(PREVIEW)


async def open_demo(request: Request) -> Response:
    """Open the table of ``sfumato demo``."""
    visitor = visitor_of(request)
    _require_replaceable(visitor, await form_of(request))
    target = visitor.room_for_table() / "diabetes.parquet"
    source = Source(path=str(target), name=target.name, reading=Reading(), is_demo=True)
    await run_in_threadpool(visitor.open, source)
    return redirect_to(PREVIEW)


async def close_table(request: Request) -> Response:
    """Forget the table, and remove what was stored."""
    visitor = visitor_of(request)
    _require_replaceable(visitor, await form_of(request))
    with contextlib.suppress(OSError):
        await run_in_threadpool(visitor.forget)
    return redirect_to("/open")


def _require_replaceable(visitor: Visitor, form: Form) -> None:
    """Raise if work would be lost, and the visitor did not say that it may be."""
    if visitor.has_unsaved_work and not form.one("replace"):
        raise RequestError(
            "The open table has choices or releases that were not saved. They would be removed.",
            fix="save the project and take the bundle with you, or tick that they may be removed",
        )


# The first rows, and how the file is read.


async def show_preview(request: Request) -> Response:
    """Show the first rows with their kinds, the file as it is, and how it is read; why, if it cannot be read."""
    visitor, source = visitor_of(request), source_of(request)
    look = await ask_worker(request, LookAtFile(source=source))
    rows = await ask_worker(request, ShowFirstRows(source=source)) if look.is_over else look
    if not rows.is_over:
        return show_progress(request, rows)
    failure: Failure | None = rows.failure
    saved = None if visitor.saving else await run_in_threadpool(_find_saved, source)
    return render_page(
        request,
        "preview.html.j2",
        422 if failure else 200,
        first=look.result,
        found=rows.result,
        failure=failure,
        warnings=rows.warnings,
        reading=reading_fields(source.reading),
        saved=saved,
    )


def _find_saved(source: Source) -> str | None:
    """Return the mark of the saved project of a table; None if there is none."""
    saved = SavedProjects.of_user()
    if next(iter(saved), None) is None:  # the table need not be read
        return None
    with contextlib.suppress(OSError):
        found = saved.of_table(Path(source.path))
        return found.mark if saved.find(found.mark) else None
    return None


async def reread_table(request: Request) -> Response:
    """Read the same table in another way; choices and runs stay."""
    form, source = await form_of(request), source_of(request)
    reading = _reading(form)
    visitor_of(request).reread(replace(source, reading=replace(reading, derive=source.reading.derive)))
    return redirect_to(PREVIEW)


def reading_fields(reading: Reading) -> dict[str, str]:
    """Return how a file is read as the fields of a form."""

    def key(words: dict[str, object], value: object) -> str:
        return next((word for word, one in words.items() if one == value), "")

    return {
        "separator": key(dict(SEPARATORS), reading.separator),
        "header": key(dict(HEADERS), reading.header),
        "decimal": key(dict(DECIMALS), reading.decimal),
        "encoding": reading.encoding or "",
        "missing": ", ".join(reading.missing),
        "sheet": reading.sheet or "",
        "skip": "" if reading.skip is None else str(reading.skip),
        "header_rows": "" if reading.header_rows is None else str(reading.header_rows),
    }


def _reading(form: Form) -> Reading:
    """Return how to read a text file, from the fields of a form."""
    return Reading(
        separator=SEPARATORS.get(form.one("separator")),
        encoding=form.one("encoding") or None,
        decimal=DECIMALS.get(form.one("decimal")),
        missing=tuple(one.strip() for one in form.one("missing").split(",") if one.strip()),
        header=HEADERS.get(form.one("header")),
        sheet=form.one("sheet") or None,
        skip=_lines(form, "skip") or None,
        header_rows=_lines(form, "header_rows") or None,
    )


def _lines(form: Form, name: str) -> int | None:
    number = form.number(name)
    if number is not None and number > MOST_LINES:
        raise RequestError("So many lines cannot be left out.", found=f"{number:,}", fix=f"at most {MOST_LINES:,}")
    return number


# Derived columns: an age in place of a birth date, a year, steps of a number, the first characters.


async def change_derived(request: Request) -> Response:
    """Add a column that is computed from another one, or remove one; the table is read again, and choices stay."""
    from sfumato.sources.derived_columns import DerivedColumn

    job, form, visitor, source = await ask_for_columns(request), await form_of(request), *_table_of(request)
    if job.state != "done":
        return redirect_to("/columns")
    rules, action = list(source.reading.derive), form.one("action")
    if action.startswith("remove:"):
        place = position(action.removeprefix("remove:"), len(rules))
        rules = [rule for number, rule in enumerate(rules) if number != place]
    else:
        columns = columns_of(job).schema.columns
        chosen = form.positions("column", len(columns))
        if not chosen or "`" in form.one("name") + columns[chosen[0]].name:
            raise RequestError("A derived column needs a column, and a name without backticks.")
        column = columns[chosen[0]]
        name = form.one("name") or (f"{column.name}_age" if form.one("function") == "years" else column.name)
        rule = DerivedColumn(name=name, function=form.one("function"), column=column.name, argument=_argument(form))
        rules.append(str(DerivedColumn.of(str(rule))))
        if form.one("remove") and name != column.name:
            message = Message("{column} in place of {other}", {"column": name, "other": column.name})
            schema = with_role(visitor.choices.schema, [column.name], Role.IDENTIFIER)
            visitor.history.change(message, schema=schema)
    changed = replace(source, reading=replace(source.reading, derive=tuple(rules)))
    trial = await ask_worker(request, ShowFirstRows(source=replace(changed, attempt=source.attempt + 1)))
    if trial.failure is not None:
        raise RequestError(trial.failure.message, found=trial.failure.found, fix=trial.failure.fix)
    visitor.reread(changed)
    return redirect_to("/columns")


def _argument(form: Form) -> str:
    """Return what a rule needs besides its column: the day of an age is today by default, as the field shows."""
    given = form.one("argument")
    return given or (datetime.date.today().isoformat() if form.one("function") == "years" else "")


def _table_of(request: Request) -> tuple[Visitor, Source]:
    return visitor_of(request), source_of(request)


# Projects: opened from a file, saved as one, or saved after each change.


async def save_project(request: Request) -> Response:
    """Save the choices as a project: an archive that this page and the command line open."""
    visitor, source = _table_of(request)
    content = pack_project(source, visitor.choices, visitor.folder)
    visitor.saved_changes = visitor.history.changes
    given = {"content-disposition": 'attachment; filename="sfumato-project.zip"'}
    return Response(content, media_type="application/zip", headers=given)


async def upload_project(request: Request) -> Response:
    """Open a project that was sent: for the table that is open, or for the next one."""
    visitor, error, project = visitor_of(request), None, None
    room = visitor.room("project")
    try:
        file = room / "sent"
        declared = request.headers.get("content-length", "")
        await receive(request.stream(), file, most=LARGEST_PROJECT, declared=declared)
        project = await run_in_threadpool(_opened, file, visitor)
    except SfumatoError as refused:
        error = refused
    finally:
        visitor.refuse(room)
    if project is None:
        return _refuse_upload(error)
    if visitor.source is None:
        visitor.waiting = project
        return JSONResponse({"next": "/open"})
    await run_in_threadpool(_take, visitor, project)
    return JSONResponse({"next": PREVIEW})


def _opened(file: Path, visitor: Visitor) -> OpenedProject:
    unpack_project(file.read_bytes(), file.parent)
    return require_known(open_project(file.parent, visitor.folder / TREES))


def _take(visitor: Visitor, project: OpenedProject) -> None:
    visitor.take(project)
    visitor.opened += 1


def require_known(project: OpenedProject) -> OpenedProject:
    """Return the project without options that the page does not offer; raise if its method cannot be made."""
    choices = project.choices
    options = offered_only(choices.method, choices.options)
    if choices.method is not None:
        make_method(choices.method, **options)
    return replace(project, choices=replace(choices, options=options))


async def change_saving(request: Request) -> Response:
    """Save each change in the private folder from now on, stop that, continue a saved project, or forget one."""
    form, visitor, saved = await form_of(request), visitor_of(request), SavedProjects.of_user()
    action, mark = form.one("action"), form.one("mark")
    if action == "allow":
        visitor.saving = await run_in_threadpool(saved.of_table, Path(source_of(request).path))
        visitor.save()
    elif action == "stop":
        visitor.saving = None
    elif action == "forget":
        await run_in_threadpool(saved.forget, mark)
        if visitor.saving is not None and visitor.saving.mark == mark:
            visitor.saving = None
    elif action == "continue" and (found := saved.find(mark)) is not None:
        source_of(request)
        project = require_known(await run_in_threadpool(open_project, found.folder, visitor.folder / TREES))
        visitor.saving = found
        await run_in_threadpool(_take, visitor, project)
    return redirect_to("/open" if action != "continue" else PREVIEW)
