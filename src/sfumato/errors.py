"""The exceptions and warnings of the package.

    SfumatoError
    ├── RequestError       the request is invalid                              exit code 2
    │   ├── OptionError        an option is out of range
    │   ├── SchemaError        roles, trees or the schema file do not fit the table
    │   └── StatisticError     a statistic cannot be parsed or computed
    ├── InputError         the input cannot be read                            exit code 3
    │   ├── ReadError          a file does not exist, is broken or has an unknown format
    │   ├── TableError         a table cannot be used
    │   └── OutOfMemory        the memory does not suffice for the table
    └── PromiseError       a promise could not be kept, nothing was written    exit code 1
        ├── CannotRelease      no release can meet the request
        └── GuaranteeNotMet    a release was made, but a measured guarantee does not hold
    MissingExtra           an optional package is not installed                exit code 2
    SfumatoWarning         something was guessed or changed that the user should know (a warning, not an error)

Every error says what must hold, what was found and what to try. No error quotes a cell: only names of columns, counts
and options. Errors of libraries may quote cells, so raise *after* the ``except`` block to drop the original exception.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from itertools import islice
from typing import ClassVar, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# control characters, marks that reverse the direction of text, and halves of characters: a terminal obeys the first two
# and cannot show the last; a line break stays
UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
LONGEST = 2_000  # characters of a part of an error
USER_AND_PASSWORD = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://[^\s:@/]*):\S*@")
PASSWORD = re.compile(r"(?i)\b(\w*(?:password|passwd|pwd|token|secret|access_?key))=[^&\s'\"]+")


def printable(text: str) -> str:
    """Return the text as a terminal may show it: without passwords, and with control characters escaped."""
    text = PASSWORD.sub(r"\1=***", USER_AND_PASSWORD.sub(r"\1:***@", text))
    return UNPRINTABLE.sub(lambda sign: sign[0].encode("unicode_escape").decode("ascii"), text)


def shorten(text: str) -> str:
    """Return the text with its middle left out if it is longer than anybody reads.

    >>> len(shorten("x" * 280_000)) < 3000
    True
    """
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} … ({len(text) - 2 * half:,} more characters) … {text[-half:]}"


class SfumatoError(Exception):
    """Base class of all errors: what must hold, what was found, and what to try.

    Parameters
    ----------
    message : str
        What must hold.
    found : str, optional
        What was found instead.
    fix : str, optional
        What to try.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, found: str | None = None, fix: str | None = None) -> None:
        self.message = shorten(printable(message))
        self.found = found and shorten(printable(found))
        self.fix = fix and shorten(printable(fix))
        super().__init__(self.message)

    def __str__(self) -> str:
        parts = [self.message]
        if self.found:
            parts.append(f"Found: {self.found}.")
        if self.fix:
            parts.append(f"Try: {self.fix}.")
        return " ".join(parts)


class RequestError(SfumatoError, ValueError):
    """The request is invalid."""


class OptionError(RequestError):
    """An option is out of range."""


class SchemaError(RequestError):
    """Roles, trees or the schema file do not fit the table."""


class StatisticError(RequestError):
    """A statistic cannot be parsed or computed."""


class MissingExtra(SfumatoError, ImportError):
    """An optional package is not installed."""


class InputError(SfumatoError, ValueError):
    """The input cannot be read."""

    exit_code = 3


class ReadError(InputError):
    """A file does not exist, is broken or has an unknown format."""


class TableError(InputError):
    """A table cannot be used."""


class OutOfMemory(InputError, MemoryError):
    """The memory does not suffice for the table."""


class PromiseError(SfumatoError):
    """A promise could not be kept; nothing was written."""

    exit_code = 1


class CannotRelease(PromiseError):
    """No release can meet the request."""


class GuaranteeNotMet(PromiseError):
    """A release was made, but a measured guarantee does not hold; nothing was written."""


class SfumatoWarning(UserWarning):
    """What the user should know although the work goes on. It names columns and options and quotes no cell.

    Examples
    --------
    >>> import warnings, sfumato as sf
    >>> people = {"patient_id": [101, 102, 103, 104], "age": [20, 21, 40, 41]}
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", sf.SfumatoWarning)
    ...     release = sf.Boxes(k=2).release(people, schema={"age": "quasi"})
    >>> [warning.category.__name__ for warning in caught]
    ['SfumatoWarning']
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def without_cause(
    work: Callable[[], R], kinds: type[Exception] | tuple[type[Exception], ...], named: Callable[[Exception], Exception]
) -> R:
    """Do work of a library; an error of these kinds becomes another one, which does not remember the first.

    Errors of libraries may quote cells, also through the ``__context__`` of an error that was raised meanwhile.
    """
    try:
        return work()
    except kinds as error:
        failure = named(error)
    raise failure


def items_without_cause(
    items: Iterator[R], kinds: type[Exception] | tuple[type[Exception], ...], named: Callable[[Exception], Exception]
) -> Iterator[R]:
    """Yield the items of an iterator of a library, with errors as in :func:`without_cause`."""
    while True:
        item = without_cause(lambda: list(islice(items, 1)), kinds, named)
        if not item:
            return
        yield item[0]


def warn(message: str) -> None:
    """Issue a warning that points to the line outside this package from which the call came."""
    package, level = __name__.partition(".")[0], 2  # the line that calls this function
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, SfumatoWarning, stacklevel=level)


def wrap_memory_errors(work: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that running out of memory, in any library, is an error of this package."""

    @wraps(work)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return work(*arguments, **options)
        except OutOfMemory:  # foreseen: it says what is needed
            raise
        except MemoryError:  # Arrow's and NumPy's own errors are subclasses
            pass
        raise OutOfMemory(
            "There must be enough memory for the table.",
            found="memory exhausted",
            fix="fewer rows or columns, a method that works in blocks, or a machine with more memory",
        )

    return call
