"""The claim that released sets are short enough to be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.methods.claims.base import FAULT, Claim, Evidence, Finding, counted, counted_by_column
from sfumato.table.intervals import ANY, parse_set

if TYPE_CHECKING:
    from sfumato.table.table import Table


@dataclass(frozen=True, repr=False)
class NameCounts:
    """The sets of one column: the names of the longest, and the rows whose set is too long or any value."""

    longest: int
    long_rows: int
    any_rows: int

    @classmethod
    def of(cls, released: Table, name: str, most: int) -> NameCounts:
        """Count the names of every distinct cell; a set is too long if it has more than ``most``."""
        coded = released.coded(name)
        sets = [frozenset(parse_set(cell)) for cell in coded.values.cast(pa.string()).to_pylist()]
        names = np.array([len(members - {ANY, None}) for members in sets], dtype=np.int64)
        is_any = np.array([ANY in members for members in sets], dtype=bool)
        rows = np.bincount(coded.codes, minlength=coded.size)
        return cls(int(names.max(initial=0)), int(rows[names > most].sum()), int(rows[is_any].sum()))

    def merge(self, other: NameCounts) -> NameCounts:
        """Put two sets of rows together."""
        return NameCounts(
            max(self.longest, other.longest), self.long_rows + other.long_rows, self.any_rows + other.any_rows
        )


@dataclass(frozen=True, repr=False)
class SetCounts:
    """The sets of every column."""

    columns: Mapping[str, NameCounts]


@dataclass(frozen=True, kw_only=True)
class AtMostNames(Claim[SetCounts]):
    """No released set of these columns has more than ``most`` names; a longer one is released as any value.

    That every original value belongs to its set, and that a missing one is in no set of any value that does not say
    so, is the claim :class:`Containment`.
    """

    recountable: ClassVar[bool] = True

    most: int
    columns: tuple[str, ...]

    def tally(self, evidence: Evidence) -> SetCounts:
        return SetCounts({name: NameCounts.of(evidence.released, name, self.most) for name in self.columns})

    def merge(self, one: SetCounts, other: SetCounts) -> SetCounts:
        return SetCounts({name: one.columns[name].merge(other.columns[name]) for name in self.columns})

    def finding(self, tally: SetCounts) -> Finding:
        over = {name: counts.long_rows for name, counts in tally.columns.items() if counts.long_rows}
        wide = {name: counts.any_rows for name, counts in tally.columns.items() if counts.any_rows}
        longest = max((counts.longest for counts in tally.columns.values()), default=0)
        found = f"at most {longest:,}; {ANY.value} in {counted_by_column(wide, 'row') or 'no row'}"
        return Finding(
            claim=f"at most {counted(self.most, 'name')} in each set of {', '.join(self.columns)}; a set of more is "
            f"{ANY.value}, which stands for any value of the column that is not missing",
            held=not over,
            found=f"more in {counted_by_column(over, 'row')}" if over else found,
            fix=FAULT,
            kind=self.kind,
        )
