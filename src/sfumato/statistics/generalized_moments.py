"""Generalized moments: means of products of powers of columns (TL §2.3.5).

A generalized moment of degree d is the mean over all rows of Π_j z_j^(s_j), for standardised columns z and Σ s_j = d:
means with 1, variances and covariances with 2, skewness and co-skewness with 3, kurtosis with 4. Up to degree d there
are (m + d choose d) − 1 of them for m columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

ROWS_AT_ONCE = 1 << 14  # of which all products are in memory


def count_moments(columns: int, degree: int) -> int:
    """Return how many generalized moments up to a degree there are.

    >>> count_moments(2, 2), count_moments(4, 3)
    (5, 34)
    """
    return math.comb(columns + degree, degree) - 1


@dataclass(frozen=True, repr=False)
class Products:
    """The products of powers of columns whose means are the moments."""

    exponents: NDArray[np.int64]  # (moments, columns)

    @classmethod
    def up_to(cls, degree: int, columns: int) -> Products:
        """Return all products up to a degree."""
        chosen = [one for size in range(1, degree + 1) for one in combinations_with_replacement(range(columns), size)]
        return cls(np.array([np.bincount(one, minlength=columns) for one in chosen], dtype=np.int64))

    def of(self, numbers: Array, by: int | None = None) -> Array:
        """Return the products of each row; with ``by``, their derivatives by that column."""
        result = np.ones((len(numbers), len(self.exponents)))
        for place in range(numbers.shape[1]):
            exponent = self.exponents[:, place]
            powers = np.vander(numbers[:, place], int(exponent.max()) + 1, increasing=True)
            result *= exponent * powers[:, np.maximum(exponent - 1, 0)] if place == by else powers[:, exponent]
        return result

    def sums(self, numbers: Array) -> tuple[Array, Array]:
        """Return the sum of each product over all rows, and the sum of its squares."""
        sums, squares = np.zeros((2, len(self.exponents)))
        for block in blocks_of(len(numbers)):
            products = self.of(numbers[block])
            sums += products.sum(axis=0)
            squares += np.einsum("ij,ij->j", products, products)
        return sums, squares


def blocks_of(rows: int) -> Iterator[slice]:
    """Yield slices of rows, of which all products fit into memory."""
    return (slice(start, start + ROWS_AT_ONCE) for start in range(0, rows, ROWS_AT_ONCE))
