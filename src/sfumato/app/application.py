"""All addresses of the server, and what is shown when something goes wrong."""

from __future__ import annotations

import traceback
from functools import cache
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.app.pages.columns import change_roles, show_columns
from sfumato.app.pages.downloads import send_bundle, send_recipe, send_report
from sfumato.app.pages.frame import Settings, show_failure
from sfumato.app.pages.method import choose_method, show_method
from sfumato.app.pages.open import close_table, open_demo, open_path, read_again, show_tables, upload_table
from sfumato.app.pages.result import compare_runs, restore_choices, show_result
from sfumato.app.pages.risks import change_population, show_risks
from sfumato.app.pages.run import cancel_job, send_state, show_run, start_run
from sfumato.app.pages.session import change_language, go_home, redo, undo
from sfumato.app.pages.statistics import change_statistics, show_statistics
from sfumato.app.pages.trees import change_tree, show_tree
from sfumato.app.rendering import stylesheet
from sfumato.errors import SfumatoError

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
    Route("/open/again", read_again, methods=["POST"]),
    Route("/close", close_table, methods=["POST"]),
    Route("/columns", show_columns),
    Route("/columns", change_roles, methods=["POST"]),
    Route("/tree", show_tree),
    Route("/tree", change_tree, methods=["POST"]),
    Route("/risks", show_risks),
    Route("/risks", change_population, methods=["POST"]),
    Route("/statistics", show_statistics),
    Route("/statistics", change_statistics, methods=["POST"]),
    Route("/method", show_method),
    Route("/method", choose_method, methods=["POST"]),
    Route("/run", show_run),
    Route("/run", start_run, methods=["POST"]),
    Route("/cancel", cancel_job, methods=["POST"]),
    Route("/jobs/{job}", send_state),
    Route("/runs", compare_runs),
    Route("/runs/{number}", show_result),
    Route("/runs/{number}/back", restore_choices, methods=["POST"]),
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
    found = {file.name: file.read_bytes() for file in folder.iterdir() if "." + file.name.rpartition(".")[2] in KINDS}
    return found | {"look.css": stylesheet().encode()}


async def _show_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, SfumatoError)
    return show_failure(request, error)


async def _show_not_found(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return show_failure(request, SfumatoError("There is no such page.", fix="one of the steps above"), status)


async def _show_unexpected(request: Request, error: Exception) -> Response:
    """Show the type and the place of an error; its message may quote a cell."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    found = f"{type(error).__name__} in {last.name}, line {last.lineno}"
    return show_failure(request, SfumatoError("An unexpected error occurred.", found=found), 500)
