"""Swapping white scores: every column by itself, so that no row of scores is anybody's any more.

The plain swap permutes (TL Figure 4-1). Two variants are Perkonoja and Virta's (2024): random signs, and a random
direction in place of the column. The permuted columns are no longer exactly uncorrelated, which costs half of the
precision of the covariance. TL draws until they nearly are, which a table of many columns never meets; here random
cells are exchanged until they are. The repair takes the nearest white scores (the polar factor) and so makes them
exactly uncorrelated, at the price of values that are no longer those of the columns.
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

OF_CHANCE = 0.1  # without a tolerance, correlations come down to this share of 1/√rows, which is what chance leaves
# Of a few rows hardly any other order is uncorrelated than the people's own, so cells are exchanged only where there
# are so many rows a component: of the log₂(rows!) bits of a permutation, every component before it then takes under 4
ROWS_A_COMPONENT = 10
ROUNDS = 100  # how often as many exchanges as there are rows are proposed
DEGENERATE = 1e-6  # a smallest singular value below this says that swapped columns have become collinear


@dataclass(frozen=True, kw_only=True)
class Swap:
    """How white scores are swapped."""

    variant: Variant = "permute"
    repair: bool = True  # give back white scores
    tolerance: float | None = None  # largest correlation of swapped columns, unless repaired; None: a tenth of chance
    winsorise: float = 0.0  # share of each tail of every column that is drawn in before the swap

    def __post_init__(self) -> None:
        require_choice(self.variant, name="variant", choices=VARIANTS)
        require_share(self.winsorise, name="winsorise")
        if self.tolerance is not None:
            require_number(self.tolerance, name="tolerance", above=0.0)
            require_share(self.tolerance, name="tolerance")
            if self.variant == "flip":
                raise OptionError(
                    "Random signs leave every score in its row, where it cannot be exchanged to meet a tolerance.",
                    found='variant="flip" and a tolerance',
                    fix='variant="permute"',
                )

    def __call__(self, scores: NDArray[np.float64], draw: np.random.Generator) -> NDArray[np.float64]:
        """Swapped scores: the same columns, none of the same rows."""
        if not scores.size:
            return scores
        swapped = self._once(winsorised(scores, self.winsorise), draw)
        if self.repair:
            return whitened(swapped, draw)
        as_it_fell = self.variant == "flip" or self.tolerance == 1.0
        return swapped if as_it_fell else self._within_tolerance(swapped, draw)

    def _once(self, scores: NDArray[np.float64], draw: np.random.Generator) -> NDArray[np.float64]:
        """Every column by itself."""
        if self.variant == "permute":
            return np.asarray(draw.permuted(scores, axis=0))
        if self.variant == "flip":
            return np.asarray(scores * draw.choice(np.array([-1.0, 1.0]), size=scores.shape))
        return directions(scores.shape, draw)

    def _within_tolerance(self, swapped: NDArray[np.float64], draw: np.random.Generator) -> NDArray[np.float64]:
        """Exchange random cells of each column until it hardly correlates with those before it."""
        from sfumato.kernels.exchange import exchange

        rows, mean = len(swapped), swapped.mean(axis=0)
        length = np.linalg.norm(swapped - mean, axis=0)
        length[length == 0.0] = 1.0
        columns = np.ascontiguousarray((swapped - mean) / length)  # products of these are correlations
        bound = OF_CHANCE / np.sqrt(rows) if self.tolerance is None else self.tolerance
        proposed = rows if rows >= ROWS_A_COMPONENT * columns.shape[1] else 0
        for column in range(1, columns.shape[1]):
            for _ in range(ROUNDS):
                first, second = draw.integers(rows, size=(2, proposed))
                found = exchange(columns, column, first, second, bound)
                if found.largest <= bound or not found.exchanges:
                    break
            if self.tolerance is not None and found.largest > bound:
                raise CannotRelease(
                    f"Swapped components must correlate by at most {self.tolerance:g}.",
                    found=f"{found.largest:.3g} at best, of component {column + 1} in {rows:,} rows",
                    fix="a larger tolerance, or repair=True, which makes the correlations zero",
                )
        return np.asarray(columns * length + mean)


def directions(shape: tuple[int, ...], draw: np.random.Generator) -> NDArray[np.float64]:
    """Columns of mean 0 and variance 1 in a uniformly random direction."""
    normal = draw.standard_normal(shape)
    normal -= normal.mean(axis=0)
    length = np.sqrt((normal**2).mean(axis=0))
    return np.asarray(normal / np.where(length > 0.0, length, 1.0))


def whitened(scores: NDArray[np.float64], draw: np.random.Generator) -> NDArray[np.float64]:
    """The nearest scores of mean 0, variance 1 and no correlation: √rows times the polar factor."""
    rows = len(scores)
    centred = scores - scores.mean(axis=0)
    left, singular, right = np.linalg.svd(centred, full_matrices=False)
    if singular[-1] < DEGENERATE * np.sqrt(rows):
        # columns of a few rows can fall on each other; a random direction stands in for what was lost
        centred = centred + 0.1 * directions(centred.shape, draw)
        left, _, right = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(left @ right * np.sqrt(rows))


def winsorised(scores: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Scores with this share of each tail drawn in to the quantile where the tail begins."""
    if share == 0.0:
        return scores
    low, high = np.quantile(scores, [min(share, 0.5), max(1.0 - share, 0.5)], axis=0)
    return np.clip(scores, low, high)
