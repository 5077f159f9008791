"""A comparison of whole distributions: principal components of all products of columns up to a degree (TL §3.2).

With the kernel (xᵀy + 1)^d a linear function in kernel space is a polynomial of degree d in the columns, so the
principal components of the original in kernel space are its most important nonlinear features. Original and release are
projected on the same components and compared one by one: if relations up to order d are kept, so are the distributions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.eigenvectors import leading_eigenpairs
from sfumato.measures.confidence import shift_p_value
from sfumato.measures.permutation import chances, exchanges, largest_gaps
from sfumato.measures.scores import Score
from sfumato.params import require_int

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease

DEGREE = 4  # interactions of up to four columns (TL 3.2)
COMPONENTS = 20  # as many as in TL Table 5.1
EXACT_ROWS = 3000  # in larger tables the components are computed from this many random rows (Nyström)
TESTED_ROWS = 1296  # rows per side, chosen to detect a shift of 5 % (TL §5.2.1)
DIFFERS = 0.05  # p-value below which a component counts as different


@dataclass(frozen=True, kw_only=True)
class ComponentTest:
    """The comparison of one kernel component between original and release."""

    number: int  # from 1
    eigenvalue: float
    cumulative: float  # share of the variance in kernel space that this and all previous components explain
    shift: float  # largest difference between the cumulative distributions, over all rows
    p_value: float  # of the two-sided Kolmogorov–Smirnov test

    @property
    def differs(self) -> bool:
        """Whether the component's distribution differs from that of the original."""
        return self.p_value < DIFFERS


@dataclass(frozen=True, repr=False)
class KernelComponents:
    """The leading components of a matrix in kernel space, on which other matrices can be projected."""

    rows: NDArray[np.float64]  # the rows that span the components
    weights: NDArray[np.float64]  # (rows, components)
    eigenvalues: NDArray[np.float64]
    total: float  # variance in kernel space
    degree: int

    @classmethod
    def of(
        cls,
        matrix: NDArray[np.float64],
        *,
        generator: np.random.Generator,
        degree: int = DEGREE,
        components: int = COMPONENTS,
        exact_rows: int = EXACT_ROWS,
    ) -> KernelComponents:
        """Compute the components of all rows, or of ``exact_rows`` random rows if there are more."""
        require_int(degree, name="degree", at_least=1)
        require_int(components, name="components", at_least=1)
        few = len(matrix) <= exact_rows
        rows = matrix if few else matrix[generator.choice(len(matrix), exact_rows, replace=False)]
        kernel = (rows @ rows.T + 1.0) ** degree
        centred = kernel - kernel.mean(axis=0) - kernel.mean(axis=1)[:, None] + kernel.mean()
        found = leading_eigenpairs(centred, min(components, len(rows)), generator)
        real = found.values > 1e-12 * max(found.values.max(initial=0.0), np.finfo(float).tiny)
        values, weights = found.values[real], found.vectors[:, real] / np.sqrt(found.values[real])
        return cls(rows, weights - weights.mean(axis=0), values / len(rows), np.trace(centred) / len(rows), degree)

    def project(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the projections of the rows of a matrix on the components."""
        projected = np.empty((len(matrix), self.weights.shape[1]))
        for start in range(0, len(matrix), 4096):
            part = matrix[start : start + 4096]
            projected[start : start + 4096] = (part @ self.rows.T + 1.0) ** self.degree @ self.weights
        return projected

    @property
    def cumulative(self) -> NDArray[np.float64]:
        """Cumulative share of the variance in kernel space that the components explain."""
        return np.asarray(np.cumsum(self.eigenvalues) / self.total)


def component_tests(
    components: KernelComponents,
    original: NDArray[np.float64],
    other: NDArray[np.float64],
    generator: np.random.Generator,
    *,
    rows: int = TESTED_ROWS,
) -> tuple[ComponentTest, ...]:
    """Compare two matrices along each component, with ``rows`` random rows of each."""
    from scipy.stats import ks_2samp

    before, after = components.project(original), components.project(other)
    sampled_before = before[generator.permutation(len(before))[:rows]]
    sampled_after = after[generator.permutation(len(after))[:rows]]
    return tuple(
        ComponentTest(
            number=place + 1,
            eigenvalue=float(components.eigenvalues[place]),
            cumulative=float(components.cumulative[place]),
            shift=float(ks_2samp(before[:, place], after[:, place], method="asymp").statistic),
            p_value=shift_p_value(sampled_before[:, place], sampled_after[:, place]),
        )
        for place in range(before.shape[1])
    )


def component_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the number of leading components that differ, and the largest shift.

    The components are those of original and release together. Those of the original alone fit the original better than
    any other sample, so that even a sample of the same population would differ. Components depend on each other, so
    the sum of their squared shifts is compared with that of exchanges of original and released rows.
    """
    generator = subject.generator("kernel components")
    rows = min(TESTED_ROWS, subject.original.rows, subject.released.rows)
    sides = (subject.original_matrix, subject.released_matrix)
    both = np.concatenate([side[generator.permutation(len(side))[:rows]] for side in sides])
    components = KernelComponents.of(both, generator=generator)
    projected = components.project(both)
    if not projected.shape[1]:
        return
    projected = np.round(projected / np.abs(projected).max(axis=0), 9)  # rounding errors are no differences
    labels = exchanges(rows, rows, generator)
    shifts = np.column_stack([largest_gaps(labels, numbers) for numbers in projected.T])
    differing = int((chances(shifts)[0] <= DIFFERS).sum())
    p_value = float(chances((shifts**2).sum(axis=1, keepdims=True))[0, 0])
    count = projected.shape[1]
    explained = f"{count} components of degree {DEGREE} explain {components.cumulative[-1]:.0%} of the variance"
    yield Score(
        name="kernel components that differ",
        family="utility",
        value=float(differing),
        better="lower",
        rows=rows,
        p_value=p_value,
        note=f"{explained}; about {DIFFERS * count:.0f} by chance; p = {p_value:.3g} for the sum of squared shifts",
    )
    yield Score(
        name="shift of kernel components, largest",
        family="utility",
        value=float(shifts[0].max()),
        better="lower",
        rows=rows,
        note=explained,
    )
