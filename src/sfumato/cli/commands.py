"""The application: all commands, error messages and exit codes.

Exit codes: 0 success, 1 a promise could not be kept (nothing was written), 2 the request is wrong, 3 the input cannot
be read. A user's mistake ends with a message and no traceback. No message quotes a cell: of an unexpected error only
the type and the location are printed, because messages of other libraries may contain cells. A closed
pipe is not an error. SIGTERM and SIGHUP end a command as Ctrl-C does: unfinished files are removed.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import typer

from sfumato.cli import app as web_page
from sfumato.cli import (
    assess,
    compare,
    console,
    demo,
    estimate,
    evidence,
    improve,
    inspect,
    recommend,
    release,
    schema,
    warm,
)
from sfumato.errors import SfumatoError, wrap_memory_errors
from sfumato.version import __version__

app = typer.Typer(
    name="sfumato",
    help="Anonymize tables of people and keep the statistics that matter accurate.",
    epilog="Start with `sfumato schema FILE > schema.toml`, edit the roles, then `sfumato recommend FILE --schema "
    "schema.toml`. `sfumato COMMAND --help` shows an example of each command.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    inspect.inspect,
    schema.schema,
    schema.tree,
    recommend.recommend,
    recommend.methods,
    release.release,
    release.run,
    estimate.verify,
    estimate.estimate,
    estimate.compose,
    assess.assess,
    improve.improve,
    improve.optimize,
    evidence.evidence,
    compare.compare,
    demo.demo,
    warm.warm,
):
    app.command(command.__name__)(command)
app.command("app")(web_page.open_page)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sfumato {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass


def main() -> NoReturn:
    """Run the command line and exit with its exit code."""
    sys.exit(run())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        with console.prepare_streams(), _ended_by_signals():
            _call(arguments)
    except SystemExit as end:
        if isinstance(end.__context__, OSError) and end.__context__.errno == errno.EPIPE:  # while help was printed
            return 0
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except SfumatoError as error:
        console.say_error(error.message, error.found, error.fix)
        if _debugging():
            console.say(_places(error))
        return error.exit_code
    except OSError as error:
        console.say_error(f"The system refused: {error.strerror or type(error).__name__}.", _place(error), None)
        return 2
    except Exception as error:
        console.say_error(
            "An unexpected error occurred.",
            f"{type(error).__name__} {_place(error)}",
            None if _debugging() else "set SFUMATO_DEBUG=1 to see where it occurred, and report it",
        )
        if _debugging():
            console.say(_places(error))
        return 1
    return 0


@wrap_memory_errors
def _call(arguments: Sequence[str] | None) -> None:
    app(args=None if arguments is None else list(arguments), prog_name="sfumato")


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise SystemExit, so that unfinished files are removed as after Ctrl-C."""
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        names = []
    before = {name: signal.signal(getattr(signal, name), _end) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _debugging() -> bool:
    return os.environ.get("SFUMATO_DEBUG", "") not in ("", "0")


def _place(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"in {last.name}, line {last.lineno}"


def _places(error: Exception) -> str:
    """Return the traceback without values of variables and without the message of the error."""
    return "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__
