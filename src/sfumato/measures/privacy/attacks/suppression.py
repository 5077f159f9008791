"""Reconstruction of suppressed cells, if only those were suppressed that had to be (TL §2.3.2).

If 90 rows of a table show ``Male`` and 10 show nothing, and no cell was suppressed without need, then the 10 are not
``Male``: a row with ``Male`` would have had company. In general, a row cannot have a value that at least k other rows
show together with everything else that this row shows. If one value of the column is left, the cell is known.

A suppression that also hides cells without need, at random, makes this wrong. The attack therefore reports what it
found and how often it was right. Values are those of the original column: the intruder knows what values there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.measures.confidence import guess_score
from sfumato.release.assessment import Score
from sfumato.table.groups import group_labels
from sfumato.table.intervals import is_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.table.table import Table

VALUES = 200  # columns with more values are not attacked: too many are left
PATTERNS = 200  # number of patterns of suppressed cells that are attacked, the most common first


@dataclass(frozen=True, kw_only=True)
class Reconstruction:
    """Suppressed cells, and those for which one value was left."""

    suppressed: int
    guessed: int
    correct: int


def reconstruct(original: Table, released: Table, origin: NDArray[np.int64], names: tuple[str, ...]) -> Reconstruction:
    """Attack the cells of ``names`` that are missing in the release and present in the original."""
    hidden = {name: _hidden(original, released, origin, name) for name in names}
    pattern = np.column_stack([hidden[name] for name in names] or [np.empty((released.rows, 0), bool)])
    k = max(2, int(np.bincount(group_labels(released, names)).min())) if names else 2
    kinds, which, counts = np.unique(pattern, axis=0, return_inverse=True, return_counts=True)
    guessed = correct = 0
    for number in np.argsort(-counts, kind="stable")[:PATTERNS]:
        rows = np.flatnonzero(which.ravel() == number)
        for place in np.flatnonzero(kinds[number]):
            shown = [name for other, name in enumerate(names) if not kinds[number][other]]
            guesses = _values_left(original, released, rows, names[place], shown, k)
            truth = original.coded(names[place]).codes[origin[rows]]
            guessed += int((guesses >= 0).sum())
            correct += int((guesses == truth).sum())
    return Reconstruction(suppressed=int(pattern.sum()), guessed=guessed, correct=correct)


def _hidden(original: Table, released: Table, origin: NDArray[np.int64], name: str) -> NDArray[np.bool_]:
    """Return the rows whose cell was suppressed: it is missing in the release only."""
    missing = released.arrow.column(name).is_null().to_numpy()
    was_missing = original.arrow.column(name).is_null().to_numpy()[origin]
    return np.asarray(missing & ~was_missing)


def _values_left(
    original: Table, released: Table, rows: NDArray[np.int64], name: str, shown: list[str], k: int
) -> NDArray[np.int64]:
    """Return the value of the original column, by its code, that is left for each of these rows; −1 if several are.

    A value is excluded if k rows or more show it together with all cells that the row shows.
    """
    codes, size = _codes(original, released, name)
    if size > VALUES:
        return np.full(len(rows), -1)
    labels = group_labels(released, shown) if shown else np.zeros(released.rows, np.int64)
    visible = codes >= 0
    pairs = labels[visible] * size + codes[visible]
    found, counts = np.unique(pairs, return_counts=True)
    excluded = found[counts >= k]
    left = np.full(int(labels.max()) + 1, size)
    np.subtract.at(left, excluded // size, 1)
    total = np.full(len(left), size * (size - 1) // 2)  # the sum of all codes less the excluded ones is the one left
    np.subtract.at(total, excluded // size, excluded % size)
    return np.where(left[labels[rows]] == 1, total[labels[rows]], -1)


def _codes(original: Table, released: Table, name: str) -> tuple[NDArray[np.int64], int]:
    """Return the released cells as codes of the original's values, −1 if missing or recoded, and their number."""
    before, after = original.coded(name), released.coded(name)
    values = {value: code for code, value in enumerate(before.values.to_pylist()) if value is not None}
    place = np.array([values.get(value, -1) for value in after.values.to_pylist()], dtype=np.int64)
    return place[after.codes], len(values)


def suppression_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the share of suppressed cells that were reconstructed; nothing if no cell was suppressed."""
    if subject.origin is None or (subject.origin < 0).any():
        return
    protected = subject.names if subject.quasi is None else subject.quasi
    kinds = subject.released.kinds
    names = tuple(name for name in protected if name in kinds and not is_interval(name, kinds))
    attack = reconstruct(subject.original, subject.released, subject.origin, names)
    if not attack.suppressed:
        return
    note = f"share of suppressed cells; {attack.correct:,} of {attack.guessed:,} guesses are correct"
    yield guess_score("suppressed cells reconstructed", attack.correct, attack.guessed, attack.suppressed, note)
