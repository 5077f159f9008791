"""Output of the commands: results to standard output, everything else to standard error."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import UNPRINTABLE, printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult


def show(*renderables: RenderableType) -> None:
    """Print tables and texts to standard output."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 160  # files and pipes have no window width
    console = Console(highlight=False, markup=False, soft_wrap=False, width=width)
    for renderable in renderables:
        console.print(_Printable(renderable))


class _Printable:
    """A renderable whose text cannot command the terminal: control characters are shown escaped."""

    def __init__(self, renderable: RenderableType) -> None:
        self.renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        for segment in console.render(self.renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def show_json(record: Any) -> None:
    """Print a record as JSON to standard output."""
    from sfumato.report.plain_json import to_json

    sys.stdout.write(printable_json(to_json(record)) + "\n")


def printable_json(text: str) -> str:
    """Escape what JSON allows in texts but a terminal obeys or cannot show."""
    return UNPRINTABLE.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def say(text: str) -> None:
    """Print a line to standard error."""
    sys.stderr.write(printable(text) + "\n")


def say_warning(message: object) -> None:
    """Print a warning of the library to standard error."""
    say(f"warning: {message}")


def say_error(message: str, found: str | None, fix: str | None) -> None:
    """Print an error: what must hold, what was found, what to try."""
    say(f"error: {message}")
    if found:
        say(f"found: {found}")
    if fix:
        say(f"try:   {fix}")


def say_progress() -> None:
    """Print the log messages of the library while a command runs."""
    logger = logging.getLogger("sfumato")
    if not any(isinstance(handler, _Progress) for handler in logger.handlers):
        logger.addHandler(_Progress())
    logger.setLevel(logging.INFO)


class _Progress(logging.Handler):
    """A log handler that prints to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"· {record.getMessage()}")


def say_compiling() -> None:
    """Say that kernels must be compiled first, if the numba cache is empty."""
    from sfumato import kernels

    cache = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(kernels.__file__).parent)
    if not any(cache.rglob("*.nbi")):
        say("· compiling kernels; this takes about half a minute and is done once")
