"""Values drawn from groups of rows, so that no drawn number is exactly the number of one person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, repr=False)
class Donors:
    """The values of each group in increasing order, one group after the other."""

    values: NDArray[Any]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, values: NDArray[Any], groups: NDArray[np.int64], count: int) -> Donors:
        """Sort the values of ``count`` groups, numbered from 0."""
        order = np.lexsort((values, groups))
        sizes = np.bincount(groups, minlength=count)
        return cls(values[order], np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)

    def codes(self, groups: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
        """Return the value of a random row of each group; every group must have rows."""
        chosen = self.starts[groups] + (generator.random(len(groups)) * self.sizes[groups]).astype(np.int64)
        return np.asarray(self.values[chosen])

    def numbers(self, groups: NDArray[np.int64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the quantiles at these shares, from 0 to 1, of each group; every group must have rows.

        The quantile function is linear between neighbouring numbers. Below the lowest and above the highest it turns
        back, so that the ends are not drawn more often than other numbers. Numbers that many rows share stay as they
        are, and the mean of a group is nearly kept.
        """
        sizes = self.sizes[groups]
        position = np.abs(shares * sizes - 0.5)
        position = np.minimum(position, 2.0 * (sizes - 1) - position).clip(0.0)
        below = position.astype(np.int64)
        above = np.minimum(below + 1, sizes - 1)
        lower, upper = self.values[self.starts[groups] + below], self.values[self.starts[groups] + above]
        return np.asarray(lower + (position - below) * (upper - lower))
