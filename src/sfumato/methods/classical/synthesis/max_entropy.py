"""Maximum entropy: of all distributions with the given moments, the one that says nothing else (TL §2.3.5).

The given moments are the shares of the codes and the means and variances of the numbers (order 1), and with them the
shares of all pairs of codes, the sums of the numbers by code and the covariances (order 2). Without ranges, the
density with the largest entropy (Polettini, 2003)

    p(y, x) ∝ exp(b·y + ½ yᵀW y + yᵀV x − ½ xᵀK x),   y = indicators of the codes,   x = numbers

has two factors. The codes have the largest entropy that their pairs allow (:mod:`pair_shares`), and given them the
numbers are normal: their mean is the linear regression on y, and their covariance that of its residuals. The numbers
are cut to their ranges. This changes their moments, so that the normal distribution is moved until the numbers within
the ranges have the wanted ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.classical.synthesis.pair_shares import PairShares
from sfumato.methods.classical.synthesis.variables import Codes, Numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.classical.synthesis.variables import Drawn, Problem, Sampler

RIDGE = 1e-6  # added to variances of 1, so that columns that determine each other have an inverse
REDRAWN = 20  # times that rows with a number outside its range are drawn again
MOVES = 8  # times that the normal distribution is moved
MOVED_ROWS = 5000  # rows from which its moments within the ranges are estimated


def fit_max_entropy(problem: Problem, generator: np.random.Generator) -> Sampler:
    """Return a sampler of the density of maximum entropy."""
    codes = [variable for variable in problem.variables if isinstance(variable, Codes)]
    numbers = [variable for variable in problem.variables if isinstance(variable, Numbers)]
    shares = PairShares.fit(codes, problem.order > 1, problem.rows, generator)
    normal = NumbersGivenCodes.fit(numbers, shares.design(shares.original, problem.rows), problem, generator)

    def draw(rows: int, generator: np.random.Generator) -> Drawn:
        reduced = shares.draw(rows, generator)
        values = normal.draw(shares.design(reduced, rows), generator)
        drawn_codes, drawn_numbers = iter(shares.expanded(reduced, generator)), iter(values.T)
        return [next(drawn_codes if isinstance(one, Codes) else drawn_numbers) for one in problem.variables]

    return draw


@dataclass(frozen=True, repr=False)
class NumbersGivenCodes:
    """Normal numbers within ranges, whose mean depends on indicators of codes."""

    slopes: NDArray[np.float64]  # one row per indicator, the constant first
    root: NDArray[np.float64]  # A with A Aᵀ equal to the covariance of the residuals
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def fit(
        cls, numbers: list[Numbers], design: NDArray[np.float64], problem: Problem, generator: np.random.Generator
    ) -> NumbersGivenCodes:
        """Fit the regression, and move it until the numbers within their ranges have the moments of the table."""
        values = np.column_stack([np.empty((problem.rows, 0)), *(number.values for number in numbers)])
        own = design if problem.order > 1 else design[:, :1]
        gram = own.T @ own / len(own) + RIDGE * np.eye(own.shape[1])
        slopes = np.zeros((design.shape[1], len(numbers)))
        slopes[: own.shape[1]] = np.linalg.solve(gram, own.T @ values / len(own))
        residuals = values - design @ slopes
        spread = residuals.T @ residuals / max(1, len(values)) + RIDGE * np.eye(len(numbers))
        kept = spread if problem.order > 1 else np.diag(np.diag(spread))
        root = np.asarray(np.linalg.cholesky(kept), dtype=np.float64)
        low, high = (np.array([getattr(number, end) for number in numbers]) for end in ("low", "high"))
        rows = np.sort(generator.permutation(problem.rows)[:MOVED_ROWS])
        return cls(slopes, root, low, high)._moved(design[rows], generator)

    def draw(self, design: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
        """Draw the numbers of rows with these indicators; rows outside the ranges are drawn again."""
        centre = design @ self.slopes
        values = centre + generator.standard_normal(centre.shape) @ self.root.T
        for _ in range(REDRAWN):
            outside = np.flatnonzero(((values < self.low) | (values > self.high)).any(axis=1))
            if not outside.size:
                break
            again = generator.standard_normal((outside.size, len(self.root)))
            values[outside] = centre[outside] + again @ self.root.T
        return np.asarray(np.clip(values, self.low, self.high))

    def _moved(self, design: NDArray[np.float64], generator: np.random.Generator) -> NumbersGivenCodes:
        """Return the distribution whose numbers, within the ranges, have the mean and covariance of this one without.

        Each step moves the mean by what is missing and stretches the covariance by what it is too small, with the same
        random numbers. The step with the smallest error is returned.
        """
        wanted = self.root
        best, least, now = self, np.inf, self
        seed = int(generator.integers(2**63))
        for _ in range(MOVES if len(self.root) else 0):
            values = now.draw(design, np.random.default_rng(seed))
            residuals = values - design @ self.slopes
            mean = residuals.mean(axis=0)
            spread = np.cov(residuals, rowvar=False, bias=True).reshape(now.root.shape)
            scale = np.sqrt(np.diag(wanted @ wanted.T))
            error = float(
                np.abs(mean / scale).max() + np.abs((spread - wanted @ wanted.T) / np.outer(scale, scale)).max()
            )
            if error < least:
                best, least = now, error
            stretch = wanted @ np.linalg.inv(np.linalg.cholesky(spread + RIDGE * np.diag(scale**2)))
            slopes = now.slopes.copy()
            slopes[0] -= mean
            now = NumbersGivenCodes(slopes, stretch @ now.root, self.low, self.high)
        return best
