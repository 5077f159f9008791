"""The base of the methods that swap components: white scores, swapped in every column independently.

The basic swap permutes (TL Figure 4-1). Two variants are by Perkonoja and Virta (2024): random signs, and a random
direction in place of the column. Permuted columns are no longer exactly uncorrelated, which costs half of the
precision of the covariance. TL repeats the permutation until they nearly are, which fails for tables with many
columns; here random cells are exchanged instead. The repair replaces the scores by the nearest white scores (the
polar factor), which are exactly uncorrelated but no longer have the original values.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.components.parts import ComponentsPlan
from sfumato.methods.components.restore import MARGINALS, Marginals, with_distribution
from sfumato.methods.matrix import MatrixMethod
from sfumato.methods.options import reported_option
from sfumato.params import Choice, Share, require_choice, require_number, require_share

if TYPE_CHECKING:
    from numpy.typing import NDArray

Variant = Literal["permute", "flip", "orthogonal", "forest"]
VARIANTS: tuple[Variant, ...] = ("permute", "flip", "orthogonal", "forest")
PERMUTATIONS = ("permute", "forest")  # variants in which each component keeps its values

OF_CHANCE = 0.1  # default tolerance, as a share of 1/√rows, the size of chance correlations
# With few rows hardly any order but the original one is uncorrelated, so cells are exchanged only with this many rows
# per component: of the log₂(rows!) bits of a permutation, every previous component then determines fewer than 4
ROWS_PER_COMPONENT = 10
ROUNDS = 100  # largest number of rounds, each of which proposes as many exchanges as there are rows
WELL_CONDITIONED = 0.01  # from this ratio of the smallest to the largest variance, products are as exact as needed
DEGENERATE = 1e-6  # a smallest singular value below this means that swapped columns have become collinear


@dataclass(frozen=True, kw_only=True)
class ScoreSwap:
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
        clipped = winsorise(scores, self.winsorise)
        swapped = self._once(clipped, generator)
        if self.repair:
            return whiten(swapped, generator)
        if self.variant == "flip" or self.tolerance == 1.0:
            return swapped
        swapped = self._within_tolerance(swapped, generator)
        return separate_rows(swapped, clipped, generator) if self.variant in PERMUTATIONS else swapped

    def _once(self, scores: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
        """Swap every column once, so that no row keeps all of its scores."""
        if self.variant == "orthogonal":
            return directions(scores.shape, generator)
        if scores.shape[1] == 1:  # a permutation of a single column releases all of its numbers
            return with_distribution(generator.permuted(scores[:, 0]), scores[:, 0], generator)[:, None]
        if self.variant == "forest":
            from sfumato.methods.spectral.forest import swap_along_forest

            return separate_rows(swap_along_forest(scores, generator), scores, generator)
        if self.variant == "permute":
            return separate_rows(np.asarray(generator.permuted(scores, axis=0)), scores, generator)
        signs = generator.choice(np.array([-1.0, 1.0]), size=scores.shape)
        kept = np.flatnonzero((signs > 0.0).all(axis=1))
        signs[kept, generator.integers(scores.shape[1], size=kept.size)] = -1.0
        return np.asarray(scores * signs)

    def _within_tolerance(self, swapped: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
        """Exchange random cells of each column until its correlations with the previous columns are small."""
        from sfumato.methods.spectral.exchange_kernels import exchange

        rows, mean = len(swapped), swapped.mean(axis=0)
        length = np.linalg.norm(swapped - mean, axis=0)
        length[length == 0.0] = 1.0
        columns = np.ascontiguousarray((swapped - mean) / length)  # products of these are correlations
        bound = OF_CHANCE / np.sqrt(rows) if self.tolerance is None else self.tolerance
        proposed = rows if rows >= ROWS_PER_COMPONENT * columns.shape[1] else 0
        for column in range(1, columns.shape[1]):
            for _ in range(ROUNDS):
                first, second = generator.integers(rows, size=(2, proposed))
                exchanged = exchange(columns, column, first, second, bound)
                if exchanged.largest <= bound or not exchanged.exchanges:
                    break
            if self.tolerance is not None and exchanged.largest > bound:
                raise CannotRelease(
                    f"The correlation of swapped components must be at most {self.tolerance:g}.",
                    found=f"{exchanged.largest:.3g} at best for component {column + 1}, in {rows:,} rows",
                    fix="a larger tolerance, or repair=True, which makes the correlations zero",
                )
        return np.asarray(columns * length + mean)


def freely(swap: ScoreSwap) -> ScoreSwap:
    """Return the same swap without a limit on correlations, for rows that are too few to keep one."""
    return replace(swap, repair=False, tolerance=None if swap.variant == "flip" else 1.0)


def separate_rows(
    swapped: NDArray[np.float64], scores: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return permuted scores in which no row has the first two scores of the same person.

    In a small cluster chance brings the few scores of a person together again, which reveals who is in the table. Only
    where a score comes from decides, never what the row looks like: a row that equals somebody's for another reason
    stays, because its absence would reveal who is in the table as well.
    """
    if scores.shape[1] < 2 or len(scores) < 2:
        return swapped
    first, second = (_sources(swapped[:, place], scores[:, place]) for place in (0, 1))
    separated = swapped.copy()
    for row in np.flatnonzero(first == second):  # few rows: about one per permutation
        if first[row] == second[row]:  # no exchange before has separated it
            partner = (row + int(generator.integers(1, len(scores)))) % len(scores)  # any other row will do
            first[[row, partner]] = first[[partner, row]]
            separated[[row, partner], 0] = separated[[partner, row], 0]
    return separated


