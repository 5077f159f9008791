"""Swapping of white scores: every column independently, so that no row of scores belongs to one person.

The basic swap permutes (TL Figure 4-1). Two variants are by Perkonoja and Virta (2024): random signs, and a random
direction in place of the column. Permuted columns are no longer exactly uncorrelated, which costs half of the
precision of the covariance. TL repeats the permutation until they nearly are, which fails for tables with many
columns; here random cells are exchanged instead. The repair replaces the scores by the nearest white scores (the
polar factor), which are exactly uncorrelated but no longer have the original values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.errors import CannotRelease, OptionError
from sfumato.params import require_choice, require_number, require_share

if TYPE_CHECKING:
    from numpy.typing import NDArray

Variant = Literal["permute", "flip", "orthogonal"]
VARIANTS: tuple[Variant, ...] = ("permute", "flip", "orthogonal")

OF_CHANCE = 0.1  # default tolerance, as a share of 1/√rows, the size of chance correlations
# With few rows hardly any order but the original one is uncorrelated, so cells are exchanged only with this many rows
# per component: of the log₂(rows!) bits of a permutation, every previous component then determines fewer than 4
ROWS_PER_COMPONENT = 10
ROUNDS = 100  # largest number of rounds, each of which proposes as many exchanges as there are rows
WELL_CONDITIONED = 0.01  # from this ratio of the smallest to the largest variance, products are as exact as needed
DEGENERATE = 1e-6  # a smallest singular value below this means that swapped columns have become collinear


@dataclass(frozen=True, kw_only=True)
class Swap:
    """How white scores are swapped."""

    variant: Variant = "permute"
    repair: bool = True  # make the swapped scores exactly white
    tolerance: float | None = None  # largest correlation of swapped columns, without repair; None: 0.1/√rows
    winsorise: float = 0.0  # share of each tail of every column that is clipped before the swap

    def __post_init__(self) -> None:
        require_choice(self.variant, name="variant", choices=VARIANTS)
        require_share(self.winsorise, name="winsorise")
        if self.tolerance is not None:
            require_number(self.tolerance, name="tolerance", above=0.0)
            require_share(self.tolerance, name="tolerance")
            if self.variant == "flip":
                raise OptionError(
                    'A tolerance must not be given with variant="flip": random signs leave every score in its row.',
                    found='variant="flip" and a tolerance',
                    fix='variant="permute", or no tolerance',
                )

    def __call__(self, scores: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
        """Return swapped scores: every column is swapped independently of the others."""
        if not scores.size:
            return scores
        swapped = self._once(winsorised(scores, self.winsorise), generator)
        if self.repair:
            return whitened(swapped, generator)
        any_correlation = self.variant == "flip" or self.tolerance == 1.0
        return swapped if any_correlation else self._within_tolerance(swapped, generator)

    def _once(self, scores: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
        """Swap every column once."""
        if self.variant == "permute":
            return np.asarray(generator.permuted(scores, axis=0))
        if self.variant == "flip":
            return np.asarray(scores * generator.choice(np.array([-1.0, 1.0]), size=scores.shape))
        return directions(scores.shape, generator)

    def _within_tolerance(self, swapped: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
        """Exchange random cells of each column until its correlations with the previous columns are small."""
        from sfumato.kernels.exchange import exchange

        rows, mean = len(swapped), swapped.mean(axis=0)
        length = np.linalg.norm(swapped - mean, axis=0)
        length[length == 0.0] = 1.0
        columns = np.ascontiguousarray((swapped - mean) / length)  # products of these are correlations
        bound = OF_CHANCE / np.sqrt(rows) if self.tolerance is None else self.tolerance
        proposed = rows if rows >= ROWS_PER_COMPONENT * columns.shape[1] else 0
        for column in range(1, columns.shape[1]):
            for _ in range(ROUNDS):
                first, second = generator.integers(rows, size=(2, proposed))
                found = exchange(columns, column, first, second, bound)
                if found.largest <= bound or not found.exchanges:
                    break
            if self.tolerance is not None and found.largest > bound:
                raise CannotRelease(
                    f"The correlation of swapped components must be at most {self.tolerance:g}.",
                    found=f"{found.largest:.3g} at best for component {column + 1}, in {rows:,} rows",
                    fix="a larger tolerance, or repair=True, which makes the correlations zero",
                )
        return np.asarray(columns * length + mean)


def directions(shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.float64]:
    """Return columns of mean 0 and variance 1 in uniformly random directions."""
    normal = generator.standard_normal(shape)
    normal -= normal.mean(axis=0)
    length = np.sqrt((normal**2).mean(axis=0))
    return np.asarray(normal / np.where(length > 0.0, length, 1.0))


def whitened(scores: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    """Return the nearest scores with mean 0, variance 1 and no correlation: √rows times the polar factor."""
    rows = len(scores)
    centred = scores - scores.mean(axis=0)
    variances, vectors = np.linalg.eigh(centred.T @ centred / rows)
    if variances[0] > WELL_CONDITIONED * variances[-1]:
        # the polar factor S (SᵀS)^-½, ten times as fast as by singular vectors; no digit that matters is lost
        return np.asarray(centred @ ((vectors / np.sqrt(variances)) @ vectors.T))
    left, singular, right = np.linalg.svd(centred, full_matrices=False)
    if singular[-1] < DEGENERATE * np.sqrt(rows):
        # with few rows, swapped columns can coincide; a random direction is added to make them independent
        centred = centred + 0.1 * directions(centred.shape, generator)
        left, _, right = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(left @ right * np.sqrt(rows))


def winsorised(scores: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Return scores clipped to the quantiles at which the tails with this share of the rows begin."""
    if share == 0.0:
        return scores
    low, high = np.quantile(scores, [min(share, 0.5), max(1.0 - share, 0.5)], axis=0)
    return np.clip(scores, low, high)
