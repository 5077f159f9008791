"""Maximum entropy: of all distributions with the given moments, the one that says nothing else (TL §2.3.5).

The given moments are the shares of the codes and the means and variances of the numbers (order 1), and with them the
shares of all pairs of codes, the sums of the numbers by code and the covariances (order 2). Without ranges, the
density with the largest entropy (Polettini, 2003)

    p(y, x) ∝ exp(b·y + ½ yᵀW y + yᵀV x − ½ xᵀK x),   y = indicators of the codes,   x = numbers

has two factors. The codes have the largest entropy that their pairs allow (``PairShares``), and given them the
numbers are normal: their mean is the linear regression on y, and their covariance that of its residuals. The numbers
are cut to their ranges. This changes their moments, so that the normal distribution is moved until the numbers within
the ranges have the wanted ones.

More codes than rows have too many pairs to be told from chance: they are independent, as with order 1. More numbers
than rows have the covariance of the table, and only their means are moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.synthesize.variables import Codes, Drawn, Numbers, Problem, Sampler

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Codes with the largest entropy that the shares of their pairs allow: p(y) ∝ exp(b·y + ½ yᵀW y).
#
# The parameters have no closed form. Chains are run by Gibbs sampling: a code given all others is a softmax. After
# each round the parameters move towards the shares of the table, by ever smaller steps (stochastic approximation).

COMMON = 25  # codes of a variable whose pairs are kept; the others are drawn as one and then told apart by their shares
CHAINS = 3000
ROUNDS = 120  # rounds of fitting
ROUNDS_AFTER = 25  # rounds of sampling with the fitted parameters
STEP = 0.5  # first step, as a share of the way to the shares of the table
HALVED = 20  # round at which the step is half of the first
LARGEST = 6.0  # of a parameter of a pair: e⁶ = 400 times as many as by chance; pairs that never occur have −6


@dataclass(frozen=True, repr=False)
class PairShares:
    """The parameters of the codes, with their places in y: a place for each code but the first of a variable."""

    codes: tuple[Codes, ...]
    common: tuple[NDArray[np.int64], ...]  # the codes of each variable that have a number of their own, the first first
    original: list[NDArray[np.int64]]  # the rows of the table in these numbers
    linear: NDArray[np.float64]
    pairs: NDArray[np.float64]

    @classmethod
    def fit(cls, codes: Sequence[Codes], paired: bool, rows: int, generator: np.random.Generator) -> PairShares:
        """Fit the parameters; without ``paired`` the codes are independent."""
        common = tuple(np.argsort(-one.shares, kind="stable")[:COMMON] for one in codes)
        original = [_number_codes(one, own) for one, own in zip(codes, common, strict=True)]
        model = cls(tuple(codes), common, original, np.empty(0), np.empty((0, 0)))
        y = model.design(original, rows)[:, 1:]
        mean = y.mean(axis=0)
        linear = np.log(np.maximum(mean, 1e-9)) - np.repeat(
            [np.log(max(1e-9, 1.0 - mean[place].sum())) for place in model.places], model.widths
        )
        if not paired or len(codes) < 2:
            return cls(model.codes, common, original, linear, np.zeros((0, 0)))
        model = cls(model.codes, common, original, linear, np.zeros((len(mean), len(mean))))
        return model._fit_pairs(mean, y.T @ y / len(y), min(rows, CHAINS), generator)

    @property
    def widths(self) -> list[int]:
        """Number of places of each variable."""
        return [len(own) - 1 + (len(own) < one.size) for one, own in zip(self.codes, self.common, strict=True)]

    @property
    def places(self) -> list[slice]:
        """The places of each variable."""
        ends = np.cumsum([0, *self.widths])
        return [slice(int(start), int(end)) for start, end in pairwise(ends)]

    def design(self, drawn: Sequence[NDArray[np.int64]], rows: int) -> NDArray[np.float64]:
        """Return a constant and the indicators of the codes, one row per row."""
        y = np.zeros((rows, 1 + sum(self.widths)))
        y[:, 0] = 1.0
        for own, place in zip(drawn, self.places, strict=True):
            chosen = np.flatnonzero(own)
            y[chosen, place.start + own[chosen]] = 1.0
        return y

    def draw(self, rows: int, generator: np.random.Generator) -> list[NDArray[np.int64]]:
        """Draw codes in their own numbers."""
        drawn = self._independent(rows, generator)
        if self.pairs.any():
            for _ in range(ROUNDS_AFTER):
                drawn = self._sweep(drawn, generator)
        return drawn

    def expand(self, drawn: Sequence[NDArray[np.int64]], generator: np.random.Generator) -> list[NDArray[np.int64]]:
        """Return the codes of the table; rare ones are told apart by their shares."""
        expanded = []
        for one, own, codes in zip(self.codes, self.common, drawn, strict=True):
            values = own[np.minimum(codes, len(own) - 1)]
            rare = np.setdiff1d(np.arange(one.size), own)
            places = np.flatnonzero(codes >= len(own))
            if places.size:
                values[places] = generator.choice(rare, places.size, p=one.shares[rare] / one.shares[rare].sum())
            expanded.append(values)
        return expanded

    def _fit_pairs(
        self, mean: NDArray[np.float64], wanted: NDArray[np.float64], chains: int, generator: np.random.Generator
    ) -> PairShares:
        """Move the parameters towards the shares of the pairs and of the codes."""
        free = np.ones_like(self.pairs, dtype=bool)
        for place in self.places:
            free[place, place] = False
        spread = np.maximum(mean * (1.0 - mean), 1.0 / len(self.original[0]))
        now, drawn = self, self._independent(chains, generator)
        for round_ in range(ROUNDS):
            drawn = now._sweep(drawn, generator)
            y = now.design(drawn, chains)[:, 1:]
            step = STEP / (1.0 + round_ / HALVED)
            shares = y.mean(axis=0)
            # covariances about the wanted shares, so that a step of the pairs does not undo that of the codes
            gap = wanted - y.T @ y / len(y) - np.outer(mean, mean - shares) - np.outer(mean - shares, mean)
            change = np.where(free, step * gap / np.outer(spread, spread), 0.0)
            pairs = np.clip(now.pairs + change, -LARGEST, LARGEST)
            linear = now.linear + step * (mean - shares) / spread - (pairs - now.pairs) @ mean
            now = PairShares(self.codes, self.common, self.original, linear, pairs)
        return now

    def _sweep(self, drawn: Sequence[NDArray[np.int64]], generator: np.random.Generator) -> list[NDArray[np.int64]]:
        """Draw every code once given all others, for all chains at once."""
        y, codes = self.design(drawn, len(drawn[0]))[:, 1:], list(drawn)
        for number, place in enumerate(self.places):
            if place.stop == place.start:
                continue
            odds = np.column_stack([np.zeros(len(y)), self.linear[place] + y @ self.pairs[:, place]])
            cumulative = np.cumsum(np.exp(odds - odds.max(axis=1, keepdims=True)), axis=1)
            share = generator.random((len(y), 1)) * cumulative[:, -1:]
            codes[number] = (share > cumulative[:, :-1]).sum(axis=1)
            y[:, place] = codes[number][:, None] == np.arange(1, place.stop - place.start + 1)
        return codes

    def _independent(self, rows: int, generator: np.random.Generator) -> list[NDArray[np.int64]]:
        """Return codes that are independent: no chain starts at the row of a person."""
        return [generator.permutation(np.resize(generator.permutation(own), rows)) for own in self.original]


def _number_codes(variable: Codes, common: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each code among the common ones; all others have the next number."""
    place = np.full(variable.size, len(common))
    place[common] = np.arange(len(common))
    return np.asarray(place[variable.values])


