"""Frequencies of rows if a missing value may be any value, as sdcMicro counts them.

Two rows match if they agree in every column in which both have a value. Matching is not transitive, so there are no
groups: each row has a frequency of its own. A table that is k-anonymous in this sense need not be so if a missing
value is a value of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.table.groups import first_rows, group_labels, refine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table


def matching_totals(
    table: Table, names: Sequence[str], weights: Sequence[NDArray[np.float64]]
) -> list[NDArray[np.float64]]:
    """Return, for each row and each array of weights, the sum of the weights of the rows that match it.

    Rows that lack values in the same columns are compared with those that lack values in the same other columns, on the
    columns in which both have values: the work grows with the square of the number of such patterns.
    """
    labels = group_labels(table, names)
    different = table.select(names).take(first_rows(labels))
    totals = [np.bincount(labels, weights=one) for one in weights]
    coded = [different.coded(name) for name in names]
    missing = np.column_stack([one.values.is_null().to_numpy(zero_copy_only=False)[one.codes] for one in coded])
    patterns, pattern = np.unique(missing, axis=0, return_inverse=True)
    members = [np.flatnonzero(pattern.ravel() == place) for place in range(len(patterns))]
    matched = [np.zeros(different.rows) for _ in weights]
    for one, ours in zip(patterns, members, strict=True):
        for other, theirs in zip(patterns, members, strict=True):
            both = np.concatenate([ours, theirs])
            alike = np.zeros(len(both), dtype=np.int64)
            for place in np.flatnonzero(~one & ~other):
                alike = refine(alike, coded[place].codes[both], coded[place].size)
            mine, yours = alike[: len(ours)], alike[len(ours) :]
            for sums, total in zip(matched, totals, strict=True):
                counted = np.bincount(yours, weights=total[theirs], minlength=int(alike.max()) + 1)
                sums[ours] += counted[mine]
    return [sums[labels] for sums in matched]
