"""Several intruders: what they know of a person, and the scale on which they compare numbers.

Knowing fewer columns is often stronger: columns that were changed lead to wrong rows, and those that were not lead to
the right one. Logarithms make large numbers look alike, raw numbers small ones, and ranks do neither. So an attack is
tried by each intruder, and the worst is reported with what it used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.measures.confidence import DIGITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.confidence import AttackRisk
    from sfumato.measures.measured_release import MeasuredRelease

Scale = Literal["standardised", "raw", "ranks"]
RANKED = np.sqrt(12.0)  # ranks from 0 to 1 times this have variance 1


@dataclass(frozen=True)
class Intruder:
    """The columns that an intruder knows, and the scale of numbers."""

    knows: str  # in words
    columns: tuple[str, ...]
    scale: Scale = "standardised"

    def __str__(self) -> str:
        scales = {"standardised": "", "raw": ", numbers without logarithms", "ranks": ", numbers as ranks"}
        return f"an intruder who knows {self.knows}{scales[self.scale]}"

    def places(self, subject: MeasuredRelease, *, only: Sequence[str] | None = None) -> NDArray[np.int64]:
        """Return the matrix columns that the intruder compares: of all known columns, or of ``only`` some."""
        known = self.columns if only is None else only
        used = [subject.code.columns(name) for name in known]
        return np.concatenate(used) if used else np.empty(0, dtype=np.int64)

    def points(self, subject: MeasuredRelease, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rows of a matrix as points that the intruder compares, those of the metric if all is known."""
        if self._uses_metric(subject):
            return subject.points(matrix)
        return rescale(subject, matrix, self.scale)[:, self.places(subject)]

    def sides(self, subject: MeasuredRelease) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return all people and all released rows as points that the intruder compares."""
        if self._uses_metric(subject):
            return subject.people, subject.rows
        return self.points(subject, subject.original_matrix), self.points(subject, subject.released_matrix)

    def _uses_metric(self, subject: MeasuredRelease) -> bool:
        return self.scale == "standardised" and self.columns == subject.names


def intruders(subject: MeasuredRelease) -> Iterator[Intruder]:
    """Yield the intruders: all columns on each scale, the quasi-identifiers, and the columns that were not changed.

    In a table of very many columns there is only the first, because the others need the matrix.
    """
    yield Intruder("all columns", subject.names)
    if subject.is_wide:
        return
    if any(number.logged for number in subject.code.numbers):
        yield Intruder("all columns", subject.names, "raw")
    if subject.code.numbers:
        yield Intruder("all columns", subject.names, "ranks")
    quasi = tuple(name for name in subject.names if subject.quasi is not None and name in subject.quasi)
    if 0 < len(quasi) < len(subject.names):
        yield Intruder(f"the quasi-identifiers ({_list(quasi)})", quasi)
    untouched = subject.once(_find_untouched)
    if 0 < len(untouched) < len(subject.names) and untouched != quasi:
        yield Intruder(f"the columns that were not changed ({_list(untouched)})", untouched)


def rescale(subject: MeasuredRelease, matrix: NDArray[np.float64], scale: Scale) -> NDArray[np.float64]:
    """Return a matrix of people or rows with its numbers on another scale.

    Released rows have their ranks among themselves: a constant that was added to all of them hides nobody (TL §6.2).
    """
    if scale == "standardised":
        return matrix
    scaled = matrix.copy()
    for number in subject.code.numbers:
        if scale == "raw" and not number.logged:
            continue
        known, values = (np.nan_to_num(number.natural(one)) for one in (subject.original_matrix, matrix))
        if scale == "raw":
            scaled[:, number.position] = (values - known.mean()) / max(float(known.std()), np.finfo(float).tiny)
        else:
            order = np.sort(values if matrix is subject.released_matrix else known)
            below, not_above = (np.searchsorted(order, values, side) for side in ("left", "right"))
            scaled[:, number.position] = RANKED * (below + not_above) / (2.0 * len(order))
    return scaled


def worst_attempt(risks: Sequence[AttackRisk], p_values: NDArray[np.float64]) -> int:
    """Return the attempt with the smallest p-value, and of several with the smallest one that with the largest risk.

    The p-values must be adjusted for the number of attempts: of many, one succeeds by chance.
    """
    return min(range(len(risks)), key=lambda one: (float(p_values[one]), -risks[one].value))


def _find_untouched(subject: MeasuredRelease) -> tuple[str, ...]:
    return tuple(name for name in subject.names if name in subject.unaltered or _keeps_cells(subject, name))


def _keeps_cells(subject: MeasuredRelease, name: str) -> bool:
    """Return whether a column has only cells of the original, each at most as often: it was not changed, or swapped."""
    places = subject.code.columns(name)
    before, after = (np.round(one[:, places], DIGITS) for one in (subject.original_matrix, subject.released_matrix))
    axis = 0 if before.shape[1] > 1 else None  # numbers are sorted much faster than rows of one number
    labels = np.unique(np.concatenate([before, after]), axis=axis, return_inverse=True)[1].ravel()
    counts = [np.bincount(side, minlength=len(labels)) for side in np.split(labels, [len(before)])]
    return bool((counts[1] <= counts[0]).all())


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
