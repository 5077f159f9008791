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

from sfumato.app.pages import columns, downloads, method, result, risks, run, session, statistics, trees
from sfumato.app.pages import open as opening
from sfumato.app.pages.frame import Settings, failed
from sfumato.app.rendering import stylesheet
from sfumato.errors import SfumatoError

KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
ROUTES = [
    Route("/", session.home),
    Route("/undo", session.undo, methods=["POST"]),
    Route("/redo", session.redo, methods=["POST"]),
    Route("/language", session.language, methods=["POST"]),
    Route("/open", opening.page),
    Route("/open/upload", opening.upload, methods=["POST"]),
    Route("/open/path", opening.path, methods=["POST"]),
    Route("/open/demo", opening.demo, methods=["POST"]),
    Route("/open/again", opening.again, methods=["POST"]),
    Route("/close", opening.close, methods=["POST"]),
    Route("/columns", columns.page),
    Route("/columns", columns.change, methods=["POST"]),
    Route("/tree", trees.page),
    Route("/tree", trees.change, methods=["POST"]),
    Route("/risks", risks.page),
    Route("/risks", risks.change, methods=["POST"]),
    Route("/statistics", statistics.page),
    Route("/statistics", statistics.change, methods=["POST"]),
    Route("/method", method.page),
    Route("/method", method.change, methods=["POST"]),
    Route("/run", run.page),
    Route("/run", run.start, methods=["POST"]),
    Route("/cancel", run.cancel, methods=["POST"]),
    Route("/jobs/{job}", run.state),
    Route("/runs", result.compared),
    Route("/runs/{number}", result.page),
    Route("/runs/{number}/back", result.back, methods=["POST"]),
    Route("/runs/{number}/report.html", downloads.report),
    Route("/runs/{number}/bundle.zip", downloads.bundle),
    Route("/runs/{number}/{name}", downloads.recipe),
]


def application(settings: Settings) -> Starlette:
    """Return the application, which the guard stands before."""
    made = Starlette(
        routes=[*ROUTES, Route("/static/{name}", _static)],
        exception_handlers={
            SfumatoError: _refused,
            HTTPException: _not_found,
            Exception: _unexpected,
        },
    )
    made.state.settings = settings
    return made


async def _static(request: Request) -> Response:
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


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, SfumatoError)
    return failed(request, error)


async def _not_found(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return failed(request, SfumatoError("There is no such page.", fix="one of the steps above"), status)


async def _unexpected(request: Request, error: Exception) -> Response:
    """Show the type and the place of an error; its message may quote a cell."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    found = f"{type(error).__name__} in {last.name}, line {last.lineno}"
    return failed(request, SfumatoError("An unexpected error occurred.", found=found), 500)
