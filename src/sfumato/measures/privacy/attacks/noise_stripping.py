"""Noise stripping by singular value decomposition: how much of independent noise an intruder can remove.

Columns that are correlated lie near a subspace, and independent noise does not. The intruder knows the variance of the
noise, which releases report, scales the columns so that it is 1 in each, and shrinks each principal component from its
variance λ to λ − 1, its variance without noise (Kargupta et al. 2003; Huang, Du and Chen 2005). Where the rows are far
from normal, as incomes are, they are split into up to four normals, each with its own subspace. Noise that has the
correlations of the data lies in the same subspace, and stays.

What counts is the gain over the best guess from each column by itself, which shrinks it towards its mean: that needs no
decomposition, and even a column of other people's values seems to have less noise after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.eigenvectors import principal_axes
from sfumato.measures.confidence import Z
from sfumato.measures.measured_release import midpoints
from sfumato.release.assessment import Score
from sfumato.table.encoded_columns import finite_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease


# The best guess of rows without noise: a mixture of normals, each with its own linear filter.
#
# Rows are taken as draws of a mixture of normals with means m_c and covariances Σ_c, to which independent noise of
# variance 1 was added. The expectation–maximization steps for the rows without noise are those of Bovy, Hogg and
# Roweis (2011), and the guess is the posterior mean Σ_c p(c | y)·(m_c + Σ_c(Σ_c + I)⁻¹(y − m_c)). With one normal it
# is the linear filter of Huang, Du and Chen (2005). The number of normals is that with the least AIC.


if TYPE_CHECKING:
    Array = NDArray[np.float64]

SIZES = (2, 4)  # numbers of normals that are tried besides one
STARTS = 4  # fits of each number; the mean of their guesses is better than any of them
STEPS = 30  # of expectation–maximization
FITTED = 2000  # rows to which a mixture is fitted
MOST_COLUMNS = 40  # beyond which a mixture has too many parameters, and would take long
ROWS_PER_PARAMETER = 1.0  # rows needed for each parameter of a mixture
PRIOR = 1e-3  # variance that a normal has at least, in variances of the noise


@dataclass(frozen=True, repr=False)
class NormalMixture:
    """Normals of rows without noise."""

    shares: Array  # (normals,)
    means: Array  # (normals, columns)
    covariances: Array  # (normals, columns, columns)

    def filters(self) -> Array:
        """Return Σ_c(Σ_c + I)⁻¹ of each normal."""
        return np.swapaxes(np.linalg.solve(self._noisy, self.covariances), 1, 2)

    def weights(self, rows: Array) -> tuple[Array, float]:
        """Return the probability of each normal given each row, and the log-likelihood of all rows."""
        root = np.linalg.cholesky(self._noisy)
        steps = rows[None, :, :] - self.means[:, None, :]
        scaled = np.linalg.solve(root, np.swapaxes(steps, 1, 2))
        logs = np.log(self.shares)[:, None] - 0.5 * (scaled**2).sum(axis=1)
        logs -= np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)[:, None]
        logs -= 0.5 * rows.shape[1] * np.log(2.0 * np.pi)
        largest = logs.max(axis=0)
        weights = np.exp(logs - largest)
        total = weights.sum(axis=0)
        return weights / total, float((largest + np.log(total)).sum())

    def guess(self, rows: Array) -> Array:
        """Return the posterior mean of each row without noise."""
        weights, _ = self.weights(rows)
        guess = np.zeros_like(rows)
        for weight, mean, one in zip(weights, self.means, self.filters(), strict=True):
            guess += weight[:, None] * (mean + (rows - mean) @ one.T)
        return guess

    @property
    def _noisy(self) -> Array:
        return self.covariances + np.eye(self.means.shape[1])


def without_noise(rows: Array, generator: np.random.Generator) -> Array:
    """Return the best guess of the rows without independent noise of variance 1 in each column."""
    chosen = rows if len(rows) <= FITTED else rows[generator.choice(len(rows), FITTED, replace=False)]
    if rows.shape[1] > len(chosen):
        return _filter_components(rows, chosen)
    candidates = [[_fit_mixture(chosen, 1, generator)]]
    for size in SIZES:
        enough = len(chosen) >= ROWS_PER_PARAMETER * _parameters(size, rows.shape[1])
        if enough and rows.shape[1] <= MOST_COLUMNS:
            candidates.append([_fit_mixture(chosen, size, generator) for _ in range(STARTS)])
    best = min(candidates, key=lambda mixtures: min(_criterion(one, chosen) for one in mixtures))
    return np.asarray(np.mean([one.guess(rows) for one in best], axis=0))


def _filter_components(rows: Array, chosen: Array) -> Array:
    """Return the guess from the principal components of rows that are fewer than the columns.

    Noise alone has singular values up to √columns + √rows there; larger ones are shrunk by the rule with the smallest
    squared error (Gavish and Donoho, 2017).
    """
    mean = chosen.mean(axis=0)
    axes = principal_axes(chosen - mean)
    ratio = len(chosen) / rows.shape[1]
    squares = axes.values / rows.shape[1]
    kept = np.sqrt(np.maximum((squares - ratio - 1.0) ** 2 - 4.0 * ratio, 0.0)) / np.maximum(squares, 1.0)
    kept[squares <= (1.0 + np.sqrt(ratio)) ** 2] = 0.0
    return np.asarray(mean + ((rows - mean) @ axes.vectors * kept) @ axes.vectors.T)


def _parameters(size: int, columns: int) -> int:
    return size * (1 + columns + columns * (columns + 1) // 2) - 1


def _criterion(mixture: NormalMixture, rows: Array) -> float:
    """Return half of Akaike's criterion."""
    return _parameters(*mixture.means.shape) - mixture.weights(rows)[1]


