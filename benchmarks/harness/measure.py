"""Measure a case: contenders take turns, each run is a fresh process, and medians with their spread are kept.

This process imports nothing large, because the peak memory of a process that it starts is at least its own.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.case import CASES, Case, Contender
from harness.environments import NotInstalledError, interpreter

REPETITIONS = 3
ONCE = {True: 8.0, False: 60.0}  # what takes longer (in a quick run, in a full one) is run once
MOST_IF_QUICK = 45.0  # seconds after which a contender of a quick run is stopped
STEP = Path(__file__).with_name("one_run.py")
Say = Callable[[str], None]


class FailedError(Exception):
    """A process ended with an error or was stopped, and why."""


@dataclass(kw_only=True)
class Measured:
    """The runs of a contender so far."""

    contender: Contender
    runs: list[dict[str, Any]] = field(default_factory=list)
    failure: str = ""
    longest: float = 0.0

    def record(self) -> dict[str, Any]:
        """Return the median and the spread of each figure; texts and the version as they are."""
        kept: dict[str, Any] = {"name": self.contender.name}
        if self.failure:
            kept["failure"] = self.failure
        if not self.runs:
            return kept
        texts = {name: value for name, value in self.runs[0].items() if isinstance(value, str) and value}
        figures = {
            name: {"median": statistics.median(values), "spread": max(values) - min(values)}
            for name in self.runs[0]
            if not isinstance(self.runs[0][name], str) and (values := [run[name] for run in self.runs])
        }
        return kept | {"runs": len(self.runs), "figures": figures, "texts": texts}


def measure(
    name: str, case: Case, *, is_quick: bool, deadline: float, say: Say, repetitions: int = REPETITIONS
) -> list[dict[str, Any]]:
    """Return a record for each contender of a case."""
    file = CASES / f"{name}.py"
    found = [Measured(contender=contender) for contender in case.contenders]
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs"
        inputs.mkdir()
        most = min(case.seconds, MOST_IF_QUICK) if is_quick else case.seconds
        step = Step(file=file, inputs=inputs, is_quick=is_quick, deadline=deadline, most=most)
        try:
            step.take("prepare", inputs, seed=0)
        except FailedError as error:
            return [{"name": one.contender.name, "failure": f"no table: {error}"} for one in found]
        for repetition in range(repetitions):
            for number, one in enumerate(found):
                if one.failure or (repetition and one.longest > ONCE[is_quick]):
                    continue
                _run_once(step, one, number, repetition, Path(folder), counts=case.recount is not None)
                say(f"{name}: {one.contender.name}, {one.failure or f'{one.longest:.1f} s'}")
    return [one.record() for one in found]


def _run_once(step: Step, one: Measured, number: int, repetition: int, folder: Path, *, counts: bool) -> None:
    """Run a contender and count its output again; a failure ends its runs."""
    output = folder / f"output-{number}-{repetition}"
    output.mkdir()
    begun = time.monotonic()
    try:
        python = interpreter(one.contender.rival) if one.contender.rival else Path(sys.executable)
        begun = time.monotonic()
        memory = step.take(str(number), output, seed=repetition, python=python)
        figures = json.loads((output / "figures.json").read_text()) | {"memory": memory / 1e6}
        one.longest = max(one.longest, time.monotonic() - begun)
        if counts:
            step.take("recount", output, seed=repetition)
            figures |= json.loads((output / "recount.json").read_text())
        one.runs.append(figures)
    except (NotInstalledError, FailedError) as error:
        one.failure = str(error)


@dataclass(frozen=True, kw_only=True)
class Step:
    """How a step of a case is taken in a process of its own."""

    file: Path
    inputs: Path
    is_quick: bool
    deadline: float
    most: float

    def take(self, step: str, output: Path, *, seed: int, python: Path | None = None) -> int:
        """Take a step; return the largest memory of its process, in bytes."""
        left = min(self.most, self.deadline - time.monotonic())
        if left <= 0.0:
            raise FailedError("no time left")
        words = [str(self.file), step, str(self.inputs), str(output), str(seed), *(["quick"] if self.is_quick else [])]
        ours = python is None or python == Path(sys.executable)
        hidden = set() if ours else {"PYTHONPATH"}  # a rival must not see our packages
        environment = {key: value for key, value in os.environ.items() if key not in hidden}
        with (output / "errors.txt").open("w+", encoding="utf-8", errors="replace") as errors:
            process = subprocess.Popen(
                [str(python or sys.executable), str(STEP), *words],
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=environment,
                start_new_session=True,
            )
            stopped = threading.Event()
            timer = threading.Timer(left, _stop, (process.pid, stopped))
            timer.start()
            _, status, used = os.wait4(process.pid, 0)
            timer.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
            if stopped.is_set():
                raise FailedError(f"stopped after {left:.0f} s")
            if process.returncode:
                errors.seek(0)
                raise FailedError(last_words(errors.read()) or f"ended with {process.returncode}")
        return used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _stop(process: int, stopped: threading.Event) -> None:
    """End a process that takes too long, and those that it started."""
    stopped.set()
    os.killpg(process, signal.SIGKILL)


def last_words(errors: str) -> str:
    """Return the last line of a traceback, without the paths of this machine."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    words = lines[-1].split() if lines else []
    return " ".join(word for word in words if not word.lstrip("'\"([").startswith("/"))[:200]
