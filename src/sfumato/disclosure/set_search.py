"""The search for minimal sets of columns, complete or within a given time.

A complete search visits every set after its subsets in one walk. A search within a given time visits all sets of one
column, then all sets of two columns, and so on: whenever it ends, all sets of up to some number of columns are covered.
Within one size it begins with the columns that have the most values, because these identify people most.

A set is *covered* if it was examined or contains a set that was found. Sets that are skipped are counted by binomial
coefficients, so that the number of sets left is exact.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.disclosure.column_sets import ColumnSet, RowGroups, number_of_sets, walk
from sfumato.table.table import Coded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

log = logging.getLogger("sfumato")

Progress = Callable[[int, int], None]  # called with the number of sets visited and the largest possible number

LOG_SECONDS = 5.0  # between two messages about the progress


class MinimalSets:
    """Sets of which none contains another, stored as bit masks."""

    def __init__(self, columns: int) -> None:
        self._with: list[list[int]] = [[] for _ in range(columns)]  # the sets that contain each column

    def add(self, members: tuple[int, ...]) -> None:
        """Store a set."""
        for member in members:
            self._with[member].append(_bits(members))

    def covers(self, members: tuple[int, ...]) -> bool:
        """Return whether the set contains a stored set.

        Only stored sets with its newest member are checked: with any other, its parent would not have been visited.
        """
        stored = self._with[members[-1]]
        if not stored:
            return False
        bits = _bits(members)
        return any(bits & one == one for one in stored)


def _bits(members: tuple[int, ...]) -> int:
    return sum(1 << member for member in members)


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Which sets a search has covered, and in what time."""

    visited: int  # sets that were examined
    covered_size: int  # all sets of up to this many columns are covered
    sets_left: int  # sets of up to max_size columns that are not covered
    seconds: float  # time spent

    @property
    def seconds_left(self) -> float:
        """Time for the sets that are left, if none is skipped and each takes as long as those visited so far."""
        return self.seconds / max(self.visited, 1) * self.sets_left if self.sets_left else 0.0


class _TimeIsUp(Exception):
    pass


@dataclass(kw_only=True)
class SetSearch:
    """A search over the sets of up to ``max_size`` numbered columns.

    ``judge`` examines a set and returns whether it belongs to the result; the supersets of such a set are skipped.
    """

    columns: Sequence[Coded]
    wanted: NDArray[np.bool_]
    max_size: int
    judge: Callable[[ColumnSet], bool]
    progress: Progress | None = None
    deadline: float = math.inf  # on the clock of time.perf_counter
    visited: int = 0
    covered: int = 0
    covered_size: int = 0
    minimal: MinimalSets = field(init=False)

    def __post_init__(self) -> None:
        self.minimal = MinimalSets(len(self.columns))
        self.total = number_of_sets(len(self.columns), self.max_size)
        self._survivors = 0  # sets of the current sizes that were examined and not found
        self._start = self._logged = time.perf_counter()

    def run(self) -> Coverage:
        """Search all sets, or as many as possible before the deadline."""
        try:
            if math.isinf(self.deadline):
                self._visit_sizes(1, self.max_size)
            else:
                self._visit_sizes_one_by_one()
        except _TimeIsUp:
            pass
        left = self.total - self.covered
        return Coverage(
            visited=self.visited,
            covered_size=self.max_size if not left else self.covered_size,
            sets_left=left,
            seconds=time.perf_counter() - self._start,
        )

    def _visit_sizes_one_by_one(self) -> None:
        for size in range(1, self.max_size + 1):
            self._survivors = 0
            self._visit_sizes(size, size)
            self.covered_size = size
            if not self._survivors:  # every larger set contains a set that was found
                self.covered = self.total
                return

    def _visit_sizes(self, smallest: int, largest: int) -> None:
        """Examine the sets of these sizes; smaller ones were examined before."""

        def skip(members: tuple[int, ...]) -> bool:
            self._look_at_clock()
            if not self.minimal.covers(members):
                return False
            self.covered += _sets_below(members, smallest, largest)
            return True

        def visit(one: ColumnSet) -> bool:
            if len(one.members) < smallest:
                return True
            self._count_visit()
            if not self.judge(one):
                self.covered += 1
                self._survivors += 1
                return True
            self.minimal.add(one.members)
            self.covered += _sets_below(one.members, smallest, largest)
            return False

        timed = not math.isinf(self.deadline)
        walk(
            self.columns,
            wanted=self.wanted,
            max_size=largest,
            skip=skip,
            visit=visit,
            many_values_first=timed,
            limited=not timed,
        )

    def _count_visit(self) -> None:
        self.visited += 1
        if self.progress is not None:
            self.progress(self.visited, self.total)

    def _look_at_clock(self) -> None:
        now = time.perf_counter()
        if now > self.deadline:
            raise _TimeIsUp
        if now - self._logged > LOG_SECONDS:
            self._logged = now
            left = self.total - self.covered
            log.info(
                "searching sets of columns: %s visited, at most %s left (%s at this pace)",
                f"{self.visited:,}",
                short_number(left),
                duration((now - self._start) / max(self.visited, 1) * left),
            )


def compile_kernels() -> None:
    """Compile the kernels of the walk, so that a time limit does not include it."""
    from sfumato.kernels.jit import always_compiled

    pair = Coded(np.zeros(2, np.int32), pa.nulls(1))
    with always_compiled():
        single = ColumnSet((0,), pair, RowGroups.whole(np.ones(2, dtype=bool)), is_last=False)
        _ = single.groups.alone_after(pair)


@cache
def _combinations(number: int, least: int, most: int) -> int:
    return sum(math.comb(number, size) for size in range(max(least, 0), min(most, number) + 1))


def _sets_below(members: tuple[int, ...], smallest: int, largest: int) -> int:
    """Return the number of sets of these sizes that the walk builds from a set, including the set itself."""
    size, below = len(members), members[-1]
    if smallest <= size + 1 and largest >= size + below:
        return (1 << below) - (smallest > size)
    return _combinations(below, smallest - size, largest - size)


def duration(seconds: float) -> str:
    """Return a time as text, in the largest fitting unit."""
    if seconds < 90:
        return f"about {max(seconds, 1):.0f} s"
    for unit, length in (("min", 60.0), ("h", 3600.0), ("days", 86400.0)):
        if seconds / length < 100:
            return f"about {seconds / length:.0f} {unit}"
    return "more than 100 days"


def short_number(number: int) -> str:
    """Return a whole number with thousands separators, or as a power of ten if it is very long."""
    return f"{number:,}" if number < 10**12 else f"10^{len(str(number)) - 1}"
