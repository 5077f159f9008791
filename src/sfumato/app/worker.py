"""The process that works for one visitor: it performs tasks, and sends its progress, results and failures.

The page answers while it works, ending it cancels the work, and the table is in no other process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import traceback
import warnings
from dataclasses import dataclass
from typing import Any

from sfumato.app.tasks import Held, Task
from sfumato.errors import SfumatoError, SfumatoWarning, names_memory_errors, printable
from sfumato.processes import Parent

NICENESS = 10  # the page answers first


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The error that is sent to the browser; an unexpected one is reduced to its type and location."""

    message: str
    found: str | None = None
    fix: str | None = None
    is_final: bool = True  # another attempt would give the same


@dataclass(frozen=True, kw_only=True)
class JobProgress:
    """What the worker is doing: a line of the log, and the share of a search that is done."""

    text: str = ""
    share: float | None = None


@dataclass(frozen=True)
class Done:
    """The result of a task, and the warnings that were given meanwhile."""

    result: Any
    warnings: tuple[str, ...] = ()


class _SendToVisitor(logging.Handler):
    """Sends the log of the library to the visitor; it names columns and counts, and no cell."""

    def __init__(self, parent: Parent) -> None:
        super().__init__(logging.INFO)
        self.parent = parent

    def emit(self, record: logging.LogRecord) -> None:
        self.parent.send(JobProgress(text=printable(record.getMessage())))


def work(parent: Parent) -> None:
    """Perform the tasks that the server sends, as long as it lives."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(NICENESS)
    log = logging.getLogger("sfumato")
    log.addHandler(_SendToVisitor(parent))
    log.setLevel(logging.INFO)
    tables = Held(lambda share: parent.send(JobProgress(share=share)))
    while True:
        parent.send(_perform(parent.receive(), tables))


def _perform(task: Task, tables: Held) -> Done | Failure:
    """Perform a task; whatever it raises becomes a failure that quotes no cell."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", SfumatoWarning)
            result = names_memory_errors(task.perform)(tables)
    except SfumatoError as error:
        return Failure(message=error.message, found=error.found, fix=error.fix)
    except Exception as error:  # the message may quote a cell
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} in {last.name}, line {last.lineno}"
        return Failure(message="An unexpected error occurred.", found=place, is_final=False)
    texts = (str(one.message) for one in caught if issubclass(one.category, SfumatoWarning))
    return Done(result, tuple(dict.fromkeys(texts)))
