"""Swapping white scores: every column by itself, so that no row of scores is anybody's any more.

The plain swap permutes (TL Figure 4-1). Two variants are Perkonoja and Virta's (2024): random signs, and a random
direction in place of the column. The permuted columns are no longer exactly uncorrelated, which costs half of the
precision of the covariance; the repair takes the nearest white scores (the polar factor) and so gives it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.errors import CannotRelease
from sfumato.params import require_choice, require_number, require_share

if TYPE_CHECKING:
    from numpy.typing import NDArray

Variant = Literal["permute", "flip", "orthogonal"]
VARIANTS: tuple[Variant, ...] = ("permute", "flip", "orthogonal")

DRAWS = 1000  # how often a swap is drawn anew to come under a tolerance
DEGENERATE = 1e-6  # a smallest singular value below this says that swapped columns have become collinear


@dataclass(frozen=True, kw_only=True)
class Swap:
    """How white scores are swapped."""

    variant: Variant = "permute"
    repair: bool = True  # give back white scores
    tolerance: float | None = None  # largest correlation between swapped columns; drawn anew until it is met
    winsorise: float = 0.0  # share of each tail of every column that is drawn in before the swap

    def __post_init__(self) -> None:
        require_choice(self.variant, name="variant", choices=VARIANTS)
        require_share(self.winsorise, name="winsorise")
        if self.tolerance is not None:
            require_number(self.tolerance, name="tolerance", above=0.0)

    def __call__(self, scores: NDArray[np.float64], draw: np.random.Generator) -> NDArray[np.float64]:
        """Swapped scores: the same columns, none of the same rows."""
        if not scores.size:
            return scores
        drawn_in = winsorised(scores, self.winsorise)
        swapped = self._within_tolerance(drawn_in, draw)
        return whitened(swapped, draw) if self.repair else swapped

    def _once(self, scores: NDArray[np.float64], draw: np.random.Generator) -> NDArray[np.float64]:
        """Every column by itself."""
        if self.variant == "permute":
            return np.asarray(draw.permuted(scores, axis=0))
        if self.variant == "flip":
            return np.asarray(scores * draw.choice(np.array([-1.0, 1.0]), size=scores.shape))
        return directions(scores.shape, draw)

    def _within_tolerance(self, scores: NDArray[np.float64], draw: np.random.Generator) -> NDArray[np.float64]:
        """Draw each column until it hardly correlates with those before it: TL's loop, one column at a time."""
        swapped = self._once(scores, draw)
        if self.tolerance is None:
            return swapped
        for column in range(1, scores.shape[1]):
            best = np.inf
            for _ in range(DRAWS):
                largest = largest_correlation(swapped[:, column], swapped[:, :column])
                if largest <= self.tolerance:
                    break
                best = min(best, largest)
                swapped[:, [column]] = self._once(scores[:, [column]], draw)
            else:
                raise CannotRelease(
                    f"Swapped components must correlate by at most {self.tolerance:g}.",
                    found=f"{best:.3g} at best in {DRAWS} draws of component {column + 1}",
                    fix="a larger tolerance, or repair=True, which makes the correlations zero",
                )
        return swapped


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


def largest_correlation(column: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Largest absolute correlation of a column with others; 0 without spread."""
    centred, around = column - column.mean(), others - others.mean(axis=0)
    lengths = np.linalg.norm(centred) * np.linalg.norm(around, axis=0)
    products = np.abs(centred @ around)
    return float(np.divide(products, lengths, where=lengths > 0.0, out=np.zeros_like(products)).max(initial=0.0))
