"""Background jobs: one worker process per session, the worker's side and the queue on the server's side."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import re
import secrets
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sfumato.app.tasks import TableCache, Task
from sfumato.errors import SfumatoError, SfumatoWarning, printable, wrap_memory_errors
from sfumato.processes import Child, Parent

# The process that works for one visitor: it performs tasks, and sends its progress, results and failures.
#
# The page answers while it works, ending it cancels the work, and the table is in no other process.


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
    tables = TableCache(lambda share: parent.send(JobProgress(share=share)))
    while True:
        parent.send(_perform(parent.receive(), tables))


def _perform(task: Task, tables: TableCache) -> Done | Failure:
    """Perform a task; whatever it raises becomes a failure that quotes no cell.

    The file has the name that its owner gave it, not the one under which it is stored.
    """
    told = _with_shown_name(task)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", SfumatoWarning)
            result = wrap_memory_errors(task.perform)(tables)
    except SfumatoError as error:
        return Failure(message=told(error.message), found=told(error.found or ""), fix=told(error.fix or ""))
    except Exception as error:  # the message may quote a cell
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} in {last.name}, line {last.lineno}"
        return Failure(message="An unexpected error occurred.", found=place, is_final=False)
    texts = (str(one.message) for one in caught if issubclass(one.category, SfumatoWarning))
    return Done(result, tuple(dict.fromkeys(map(told, texts))))


def _with_shown_name(task: Task) -> Callable[[str], str]:
    """Return what writes the name of the file in a text as its owner knows it."""
    stored, shown = Path(task.source.path).name, task.source.name
    place = re.compile(rf"(?<![\w.-]){re.escape(stored)}(?![\w-])")
    return lambda text: place.sub(lambda _: shown, text)


State = Literal["waiting", "running", "done", "failed", "cancelled"]
KEPT = 60  # finished jobs whose results are kept
DIED = "The process that did the work ended without a result; the memory may not suffice."


class BackgroundJob:
    """A task that was asked for, and what is known about it."""

    def __init__(self, task: Task, ended: Callable[[BackgroundJob], None] | None = None) -> None:
        self.task = task
        self.name = secrets.token_hex(8)
        self.state: State = "waiting"
        self.said: list[str] = []
        self.share: float | None = None
        self.result: Any = None
        self.warnings: tuple[str, ...] = ()
        self.failure: Failure | None = None
        self.started = time.monotonic()
        self.seconds = 0.0
        self._ended = ended

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.state in ("done", "failed", "cancelled")

    @property
    def elapsed(self) -> float:
        """Seconds since the work began, or the seconds that it took."""
        return self.seconds if self.is_over else time.monotonic() - self.started

    def end(self, state: State, failure: Failure | None = None) -> None:
        """Record the end of the job, and call the function that waits for it."""
        self.seconds = time.monotonic() - self.started
        self.failure = failure
        self.state = state
        if self._ended is not None:
            self._ended(self)


class JobQueue:
    """The jobs of one visitor, done one after the other by one process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jobs: dict[Task, BackgroundJob] = {}
        self._waiting: queue.SimpleQueue[BackgroundJob | None] = queue.SimpleQueue()
        self._process: Child | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._starting = threading.Lock()

    def find(self, name: str) -> BackgroundJob | None:
        """Return the job with this name."""
        return next((job for job in list(self._jobs.values()) if job.name == name), None)

    def ask(self, task: Task, ended: Callable[[BackgroundJob], None] | None = None) -> BackgroundJob:
        """Return the job of this task: the one that was asked for before, or a new one."""
        known = self._jobs.get(task)
        if known is not None and not self._is_worth_another(known):
            return known
        for job in list(self._jobs.values()):  # cancel queued jobs whose choices are outdated
            if job.state == "waiting" and type(job.task) is type(task):
                job.end("cancelled")
        self._forget()
        job = self._jobs[task] = BackgroundJob(task, ended)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        self._waiting.put(job)
        return job

    def cancel(self, job: BackgroundJob) -> None:
        """End a job; the process that does it is killed, and the next task gets another one."""
        if job.state == "waiting":
            job.end("cancelled")
        elif job.state == "running":
            with self._starting:  # a process that is being started is killed too
                job.state = "cancelled"
                self._kill()

    def close(self) -> None:
        """End all work and wait until the process has ended."""
        with self._starting:
            self._closed = True
            self._kill()
        for job in list(self._jobs.values()):
            if job.state == "waiting":
                job.state = "cancelled"
        self._waiting.put(None)
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    @staticmethod
    def _is_worth_another(job: BackgroundJob) -> bool:
        return job.state == "cancelled" or (job.failure is not None and not job.failure.is_final)

    def _forget(self) -> None:
        over = [task for task, job in self._jobs.items() if job.is_over]
        for task in over[: max(len(over) - KEPT, 0)]:
            del self._jobs[task]

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None and not self._closed:
            if job.state == "waiting":
                job.started, job.state = time.monotonic(), "running"
                self._do(job)
        self._kill()

    def _do(self, job: BackgroundJob) -> None:
        """Send a job to the process, and read its messages until the end."""
        answer: Done | Failure | None = None
        try:
            with self._starting:
                if self._closed or job.state == "cancelled":
                    raise InterruptedError
                process = self._running()
            process.send(job.task)
            while isinstance(message := process.receive(), JobProgress):
                job.said += [message.text] if message.text else []
                job.share = job.share if message.share is None else message.share
            answer = message
        except Exception:  # it was killed or died, perhaps in the middle of a message
            self._kill()
        if job.state == "cancelled":
            job.end("cancelled")
        elif isinstance(answer, Done):
            job.result, job.warnings = answer.result, answer.warnings
            job.end("done")
        else:
            job.end("failed", answer or Failure(message=DIED, fix="a smaller table", is_final=False))

    def _running(self) -> Child:
        if self._process is None or not self._process.is_running:
            temporary = self._folder / "temporary"
            temporary.mkdir(mode=0o700, exist_ok=True)
            self._process = Child(work.__module__, work.__name__, environment={"TMPDIR": str(temporary)})
        return self._process

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()
