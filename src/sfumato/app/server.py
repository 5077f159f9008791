"""The server: its addresses, its start on the loopback, and the removal of everything when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import socket
import traceback
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.app.guard import ENTRANCE, Guard
from sfumato.app.pages.frame import Settings, change_language, go_home, redo, show_failure, undo
from sfumato.app.pages.method import (
    change_statistics,
    choose_method,
    show_lattice,
    show_method,
    show_statistics,
    use_levels,
)
from sfumato.app.pages.opening import (
    change_derived,
    change_saving,
    close_table,
    open_demo,
    open_path,
    reread_table,
    save_project,
    show_preview,
    show_tables,
    upload_project,
    upload_table,
)
from sfumato.app.pages.records import show_records
from sfumato.app.pages.runs import (
    cancel_job,
    compare_runs,
    restore_choices,
    send_bundle,
    send_key,
    send_recipe,
    send_report,
    send_state,
    show_run,
    start_run,
)
from sfumato.app.pages.table import (
    change_column,
    change_population,
    change_roles,
    change_tree,
    show_column,
    show_columns,
    show_risks,
    show_tree,
)
from sfumato.app.pages.verdict import change_and_run, improve_run, send_evidence, show_result, use_improvement
from sfumato.app.rendering import stylesheet
from sfumato.app.visitors import Visitors
from sfumato.errors import OptionError, SfumatoError
from sfumato.private_folder import PrivateFolder

# All addresses of the server, and what is shown when something goes wrong.


KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
ROUTES = [
    Route("/", go_home),
    Route("/undo", undo, methods=["POST"]),
    Route("/redo", redo, methods=["POST"]),
    Route("/language", change_language, methods=["POST"]),
    Route("/open", show_tables),
    Route("/open/upload", upload_table, methods=["POST"]),
    Route("/open/path", open_path, methods=["POST"]),
    Route("/open/demo", open_demo, methods=["POST"]),
    Route("/open/again", reread_table, methods=["POST"]),
    Route("/open/preview", show_preview),
    Route("/close", close_table, methods=["POST"]),
    Route("/projects/open", upload_project, methods=["POST"]),
    Route("/project.zip", save_project),
    Route("/saving", change_saving, methods=["POST"]),
    Route("/columns", show_columns),
    Route("/columns", change_roles, methods=["POST"]),
    Route("/columns/derived", change_derived, methods=["POST"]),
    Route("/column", show_column),
    Route("/column", change_column, methods=["POST"]),
    Route("/tree", show_tree),
    Route("/tree", change_tree, methods=["POST"]),
    Route("/risks", show_risks),
    Route("/risks", change_population, methods=["POST"]),
    Route("/records", show_records),
    Route("/lattice", show_lattice),
    Route("/lattice", use_levels, methods=["POST"]),
    Route("/statistics", show_statistics),
    Route("/statistics", change_statistics, methods=["POST"]),
    Route("/method", show_method),
    Route("/method", choose_method, methods=["POST"]),
    Route("/run", show_run),
    Route("/run", start_run, methods=["POST"]),
    Route("/key", send_key, methods=["POST"]),
    Route("/cancel", cancel_job, methods=["POST"]),
    Route("/jobs/{job}", send_state),
    Route("/runs", compare_runs),
    Route("/runs/{number}", show_result),
    Route("/runs/{number}/back", restore_choices, methods=["POST"]),
    Route("/runs/{number}/next", change_and_run, methods=["POST"]),
    Route("/runs/{number}/improve", improve_run),
    Route("/runs/{number}/improve", use_improvement, methods=["POST"]),
    Route("/runs/{number}/evidence", send_evidence),
    Route("/runs/{number}/report.html", send_report),
    Route("/runs/{number}/bundle.zip", send_bundle),
    Route("/runs/{number}/{name}", send_recipe),
]


def application(settings: Settings) -> Starlette:
    """Return the application, which the guard stands before."""
    server = Starlette(
        routes=[*ROUTES, Route("/static/{name}", _send_static)],
        exception_handlers={
            SfumatoError: _show_error,
            HTTPException: _show_not_found,
            Exception: _show_unexpected,
        },
    )
    server.state.settings = settings
    return server


async def _send_static(request: Request) -> Response:
    """Return a style sheet, script or picture of the package; there are no others."""
    name = request.path_params["name"]
    content = _assets().get(name)
    if content is None:
        raise HTTPException(404)
    kind = KINDS["." + name.rpartition(".")[2]]
    return Response(content, media_type=kind, headers={"cache-control": "no-cache"})


@cache
def _assets() -> dict[str, bytes]:
    folder = files("sfumato.app") / "static"
    assets = {file.name: file.read_bytes() for file in folder.iterdir() if "." + file.name.rpartition(".")[2] in KINDS}
    return assets | {"look.css": stylesheet().encode()}


async def _show_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, SfumatoError)
    return show_failure(request, error)


async def _show_not_found(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return show_failure(request, SfumatoError("There is no such page.", fix="one of the steps above"), status)


async def _show_unexpected(request: Request, error: Exception) -> Response:
    """Show the type and the place of an error; its message may quote a cell."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} in {last.name}, line {last.lineno}"
    return show_failure(request, SfumatoError("An unexpected error occurred.", found=place), 500)