def _sources(swapped: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the row from which each permuted score comes; equal scores are told apart by their order."""
    rows = np.empty(len(scores), dtype=np.int64)
    rows[np.argsort(swapped, kind="stable")] = np.argsort(scores, kind="stable")
    return rows


def directions(shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.float64]:
    """Return columns of mean 0 and variance 1 in uniformly random directions."""
    normal = generator.standard_normal(shape)
    normal -= normal.mean(axis=0)
    length = np.sqrt((normal**2).mean(axis=0))
    return np.asarray(normal / np.where(length > 0.0, length, 1.0))


def whiten(scores: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
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


def winsorise(scores: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Return scores clipped to the quantiles at which the tails with this share of the rows begin."""
    if share == 0.0:
        return scores
    low, high = np.quantile(scores, [min(share, 0.5), max(1.0 - share, 0.5)], axis=0)
    return np.clip(scores, low, high)


@dataclass(frozen=True, kw_only=True)
class SwapMethod(MatrixMethod):
    """A method that swaps the values of components between rows."""

    splits_mixtures: ClassVar[bool] = True

    variant: Variant = reported_option(
        Choice(VARIANTS),
        'How a component is swapped: "permute" its values between rows, each component by itself; permute them among '
        'rows that are near in another component, along a "forest" of pairs that depend on each other; "flip" its '
        'signs at random; or replace it by a random "orthogonal" direction.',
        default="permute",
    )
    winsorise: float = reported_option(
        Share(),
        "Share of the rows in each tail of a component that are clipped, before the swap, to the quantile at which the "
        "tail begins.",
        default=0.0,
        unit="rows",
        strengths=(0.0, 0.005, 0.01, 0.02, 0.05),
    )
    marginals: Marginals = reported_option(
        Choice(MARGINALS),
        'Whether the distribution of each column is approximately "restored" after the swap, or left "free".',
        default="free",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.swap  # checks the combination of its options

    @property
    @abstractmethod
    def swap(self) -> ScoreSwap:
        """How the components are swapped."""


@dataclass(frozen=True, repr=False)
class ScoreSwapPlan(ComponentsPlan):
    """A plan of a method that swaps components."""

    method: SwapMethod

    @property
    def marginals(self) -> Marginals:
        return self.method.marginals
