"""The base of the methods that swap components: their options, the restoration of columns, and no copies of people."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato.methods.claims import NoUniqueRowCopied
from sfumato.methods.claims.copies import copied_rows
from sfumato.methods.imputation import imputed
from sfumato.methods.matrix import MatrixMethod, MatrixPlan
from sfumato.methods.spectral.copies import ATTEMPTS, Cells
from sfumato.methods.spectral.restore import MARGINALS, Marginals, with_marginals, with_shares
from sfumato.methods.spectral.swap import VARIANTS, Swap, Variant
from sfumato.params import Choice, Share, option

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.methods.base import Outcome
    from sfumato.methods.claims import Claim
    from sfumato.methods.matrix import Ranges
    from sfumato.table.table import Table


@dataclass(frozen=True, kw_only=True)
class SwapMethod(MatrixMethod):
    """A method that swaps the values of components between rows."""

    splits_mixtures: ClassVar[bool] = True

    variant: Variant = option(
        Choice(VARIANTS),
        'How a component is swapped: "permute" its values between rows, "flip" its signs at random, or replace it by a '
        'random "orthogonal" direction.',
        default="permute",
        reported=True,
    )
    winsorise: float = option(
        Share(),
        "Share of the rows in each tail of a component that are clipped, before the swap, to the quantile at which the "
        "tail begins.",
        default=0.0,
        unit="rows",
        reported=True,
        strengths=(0.0, 0.005, 0.01, 0.02, 0.05),
    )
    marginals: Marginals = option(
        Choice(MARGINALS),
        'Whether the distribution of each column is approximately "restored" after the swap, or left "free".',
        default="free",
        reported=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.swap  # checks the combination of its options

    @property
    @abstractmethod
    def swap(self) -> Swap:
        """How the components are swapped."""


@dataclass(frozen=True, repr=False)
class SwapPlan(MatrixPlan):
    """A plan that swaps components and then, if requested, restores the distributions of the columns."""

    method: SwapMethod

    @abstractmethod
    def swapped(self, matrix: NDArray[np.float64], filled: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        """Return the matrix of one block with its components swapped.

        Rows without a number have the mean in ``matrix`` and a drawn number in ``filled``.
        """

    def perturb(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        encoder = self.setup.encoder
        filled = imputed(matrix, encoder, self.setup.randomness.stream(f"imputation {number}"))
        changed = self.swapped(matrix, filled, number)
        restored = self.method.marginals == "restored" and self.setup.decoding == "largest"
        return with_shares(changed, matrix, encoder, only_mixtures=not restored)

    def restored(
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
        return ranges.clip(self.restored(before, after, ranges, number))

    def kept(self, before: NDArray[np.float64], after: NDArray[np.float64], ranges: Ranges) -> NDArray[np.float64]:
        """Return the numbers after a few cells were exchanged, with what the method promises of them."""
        return ranges.clip(after)

    def transform(self, block: Table, number: int) -> Outcome:
        encoder, before = self.setup.encoder, self.numbers(block)
        matrix = self.perturb(encoder.encode(block), number)
        numbers = self.finalize(before, encoder.natural(matrix), self.setup.ranges(matrix), number)
        released = self.decoded(matrix, numbers, number)
        copies = copied_rows(released, block)
        if copies.size:
            released = self._without_copies(Cells.of(released, numbers, encoder), copies, block, number)
        return self.outcome(released, number)

    def _without_copies(self, cells: Cells, copies: NDArray[np.int64], block: Table, number: int) -> Table:
        """Return the released table after copies of people who are unique in the block have been changed."""
        generator, before = self.setup.randomness.stream(f"copies {number}"), self.numbers(block)
        for attempt in range(ATTEMPTS):
            cells = cells.separated(copies, attempt, generator)
            cells = replace(cells, numbers=self.kept(before, cells.numbers, self.setup.ranges(cells.matrix)))
            copies = copied_rows(cells.table, block)
            if not copies.size:
                break
        return cells.table

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        # blocks do not know the unique rows of other blocks; those were not used to make their rows
        no_copies = (NoUniqueRowCopied(columns=self.setup.encoder.names),) if self.blocks == 1 else ()
        return (*super().claims, *no_copies)
