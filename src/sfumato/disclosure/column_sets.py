"""A walk over sets of columns that visits every set after all its subsets and counts it from its parent's groups.

Columns are numbered, and the children of a set add a column with a smaller number than all its columns:

    {0}   {1} {1,0}   {2} {2,0} {2,1} {2,1,0}   {3} …

This depth-first order is the order of binary numbers, so every subset comes first. Only the groups along one path
are stored: memory is rows × depth, for any number of sets. Columns with many values should have high numbers. They
are then at the roots, where they split groups early, and the columns that are added last are cheap to split by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import OptionError
from sfumato.kernels.refinement import count_alone, split_groups
from sfumato.table.table import Coded

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_SETS = 2_000_000  # half an hour at a millisecond per set; a longer search must be limited by the user


@dataclass(frozen=True, repr=False)
class RowGroups:
    """Rows that are equal in some columns: the groups of two or more rows, and the number of unique wanted rows.

    In a search about some rows (``wanted``), groups without a wanted row are left out.
    """

    rows: NDArray[np.int32]
    starts: NDArray[np.int64]
    alone: int
    wanted: NDArray[np.bool_]

    @classmethod
    def whole(cls, wanted: NDArray[np.bool_]) -> RowGroups:
        """Return all rows as one group, the start of the walk, where no column is compared."""
        if len(wanted) == 1:
            return cls(np.zeros(0, np.int32), np.zeros(1, np.int64), int(wanted.sum()), wanted)
        return cls(np.arange(len(wanted), dtype=np.int32), np.array([0, len(wanted)]), 0, wanted)

    def split(self, coded: Coded) -> RowGroups:
        """Return these groups split by one more column."""
        rows, starts, alone = split_groups(self.rows, self.starts, coded.codes, coded.size, self.wanted)
        return RowGroups(rows, starts, self.alone + alone, self.wanted)

    def alone_after(self, coded: Coded) -> int:
        """Count the wanted rows that a split would make unique, without building the groups."""
        return self.alone + int(count_alone(self.rows, self.starts, coded.codes, coded.size, self.wanted))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Size of each group; groups of one row are last."""
        return np.append(np.diff(self.starts), np.ones(self.alone, np.int64))

    @property
    def asked(self) -> NDArray[np.int64]:
        """Number of wanted rows in each group, in the same order."""
        if len(self.rows):
            in_group = np.add.reduceat(self.wanted[self.rows], self.starts[:-1], dtype=np.int64)
        else:
            in_group = np.zeros(0, np.int64)
        return np.append(in_group, np.ones(self.alone, np.int64))


@dataclass(frozen=True, repr=False)
class ColumnSet:
    """A set of columns on the walk; its groups are built from its parent's when they are first needed."""

    members: tuple[int, ...]
    coded: Coded
    parent: ColumnSet | RowGroups
    is_last: bool  # whether no larger set is built from this one

    @property
    def parent_groups(self) -> RowGroups:
        return self.parent if isinstance(self.parent, RowGroups) else self.parent.groups

    @cached_property
    def groups(self) -> RowGroups:
        """The groups of rows that are equal in all members."""
        return self.parent_groups.split(self.coded)

    @property
    def alone(self) -> int:
        """Number of wanted rows whose combination of values is unique."""
        return self.parent_groups.alone_after(self.coded) if self.is_last else self.groups.alone


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
    visited = 0

    def descend(members: tuple[int, ...], parent: ColumnSet | RowGroups, below: int) -> None:
        nonlocal visited
        for number in reversed(range(below)) if many_values_first else range(below):
            larger = (*members, number)
            if skip(larger):
                continue
            visited += 1
            if limited and visited > MOST_SETS:
                raise _too_many(len(columns))
            one = ColumnSet(larger, columns[number], parent, is_last=number == 0 or len(larger) == max_size)
            if visit(one) and not one.is_last:
                descend(larger, one, number)

    descend((), RowGroups.whole(wanted), len(columns))


def number_of_sets(columns: int, max_size: int) -> int:
    """Return the number of sets of 1 to ``max_size`` columns."""
    if max_size >= columns:
        return (1 << columns) - 1
    return sum(math.comb(columns, size) for size in range(1, max_size + 1))


def _too_many(columns: int) -> OptionError:
    return OptionError(
        f"The search must visit at most {MOST_SETS:,} sets of columns.",
        found=f"{columns} columns",
        fix="a smaller max_size, fewer columns, or a time limit (seconds), which searches small sets first",
    )
