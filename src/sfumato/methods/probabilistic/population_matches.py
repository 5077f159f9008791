"""How likely the row of a release finds at least k people of a population who look like it.

LT takes all D' combinations for equally likely. Here the released rows themselves are asked. A row whose combination
stands in c of the N rows is one of c, and the N − 1 others say how frequent its combination is in the population. Where
they say little, the shares of its single values, multiplied, stand in: the posterior mean of its probability is

    (c − 1 + A·π)/(N − 1 + A),   π = the product of the shares of its values,

with the weight A chosen by the leave-one-out likelihood: as large (as independent columns) as the rows do not refute.
The people who look alike then follow a negative binomial distribution. If the table is the whole population, c is
the answer itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainc

from sfumato.table.groups import first_rows, refine

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOT_REFUTED = 2.0  # of log-likelihood below the best: 95 % confidence, for one parameter
WEIGHTS_TRIED = 41


@dataclass(frozen=True, repr=False)
class ShownColumn:
    """What is shown in a column, as numbers from 0 to below ``size``."""

    codes: NDArray[np.int32]
    size: int


@dataclass(frozen=True, kw_only=True)
class Matches:
    """Rows of a release and the people of the population who look like them."""

    share: float  # of rows that find at least k people, expected; from 0 to 1
    share_within: float  # of rows that are in a group of at least so many rows as were asked for; from 0 to 1
    smallest_group: int  # rows of the release that look alike, at the fewest
    groups: int


@dataclass(frozen=True, eq=False, repr=False)
class Combinations:
    """The different combinations of shown values: the rows of each, and the number of its value in each column."""

    counts: NDArray[np.int64]  # (combinations,)
    codes: tuple[NDArray[np.int64], ...]  # for each column, of each combination: from 0 to below the number of values

    @classmethod
    def of(cls, columns: Sequence[ShownColumn], rows: int) -> Combinations:
        """The combinations of columns that are known row by row."""
        labels = np.zeros(rows, dtype=np.int64)
        for column in columns:
            labels = refine(labels, column.codes, column.size)
        first = first_rows(labels)
        return cls(np.bincount(labels), tuple(column.codes[first].astype(np.int64) for column in columns))

    @property
    def rows(self) -> int:
        """Number of rows of all combinations."""
        return int(self.counts.sum())


def expected_matches(combinations: Combinations, population: int, k: int, *, within: int = 1) -> Matches:
    """Expected share of rows that at least ``k`` of ``population`` people match in all columns.

    Beside it, counted: the share of rows that at least ``within`` rows of the table match, themselves included.
    """
    rows, counts = combinations.rows, combinations.counts.astype(np.float64)
    found = Matches(
        share=float(counts[counts >= k].sum() / rows),
        share_within=float(counts[counts >= within].sum() / rows),
        smallest_group=int(counts.min()),
        groups=len(counts),
    )
    if population == rows or found.share == 1.0:
        return found
    independent = np.ones(len(counts))
    for codes in combinations.codes:
        independent *= (np.bincount(codes, weights=counts) / rows)[codes]
    weight = _weight_of_independence(counts, independent, rows, population)
    others = population - rows
    odds = others / (others + rows - 1.0 + weight)
    probability = _finds_enough(counts, counts - 1.0 + weight * independent, odds, k)
    return replace(found, share=float(counts @ probability / rows))


def _weight_of_independence(
    counts: NDArray[np.float64], independent: NDArray[np.float64], rows: int, population: int
) -> float:
    """The largest A that the leave-one-out likelihood does not refute."""
    tried = np.geomspace(1.0, 1e4 * population, WEIGHTS_TRIED)
    likelihood = [
        counts @ np.log(counts - 1.0 + weight * independent) - rows * np.log(rows - 1.0 + weight) for weight in tried
    ]
    return float(tried[np.flatnonzero(np.array(likelihood) >= max(likelihood) - NOT_REFUTED)[-1]])


def _finds_enough(counts: NDArray[np.float64], shape: NDArray[np.float64], odds: float, k: int) -> NDArray[np.float64]:
    """P[c + NB ≥ k] for each group; the negative binomial tail is an incomplete beta function."""
    kinds, place = np.unique(np.stack([counts, np.round(np.log(shape), 3)]), axis=1, return_inverse=True)
    still_needed = np.maximum(k - kinds[0], 0.0)
    tail = betainc(np.maximum(still_needed, 1.0), np.exp(kinds[1]), odds)
    enough: NDArray[np.float64] = np.where(still_needed == 0.0, 1.0, tail)[place.ravel()]
    return enough
