"""The change in the distribution of each column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.release.assessment import Score
from sfumato.table.encoded_columns import shares_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease


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
    """Yield the median and the largest change over the columns."""
    found = marginals(subject, subject.released_matrix)
    changes = np.array([marginal.change for marginal in found])
    worst = found[int(np.argmax(changes))].column
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