RIDGE = 1e-6  # added to variances of 1, so that columns that determine each other have an inverse
REDRAWN = 20  # times that rows with a number outside its range are drawn again
MOVES = 8  # times that the normal distribution is moved
MOVED_ROWS = 5000  # rows from which its moments within the ranges are estimated


def fit_max_entropy(problem: Problem, generator: np.random.Generator) -> Sampler:
    """Return a sampler of the density of maximum entropy."""
    codes = [variable for variable in problem.variables if isinstance(variable, Codes)]
    numbers = [variable for variable in problem.variables if isinstance(variable, Numbers)]
    paired = problem.order > 1 and sum(min(one.size, COMMON + 1) - 1 for one in codes) <= problem.rows
    shares = PairShares.fit(codes, paired, problem.rows, generator)
    normal = NumbersGivenCodes.fit(numbers, shares.design(shares.original, problem.rows), problem, generator)

    def draw(rows: int, generator: np.random.Generator) -> Drawn:
        reduced = shares.draw(rows, generator)
        values = normal.draw(shares.design(reduced, rows), generator)
        drawn_codes, drawn_numbers = iter(shares.expand(reduced, generator)), iter(values.T)
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
        own = design if problem.order > 1 and design.shape[1] <= problem.rows else design[:, :1]
        gram = own.T @ own / len(own) + RIDGE * np.eye(own.shape[1])
        slopes = np.zeros((design.shape[1], len(numbers)))
        slopes[: own.shape[1]] = np.linalg.solve(gram, own.T @ values / len(own))
        root = _covariance_root(values - design @ slopes, paired=problem.order > 1)
        low, high = (np.array([getattr(number, end) for number in numbers]) for end in ("low", "high"))
        rows = np.sort(generator.permutation(problem.rows)[:MOVED_ROWS])
        normal = cls(slopes, root, low, high)
        return (
            normal._move(design[rows], generator) if len(numbers) <= problem.rows else normal._shift(design, generator)
        )

    def draw(self, design: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
        """Draw the numbers of rows with these indicators; rows outside the ranges are drawn again."""
        centre = design @ self.slopes
        values = centre + generator.standard_normal((len(centre), self.root.shape[1])) @ self.root.T
        for _ in range(REDRAWN if len(self.root) <= len(design) else 0):  # of many numbers, one is always outside
            outside = np.flatnonzero(((values < self.low) | (values > self.high)).any(axis=1))
            if not outside.size:
                break
            again = generator.standard_normal((outside.size, self.root.shape[1]))
            values[outside] = centre[outside] + again @ self.root.T
        return np.asarray(np.clip(values, self.low, self.high))

    def _shift(self, design: NDArray[np.float64], generator: np.random.Generator) -> NumbersGivenCodes:
        """Return the distribution with its mean moved by what is missing within the ranges, and the same covariance."""
        missing = (self.draw(design, generator) - design @ self.slopes).mean(axis=0)
        slopes = self.slopes.copy()
        slopes[0] -= missing
        return NumbersGivenCodes(slopes, self.root, self.low, self.high)

    def _move(self, design: NDArray[np.float64], generator: np.random.Generator) -> NumbersGivenCodes:
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


def _covariance_root(residuals: NDArray[np.float64], *, paired: bool) -> NDArray[np.float64]:
    """Return A with A Aᵀ equal to the covariance or to the variances alone, with one column per row if rows are few."""
    rows, numbers = residuals.shape
    if numbers > rows:
        if paired:
            return np.asarray(residuals.T / np.sqrt(max(1, rows)))
        return np.asarray(np.linalg.norm(residuals, axis=0)[:, None] / np.sqrt(max(1, rows)))
    spread = residuals.T @ residuals / max(1, rows) + RIDGE * np.eye(numbers)
    return np.asarray(np.linalg.cholesky(spread if paired else np.diag(np.diag(spread))), dtype=np.float64)
