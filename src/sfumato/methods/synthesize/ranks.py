"""Gaussian copula and Latin hypercube: the distribution of each column, joined by rank correlations (TL §2.3.5).

Both draw normal scores with the rank correlations of the table and put the quantiles of each column in their place.
The copula draws the scores at random. The Latin hypercube takes each of n equal strata of a column once, and arranges
them so that the scores have the wanted correlations (Iman and Conover, 1982): its distributions have no sampling
error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.synthesize.variables import (
    Codes,
    Donors,
    Drawn,
    Numbers,
    Problem,
    Sampler,
    Variable,
    average_neighbours,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST = 0.9999  # largest rank correlation between two variables; two equal columns would make the matrix singular


def fit_copula(problem: Problem, generator: np.random.Generator) -> Sampler:
    """Return a sampler of the Gaussian copula of the table."""
    return _sampler(problem, _random_scores)


def fit_latin_hypercube(problem: Problem, generator: np.random.Generator) -> Sampler:
    """Return a sampler of Latin hypercubes with the rank correlations of the table."""
    return _sampler(problem, _hypercube_scores)


def _sampler(
    problem: Problem, shares_of: Callable[[NDArray[np.float64], int, np.random.Generator], NDArray[np.float64]]
) -> Sampler:
    is_wide = len(problem.variables) > problem.rows
    is_nominal = any(isinstance(variable, Codes) and not variable.ordered for variable in problem.variables)
    likeness = RowLikeness.of(problem) if is_wide and is_nominal else None
    marginals = [RankMarginal.of(variable, problem, likeness) for variable in problem.variables]
    root = score_root(marginals) if is_wide else correlation_root(normal_correlations(problem, marginals))

    def draw(rows: int, generator: np.random.Generator) -> Drawn:
        shares, drawn = shares_of(root, rows, generator), list[Any]()
        for place, (variable, marginal) in enumerate(zip(problem.variables, marginals, strict=True)):
            own = shares[:, place]
            if isinstance(variable, Numbers) and variable.state is not None:
                own = _spread_evenly(own, drawn[variable.state] == 0, generator)
            drawn.append(marginal.quantiles(own))
        return drawn

    return draw


def _random_scores(root: NDArray[np.float64], rows: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return Φ of normal scores with the wanted correlations (TL 2.16), one column per variable."""
    from scipy.special import ndtr

    return np.asarray(ndtr(generator.standard_normal((rows, root.shape[1])) @ root.T))