LOOPBACK = "127.0.0.1"
FOLDER_PREFIX = "sfumato-app-"  # of the private folder of a server among temporary files
UNSAVED = (
    "· the page has choices or releases that were not saved; save the project and take the bundle with you there, or "
    "press Ctrl-C again: everything is removed then"
)
LONGEST_END = 2  # seconds that open connections get at the end


@dataclass(frozen=True, kw_only=True)
class Serving:
    """How the server is started."""

    settings: Settings
    port: int = 0  # 0: any that is free
    idle_minutes: float | None = None  # without a visitor, after which the server ends
    browser: bool = True


def serve(serving: Serving, say: Callable[[str], None], warn: Callable[[str], None]) -> None:
    """Serve until the process is told to end, or nobody has come for the idle time.

    ``say`` gets the address, and ``warn`` what would be lost when Ctrl-C is pressed: only the second one ends it then.
    """
    with _listening(serving.port) as listening:
        folder = PrivateFolder.create(FOLDER_PREFIX)
        visitors = Visitors(folder.path)
        try:
            port, key = listening.getsockname()[1], secrets.token_urlsafe(24)
            guard = Guard(application(serving.settings), visitors, key=key, port=port)
            entrance = f"http://{LOOPBACK}:{port}{ENTRANCE}"

            def tell() -> None:
                say(entrance + key)
                if serving.browser:
                    _open(entrance + guard.key_for_once)

            server = AskingServer(_config(guard), visitors, warn)
            asyncio.run(_run(server, listening, visitors, serving, tell))
        finally:
            visitors.leave()
            folder.remove()


def _open(address: str) -> None:
    with contextlib.suppress(webbrowser.Error, OSError):
        webbrowser.open(address)


def _listening(port: int) -> socket.socket:
    """Return a socket on the loopback, which no other machine reaches."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reason = ""
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or "it must be from 0 to 65535"
    if reason:
        listening.close()
        raise OptionError(f"Port {port} cannot be used: {reason}.", fix="--port 0, which takes any that is free")
    return listening


class AskingServer(uvicorn.Server):
    """A server that does not end at the first Ctrl-C if work would be lost, but says so."""

    def __init__(self, config: uvicorn.Config, visitors: Visitors, warn: Callable[[str], None]) -> None:
        super().__init__(config)
        self._visitors, self._warn, self._has_asked = visitors, warn, False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ask before the first Ctrl-C ends the server; every other signal ends it."""
        if sig == signal.SIGINT and self._visitors.have_unsaved_work and not self._has_asked:
            self._has_asked = True
            self._warn(UNSAVED)
        else:
            super().handle_exit(sig, frame)


def _config(guard: Guard) -> uvicorn.Config:
    return uvicorn.Config(
        guard,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        access_log=False,  # addresses hold the key
        log_config=None,
        log_level="critical",  # messages of errors may quote a cell
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=LONGEST_END,
    )


async def _run(
    server: uvicorn.Server, listening: socket.socket, visitors: Visitors, serving: Serving, tell: Callable[[], None]
) -> None:
    watching = asyncio.create_task(_watch(server, visitors, serving.idle_minutes, tell))
    try:
        await server.serve(sockets=[listening])
    finally:
        watching.cancel()


async def _watch(server: uvicorn.Server, visitors: Visitors, minutes: float | None, tell: Callable[[], None]) -> None:
    """Tell the address as soon as the server answers, prepare later pages, and end after a time without a visitor."""
    while not server.started:
        await asyncio.sleep(0.02)
    tell()
    is_cold = True
    while is_cold or minutes is not None:
        await asyncio.sleep(0.25)
        if is_cold and visitors.have_tables:
            is_cold = False
            await asyncio.to_thread(_warm_up)
        if minutes is not None and visitors.absence > 60.0 * minutes:
            server.should_exit = True
            return


def _warm_up() -> None:
    """Import what later pages need, which takes long, while the first table is read in another process."""
    from sfumato.comparison import records  # noqa: F401
    from sfumato.methods.base import METHODS, method_class

    for name in METHODS:
        method_class(name)
