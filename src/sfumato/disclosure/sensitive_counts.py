"""How often each value of a sensitive column occurs in each group of rows: the input of ℓ-diversity, t-closeness, ….

Only pairs of group and value that occur are listed, so the counts never take more memory than the column. Counts of
several parts of a table can be merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.table.coding import Coded
from sfumato.table.group_counts import GroupKeys, KeyedGroups

if TYPE_CHECKING:
    from numpy.typing import NDArray

DENSE = 8  # up to this number of possible pairs per row, counting all of them is faster than sorting the rows


@dataclass(frozen=True, eq=False, repr=False)
class SensitiveCounts:
    """Number of rows of each pair of group and value; pairs are sorted by group, then by value.

    Groups are numbered 0, 1, …, and each has at least one row. Values are numbered 0, 1, … in their order, if they have
    one.
    """

    group: NDArray[np.int64]  # (pairs,)
    value: NDArray[np.int64]  # (pairs,)
    count: NDArray[np.int64]  # (pairs,), at least 1
    values: int  # number of values, including those that do not occur

    @classmethod
    def of(
        cls, labels: NDArray[np.int64], codes: NDArray[np.integer], values: int, rows: NDArray[np.int64] | None = None
    ) -> SensitiveCounts:
        """Count the rows of each pair, given dense group labels and the code of each value.

        With ``rows``, each entry stands for that number of rows.
        """
        pairs = labels * values + codes
        possible = (int(labels.max(initial=-1)) + 1) * values
        if possible <= DENSE * len(pairs) + 1024:
            counts = np.bincount(pairs, weights=rows, minlength=possible).astype(np.int64)
            occurring = np.flatnonzero(counts)
            return cls(occurring // values, occurring % values, counts[occurring], values)
        occurring, place = np.unique(pairs, return_inverse=True)
        counts = np.bincount(place, weights=rows).astype(np.int64)
        return cls(occurring // values, occurring % values, counts, values)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Position of the first pair of each group."""
        return np.flatnonzero(np.diff(self.group, prepend=-1))

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of each group."""
        return np.asarray(np.add.reduceat(self.count, self.starts))

    @cached_property
    def totals(self) -> NDArray[np.int64]:
        """Number of rows of each value."""
        return np.bincount(self.value, weights=self.count, minlength=self.values).astype(np.int64)

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """Share of the value among the rows of the group, of each pair."""
        return self.count / self.sizes[self.group]

    @cached_property
    def overall(self) -> NDArray[np.float64]:
        """Share of each value among all rows."""
        return self.totals / max(1, self.rows)

    @property
    def rows(self) -> int:
        """Number of rows in all groups."""
        return int(self.count.sum())


@dataclass(frozen=True, eq=False, repr=False)
class KeyedCounts:
    """Counts of one part of a table, whose groups have keys and whose values are known, so that parts can be merged."""

    keys: GroupKeys
    values: pa.Array  # the values that ``counts.value`` refers to; missing is one of them
    counts: SensitiveCounts

    @classmethod
    def of(cls, groups: KeyedGroups, coded: Coded) -> KeyedCounts:
        """Count the values of a coded column in each group."""
        return cls(groups.keys, coded.values, SensitiveCounts.of(groups.labels, coded.codes, coded.size))

    def merge(self, other: KeyedCounts) -> KeyedCounts:
        """Add up the counts of groups with the same key and of equal values."""
        groups = KeyedGroups.of_keys(self.keys.followed_by(other.keys))
        both = pa.concat_arrays([self.values, other.values.cast(self.values.type)])
        coded = both.dictionary_encode(null_encoding="encode")
        place = coded.indices.to_numpy()
        ours, theirs = self.counts, other.counts
        labels = groups.labels[np.concatenate([ours.group, theirs.group + len(self.keys)])]
        codes = place[np.concatenate([ours.value, theirs.value + len(self.values)])]
        rows = np.concatenate([ours.count, theirs.count])
        merged = SensitiveCounts.of(labels, codes, len(coded.dictionary), rows)
        return KeyedCounts(groups.keys, coded.dictionary, merged)

    def in_order(self, order: Sequence[str] = ()) -> SensitiveCounts:
        """Return the counts with values numbered in the given order, or else sorted; a missing value comes last."""
        places = pc.index_in(self.values.cast(pa.string()), pa.array(order, pa.string())) if order else self.values
        rank = np.empty(len(self.values), dtype=np.int64)
        rank[pc.sort_indices(places).to_numpy()] = np.arange(len(self.values))
        counts = self.counts
        return SensitiveCounts.of(counts.group, rank[counts.value], counts.values, counts.count)
