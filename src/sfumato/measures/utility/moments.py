"""The changes in moments and correlations, and in the distribution of each column."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.release.assessment import Score
from sfumato.table.encoded_columns import shares_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease


RANKED_ROWS = 100_000  # largest number of rows from which rank correlations are computed


@dataclass(frozen=True, kw_only=True)
class MomentChanges:
    """Medians of the absolute changes, over columns or pairs of columns."""

    mean: float  # in standard deviations of the original column
    variance: float  # in variances of the original column
    correlation: float
    rank_correlation: float
    columns: int  # columns that vary in the original


def moment_changes(original: NDArray[np.float64], released: NDArray[np.float64]) -> MomentChanges:
    """Compare two matrices with the same columns; columns that are constant in the original are ignored."""
    varying = original.std(axis=0) > 1e-12 * np.maximum(1.0, np.abs(original).max(axis=0, initial=0.0))
    if not varying.any():
        return MomentChanges(mean=0.0, variance=0.0, correlation=0.0, rank_correlation=0.0, columns=0)
    before, after = original[:, varying], released[:, varying]
    spread = before.std(axis=0, ddof=1)
    # of more columns than rows, as many: a matrix of all pairs would not fit into memory
    some = np.unique(np.linspace(0, before.shape[1] - 1, min(before.shape)).astype(np.int64))
    pairs = np.triu_indices(len(some), 1)
    return MomentChanges(
        mean=_median(np.abs(_means(after) - _means(before)) / spread),
        variance=_median(np.abs(_variance(after) / spread**2 - 1.0)),
        correlation=_median(np.abs(_correlations(after[:, some]) - _correlations(before[:, some]))[pairs]),
        rank_correlation=_median(
            np.abs(_correlations(_ranks(after[:, some])) - _correlations(_ranks(before[:, some])))[pairs]
        ),
        columns=int(varying.sum()),
    )


def moment_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Measure the changes in means, variances, correlations and rank correlations (TL Table 4.1).

    The scores are medians over columns or pairs of columns; their notes give those of the reference, if there is one.
    """
    changes = moment_changes(subject.original_matrix, subject.released_matrix)
    usual = (
        None if subject.reference_matrix is None else moment_changes(subject.original_matrix, subject.reference_matrix)
    )
    units = {
        "mean": ("change in means", "median over columns, in standard deviations"),
        "variance": ("change in variances", "median over columns, relative to the variance"),
        "correlation": ("change in correlations", "median over pairs of columns"),
        "rank_correlation": ("change in rank correlations", "median over pairs of columns"),
    }
    for field, (name, unit) in units.items():
        other = "" if usual is None else f"; the reference differs by {getattr(usual, field):.3g}"
        yield Score(
            name=name,
            family="utility",
            value=getattr(changes, field),
            better="lower",
            rows=subject.released.rows,
            note=f"{unit}{other}",
        )


def _median(changes: NDArray[np.float64]) -> float:
    return float(np.median(changes)) if changes.size else 0.0


def _means(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the means of the columns, rounded once, so that the order of the rows does not matter."""
    return np.array([math.fsum(column) for column in matrix.T.tolist()]) / max(len(matrix), 1)


def _variance(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(matrix.var(axis=0, ddof=1)) if len(matrix) > 1 else np.zeros(matrix.shape[1])


def _correlations(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the correlations of the columns; those of a constant column are 0."""
    centred = matrix - matrix.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    centred /= np.where(length > 1e-12, length, np.inf)
    return np.asarray(centred.T @ centred)


def _ranks(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.stats import rankdata

    return np.asarray(rankdata(matrix[:: -(-len(matrix) // RANKED_ROWS)], axis=0))


@dataclass(frozen=True, kw_only=True)
class MarginalChange:
    """The change in the distribution of one column."""

    column: str
    change: float  # Kolmogorov–Smirnov distance of numbers, total variation of categories; 0 (equal) to 1


def marginals(subject: MeasuredRelease, matrix: NDArray[np.float64]) -> tuple[MarginalChange, ...]:
    """Compare each column of the original with ``matrix``, that of the release or of the reference."""
    original = subject.original_matrix
    changes = [
        MarginalChange(
            column=number.name, change=_largest_gap(original[:, number.position], matrix[:, number.position])
        )
        for number in subject.code.numbers
    ]
    for category in subject.code.categories:
        before, after = (shares_of(m[:, category.columns]).mean(axis=0) for m in (original, matrix))
        changes.append(MarginalChange(column=category.name, change=float(np.abs(after - before).sum() / 2.0)))
    return tuple(changes)


def marginal_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Measure the change in the distribution of each column: the median and the largest over the columns.

    A change is the Kolmogorov–Smirnov distance for numbers, and the total variation distance for categories.
    """
    distances = marginals(subject, subject.released_matrix)
    changes = np.array([marginal.change for marginal in distances])
    worst = distances[int(np.argmax(changes))].column
    usual = ""
    if subject.reference_matrix is not None:
        others = [marginal.change for marginal in marginals(subject, subject.reference_matrix)]
        usual = f"; the reference differs by {np.median(others):.3g} (median) and {max(others):.3g} (largest)"
    unit = "Kolmogorov–Smirnov distance for numbers, total variation distance for categories"
    for name, value, note in (
        ("change in distributions, median", float(np.median(changes)), unit + usual),
        ("change in distributions, largest", float(changes.max()), f"in column {worst!r}{usual}"),
    ):
        yield Score(name=name, family="utility", value=value, better="lower", rows=subject.released.rows, note=note)


def _largest_gap(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    """Return the largest difference of two cumulative distributions; numbers within rounding errors count as equal."""
    ours, theirs = np.sort(before.round(9)), np.sort(after.round(9))
    places = np.concatenate([ours, theirs])
    gaps = np.searchsorted(ours, places, "right") / len(ours) - np.searchsorted(theirs, places, "right") / len(theirs)
    return float(np.abs(gaps).max())
