"""SVD swapping: permute each singular vector independently and rebuild the matrix (TL §4.1.1, Figure 4-1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.methods.claims import MomentsKept
from sfumato.methods.spectral.bases import BASES, BasisName, invariant, principal
from sfumato.methods.spectral.restore import with_moments
from sfumato.methods.spectral.swap import Swap
from sfumato.methods.spectral.swap_method import SwapMethod, SwapPlan
from sfumato.params import Choice, Flag, Number, OrNone, option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.methods.claims import Claim
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.survey.survey import Survey


@dataclass(frozen=True, kw_only=True)
class SvdSwap(SwapMethod):
    """Swap the values of each singular vector between rows and rebuild the table: linear relations are kept.

    With ``repair`` the means and covariances of the numeric columns are kept up to rounding errors. Without it the
    components are permuted until they are nearly uncorrelated. Nonlinear relations are lost. The method promises no
    privacy: assess the release. (Lasko.)

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = dict(zip("xy", np.random.default_rng(0).normal(size=(2, 200))))
    >>> release = sf.SvdSwap().release(people, schema={"x": "quasi", "y": "quasi"})
    >>> bool(np.isclose(release.table.numbers("x").mean(), people["x"].mean()))
    True
    """

    name: ClassVar[str] = "svd-swap"
    noted: ClassVar[Mapping[str, str]] = {
        **SwapMethod.noted,
        "basis": "basis in which components were swapped",
        "variant": "how components were swapped",
    }

    repair: bool = option(
        Flag(),
        "Keep the means and covariances of the numeric columns up to rounding errors.",
        default=True,
        reported=True,
    )
    tolerance: float | None = option(
        OrNone(Number(above=0.0)),
        "Largest correlation between swapped components, at most 1; used only without repair. None: 0.1/√rows. 1: no "
        "limit.",
        default=None,
        reported=True,
    )
    basis: BasisName = option(
        Choice(BASES),
        'Basis of the components: "svd" (singular vectors), or "robust" (invariant coordinates, for tables with '
        "outliers).",
        default="svd",
        reported=True,
    )

    @property
    def swap(self) -> Swap:
        """How the components are swapped."""
        return Swap(variant=self.variant, repair=self.repair, tolerance=self.tolerance, winsorise=self.winsorise)

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> SvdSwapPlan:
        """Make the plan; the swaps are drawn when a block is transformed."""
        return SvdSwapPlan(self.setup(survey, schema, randomness), self)


@dataclass(frozen=True, repr=False)
class SvdSwapPlan(SwapPlan):
    """Swap the components of each block."""

    method: SvdSwap

    def swapped(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        basis = principal(matrix) if self.method.basis == "svd" else invariant(matrix)
        generator = self.setup.randomness.stream(f"swap {number}")
        return basis.matrix(self.method.swap(basis.scores, generator))

    def finalize(self, before: NDArray[np.float64], after: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        low, high, after = self.setup.low, self.setup.high, self.restored(before, after, number)
        finalized = np.clip(after, low, high)
        if self.method.repair:
            whole = [p for p, code in enumerate(self.setup.encoder.numbers) if code.missing is None]
            finalized[:, whole] = with_moments(after[:, whole], before[:, whole], low[whole], high[whole]).numbers
        return finalized

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        kept = tuple(code.name for code in self.setup.encoder.numbers if code.exact and self.method.repair)
        return (*super().claims, MomentsKept(columns=kept)) if kept else super().claims

    @property
    def notes(self) -> Mapping[str, object]:
        return {**super().notes, "basis": self.method.basis, "variant": self.method.variant}