def _fit_mixture(rows: Array, size: int, generator: np.random.Generator) -> NormalMixture:
    """Fit a mixture, from the nearest of some random rows on."""
    weights = _start(rows, size, generator)
    mixture = _moments(rows, weights)
    for _ in range(STEPS if size > 1 else 0):
        mixture = _step(mixture, rows, mixture.weights(rows)[0])
    return mixture


def _start(rows: Array, size: int, generator: np.random.Generator) -> Array:
    """Assign each row to the nearest of some rows, each chosen with a probability ∝ its squared distance to others."""
    seeds = [int(generator.integers(len(rows)))]
    squared = ((rows - rows[seeds[0]]) ** 2).sum(axis=1)
    for _ in range(size - 1):
        total = squared.sum()
        seeds.append(int(generator.choice(len(rows), p=squared / total if total > 0.0 else None)))
        squared = np.minimum(squared, ((rows - rows[seeds[-1]]) ** 2).sum(axis=1))
    nearest = np.argmin([((rows - rows[seed]) ** 2).sum(axis=1) for seed in seeds], axis=0)
    return np.asarray(np.eye(size)[:, nearest])


def _moments(rows: Array, weights: Array) -> NormalMixture:
    """Return the normals of weighted rows; the noise is subtracted from the variance of each principal component."""
    totals = weights.sum(axis=1) + np.finfo(float).tiny
    means = weights @ rows / totals[:, None]
    covariances = np.empty((len(weights), rows.shape[1], rows.shape[1]))
    for place, (weight, mean, total) in enumerate(zip(weights, means, totals, strict=True)):
        steps = rows - mean
        variances, axes = np.linalg.eigh((steps * weight[:, None]).T @ steps / total)
        floor = 0.0 if len(weights) == 1 else PRIOR
        covariances[place] = (axes * np.maximum(variances - 1.0, floor)) @ axes.T
    return NormalMixture(totals / totals.sum(), means, covariances)


