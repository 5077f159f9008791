"""The search for minimal sets of columns, complete or within a given time, and the walk over all sets.

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
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import OptionError
from sfumato.machine import processors
from sfumato.risk.refinement_kernels import count_alone, narrow, split_groups
from sfumato.table.coding import Coded

# A walk over sets of columns that visits every set after all its subsets and counts it from its parent's groups.
#
# Columns are numbered, and the children of a set add a column with a smaller number than all its columns:
#
#     {0}   {1} {1,0}   {2} {2,0} {2,1} {2,1,0}   {3} …
#
# This depth-first order is the order of binary numbers, so every subset comes first. Only the groups along one path
# are stored: memory is rows × depth, for any number of sets. Columns with many values should have high numbers. They
# are then at the roots, where they split groups early, and the columns that are added last are cheap to split by.


MOST_SETS = 2_000_000  # half an hour at a millisecond per set; a longer search must be limited by the user


MANY_ROWS = 1 << 16  # fewer are split before a thread has begun


class NarrowCodes(NamedTuple):
    """A column as codes of a small type, 0 … size − 1."""

    codes: NDArray[np.uint8] | NDArray[np.int32]
    size: int

    @classmethod
    def of(cls, coded: Coded) -> NarrowCodes:
        return cls(narrow(coded.codes, coded.size), coded.size)


@dataclass(frozen=True, repr=False)
class RowGroups:
    """Rows that are equal in some columns: the groups of two or more rows, and the number of unique wanted rows.

    In a search about some rows (``wanted``; empty: all), groups without a wanted row are left out.
    """

    rows: NDArray[np.int32]
    starts: NDArray[np.int64]
    alone: int
    wanted: NDArray[np.bool_]
    side_by_side: Callable[..., Iterable[Any]] = map  # or that of a pool of threads

    @classmethod
    def whole(cls, wanted: NDArray[np.bool_], side_by_side: Callable[..., Iterable[Any]] = map) -> RowGroups:
        """Return all rows as one group, the start of the walk, where no column is compared."""
        rows, some = len(wanted), wanted[:0] if wanted.all() else wanted
        if rows == 1:
            return cls(np.zeros(0, np.int32), np.zeros(1, np.int64), int(wanted.sum()), some)
        return cls(np.arange(rows, dtype=np.int32), np.array([0, rows]), 0, some, side_by_side)

    def split(self, column: NarrowCodes) -> RowGroups:
        """Return these groups split by one more column."""
        found = self._in_parts(lambda part: split_groups(*part, *column, self.wanted))
        first = np.cumsum([0, *(len(rows) for rows, _, _ in found)])
        starts = [begins[1:] + before for (_, begins, _), before in zip(found, first[:-1], strict=True)]
        return replace(
            self,
            rows=np.concatenate([rows for rows, _, _ in found]),
            starts=np.concatenate([np.zeros(1, np.int64), *starts]),
            alone=self.alone + sum(alone for _, _, alone in found),
        )

    def alone_after(self, column: NarrowCodes) -> int:
        """Count the wanted rows that a split would make unique, without building the groups."""
        return self.alone + int(sum(self._in_parts(lambda part: count_alone(*part, *column, self.wanted))))

    def _in_parts(self, work: Callable[[Any], Any]) -> list[Any]:
        """Do the work for each part of the groups: side by side, or here if there is only one."""
        return [work(self._parts[0])] if len(self._parts) == 1 else list(self.side_by_side(work, self._parts))

    @cached_property
    def _parts(self) -> list[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """Whole groups with about as many rows for each processor, and where they begin; few rows are one part."""
        if len(self.rows) < MANY_ROWS:
            return [(self.rows, self.starts)]
        ends = np.unique(np.searchsorted(self.starts, np.linspace(0, len(self.rows), processors() + 1))).tolist()
        return [
            (self.rows[self.starts[first] : self.starts[last]], self.starts[first : last + 1] - self.starts[first])
            for first, last in pairwise(ends)
        ]

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Size of each group; groups of one row are last."""
        return np.append(np.diff(self.starts), np.ones(self.alone, np.int64))

    @property
    def asked(self) -> NDArray[np.int64]:
        """Number of wanted rows in each group, in the same order."""
        if not len(self.wanted):
            return self.sizes
        if len(self.rows):
            in_group = np.add.reduceat(self.wanted[self.rows], self.starts[:-1], dtype=np.int64)
        else:
            in_group = np.zeros(0, np.int64)
        return np.append(in_group, np.ones(self.alone, np.int64))


@dataclass(frozen=True, repr=False)
class ColumnSet:
    """A set of columns on the walk; its groups are built from its parent's when they are first needed."""

    members: tuple[int, ...]
    column: NarrowCodes  # the newest of them
    parent: ColumnSet | RowGroups
    is_last: bool  # whether no larger set is built from this one

    @property
    def parent_groups(self) -> RowGroups:
        return self.parent if isinstance(self.parent, RowGroups) else self.parent.groups

    @cached_property
    def groups(self) -> RowGroups:
        """The groups of rows that are equal in all members."""
        return self.parent_groups.split(self.column)

    @property
    def alone(self) -> int:
        """Number of wanted rows whose combination of values is unique."""
        return self.parent_groups.alone_after(self.column) if self.is_last else self.groups.alone


def walk(
    columns: Sequence[Coded],
    *,
    wanted: NDArray[np.bool_],
    max_size: int,
    skip: Callable[[tuple[int, ...]], bool],
    visit: Callable[[ColumnSet], bool],
    many_values_first: bool = False,
    limited: bool = True,
) -> None:
    """Visit the sets of up to ``max_size`` columns, each after its subsets.

    ``skip`` returns whether to skip a set and the larger sets built from it; ``visit`` returns whether to go on to the
    larger sets. With ``many_values_first`` the order is reversed, so that a set comes only after the subsets from which
    it is built. A walk that is ``limited`` raises an error after too many sets.
    """
    visited, codes = 0, [NarrowCodes.of(column) for column in columns]

    def descend(members: tuple[int, ...], parent: ColumnSet | RowGroups, below: int) -> None:
        nonlocal visited
        for number in reversed(range(below)) if many_values_first else range(below):
            larger = (*members, number)
            if skip(larger):
                continue
            visited += 1
            if limited and visited > MOST_SETS:
                raise OptionError(
                    f"The search must visit at most {MOST_SETS:,} sets of columns.",
                    found=f"{len(columns)} columns",
                    fix="a smaller max_size, fewer columns, or a time limit (seconds), which searches small sets first",
                )
            one = ColumnSet(larger, codes[number], parent, is_last=number == 0 or len(larger) == max_size)
            if visit(one) and not one.is_last:
                descend(larger, one, number)

    with ThreadPoolExecutor(processors()) as pool:
        descend((), RowGroups.whole(wanted, pool.map), len(columns))


def number_of_sets(columns: int, max_size: int) -> int:
    """Return the number of sets of 1 to ``max_size`` columns."""
    if max_size >= columns:
        return (1 << columns) - 1
    return sum(math.comb(columns, size) for size in range(1, max_size + 1))


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
        bits = _bits(members)
        return any(bits & one == one for one in self._with[members[-1]])


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
            self.visited += 1
            if self.progress is not None:
                self.progress(self.visited, self.total)
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

    with always_compiled():
        for size in (2, 1 << 9):  # both types of codes
            pair = NarrowCodes(narrow(np.zeros(2, np.int32), size), size)
            RowGroups.whole(np.ones(2, dtype=bool)).split(pair).alone_after(pair)


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
