"""SVD swapping: permute each singular vector by itself and rebuild (TL §4.1.1, Figure 4-1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.methods.matrix import MatrixMethod, MatrixPlan, MatrixSetup
from sfumato.methods.spectral.bases import BASES, BasisWord, invariant, principal
from sfumato.methods.spectral.claims import MomentsKept
from sfumato.methods.spectral.restore import MARGINALS, Marginals, with_marginals, with_moments, with_shares
from sfumato.methods.spectral.swap import Swap, Variant
from sfumato.params import require_choice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.methods.claims import Claim
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.survey.survey import Survey


@dataclass(frozen=True, kw_only=True)
class SvdSwap(MatrixMethod):
    """Swap the rows of each singular vector: linear relations stay, rows are nobody's.

    With ``repair`` the means and covariances of the numeric columns are kept to rounding, in their own units; without
    it components are permuted, as TL does, until they hardly correlate. What is not linear is lost.
    """

    name: ClassVar[str] = "svd-swap"

    repair: bool = True  # keep means and covariances exactly
    # largest correlation of swapped components, where there is no repair; None: 0.1/√rows, 1: as the draw falls
    tolerance: float | None = None
    basis: BasisWord = "svd"  # "robust": invariant coordinates, for tables with outliers
    variant: Variant = "permute"  # "flip": random signs; "orthogonal": random directions
    winsorise: float = 0.0  # share of each tail of the components drawn in before the swap
    marginals: Marginals = "free"  # "restored": bring back each column's own distribution, nearly

    def __post_init__(self) -> None:
        MatrixMethod.__post_init__(self)
        require_choice(self.basis, name="basis", choices=BASES)
        require_choice(self.marginals, name="marginals", choices=MARGINALS)
        _ = self.swap  # checks its own options

    @property
    def swap(self) -> Swap:
        """How the components are swapped."""
        return Swap(variant=self.variant, repair=self.repair, tolerance=self.tolerance, winsorise=self.winsorise)

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> SvdSwapPlan:
        """Everything is decided here but the draws."""
        return SvdSwapPlan(self.ground(survey, schema, randomness), self)


@dataclass(frozen=True, repr=False)
class SvdSwapPlan(MatrixPlan):
    """Swap the components of each block."""

    ground: MatrixSetup
    method: SvdSwap

    def change(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        basis = principal(matrix) if self.method.basis == "svd" else invariant(matrix)
        draw = self.ground.randomness.stream(f"swap {number}")
        changed = basis.matrix(self.method.swap(basis.scores, draw))
        restored = self.method.marginals == "restored" and self.ground.decoding == "largest"
        return with_shares(changed, matrix, self.ground.code) if restored else changed

    def settle(self, before: NDArray[np.float64], after: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        low, high = self.ground.low, self.ground.high
        if self.method.marginals == "restored":
            after = with_marginals(after, before, self.ground.randomness.stream(f"marginals {number}"))
        settled = np.clip(after, low, high)
        if self.method.repair:
            whole = [p for p, code in enumerate(self.ground.code.numbers) if code.missing is None]
            settled[:, whole] = with_moments(after[:, whole], before[:, whole], low[whole], high[whole]).numbers
        return settled

    @property
    def claims(self) -> tuple[Claim, ...]:
        kept = tuple(code.name for code in self.ground.code.numbers if code.exact and self.method.repair)
        return (*super().claims, MomentsKept(columns=kept)) if kept else super().claims

    @property
    def notes(self) -> Mapping[str, object]:
        return {**super().notes, "basis": self.method.basis, "variant": self.method.variant}
