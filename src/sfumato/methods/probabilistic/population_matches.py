"""The probability that a released row matches at least k people of a population.

LT assumes that all D' combinations are equally likely. Here the frequencies are estimated from the released rows. For a
row whose combination occurs in c of the N rows, the N − 1 other rows indicate how frequent the combination is in the
population. Where they are few, the product of the shares of the row's single values is used as a prior. The posterior
mean of the probability of the combination is

    (c − 1 + A·π)/(N − 1 + A),   π = the product of the shares of its values.

The weight A is the largest (nearest to independent columns) that the leave-one-out likelihood does not reject. The
number of matching people then has a negative binomial distribution. If the table is the whole population, c is that
number itself.
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

NOT_REFUTED = 2.0  # accepted difference to the largest log-likelihood: 95 % confidence, for one parameter
WEIGHTS_TRIED = 41


@dataclass(frozen=True, repr=False)
class ShownColumn:
    """The released values of a column as codes, from 0 to ``size`` − 1."""

    codes: NDArray[np.int32]
    size: int


@dataclass(frozen=True, kw_only=True)
class Matches:
    """How many rows of a release match enough people of the population."""

    share: float  # expected share of rows that match at least k people, from 0 to 1
    share_within: float  # share of rows in groups of at least ``within`` rows, from 0 to 1
    smallest_group: int  # smallest number of equal rows in the release
    groups: int


@dataclass(frozen=True, eq=False, repr=False)
class Combinations:
    """The different combinations of released values: the rows of each, and the code of its value in each column."""

    counts: NDArray[np.int64]  # (combinations,)
    codes: tuple[NDArray[np.int64], ...]  # one array per column: the code of each combination, from 0

    @classmethod
    def of(cls, columns: Sequence[ShownColumn], rows: int) -> Combinations:
        """Return the combinations of columns that are given row by row."""
        labels = np.zeros(rows, dtype=np.int64)
        for column in columns:
            labels = refine(labels, column.codes, column.size)
        first = first_rows(labels)
        return cls(np.bincount(labels), tuple(column.codes[first].astype(np.int64) for column in columns))

    @property
    def rows(self) -> int:
        """Total number of rows."""
        return int(self.counts.sum())


def expected_matches(combinations: Combinations, population: int, k: int, *, within: int = 1) -> Matches:
    """Estimate the share of rows that match at least ``k`` of ``population`` people in all columns.

    Also count the share of rows that match at least ``within`` rows of the table, including themselves.
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
    probability = _match_probability(counts, counts - 1.0 + weight * independent, odds, k)
    return replace(found, share=float(counts @ probability / rows))


def _weight_of_independence(
    counts: NDArray[np.float64], independent: NDArray[np.float64], rows: int, population: int
) -> float:
    """Return the largest A that the leave-one-out likelihood does not reject."""
    tried = np.geomspace(1.0, 1e4 * population, WEIGHTS_TRIED)
    likelihood = [
        counts @ np.log(counts - 1.0 + weight * independent) - rows * np.log(rows - 1.0 + weight) for weight in tried
    ]
    return float(tried[np.flatnonzero(np.array(likelihood) >= max(likelihood) - NOT_REFUTED)[-1]])


def _match_probability(
    counts: NDArray[np.float64], shape: NDArray[np.float64], odds: float, k: int
) -> NDArray[np.float64]:
    """Return P[c + NB ≥ k] for each group; the negative binomial tail is an incomplete beta function."""
    distinct, place = np.unique(np.stack([counts, np.round(np.log(shape), 3)]), axis=1, return_inverse=True)
    still_needed = np.maximum(k - distinct[0], 0.0)
    tail = betainc(np.maximum(still_needed, 1.0), np.exp(distinct[1]), odds)
    enough: NDArray[np.float64] = np.where(still_needed == 0.0, 1.0, tail)[place.ravel()]
    return enough
