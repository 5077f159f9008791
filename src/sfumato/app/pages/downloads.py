"""What a visitor takes away: the bundle, the report, the schema, the project file, the command and Python."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from sfumato.app import recipes
from sfumato.app.pages.result import run_of
from sfumato.app.visitors import Run

REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"  # it has no scripts


async def send_report(request: Request) -> Response:
    """Show the report, or save it: ``?save=1``."""
    run = _complete_run(request)
    name = f"report-run-{run.number}.html" if request.query_params.get("save") else None
    answer = FileResponse(run.bundle / "report.html", media_type="text/html", filename=name)
    answer.headers["content-security-policy"] = REPORT_POLICY
    return answer


async def send_bundle(request: Request) -> Response:
    """Save the whole bundle as a ZIP archive."""
    run = _complete_run(request)
    archive = run.folder / "bundle.zip"
    if not archive.exists():
        await run_in_threadpool(_pack, run.bundle, archive)
    return FileResponse(archive, media_type="application/zip", filename=f"sfumato-run-{run.number}.zip")


async def send_recipe(request: Request) -> Response:
    """Save one of the files that make the run again, or all of them as an archive."""
    run, name = _complete_run(request), request.path_params["name"]
    texts = {
        "schema.toml": recipes.schema_of,
        "project.toml": recipes.project_of,
        "command.sh": lambda run: recipes.command_of(run) + "\n",
        "run.py": recipes.python_of,
    }
    if name in texts:
        return _save(texts[name](run).encode(), name, "text/plain; charset=utf-8")
    if name != "project.zip":
        raise HTTPException(404)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, made in texts.items():
            archive.writestr(file, made(run))
        for file, path in recipes.tree_files(run).items():
            archive.write(path, file)
    return _save(out.getvalue(), f"sfumato-project-{run.number}.zip", "application/zip")


def _complete_run(request: Request) -> Run:
    run = run_of(request)
    if run.made is None:
        raise HTTPException(404)
    return run


def _save(content: bytes, name: str, kind: str) -> Response:
    return Response(content, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


def _pack(folder: Path, target: Path) -> None:
    """Pack the files of a bundle, and put the archive in place when it is complete."""
    fresh = target.with_suffix(".part")
    with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, Path("out") / file.relative_to(folder))
    fresh.replace(target)
