"""Where words go: results to standard output, everything else to standard error."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType


def show(*renderables: RenderableType) -> None:
    """Print tables and text as the result of a command."""
    from rich.console import Console

    narrow = None if sys.stdout.isatty() else 160  # what goes to a file or a pipe has no window to fit
    console = Console(highlight=False, markup=False, soft_wrap=False, width=narrow)
    for renderable in renderables:
        console.print(renderable)


def show_json(record: Any) -> None:
    """Print a record as the result of a command, for programs."""
    from sfumato.report.plain_json import to_json

    sys.stdout.write(to_json(record) + "\n")


def say(text: str) -> None:
    """Tell something beside the result."""
    sys.stderr.write(text + "\n")


def say_error(message: str, found: str | None, fix: str | None) -> None:
    """What must hold, what was found, what to try."""
    say(f"error: {message}")
    if found:
        say(f"found: {found}")
    if fix:
        say(f"try:   {fix}")


def say_progress() -> None:
    """Let the library's own progress be told while a command runs."""
    logger = logging.getLogger("sfumato")
    if not any(isinstance(handler, _Progress) for handler in logger.handlers):
        logger.addHandler(_Progress())
    logger.setLevel(logging.INFO)


class _Progress(logging.Handler):
    """Log records as lines on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"· {record.getMessage()}")


def say_compiling() -> None:
    """Tell why the first run takes longer than later ones: compiled kernels are kept where numba keeps its cache."""
    from sfumato import kernels

    kept = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(kernels.__file__).parent)
    if not any(kept.rglob("*.nbi")):
        say("· compiling kernels once: this takes some seconds, and later runs do without")
