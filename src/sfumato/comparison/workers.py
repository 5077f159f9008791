"""Try methods in several processes. A process that dies costs only the trial that it was working on."""

from __future__ import annotations

import contextlib
import pickle
import queue
import threading
from collections.abc import Iterator, Sequence

from sfumato.comparison.attempt import Attempt, Split, attempt
from sfumato.comparison.records import ComparedMethod
from sfumato.comparison.trials import Trial
from sfumato.processes import Child, Parent

# each process has one processor, so libraries must not start a thread for every one
SINGLE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def attempts(trials: Sequence[Trial], split: Split, jobs: int) -> Iterator[tuple[Trial, Attempt]]:
    """Yield each trial with its attempt, as they end; ``jobs`` processes, or this one if ``jobs`` is 1.

    Classes of methods that are defined outside of this package may not exist in other processes, so they are tried in
    this one.
    """
    if min(jobs, len(trials)) <= 1 or not all(type(one.method).__module__.startswith("sfumato.") for one in trials):
        yield from ((trial, attempt(trial, split)) for trial in trials)
        return
    pool = _WorkerPool(trials, pickle.dumps(split))
    try:
        pool.start(min(jobs, len(trials)))
        for _ in trials:
            yield pool.done.get()
    finally:
        pool.close()


def try_methods(parent: Parent) -> None:
    """Work in a child process: receive the split, then one trial after the other, and send each attempt."""
    split = parent.receive()
    while True:
        parent.send(attempt(parent.receive(), split))


class _WorkerPool:
    """Threads that hand out trials, each to a process of its own."""

    def __init__(self, trials: Sequence[Trial], split: bytes) -> None:
        self.done: queue.Queue[tuple[Trial, Attempt]] = queue.Queue()
        self._split = split
        self._waiting: queue.SimpleQueue[Trial] = queue.SimpleQueue()
        for trial in trials:
            self._waiting.put(trial)
        self._children: list[Child] = []
        self._closed = False

    def start(self, jobs: int) -> None:
        for _ in range(jobs):
            threading.Thread(target=self._work, daemon=True).start()

    def close(self) -> None:
        """End all processes; what they were working on is lost."""
        self._closed = True
        for child in list(self._children):
            child.end()

    def _work(self) -> None:
        child = None
        while not self._closed:
            try:
                trial = self._waiting.get_nowait()
            except queue.Empty:
                break
            child = child or self._start_child()
            result = _attempt_in(child, trial)
            if result is None:
                result, child = Attempt(row=_lost(trial, child.end()), is_final=False), None
            self.done.put((trial, result))
        if child is not None:
            child.end()

    def _start_child(self) -> Child:
        """Start a process with one thread, and give it the split."""
        child = Child(__name__, try_methods.__name__, environment=SINGLE)
        self._children.append(child)
        with contextlib.suppress(OSError):  # it died at once, which the first attempt notices
            child.send_pickled(self._split)
        return child


def _attempt_in(child: Child, trial: Trial) -> Attempt | None:
    """Let a process try a method; None if it died."""
    try:
        child.send(trial)
        result: Attempt = child.receive()
    except (OSError, EOFError, ValueError, pickle.UnpicklingError):  # no reader, half a message, a closed pipe
        return None
    return result


def _lost(trial: Trial, code: int) -> ComparedMethod:
    """Return the record of a trial whose process died."""
    return ComparedMethod(
        method=trial.method.name,
        strength=trial.strength,
        options=trial.options,
        reason=f"The process ended without a result (code {code}); the memory may not suffice. Try: fewer --jobs.",
    )
