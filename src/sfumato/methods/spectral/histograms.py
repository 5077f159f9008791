"""Recursive histogram sanitization, in the columns and in the spectral basis (TL §4.1.2, Figure 4-2)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.errors import warn
from sfumato.methods.base import require_rows
from sfumato.methods.components.bases import principal
from sfumato.methods.matrix import MatrixMethod, MatrixPlan, MatrixSetup
from sfumato.methods.options import group_size_option, reported_option
from sfumato.methods.permutation_plan import BLOCK_ROWS
from sfumato.params import Share
from sfumato.plan.claims.copies import FewRowsUnaltered
from sfumato.plan.claims.groups import KAnonymity
from sfumato.table.groups import rows_by_label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.plan.plan import Claim
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema

WORD = 8  # bytes
MANY_ALONE = 0.05  # share of rows that are alone in their cell, above which a warning says so


@dataclass(frozen=True, kw_only=True)
class HistogramMethod(MatrixMethod):
    """Group the rows and replace every row by the mean of its group."""

    manifest_notes: ClassVar[Mapping[str, str]] = {
        **MatrixMethod.manifest_notes,
        "masking": "what the rows of a group are replaced by",
    }

    k: int = group_size_option(
        "Smallest number of rows in a group: cells of fewer than 2k rows are not divided. RecursiveHistogram does not "
        "guarantee it.",
        at_least=2,
        default=5,
    )

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> HistogramPlan:
        """Make the plan; the groups are formed when a block is transformed."""
        require_rows(survey.rows, self.k)
        return HistogramPlan(self.setup(survey, schema, randomness, least_rows=BLOCK_ROWS + 20 * self.k), self)

    def promises(self, columns: tuple[str, ...], added: tuple[str, ...]) -> tuple[Claim[Any], ...]:
        """Return what is promised about the groups: by default, that every group has k rows.

        ``added`` are released columns that the original does not have: probabilities of categories.
        """
        return (KAnonymity(k=self.k, columns=(*columns, *added)),)

    def say_alone(self, share: float) -> None:
        """Warn of rows that are alone in their group, if the method allows them."""

    @abstractmethod
    def groups(self, matrix: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the group of each row of the matrix, numbered from 0."""


@dataclass(frozen=True, kw_only=True)
class RecursiveHistogram(HistogramMethod):
    """Divide cells at the medians of all columns at once, repeatedly while a cell has 2k rows or more.

    Each row is replaced by the mean of its cell. With more than a few columns the first division already leaves most
    rows alone in their cells, so that nothing is anonymized: a warning tells their share, and ``unaltered`` can refuse
    such a release. The method is provided for comparison with :class:`SpectralHistogram`, which corrects this. It
    promises no group size and no privacy.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.RecursiveHistogram(k=2).release({"x": [1.0, 2.0, 8.0, 9.0]}, schema={"x": "quasi"}).table.rows
    4
    """

    name: ClassVar[str] = "rhs"
    theory: ClassVar[str] = "spectral"

    unaltered: float = reported_option(
        Share(),
        "Largest share of released rows that are alone, which means that no other released row equals them, and of "
        "which nine of ten cells are those of the person. A release with more is refused.",
        default=1.0,
        unit="rows",
    )

    def promises(self, columns: tuple[str, ...], added: tuple[str, ...]) -> tuple[Claim[Any], ...]:
        return (FewRowsUnaltered(columns=columns, share=self.unaltered),)

    def say_alone(self, share: float) -> None:
        if share > MANY_ALONE:
            warn(
                f"rhs leaves {share:.0%} of the rows alone in their cells and releases them as they are: nothing hides "
                "these people. Use spectral-rhs, or fewer columns; the option unaltered=0.05 refuses such a release."
            )

    def groups(self, matrix: NDArray[np.float64]) -> NDArray[np.int64]:
        labels = np.zeros(len(matrix), dtype=np.int64)
        waiting, used = [np.arange(len(matrix))], 0
        while waiting:
            rows = waiting.pop()
            cell = _cells(matrix[rows])
            sizes = np.bincount(cell)
            labels[rows] = used + cell
            used += len(sizes)
            if len(sizes) > 1:
                waiting += [rows[part] for part in rows_by_label(cell) if len(part) >= 2 * self.k]
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _cells(rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the cell of each row, numbered from 0: rows of a cell are above the same medians."""
    above = np.packbits(rows > np.median(rows, axis=0), axis=1)
    if above.shape[1] > WORD:
        return np.unique(above, axis=0, return_inverse=True)[1].reshape(-1)
    words = np.zeros((len(rows), WORD), dtype=np.uint8)
    words[:, : above.shape[1]] = above
    return np.unique(words.view(np.uint64), return_inverse=True)[1].reshape(-1)


@dataclass(frozen=True, kw_only=True)
class SpectralHistogram(HistogramMethod):
    """Divide cells at the median of their widest principal component, repeatedly while a cell has 2k rows or more.

    Each row is replaced by the mean of its cell, so every released row is equal to at least k − 1 others in all
    columns. Variances become smaller, because the variation within groups is lost. (Lasko.)

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"x": [1.0, 2.0, 3.0, 4.0, 8.0, 9.0, 10.0, 11.0]}
    >>> release = sf.SpectralHistogram(k=4).release(people, schema={"x": "quasi"})
    >>> sorted(release.table.numbers("x").tolist())
    [2.5, 2.5, 2.5, 2.5, 9.5, 9.5, 9.5, 9.5]
    """

    name: ClassVar[str] = "spectral-rhs"
    theory: ClassVar[str] = "spectral"

    def groups(self, matrix: NDArray[np.float64]) -> NDArray[np.int64]:
        from sfumato.kernels.neighbours import median_cells

        basis = principal(matrix)
        lengths = np.linalg.norm(basis.loadings, axis=1)  # T = U D: white scores times the norms of their loadings
        return median_cells(basis.scores * lengths, self.k)


@dataclass(frozen=True, repr=False)
class HistogramPlan(MatrixPlan):
    """Group the rows of each block and release the means."""

    setup: MatrixSetup
    method: HistogramMethod

    def perturb(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        labels = self.method.groups(matrix)
        sizes = np.bincount(labels)
        self.method.say_alone(float(np.mean(sizes[labels] == 1)))
        means = np.empty((len(sizes), matrix.shape[1]))
        for column in range(matrix.shape[1]):
            means[:, column] = np.bincount(labels, weights=matrix[:, column]) / sizes
        return means[labels]

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        added = tuple(name for names in self.setup.distributions.values() for name in names)
        return (*super().claims, *self.method.promises(self.setup.encoder.names, added))

    @property
    def notes(self) -> Mapping[str, object]:
        return {**super().notes, "masking": "mean of the group"}
