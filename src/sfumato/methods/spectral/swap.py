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
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.matrix import MatrixMethod, MatrixPlan, Ranges, impute
from sfumato.methods.options import reported_option
from sfumato.methods.spectral.restore import (
    ATTEMPTS,
    MARGINALS,
    ExchangeableCells,
    Marginals,
    with_marginals,
    with_shares,
)
from sfumato.params import Choice, Share, require_choice, require_number, require_share
from sfumato.plan.claims.copies import NoUniqueRowCopied, find_copies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.plan import Claim, Outcome
    from sfumato.table.table import Table

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
        swapped = self._once(winsorise(scores, self.winsorise), generator)
        if self.repair:
            return whiten(swapped, generator)
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
        'How a component is swapped: "permute" its values between rows, "flip" its signs at random, or replace it by a '
        'random "orthogonal" direction.',
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
class ScoreSwapPlan(MatrixPlan):
    """A plan that swaps components and then, if requested, restores the distributions of the columns."""

    method: SwapMethod

    @abstractmethod
    def swap_components(
        self, matrix: NDArray[np.float64], filled: NDArray[np.float64], number: int
    ) -> NDArray[np.float64]:
        """Return the matrix of one block with its components swapped.

        Rows without a number have the mean in ``matrix`` and a drawn number in ``filled``.
        """

    def perturb(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        encoder = self.setup.encoder
        filled = impute(matrix, encoder, self.setup.randomness.stream(f"imputation {number}"))
        changed = self.swap_components(matrix, filled, number)
        restored = self.method.marginals == "restored" and self.setup.decoding == "largest"
        return with_shares(changed, matrix, encoder, only_mixtures=not restored)

    def restore(
        self, before: NDArray[np.float64], after: NDArray[np.float64], ranges: Ranges, number: int
    ) -> NDArray[np.float64]:
        """Return numbers with the distributions of the original columns, if requested or where columns have atoms."""
        free = self.method.marginals == "free"
        if free and ranges.is_atom is None:
            return after
        generator = self.setup.randomness.stream(f"marginals {number}")
        codes = self.setup.encoder.numbers
        return with_marginals(after, before, generator, is_atom=ranges.is_atom, codes=codes, only_mixtures=free)

    def finalize(
        self, before: NDArray[np.float64], after: NDArray[np.float64], ranges: Ranges, number: int
    ) -> NDArray[np.float64]:
        return ranges.clip(self.restore(before, after, ranges, number))

    def keep_promises(
        self, before: NDArray[np.float64], after: NDArray[np.float64], ranges: Ranges
    ) -> NDArray[np.float64]:
        """Return the numbers after a few cells were exchanged, with what the method promises of them."""
        return ranges.clip(after)

    def transform(self, block: Table, number: int) -> Outcome:
        encoder, before = self.setup.encoder, self.numbers(block)
        matrix = self.perturb(encoder.encode(block), number)
        numbers = self.finalize(before, encoder.natural(matrix), self.setup.ranges(matrix), number)
        released = self.decode_block(matrix, numbers, number)
        copies = find_copies(released, block)
        if copies.size:
            released = self._without_copies(ExchangeableCells.of(released, numbers, encoder), copies, block, number)
        return self.outcome(released, number)

    def _without_copies(self, cells: ExchangeableCells, copies: NDArray[np.int64], block: Table, number: int) -> Table:
        """Return the released table after copies of people who are unique in the block have been changed."""
        generator, before = self.setup.randomness.stream(f"copies {number}"), self.numbers(block)
        for attempt in range(ATTEMPTS):
            cells = cells.separate(copies, attempt, generator)
            cells = replace(cells, numbers=self.keep_promises(before, cells.numbers, self.setup.ranges(cells.matrix)))
            copies = find_copies(cells.table, block)
            if not copies.size:
                break
        return cells.table

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        # blocks do not know the unique rows of other blocks; those were not used to make their rows
        no_copies = (NoUniqueRowCopied(columns=self.setup.encoder.names),) if self.blocks == 1 else ()
        return (*super().claims, *no_copies)
