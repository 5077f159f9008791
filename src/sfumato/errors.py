"""The exception tree.

    SfumatoError
    ├── RequestError       the request is wrong                                exit code 2
    │   ├── OptionError        an option out of its range
    │   ├── SchemaError        roles, trees or the schema file do not fit
    │   └── StatisticError     a statistic that cannot be read or computed
    ├── InputError         the input cannot be read                            exit code 3
    │   ├── ReadError          a file that is absent, broken or of no known form
    │   └── TableError         a table that cannot be worked with
    └── PromiseError       a promise could not be kept, nothing was written    exit code 1
        ├── CannotRelease      no release can meet the request
        └── GuaranteeNotMet    a release was made, measured and found wanting
    MissingExtra           an optional package is not installed                exit code 2

Every error says what must hold, what was found and what to try. None quotes a cell: names of columns, counts and
options only. Libraries quote cells in theirs, so raise *after* the ``except`` block and let no cause carry them.
"""

from __future__ import annotations

from typing import ClassVar


class SfumatoError(Exception):
    """What must hold, what was found, what to try."""

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, found: str | None = None, fix: str | None = None) -> None:
        self.message = message
        self.found = found
        self.fix = fix
        super().__init__(message)

    def __str__(self) -> str:
        parts = [self.message]
        if self.found:
            parts.append(f"Found: {self.found}.")
        if self.fix:
            parts.append(f"Try: {self.fix}.")
        return " ".join(parts)


class RequestError(SfumatoError, ValueError):
    """The request is wrong."""


class OptionError(RequestError):
    """An option is out of its range."""


class SchemaError(RequestError):
    """Roles, trees or the schema file do not fit the table."""


class StatisticError(RequestError):
    """A statistic cannot be read or computed."""


class MissingExtra(SfumatoError, ImportError):
    """An optional package is not installed."""


class InputError(SfumatoError, ValueError):
    """The input cannot be read."""

    exit_code = 3


class ReadError(InputError):
    """A file is absent, broken or of no known form."""


class TableError(InputError):
    """A table cannot be worked with."""


class PromiseError(SfumatoError):
    """A promise could not be kept; nothing was written."""

    exit_code = 1


class CannotRelease(PromiseError):
    """No release can meet the request."""


class GuaranteeNotMet(PromiseError):
    """A release was made, measured and found wanting."""
