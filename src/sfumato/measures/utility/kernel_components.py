"""A comparison of whole distributions: principal components of all products of columns up to a degree (TL §3.2).

With the kernel (xᵀy + 1)^d a linear function in kernel space is a polynomial of degree d in the columns, so the
principal components of the original in kernel space are its most important nonlinear features. Original and release are
projected on the same components and compared one by one: if relations up to order d are kept, so are the distributions.
With the Gaussian kernel exp(−‖x − y‖²/(2w²)), features are local: how many rows lie around each place. The exponential
kernel exp(xᵀy/w²) has the products of any number of columns, those of many with small weights: 1/(w²ᵈ d!) for degree d.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sfumato.kernels.eigenvectors import leading_eigenpairs
from sfumato.measures.confidence import COSTLY_EXCHANGES, exceedance_shares, exchanges, largest_gaps, shift_p_value
from sfumato.params import require_choice, require_int, require_number
from sfumato.release.assessment import Score
from sfumato.sources.frames import as_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease

KernelName = Literal["polynomial", "gaussian", "exponential"]
KERNELS: tuple[KernelName, ...] = ("polynomial", "gaussian", "exponential")
DEGREE = 4  # interactions of up to four columns (TL 3.2)
COMPONENTS = 20  # as many as in TL Table 5.1
EXACT_ROWS = 3000  # in larger tables the components are computed from this many random rows (Nyström)
TESTED_ROWS = 1296  # rows per side, chosen to detect a shift of 5 % (TL §5.2.1)
LARGEST_EXPONENT = 300.0  # of the exponential kernel, so that squares of similarities are finite
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


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """The similarity of two rows whose principal components are compared."""

    name: KernelName = "polynomial"
    degree: int = DEGREE  # of the polynomial
    width: float = 1.0  # of the Gaussian and the exponential: a root mean square difference over all columns

    def __post_init__(self) -> None:
        require_choice(self.name, name="kernel", choices=KERNELS)
        require_int(self.degree, name="degree", at_least=1)
        require_number(self.width, name="width", above=0.0)

    def __call__(self, rows: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the similarity of each row to each other row."""
        products = rows @ others.T
        if self.name == "polynomial":
            return np.asarray(reduce(np.multiply, [products + 1.0] * self.degree))  # a power takes ten times as long
        scale = self.width**2 * max(1, rows.shape[1])
        if self.name == "exponential":  # a row far out must not be infinite
            return np.asarray(np.exp(np.minimum(products / scale, LARGEST_EXPONENT)))
        squared = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2.0 * products
        return np.asarray(np.exp(np.maximum(squared, 0.0) / (-2.0 * scale)))

    def __str__(self) -> str:
        if self.name == "polynomial":
            return f"degree {self.degree}"
        return f"{'a Gaussian' if self.name == 'gaussian' else 'an exponential'} of width {self.width:g}"


PRODUCTS = Kernel()  # of up to four columns, as in TL


