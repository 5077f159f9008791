"""Output of the commands: results to standard output, everything else to standard error.

A closed pipe is not an error: the rest is not printed. A result that cannot be printed
for another reason, such as a full disk, is a :class:`CannotPrint`. A terminal that does not know a character gets a
similar one.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import UNPRINTABLE, SfumatoError, SfumatoWarning, printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

SIMILAR = {"…": "...", "–": "-", "−": "-", "·": "-", "×": "x", "÷": "/", "≥": ">=", "≤": "<=", "∞": "inf", "ℓ": "l"}


class CannotPrint(SfumatoError):
    """The results could not be printed."""


def show(*renderables: RenderableType) -> None:
    """Print tables and texts to standard output."""
    from rich.console import Console

    is_terminal = sys.stdout.isatty()
    width = None if is_terminal else 160  # files and pipes have no window width
    text = io.StringIO()
    console = Console(
        file=text, force_terminal=is_terminal, highlight=False, markup=False, soft_wrap=False, width=width
    )
    for renderable in renderables:
        console.print(_Printable(renderable))
    show_text(text.getvalue())


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
    from sfumato.report.html import to_json

    text = printable_json(to_json(record))
    show_text((text if _knows_all(sys.stdout) else _escape(text)) + "\n")


def printable_json(text: str) -> str:
    """Escape what JSON allows in texts but a terminal obeys or cannot show."""
    return UNPRINTABLE.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def show_text(text: str) -> None:
    """Print a text to standard output."""
    reason = ""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        _print_nothing_more()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        _print_nothing_more()
    if reason:
        raise CannotPrint(f"The results could not be printed: {reason}.")


@contextlib.contextmanager
def after(done: str) -> Iterator[None]:
    """Say in the error what has been done already, if the results cannot be printed."""
    reason = ""
    try:
        yield
    except CannotPrint as error:
        reason = error.message
    if reason:
        raise CannotPrint(reason, found=done, fix="another place for the output")


def say(text: str) -> None:
    """Print a line to standard error, if there is one."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(printable(text) + "\n")
        sys.stderr.flush()


@contextlib.contextmanager
def prepare_streams() -> Iterator[None]:
    """Let no character stop the output, and print warnings of this package as lines."""
    codecs.register_error("similar", _similar)
    if sys.stdout is None:  # closed by the shell: >&-
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="similar")
    with warnings.catch_warnings():
        warnings.simplefilter("always", SfumatoWarning)
        show_other = warnings.showwarning

        def show_warning(message: Any, category: type[Warning], *rest: Any, **options: Any) -> None:
            if issubclass(category, SfumatoWarning):
                say(f"warning: {message}")
            else:
                show_other(message, category, *rest, **options)

        warnings.showwarning = show_warning
        yield


def _similar(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that the terminal does not know: by a similar one, or by their number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    known = (SIMILAR.get(sign) or sign.encode("ascii", "backslashreplace").decode() for sign in unknown)
    return "".join(known), error.end


def _knows_all(stream: Any) -> bool:
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")


def _escape(text: str) -> str:
    """Return JSON text with \\u escapes for all characters that are not ASCII."""
    import json

    return json.dumps(json.loads(text), indent=2, ensure_ascii=True)


def _print_nothing_more() -> None:
    """Send further output, also what is still in the buffer, nowhere, so that no second error follows at the end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def say_error(message: str, found: str | None, fix: str | None) -> None:
    """Print an error: what must hold, what was found, what to try."""
    say(f"error: {message}")
    if found:
        say(f"found: {found}")
    if fix:
        say(f"try:   {fix}")


def say_progress(name: str = "sfumato") -> None:
    """Print the log messages of the library, or of one of its parts, while a command runs."""
    logger = logging.getLogger(name)
    if not any(isinstance(handler, _Progress) for handler in logger.handlers):
        logger.addHandler(_Progress())
    logger.setLevel(logging.INFO)


class _Progress(logging.Handler):
    """A log handler that prints to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"· {record.getMessage()}")


def say_compiling() -> None:
    """Print which kernels are compiled, and how long that took."""
    say_progress("sfumato.kernels")
    logging.getLogger("sfumato.kernels").propagate = False  # printed once, also if other messages are printed