def _hypercube_scores(root: NDArray[np.float64], rows: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return one share in each of ``rows`` equal strata, arranged like correlated scores (TL 2.12)."""
    from scipy.special import ndtri

    steps = ndtri(np.arange(1, rows + 1) / (rows + 1.0))
    scores = generator.permuted(np.tile(steps, (root.shape[1], 1)), axis=1).T
    if root.shape[1] < rows:  # else they cannot be uncorrelated
        spread = np.atleast_2d(np.cov(scores, rowvar=False, bias=True))
        values, vectors = np.linalg.eigh(spread)
        scores = (scores @ vectors) / np.sqrt(np.maximum(values, 1e-12)) @ vectors.T
    ranks = (scores @ root.T).argsort(axis=0).argsort(axis=0)
    return np.asarray((ranks + generator.random(ranks.shape)) / rows)


def _spread_evenly(
    shares: NDArray[np.float64], rows: NDArray[np.bool_], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return shares that are uniform among these rows, in the same order.

    Whether a row has a number may depend on the same things as the number. Then the scores of rows that have one are
    not those of all rows, but their numbers must have the distribution of the column.
    """
    chosen = np.flatnonzero(rows)
    ranks = shares[chosen].argsort().argsort()
    spread = shares.copy()
    spread[chosen] = (ranks + generator.random(chosen.size)) / max(1, chosen.size)
    return spread


@dataclass(frozen=True, repr=False)
class RankMarginal:
    """The distribution of one variable: the order of its codes with their shares, or its numbers."""

    order: NDArray[np.int64] | None  # codes from the lowest to the highest; None for numbers
    cumulative: NDArray[np.float64]  # of the codes in this order
    donors: Donors | None
    ranks: NDArray[np.float64]  # middle rank of each row, as a share

    @classmethod
    def of(cls, variable: Variable, problem: Problem, likeness: RowLikeness | None) -> RankMarginal:
        """Fit the distribution; nominal codes are put in the order that relates them most to the other variables."""
        if isinstance(variable, Numbers):
            known = average_neighbours(variable.values[variable.known], problem.k)
            donors = Donors.of(known, np.zeros(len(known), np.int64), 1)
            return cls(None, np.empty(0), donors, _middle_ranks(variable.values))
        if variable.ordered:
            order = np.arange(variable.size)
        else:
            order = _axis_order(variable, problem) if likeness is None else likeness.order(variable)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return cls(order, np.cumsum(variable.shares[order]), None, _middle_ranks(place[variable.values]))

    @property
    def grain(self) -> float:
        """Correlation of the middle ranks with the ranks of a continuous variable below them: √(1 − Σ p³)."""
        shares = np.unique(self.ranks, return_counts=True)[1] / len(self.ranks)
        return float(np.sqrt(max(1.0 - (shares**3).sum(), 0.0)))

    def quantiles(self, shares: NDArray[np.float64]) -> NDArray[Any]:
        """Return the values at these shares (TL 2.13)."""
        if self.order is not None:
            place = np.searchsorted(self.cumulative, shares, side="right")
            last = np.searchsorted(self.cumulative, self.cumulative[-1], side="left")  # rounding must not exceed it
            return np.asarray(self.order[np.minimum(place, last)])
        if self.donors is None or not self.donors.sizes[0]:
            return np.zeros(len(shares))
        return self.donors.numbers(np.zeros(len(shares), np.int64), shares)


def _middle_ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the mean rank of equal values, as shares of the rows."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2.0
    return np.asarray(middle[inverse] / len(values))


def _axis_order(variable: Codes, problem: Problem) -> NDArray[np.int64]:
    """Return the codes in the order of the first principal axis of the means of the other variables by code."""
    counts = np.bincount(variable.values, minlength=variable.size).astype(np.float64)
    columns = []
    for other in problem.variables:
        if other.column is variable.column:
            continue
        if isinstance(other, Numbers):
            columns.append(np.bincount(variable.values, weights=_middle_ranks(other.values), minlength=variable.size))
        else:
            pairs = np.bincount(variable.values * other.size + other.values, minlength=variable.size * other.size)
            columns += list(pairs.reshape(variable.size, other.size).T.astype(np.float64))
    if not columns:
        return np.arange(variable.size)
    means = np.column_stack(columns) / np.maximum(counts, 1.0)[:, None]
    means -= (counts @ means) / counts.sum()
    _, vectors = np.linalg.eigh((means.T * counts) @ means)
    return np.argsort(means @ vectors[:, -1], kind="stable")


@dataclass(frozen=True, eq=False, repr=False)
class RowLikeness:
    """The products of the rows of all variables: what the order of codes needs, if variables outnumber rows."""

    products: NDArray[np.float64]  # (rows, rows)

    @classmethod
    def of(cls, problem: Problem) -> RowLikeness:
        """Add up the products of ranks, and the pairs of rows with the same code."""
        products = np.zeros((problem.rows, problem.rows))
        numbers = [one for one in problem.variables if isinstance(one, Numbers)]
        if numbers:
            ranks = np.column_stack([_middle_ranks(one.values) for one in numbers])
            products += ranks @ ranks.T
        for one in problem.variables:
            if isinstance(one, Codes):
                products += one.values[:, None] == one.values
        return cls(products)

    def order(self, variable: Codes) -> NDArray[np.int64]:
        """Return the codes in the order of the first principal axis of the means of all variables by code."""
        belongs = np.equal.outer(np.arange(variable.size), variable.values).astype(np.float64)
        counts = belongs.sum(axis=1)
        weights = belongs / np.maximum(counts, 1.0)[:, None] - 1.0 / len(
            variable.values
        )  # means, less that of all rows
        root = np.sqrt(counts)
        _, vectors = np.linalg.eigh(weights @ self.products @ weights.T * np.outer(root, root))
        return np.argsort(vectors[:, -1] / np.maximum(root, 1.0), kind="stable")


def score_root(marginals: list[RankMarginal]) -> NDArray[np.float64]:
    """Return A with A Aᵀ equal to the correlations of the normal scores of the ranks, with one column per row.

    For variables that outnumber the rows: their correlations would not fit into memory, and cannot be told apart from
    chance one by one.
    """
    from scipy.special import ndtri

    scores = ndtri(np.clip([marginal.ranks for marginal in marginals], 1e-6, 1.0 - 1e-6))
    scores -= scores.mean(axis=1, keepdims=True)
    length = np.linalg.norm(scores, axis=1, keepdims=True)
    return np.asarray(scores / np.where(length > 0.0, length, 1.0))


def normal_correlations(problem: Problem, marginals: list[RankMarginal]) -> NDArray[np.float64]:
    """Return the correlations of the normal scores: Q = 2 sin(π R/6) of the rank correlations R (TL 2.15).

    Middle ranks of codes are coarser than the ranks below them, which makes their rank correlations smaller; they are
    divided by :attr:`Marginal.grain`, because drawn codes are as coarse again.
    """
    ranks = np.column_stack([marginal.ranks for marginal in marginals])
    spread = ranks.std(axis=0)
    centred = (ranks - ranks.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    grain = np.array([max(marginal.grain, 1e-3) for marginal in marginals])
    ranked = centred.T @ centred / len(ranks) / np.outer(grain, grain)
    wanted = 2.0 * np.sin(np.pi * np.clip(ranked, -LARGEST, LARGEST) / 6.0)
    np.fill_diagonal(wanted, 1.0)
    return np.asarray(wanted)


def correlation_root(wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return A with A Aᵀ equal to the nearest correlation matrix: negative eigenvalues become 0, the diagonal 1."""
    values, vectors = np.linalg.eigh(wanted)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    length = np.linalg.norm(root, axis=1, keepdims=True)
    return np.asarray(root / np.where(length > 0.0, length, 1.0))
