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

from sfumato.measures.confidence import Z
from sfumato.measures.measured_release import midpoints
from sfumato.measures.privacy.attacks.noise_filter import without_noise
from sfumato.release.assessment import Score
from sfumato.table.encoded_columns import finite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease

FEWEST_ROWS = 20  # rows from which the variances of components are estimated


@dataclass(frozen=True, kw_only=True)
class Stripped:
    """The share of the noise that was removed: 1 is all, 0 none; below 0 the guess is worse than each column alone."""

    share: float
    error: float  # standard error of the share
    of_noise: float  # the same share of the noise itself, the squared error without any guess
    rows: int
    columns: int


def stripped(
    original: NDArray[np.float64], released: NDArray[np.float64], generator: np.random.Generator
) -> Stripped | None:
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
    return Stripped(
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
    original = np.array([finite(subject.original, name) for name in names]).T
    if not names:
        return
    original = original[np.maximum(subject.origin, 0)]
    known = (subject.origin >= 0) & ~np.isnan(released).any(axis=1) & ~np.isnan(original).any(axis=1)
    found = stripped(original[known], released[known], subject.generator("noise stripping"))
    if found is None:
        return
    low, high = found.share - Z * found.error, found.share + Z * found.error
    yield Score(
        name="noise stripped by SVD",
        family="privacy",
        value=max(0.0, found.share),
        low=min(1.0, max(0.0, low)),
        high=min(1.0, max(0.0, high)),
        better="lower",
        rows=found.rows,
        note=f"share of the squared error of guesses from single columns that is removed, in {found.columns} columns; "
        f"{max(0.0, found.of_noise):.0%} of the noise itself",
    )
