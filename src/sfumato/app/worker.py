"""The process that works for one visitor: ``python -m sfumato.app.worker``.

It reads pickled tasks from standard input, and writes pickled messages to standard output: what it is doing, and at
the end a result or a failure. So the page answers while it works, ending it cancels the work, and the table is in no
other process. It ends when its standard input does, also while it works, as it does when the server dies.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import queue
import sys
import threading
import traceback
import warnings
from dataclasses import dataclass
from typing import Any, BinaryIO

from sfumato.app.tasks import Held, Task
from sfumato.errors import SfumatoError, SfumatoWarning, names_memory_errors, printable

NICENESS = 10  # the page answers first


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why there is no result, without a cell: of an unexpected error only its type and place."""

    message: str
    found: str | None = None
    fix: str | None = None
    is_final: bool = True  # another attempt would give the same


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What the worker is doing: a line of the log, and the share of a search that is done."""

    text: str = ""
    share: float | None = None


@dataclass(frozen=True)
class Done:
    """The result of a task, and the warnings that were given meanwhile."""

    result: Any
    warnings: tuple[str, ...] = ()


Message = Failure | Progress | Done


class _ToVisitor(logging.Handler):
    """Sends the log of the library to the visitor; it names columns and counts, and no cell."""

    def __init__(self, answers: _Answers) -> None:
        super().__init__(logging.INFO)
        self.answers = answers

    def emit(self, record: logging.LogRecord) -> None:
        self.answers.send(Progress(text=printable(record.getMessage())))


class _Answers:
    """The way back to the server."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._out.write(pickle.dumps(message))
            self._out.flush()


def main() -> None:
    """Do tasks until there are no more."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    with contextlib.suppress(OSError, AttributeError):
        os.nice(NICENESS)
    answers = _Answers(out)
    log = logging.getLogger("sfumato")
    log.addHandler(_ToVisitor(answers))
    log.setLevel(logging.INFO)
    tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(tasks,), daemon=True).start()
    held = Held(lambda share: answers.send(Progress(share=share)))
    while True:
        answers.send(_done(tasks.get(), held))


def _listen(tasks: queue.SimpleQueue[Task]) -> None:
    """Pass tasks on; end the process, whatever it is doing, when the server has gone."""
    with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
        while True:
            tasks.put(pickle.load(sys.stdin.buffer))
    os._exit(0)


def _done(task: Task, held: Held) -> Done | Failure:
    """Do a task; whatever it raises becomes a failure that quotes no cell."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", SfumatoWarning)
            result = names_memory_errors(task.perform)(held)
    except SfumatoError as error:
        return Failure(message=error.message, found=error.found, fix=error.fix)
    except Exception as error:  # the message may quote a cell
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} in {last.name}, line {last.lineno}"
        return Failure(message="An unexpected error occurred.", found=place, is_final=False)
    told = (str(one.message) for one in caught if issubclass(one.category, SfumatoWarning))
    return Done(result, tuple(dict.fromkeys(told)))


if __name__ == "__main__":
    from sfumato.app.worker import main as run  # its records must be those of this module, and not of __main__

    run()
