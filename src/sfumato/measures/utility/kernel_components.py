"""The whole distribution at once: principal components of all products of columns up to a degree (TL §3.2).

With the kernel (xᵀy + 1)^d a straight line in kernel space is a polynomial of degree d in the columns, so the
components of the original there are the nonlinear features that matter most in it. Original and release are projected
on the same components and compared one by one: where relations up to order d are kept, so are the distributions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.eigenvectors import leading_eigenpairs
from sfumato.measures.confidence import shift_p_value
from sfumato.measures.scores import Score
from sfumato.params import require_int

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease

DEGREE = 4  # interactions of up to four columns (TL 3.2)
COMPONENTS = 20  # as many as TL Table 5.1 compares
EXACT_ROWS = 3000  # beyond it the components come from so many random rows (Nyström)
TESTED_ROWS = 1296  # rows a side, such that a shift of 5 % is of note (TL §5.2.1)
DIFFERS = 0.05  # a p-value below it says that a component differs


@dataclass(frozen=True, kw_only=True)
class ComponentTest:
    """One kernel component, original against release."""

    number: int  # from 1
    eigenvalue: float
    cumulative: float  # share of the variance in kernel space up to and with this component
    shift: float  # largest difference of the cumulative distributions, over all rows
    p_value: float  # of the two-sided Kolmogorov–Smirnov test

    @property
    def differs(self) -> bool:
        """Whether the component's distribution is not that of the original."""
        return self.p_value < DIFFERS


@dataclass(frozen=True, repr=False)
class KernelComponents:
    """The leading components of one matrix in kernel space, on which others can be projected."""

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
        draw: np.random.Generator,
        degree: int = DEGREE,
        components: int = COMPONENTS,
        exact_rows: int = EXACT_ROWS,
    ) -> KernelComponents:
        """The components of all rows, or of ``exact_rows`` random ones where there are more."""
        require_int(degree, name="degree", at_least=1)
        require_int(components, name="components", at_least=1)
        rows = matrix if len(matrix) <= exact_rows else matrix[draw.choice(len(matrix), exact_rows, replace=False)]
        kernel = (rows @ rows.T + 1.0) ** degree
        centred = kernel - kernel.mean(axis=0) - kernel.mean(axis=1)[:, None] + kernel.mean()
        found = leading_eigenpairs(centred, min(components, len(rows)), draw)
        real = found.values > 1e-12 * max(found.values.max(initial=0.0), np.finfo(float).tiny)
        values, weights = found.values[real], found.vectors[:, real] / np.sqrt(found.values[real])
        return cls(rows, weights - weights.mean(axis=0), values / len(rows), np.trace(centred) / len(rows), degree)

    def project(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows of a matrix on the components."""
        projected = np.empty((len(matrix), self.weights.shape[1]))
        for start in range(0, len(matrix), 4096):
            part = matrix[start : start + 4096]
            projected[start : start + 4096] = (part @ self.rows.T + 1.0) ** self.degree @ self.weights
        return projected

    @property
    def cumulative(self) -> NDArray[np.float64]:
        """Share of the variance in kernel space up to each component."""
        return np.asarray(np.cumsum(self.eigenvalues) / self.total)


def component_tests(
    components: KernelComponents,
    original: NDArray[np.float64],
    other: NDArray[np.float64],
    draw: np.random.Generator,
    *,
    rows: int = TESTED_ROWS,
) -> tuple[ComponentTest, ...]:
    """Compare two matrices along each component, with ``rows`` random rows of each."""
    from scipy.stats import ks_2samp

    before, after = components.project(original), components.project(other)
    drawn = before[draw.permutation(len(before))[:rows]]
    drawn_too = after[draw.permutation(len(after))[:rows]]
    return tuple(
        ComponentTest(
            number=place + 1,
            eigenvalue=float(components.eigenvalues[place]),
            cumulative=float(components.cumulative[place]),
            shift=float(ks_2samp(before[:, place], after[:, place], method="asymp").statistic),
            p_value=shift_p_value(drawn[:, place], drawn_too[:, place]),
        )
        for place in range(before.shape[1])
    )


def component_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """How many of the leading components differ, and by how much the worst of them is shifted."""
    draw = subject.draw("kernel components")
    components = KernelComponents.of(subject.original_matrix, draw=draw)
    tests = component_tests(components, subject.original_matrix, subject.released_matrix, draw)
    if not tests:
        return
    usual, most = "", max(2, round(2 * DIFFERS * len(tests)))
    if subject.reference_matrix is not None:
        others = component_tests(components, subject.original_matrix, subject.reference_matrix, draw)
        usual = f"; {sum(test.differs for test in others)} of the reference"
    differing = sum(test.differs for test in tests)
    rows = min(TESTED_ROWS, subject.original.rows, subject.released.rows)
    held = f"{len(tests)} components of degree {DEGREE} hold {tests[-1].cumulative:.0%} of the variance"
    yield Score(
        name="kernel components that differ",
        family="utility",
        value=float(differing),
        better="lower",
        rows=rows,
        passed=differing <= most,
        note=f"{held}{usual}; {DIFFERS * len(tests):.0f} differ by chance",
    )
    yield Score(
        name="shift of kernel components, largest",
        family="utility",
        value=max(test.shift for test in tests),
        better="lower",
        rows=rows,
        note=held,
    )
