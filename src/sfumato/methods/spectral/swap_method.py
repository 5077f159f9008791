"""The base of the methods that swap components: their options, and the restoration of the columns' distributions."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.methods.matrix import MatrixMethod, MatrixPlan
from sfumato.methods.spectral.restore import MARGINALS, Marginals, with_marginals, with_shares
from sfumato.methods.spectral.swap import VARIANTS, Swap, Variant
from sfumato.params import Choice, Share, option

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class SwapMethod(MatrixMethod):
    """A method that swaps the values of components between rows."""

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
    def swapped(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        """Return the matrix of one block with its components swapped."""

    def perturb(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        changed = self.swapped(matrix, number)
        restored = self.method.marginals == "restored" and self.setup.decoding == "largest"
        return with_shares(changed, matrix, self.setup.encoder) if restored else changed

    def restored(self, before: NDArray[np.float64], after: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        """Return the swapped numbers, with the distributions of the original columns if requested."""
        if self.method.marginals == "free":
            return after
        return with_marginals(after, before, self.setup.randomness.stream(f"marginals {number}"))

    def finalize(self, before: NDArray[np.float64], after: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        return super().finalize(before, self.restored(before, after, number), number)