def _step(mixture: NormalMixture, rows: Array, weights: Array) -> NormalMixture:
    """Take one step of expectation–maximization."""
    columns, totals = rows.shape[1], weights.sum(axis=1) + np.finfo(float).tiny
    means, covariances = np.empty_like(mixture.means), np.empty_like(mixture.covariances)
    for place, one in enumerate(mixture.filters()):
        old = mixture.covariances[place]
        guess = mixture.means[place] + (rows - mixture.means[place]) @ one.T
        means[place] = weights[place] @ guess / totals[place]
        steps = guess - means[place]
        inner = (steps * weights[place][:, None]).T @ steps + totals[place] * (old - one @ old)
        covariances[place] = (inner + columns * PRIOR * np.eye(columns)) / (totals[place] + columns)
        covariances[place] = 0.5 * (covariances[place] + covariances[place].T)
    return NormalMixture(totals / totals.sum(), means, covariances)


FEWEST_ROWS = 20  # rows from which the variances of components are estimated


@dataclass(frozen=True, kw_only=True)
class StrippedNoise:
    """The share of the noise that was removed: 1 is all, 0 none; below 0 the guess is worse than each column alone."""

    share: float
    error: float  # standard error of the share
    of_noise: float  # the same share of the noise itself, the squared error without any guess
    rows: int
    columns: int


def strip_noise(
    original: NDArray[np.float64], released: NDArray[np.float64], generator: np.random.Generator
) -> StrippedNoise | None:
    """Attack released numbers whose originals are in the same rows; None if less than two columns were changed.

    The share is 1 − Σ(guess − original)² ÷ Σ(guess from one column − original)², over columns in units of their noise.
    Both guesses are scaled by the best straight line, because the intruder knows by how much a method shrinks values.
    """
    if len(released) < FEWEST_ROWS:
        return None
    level = np.sqrt(((released - original) ** 2).mean(axis=0))
    altered = level > 0.0
    if altered.sum() < 2:
        return None
    scaled, true = released[:, altered] / level[altered], original[:, altered] / level[altered]
    guess = without_noise(scaled, generator)
    alone, after = _squared_errors(scaled, true), _squared_errors(guess, true)
    if not alone.mean() > 0.0:
        return None
    ratio = after.mean() / alone.mean()
    error = (after - ratio * alone).std() / alone.mean() / np.sqrt(len(alone))
    return StrippedNoise(
        share=float(1.0 - ratio),
        error=float(error),
        of_noise=float(1.0 - after.sum() / ((scaled - true) ** 2).sum()),
        rows=len(alone),
        columns=int(altered.sum()),
    )


def _squared_errors(guess: NDArray[np.float64], true: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared error of each row, after each column of the guess has been fitted to the true one."""
    centred, wanted = guess - guess.mean(axis=0), true - true.mean(axis=0)
    square = (centred**2).sum(axis=0)
    slope = (centred * wanted).sum(axis=0) / np.where(square > 0.0, square, 1.0)
    return np.asarray(((wanted - slope * centred) ** 2).sum(axis=1))


def noise_stripping_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the share of the noise that the attack removes; nothing without two altered columns of numbers."""
    if subject.origin is None:
        return
    names = [number.name for number in subject.code.numbers]
    released = np.array([midpoints(subject.released, name) for name in names]).T
    original = np.array([finite_numbers(subject.original, name) for name in names]).T
    if not names:
        return
    original = original[np.maximum(subject.origin, 0)]
    known = (subject.origin >= 0) & ~np.isnan(released).any(axis=1) & ~np.isnan(original).any(axis=1)
    stripped = strip_noise(original[known], released[known], subject.generator("noise stripping"))
    if stripped is None:
        return
    low, high = stripped.share - Z * stripped.error, stripped.share + Z * stripped.error
    yield Score(
        name="noise stripped by SVD",
        family="privacy",
        value=max(0.0, stripped.share),
        low=min(1.0, max(0.0, low)),
        high=min(1.0, max(0.0, high)),
        better="lower",
        rows=stripped.rows,
        note=f"share of the squared error of guesses from single columns that is removed, in {stripped.columns} "
        f"columns; {max(0.0, stripped.of_noise):.0%} of the noise itself",
    )
