"""``sfumato app``: the web page, on the loopback, behind a key."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import typer

from sfumato.cli import console
from sfumato.errors import MissingExtra, OptionError
from sfumato.params import require_number


def open_page(
    *,
    port: int = typer.Option(0, "--port", help="Port on the loopback; 0 takes any that is free."),
    no_browser: bool = typer.Option(False, "--no-browser", help="Print the address only; open no browser."),
    folder: str | None = typer.Option(
        None, "--folder", metavar="DIR", help="Let the page open tables below this folder by their path."
    ),
    idle: float | None = typer.Option(
        None, "--idle", metavar="MINUTES", help="End after this time without a visitor; by default never."
    ),
    max_upload: str = typer.Option("1GB", "--max-upload", metavar="SIZE", help="Largest file that can be uploaded."),
) -> None:
    """Open the web page: from a table to a release without programming.

    The page is served to this machine only and needs the key in the printed address. Nothing leaves the machine.
    Uploads and releases are kept in a private temporary folder, which is removed when the command ends (Ctrl-C; asked
    twice if something was not saved).
    Needs the extra app: pip install 'sfumato[app]'.

    Example: sfumato app --folder ~/tables
    """
    from sfumato.machine import memory_from

    if idle is not None:
        require_number(idle, name="--idle", above=0.0)
    if any(find_spec(package) is None for package in ("starlette", "uvicorn")):
        raise MissingExtra("The web page needs the extra 'app'.", fix="pip install 'sfumato[app]'")
    from sfumato.app.pages.frame import Settings
    from sfumato.app.server import Serving, serve
    from sfumato.app.uploads import NamedFolder

    named = None if folder is None else NamedFolder(Path(folder).expanduser())
    if named is not None and not named.path.is_dir():
        raise OptionError("--folder must be a folder.", found="none at this path")
    settings = Settings(folder=named, most_upload=memory_from(max_upload))
    console.say("· the page is at the address below, for this machine only; Ctrl-C ends it and removes what it stored")
    serving = Serving(settings=settings, port=port, idle_minutes=idle, browser=not no_browser)
    serve(serving, lambda address: console.show_text(f"{address}\n"), console.say)