@dataclass(frozen=True, repr=False)
class KernelComponents:
    """The leading components of a matrix in kernel space, on which other matrices can be projected."""

    rows: NDArray[np.float64]  # the rows that span the components
    weights: NDArray[np.float64]  # (rows, components)
    eigenvalues: NDArray[np.float64]
    total: float  # variance in kernel space
    kernel: Kernel

    @classmethod
    def of(
        cls,
        matrix: NDArray[np.float64],
        *,
        generator: np.random.Generator,
        kernel: Kernel = PRODUCTS,
        components: int = COMPONENTS,
        exact_rows: int = EXACT_ROWS,
    ) -> KernelComponents:
        """Compute the components of all rows, or of ``exact_rows`` random rows if there are more."""
        require_int(components, name="components", at_least=1)
        few = len(matrix) <= exact_rows
        rows = matrix if few else matrix[generator.choice(len(matrix), exact_rows, replace=False)]
        similar = kernel(rows, rows)
        centred = similar - similar.mean(axis=0) - similar.mean(axis=1)[:, None] + similar.mean()
        if np.abs(centred).max() <= 1e-12 * np.abs(similar).max():  # all rows are equal: nothing varies
            return cls(rows, np.zeros((len(rows), 0)), np.zeros(0), 0.0, kernel)
        eigenpairs = leading_eigenpairs(centred, min(components, len(rows)), generator)
        real = eigenpairs.values > 1e-12 * max(eigenpairs.values.max(initial=0.0), np.finfo(float).tiny)
        values, weights = eigenpairs.values[real], eigenpairs.vectors[:, real] / np.sqrt(eigenpairs.values[real])
        return cls(rows, weights - weights.mean(axis=0), values / len(rows), np.trace(centred) / len(rows), kernel)

    def project(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the projections of the rows of a matrix on the components."""
        projected = np.empty((len(matrix), self.weights.shape[1]))
        for start in range(0, len(matrix), 4096):
            part = matrix[start : start + 4096]
            projected[start : start + 4096] = self.kernel(part, self.rows) @ self.weights
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


def compare_components(
    original: Any,
    released: Any,
    *,
    kernel: KernelName = "polynomial",
    degree: int = DEGREE,
    width: float = 1.0,
    components: int = COMPONENTS,
    seed: int | None = None,
) -> tuple[ComponentTest, ...]:
    """Compare a release with its original along the kernel components of the original (TL Table 5.1).

    Parameters
    ----------
    original, released : Table, path or data frame
        The tables; numbers are standardised and categories encoded by indicators.
    kernel : {"polynomial", "gaussian", "exponential"}, default "polynomial"
        Similarity of two rows: (xᵀy + 1)^degree, exp(−‖x − y‖²/(2·width²·columns)), or exp(xᵀy/(width²·columns)).
    degree : int, default 4
        Largest number of columns whose products the polynomial contains.
    width : float, default 1
        Width of the Gaussian and of the exponential, as a root mean square difference over all columns, in standard
        deviations.
    components : int, default 20
        Number of components.
    seed : int, optional
        Seed of the rows that are drawn from large tables. Default: random.

    Returns
    -------
    tuple of ComponentTest
        One comparison per component, the most important one first.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.measures.utility.kernel_components import compare_components
    >>> people = {"x": np.arange(100.0), "y": np.arange(100.0) ** 2}
    >>> [test.p_value for test in compare_components(people, people, degree=2, components=3)]
    [1.0, 1.0, 1.0]
    """
    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.randomness import Randomness

    pair = MeasuredRelease(original=as_table(original), released=as_table(released), randomness=Randomness(seed))
    generator = pair.generator("kernel components")
    chosen = Kernel(name=kernel, degree=degree, width=width)
    kernel_pca = KernelComponents.of(pair.original_matrix, generator=generator, kernel=chosen, components=components)
    return component_tests(kernel_pca, pair.original_matrix, pair.released_matrix, generator)


def component_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the number of leading components that differ, and the largest shift.

    The components are those of original and release together. Those of the original alone fit the original better than
    any other sample, so that even a sample of the same population would differ. Components depend on each other, so
    the sum of their squared shifts is compared with that of exchanges of original and released rows.
    """
    generator = subject.generator("kernel components")
    rows = min(TESTED_ROWS, subject.original.rows, subject.released.rows)
    sides = subject.features
    both = np.concatenate([side[generator.permutation(len(side))[:rows]] for side in sides])
    components = KernelComponents.of(both, generator=generator)
    projected = components.project(both)
    if not projected.shape[1]:
        return
    projected = np.round(projected / np.abs(projected).max(axis=0), 9)  # rounding errors are no differences
    labels = exchanges(rows, rows, generator, COSTLY_EXCHANGES)
    shifts = np.column_stack([largest_gaps(labels, numbers) for numbers in projected.T])
    differing = int((exceedance_shares(shifts)[0] <= DIFFERS).sum())
    p_value = float(exceedance_shares((shifts**2).sum(axis=1, keepdims=True))[0, 0])
    count = projected.shape[1]
    explained = f"{count} components of {components.kernel} explain {components.cumulative[-1]:.0%} of the variance"
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
