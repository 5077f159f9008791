"""Try methods in several processes. A process that dies costs only the trial that it was working on."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import sfumato
from sfumato.comparison.attempt import Attempt, Split, attempt
from sfumato.comparison.records import ComparedMethod
from sfumato.comparison.trials import Trial

SINGLE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def attempts(trials: Sequence[Trial], split: Split, jobs: int) -> Iterator[tuple[Trial, Attempt]]:
    """Yield each trial with its attempt, as they end; ``jobs`` processes, or this one if ``jobs`` is 1.

    Classes of methods that are defined outside of this package may not exist in other processes, so they are tried in
    this one.
    """
    if min(jobs, len(trials)) <= 1 or not all(type(one.method).__module__.startswith("sfumato.") for one in trials):
        yield from ((trial, attempt(trial, split)) for trial in trials)
        return
    crew = _Crew(trials, pickle.dumps(split))
    try:
        crew.start(min(jobs, len(trials)))
        for _ in trials:
            yield crew.done.get()
    finally:
        crew.dismiss()


class _Crew:
    """Threads that hand out trials, each to a process of its own."""

    def __init__(self, trials: Sequence[Trial], split: bytes) -> None:
        self.split = split
        self.done: queue.Queue[tuple[Trial, Attempt]] = queue.Queue()
        self._waiting: queue.SimpleQueue[Trial] = queue.SimpleQueue()
        for trial in trials:
            self._waiting.put(trial)
        self._processes: list[_Process] = []
        self._over = False

    def start(self, jobs: int) -> None:
        for _ in range(jobs):
            threading.Thread(target=self._work, daemon=True).start()

    def dismiss(self) -> None:
        """End all processes; what they were working on is lost."""
        self._over = True
        for process in list(self._processes):
            process.end()

    def _work(self) -> None:
        process = None
        while not self._over:
            try:
                trial = self._waiting.get_nowait()
            except queue.Empty:
                break
            if process is None:
                process = _Process.started(self.split)
                self._processes.append(process)
            made = process.attempt(trial)
            if made is None:
                made = Attempt(row=_lost(trial, process.end()), is_final=False)
                process = None
            self.done.put((trial, made))
        if process is not None:
            process.end()


@dataclass(frozen=True)
class _Process:
    """A running worker."""

    running: subprocess.Popen[bytes]

    @classmethod
    def started(cls, split: bytes) -> _Process:
        """Start a worker with one thread, and give it the split."""
        folders = [str(Path(sfumato.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        running = subprocess.Popen(
            [sys.executable, "-m", "sfumato.comparison.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | SINGLE | {"PYTHONPATH": os.pathsep.join(folders)},
        )
        with contextlib.suppress(OSError):  # it died at once, which the first attempt notices
            assert running.stdin is not None
            running.stdin.write(split)
            running.stdin.flush()
        return cls(running)

    def attempt(self, trial: Trial) -> Attempt | None:
        """Let the worker try; None if it died."""
        assert self.running.stdin is not None
        assert self.running.stdout is not None
        try:
            self.running.stdin.write(pickle.dumps(trial))
            self.running.stdin.flush()
            line = self.running.stdout.readline()
            found = json.loads(line) if line else None
        except (OSError, ValueError):  # a pipe without a reader, half a line
            return None
        return found and Attempt(row=ComparedMethod.from_plain(found["row"]), is_final=found["is_final"])

    def end(self) -> int:
        """Kill the worker and return its exit code."""
        with contextlib.suppress(OSError):
            self.running.kill()
        code = self.running.wait()
        for pipe in (self.running.stdin, self.running.stdout):
            with contextlib.suppress(OSError):  # what was still to be written has no reader
                if pipe is not None:
                    pipe.close()
        return code


def _lost(trial: Trial, code: int) -> ComparedMethod:
    """Return the record of a trial whose process died."""
    return ComparedMethod(
        method=trial.method.name,
        strength=trial.strength,
        options=trial.options,
        reason=f"The process ended without a result (code {code}); the memory may not suffice. Try: fewer --jobs.",
    )
