"""What a claim is: a promise about a release that is recounted on its rows, in one block or in many.

    evidence of a block → tally → merge with the tallies of other blocks → finding

A tally is counted from the released cells themselves, never from the labels of the method. A finding speaks of columns
and counts and quotes no cell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from sfumato.table.groups import KeyedGroups
from sfumato.table.intervals import BOX, original_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.table.table import Table

ClaimKind = Literal["privacy", "integrity"]
T = TypeVar("T")  # the tally

FAULT = "report this: the method has a fault"


@dataclass(frozen=True, repr=False)
class Evidence:
    """Released rows and the original rows that they were made from: one block, or the whole table.

    ``origin[i]`` is the position in ``original`` of the row that released row i stands for. Blocks share no original
    row. None of this leaves the verification.
    """

    released: Table
    original: Table
    origin: NDArray[np.int64]
    _groups: dict[tuple[str, ...], KeyedGroups] = field(default_factory=dict, init=False, compare=False)
    _lock: Lock = field(default_factory=Lock, init=False, compare=False)

    def groups(self, columns: tuple[str, ...]) -> KeyedGroups:
        """The groups of released rows that are equal in these columns, found once for all claims that ask for them."""
        with self._lock:
            if columns not in self._groups:
                self._groups[columns] = KeyedGroups.of(self.released, columns)
            return self._groups[columns]

    def __reduce__(self) -> tuple[type[Evidence], tuple[Any, ...]]:
        return Evidence, (self.released, self.original, self.origin)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of recounting a claim."""

    claim: str  # in words, e.g. "5-anonymous in age, sex"
    held: bool
    found: str  # in words and counts, e.g. "smallest group 5, 6,512 groups"
    fix: str = ""  # what to try when the claim does not hold
    kind: ClaimKind = "integrity"


class Claim(ABC, Generic[T]):
    """A promise about a release. A *privacy* claim protects people; an *integrity* claim says that the rows are right.

    A tally is a small frozen record that can be pickled. Its blocks may be merged in any order and in any grouping: the
    finding is the same as that of the whole table. A tally may hold hashes or values of cells and is never shown.
    """

    kind: ClassVar[ClaimKind] = "integrity"
    recountable: ClassVar[bool] = False  # whether whoever has the released rows can recount it, without the original
    covers_every_output: ClassVar[bool] = False  # whether it holds only if nothing else about the original is published

    @abstractmethod
    def tally(self, evidence: Evidence) -> T:
        """Count one block."""

    def merge(self, one: T, other: T) -> T:
        """Put the tallies of two sets of blocks together; by default the tally itself knows how."""
        merged: T = one.merge(other)  # type: ignore[attr-defined]
        return merged

    @abstractmethod
    def finding(self, tally: T) -> Finding:
        """Judge the claim by the tally of all blocks."""

    def measure(self, evidence: Evidence) -> Finding:
        """Count and judge rows that are all in one block."""
        return self.finding(self.tally(evidence))

    @property
    def needs_original(self) -> bool:
        """Whether the original is needed to recount the claim."""
        return not self.recountable

    @property
    def protects(self) -> tuple[str, ...]:
        """The released columns in which the claim guarantees that people share their values with others."""
        return ()


def listed(released: Sequence[str]) -> str:
    """The names of these released columns as a sentence lists them: ``x`` for the ends and the count of ``x``."""
    return ", ".join(original_names(released)) or "no column"


def listed_without_box(released: Sequence[str]) -> str:
    """The same without the number of the box, unless it is the only column."""
    return listed([name for name in released if name != BOX] or released)


def counted(number: int, unit: str) -> str:
    """A number of things: ``1 row``, ``2,000 rows``."""
    return f"{number:,} {unit}" if number == 1 else f"{number:,} {unit}s"


def counted_by_column(numbers: dict[str, int], unit: str) -> str:
    """Columns with a number of things each: ``'age' (3 rows), 'sex' (1 row)``."""
    return ", ".join(f"{name!r} ({counted(number, unit)})" for name, number in numbers.items())
