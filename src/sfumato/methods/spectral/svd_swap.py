"""SVD swapping: permute each singular vector independently and rebuild the matrix (TL §4.1.1, Figure 4-1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.errors import OptionError
from sfumato.methods.components.bases import BASES, BasisName, invariant, principal
from sfumato.methods.options import reported_option
from sfumato.methods.spectral.higher_moments import require_room, with_higher_moments
from sfumato.methods.spectral.moments import EXACT, with_moments
from sfumato.methods.spectral.swap import ScoreSwap, ScoreSwapPlan, SwapMethod, freely
from sfumato.params import Choice, Flag, Number, OrNone, Whole
from sfumato.plan.claims.kept_statistics import HigherMomentsKept, MomentsKept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.methods.matrix import Ranges
    from sfumato.plan.plan import Claim
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema

ROUNDED = 1e-6  # relative error of the moments that is small enough for numbers that are rounded afterwards
# With fewer rows per numeric column, hardly any table but the original has its covariance within the same ranges
ROWS_PER_COLUMN = 10
# In two columns with atoms, only rows that have a number in both can change the covariance; this many are needed
BOTH_NUMBERS = 40


@dataclass(frozen=True, kw_only=True)
class SvdSwap(SwapMethod):
    """Swap the values of each singular vector between rows and rebuild the table: linear relations are kept.

    With ``repair`` the means and covariances of the numeric columns are kept up to rounding errors, if that is possible
    with every number inside its range. Without it the components are permuted until they are nearly uncorrelated.
    Nonlinear relations are lost; ``degree=4`` keeps those of squares and products of columns. Rows are not filtered: a
    row that equals somebody's occurs by chance, about as often for people who took part as for people who did not. The
    method promises no privacy: assess the release. (Lasko.)

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = dict(zip("xy", np.random.default_rng(0).normal(size=(2, 200))))
    >>> release = sf.SvdSwap().release(people, schema={"x": "quasi", "y": "quasi"})
    >>> bool(np.isclose(release.table.numbers("x").mean(), people["x"].mean()))
    True
    """

    name: ClassVar[str] = "svd-swap"
    theory: ClassVar[str] = "spectral"
    manifest_notes: ClassVar[Mapping[str, str]] = {
        **SwapMethod.manifest_notes,
        "basis": "basis in which components were swapped",
        "variant": "how components were swapped",
        "moments kept": "columns whose means and covariances, and moments up to the degree, are those of the original",
    }

    repair: bool = reported_option(
        Flag(),
        "Keep the means and covariances of the numeric columns up to rounding errors. Promised for continuous columns "
        "without missing values and extreme outliers, in tables with at least ten rows per numeric column.",
        default=True,
    )
    degree: int = reported_option(
        Whole(at_least=2),
        "Highest degree of the moments that the repair keeps. 2: means and covariances; 3: also skewness, and the "
        "covariances of squares and products with columns; 4: also kurtosis, and the covariances of squares and "
        "products. Promised for the same columns. Higher degrees tell more about people with extreme values.",
        default=2,
    )
    tolerance: float | None = reported_option(
        OrNone(Number(above=0.0)),
        "Largest correlation between swapped components, at most 1; used only without repair. None: 0.1/√rows. 1: no "
        "limit.",
        default=None,
    )
    basis: BasisName = reported_option(
        Choice(BASES),
        'Basis of the components: "svd" (singular vectors); "robust" (invariant coordinates, for tables with '
        'outliers); or "kernel" (components of the Gaussian kernel, which follow a bent surface; rows are brought back '
        "by the nearest tangent of the surface).",
        default="svd",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.degree > 2 and not self.repair:
            raise OptionError(
                "Moments above the second are kept by the repair.",
                found=f"repair=False, degree={self.degree}",
                fix="repair=True, or degree=2",
            )

    @property
    def swap(self) -> ScoreSwap:
        """How the components are swapped."""
        return ScoreSwap(variant=self.variant, repair=self.repair, tolerance=self.tolerance, winsorise=self.winsorise)

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> SvdSwapPlan:
        """Make the plan; the swaps are drawn when a block is transformed."""
        setup = self.setup(survey, schema, randomness)
        plan = SvdSwapPlan(setup, self, survey.rows // setup.blocks)
        if self.degree == 2:
            return plan
        require_room(plan.rows, len(plan.promised), self.degree)
        sample = survey.sample.table.matrix(plan.kept)
        scales = np.where((spread := sample.std(axis=0)) > 0.0, spread, 1.0)
        claim = HigherMomentsKept(
            columns=plan.kept, degree=self.degree, centres=tuple(sample.mean(axis=0)), scales=tuple(scales)
        )
        return replace(plan, higher=claim)


@dataclass(frozen=True, repr=False)
class SvdSwapPlan(ScoreSwapPlan):
    """Swap the components of each block."""

    method: SvdSwap
    rows: int  # on average per block
    higher: HigherMomentsKept | None = None  # what is promised of moments above the second

    def swap_components(
        self, matrix: NDArray[np.float64], filled: NDArray[np.float64], number: int
    ) -> NDArray[np.float64]:
        generator = self.setup.randomness.stream(f"swap {number}")
        if self.method.basis == "kernel":
            from sfumato.methods.components.surface import swap_on_surface

            # the pre-image undoes what whitening would do to the scores; moments are repaired in the columns
            return swap_on_surface(filled, freely(self.method.swap), freely(ScoreSwap()), generator)
        basis = principal(filled) if self.method.basis == "svd" else invariant(filled)
        return basis.matrix(self.method.swap(basis.scores, generator))

    def finalize(
        self, before: NDArray[np.float64], after: NDArray[np.float64], ranges: Ranges, number: int
    ) -> NDArray[np.float64]:
        after = self.restore(before, after, ranges, number)
        if not self.method.repair:
            return ranges.clip(after)
        finalized = self._repair(before, after, ranges)
        if self.higher is not None:
            columns, limits = self.promised, ranges.of(self.promised)
            finalized[:, columns] = with_higher_moments(
                finalized[:, columns], before[:, columns], limits.low, limits.high, self.method.degree
            ).numbers
        return finalized

    def _repair(self, before: NDArray[np.float64], after: NDArray[np.float64], ranges: Ranges) -> NDArray[np.float64]:
        """Return the numbers within their ranges, with the means and covariances of before as far as possible."""
        tolerance = EXACT if self.promised else ROUNDED
        every = [place for place, code in enumerate(self.setup.encoder.numbers) if code.missing is None]
        if len(every) == after.shape[1]:  # no column has to be left out, and none is copied
            restored = with_moments(after, before, ranges.low, ranges.high, tolerance=tolerance)
            finalized = restored.numbers
        else:
            low, high = ranges.of(every).low, ranges.of(every).high
            restored = with_moments(after[:, every], before[:, every], low, high, tolerance=tolerance)
            finalized = ranges.clip(after)
            finalized[:, every] = restored.numbers
        return finalized if restored.converged else self._keep_promised(before, finalized, ranges)

    def finalize_part(
        self, before: NDArray[np.float64], after: NDArray[np.float64], ranges: Ranges, number: int
    ) -> NDArray[np.float64]:
        # white scores keep the covariances of the matrix; those of the columns, which would be repaired, are not
        # promised in a table with more columns than rows
        return ranges.clip(self.restore(before, after, ranges, number))

    def _keep_promised(
        self, before: NDArray[np.float64], after: NDArray[np.float64], ranges: Ranges
    ) -> NDArray[np.float64]:
        """Return the numbers within their ranges, with the moments that are promised."""
        finalized, columns = ranges.clip(after), self.promised
        if columns:
            limits = ranges.of(columns)
            finalized[:, columns] = with_moments(
                finalized[:, columns], before[:, columns], limits.low, limits.high
            ).numbers
        return finalized

    @cached_property
    def promised(self) -> list[int]:
        """The numeric columns whose moments are promised: those that can be kept within the ranges of the numbers."""
        numbers = self.setup.encoder.numbers
        if not self.method.repair or self.rows < ROWS_PER_COLUMN * len(numbers):
            return []
        return [
            place
            for place, code in enumerate(numbers)
            if code.exact and code.has_room and self.rows * code.number_share**2 >= BOTH_NUMBERS
        ]

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        own = (MomentsKept(columns=self.kept),) if self.kept else ()
        return (*super().claims, *own, *([self.higher] if self.higher else []))

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of the columns whose moments are promised."""
        return tuple(self.setup.encoder.numbers[place].name for place in self.promised)

    @property
    def notes(self) -> Mapping[str, object]:
        own = {"basis": self.method.basis, "variant": self.method.variant, "moments kept": list(self.kept)}
        return {**super().notes, **own}
