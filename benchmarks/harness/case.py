"""What a case of the benchmarks is: who is compared on which table, and which figures are counted again.

A case is one file in ``benchmarks/cases`` that defines ``CASE``. This module and the top of each case import nothing
but the standard library, because they are loaded in the environment of every rival; what a function needs, it imports
itself.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

CASES = Path(__file__).resolve().parents[1] / "cases"


@dataclass(kw_only=True)
class Run:
    """One run of a contender, in a process of its own."""

    inputs: Path  # what `prepare` wrote
    output: Path  # where the contender leaves what is counted again
    is_quick: bool = False
    seed: int = 0  # another one in each repetition
    sections: list[tuple[float, float]] = field(default_factory=list)  # seconds on the clock, seconds of processor
    notes: dict[str, float | str] = field(default_factory=dict)

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Time a section; if there are several in a run, their median counts."""
        begun, processor = time.perf_counter(), _processor()
        yield
        self.sections.append((time.perf_counter() - begun, _processor() - processor))

    def note(self, **figures: float | str) -> None:
        """Keep what the contender itself says, such as the risk that it found."""
        self.notes |= figures


def _processor() -> float:
    """Return the seconds of processor of this process, of all its threads and of the processes it has ended."""
    return sum(use.ru_utime + use.ru_stime for use in (getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)))


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A tool with a setting."""

    name: str
    run: Callable[[Run], None]
    rival: str | None = None  # its section in rivals.toml; None runs in our own environment
    is_limit: bool = False  # neither ours nor a rival: what the machine or theory allows


@dataclass(frozen=True, kw_only=True)
class Published:
    """Figures that cannot be measured here, with where they are from."""

    name: str
    figures: Mapping[str, float]
    source: str


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A column of the page."""

    title: str
    form: str = ".3g"
    is_higher_better: bool | None = False  # None: neither, so no ratio is shown and no loss is looked for


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a contender of ours should reach: at most (or at least) ``limit``, or ``limit`` times another contender."""

    of: str
    figure: str
    limit: float
    to: str | None = None
    is_at_least: bool = False
    said: str = ""  # why it is missed, and what was tried


SECONDS = {
    "wall": Figure(title="seconds", is_higher_better=None),
    "processor": Figure(title="processor seconds"),
    "memory": Figure(title="peak memory, MB", form=".0f"),
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Contenders on the same table. The first of them is ours, and the page shows the others relative to it."""

    title: str
    about: str
    contenders: tuple[Contender, ...]
    prepare: Callable[[Run], None]
    recount: Callable[[Run], Mapping[str, float]] | None = None  # imports neither ours nor a rival
    figures: Mapping[str, Figure] = field(default_factory=dict)
    published: tuple[Published, ...] = ()
    goals: tuple[Goal, ...] = ()
    is_in_quick: bool = True
    seconds: float = 300.0  # after which a contender is stopped

    @property
    def all_figures(self) -> dict[str, Figure]:
        """Return the columns of the page, quality first."""
        return {**self.figures, **SECONDS}


def load(path: Path) -> Case:
    """Return the case that a file defines."""
    folder = str(Path(__file__).resolve().parents[1])
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = f"cases.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    case: Case = module.CASE
    return case


def all_cases() -> dict[str, Case]:
    """Return every case by the name of its file, in the order of the page."""
    return {path.stem: load(path) for path in sorted(CASES.glob("*.py"))}
