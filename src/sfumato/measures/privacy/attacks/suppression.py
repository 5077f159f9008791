"""Suppressed cells: reconstruction, if only those were suppressed that had to be (TL §2.3.2), and prediction.

If 90 rows of a table show ``Male`` and 10 show nothing, and no cell was suppressed without need, then the 10 are not
``Male``: a row with ``Male`` would have had company. In general, a row cannot have a value that at least k other rows
show together with everything else that this row shows. If one value of the column is left, the cell is known.

A suppression that also hides cells without need, at random, makes this wrong. The attack therefore reports what it
found and how often it was right. Values are those of the original column: the intruder knows what values there are.

Without any such logic, a suppressed cell still has a distribution that the rest of the release tells (TL §2.1): a model
that is trained on the rows that show the column predicts it from the other cells of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.measures.confidence import guess_score, share
from sfumato.release.assessment import Score
from sfumato.table.encoded_columns import finite_numbers
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
    """Measure how many suppressed cells can be reconstructed, if only those were suppressed that had to be (TL §2.3.2).

    If 90 rows show ``Male`` and 10 show nothing, and no cell was suppressed without need, then the 10 are not ``Male``:
    a row with ``Male`` would have had company. In general, a row cannot have a value that at least k other rows show
    together with everything else that this row shows. If one value of the column is left, the cell is known.

    A suppression that also hides cells without need, at random, makes this wrong, so the score tells how many guesses
    were correct. Values are those of the original column: the intruder knows what values there are.
    """
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


# Prediction of suppressed cells from the other cells of their rows.

LEARNT = 2000  # rows from which a model of a column is learnt
PREDICTED = 1000  # suppressed cells of a column that are predicted
FEWEST = 20  # rows that must show the column
MODELS = 12  # columns that are attacked, those with the most suppressed cells
TREES = 20  # of a forest
CLOSE = 0.05  # a guess of a number is correct if its relative error is at most this


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PredictedCells:
    """Whether the suppressed cells of one column were predicted, by a model and by the usual value."""

    column: str
    correct: NDArray[np.bool_]
    usual: NDArray[np.bool_]
    outside: NDArray[np.bool_]  # the same column of people who never took part, with the same cells hidden


@dataclass(frozen=True, repr=False, eq=False)
class Cells:
    """Columns of all tables as numbers: categories as codes, missing cells as NaN."""

    original: NDArray[np.float64]
    released: NDArray[np.float64]
    reference: NDArray[np.float64]  # without rows if there is none

    @classmethod
    def of(cls, subject: MeasuredRelease, names: Sequence[str]) -> Cells:
        """Encode the columns."""
        tables = [one for one in (subject.original, subject.released, subject.reference) if one is not None]
        columns = [_as_numbers(tables, name) for name in names]
        matrix = np.column_stack(columns) if columns else np.empty((sum(one.rows for one in tables), 0))
        return cls(*np.split(matrix, np.cumsum([subject.original.rows, subject.released.rows])))


def _as_numbers(tables: Sequence[Table], name: str) -> NDArray[np.float64]:
    """Return a column of all tables, one below the other."""
    if all(table.kinds[name].is_numeric for table in tables):
        return np.concatenate([finite_numbers(table, name) for table in tables])
    places: dict[str | None, float] = {None: np.nan}
    parts = []
    for table in tables:
        coded = table.coded(name)
        texts = coded.values.cast(pa.string()).to_pylist()
        parts.append(np.array([places.setdefault(text, float(len(places))) for text in texts])[coded.codes])
    return np.concatenate(parts)


def imputation_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Measure how well suppressed cells are predicted from the other cells of their rows.

    A forest of decision trees is trained on the released rows that show the column, with the other columns as they are
    released. A prediction is correct if it is the value; a number must be within 5 %. What counts is how much more
    often it is correct than the most frequent value (of numbers: the median) and, with a reference, than the same model
    is for people who never took part, who have the same values, and of whom the same cells are hidden: what holds for
    everybody is no disclosure of a participant.

    The score is the share of suppressed cells that were predicted, up to 1,000 of each of 12 columns.
    """
    if subject.origin is None or (subject.origin < 0).any():
        return
    kinds, origin = subject.released.kinds, subject.origin
    names = [name for name in subject.names if name in kinds and not is_interval(name, kinds)]
    hidden = {name: np.flatnonzero(_hidden(subject.original, subject.released, origin, name)) for name in names}
    attacked = sorted((name for name in names if hidden[name].size), key=lambda name: -hidden[name].size)[:MODELS]
    cells = Cells.of(subject, names) if attacked else None
    found = [
        one
        for name in attacked
        if cells is not None and (one := _predict(subject, cells, names.index(name), name, hidden[name])) is not None
    ]
    if found:
        yield _predicted_score(found)


def _predicted_score(found: Sequence[PredictedCells]) -> Score:
    correct, usual, outside = (
        np.concatenate([getattr(one, part) for one in found]) for part in ("correct", "usual", "outside")
    )
    note = (
        f"share of suppressed cells of {', '.join(one.column for one in found)}, predicted from the other cells of "
        f"their rows; {usual.mean():.1%} by the most frequent value"
    )
    base = float(usual.mean())
    if outside.size:
        base = max(base, float(outside.mean()))
        note += f", {outside.mean():.1%} of the same cells of people outside the table"
    rate = share(int(correct.sum()), len(correct))
    gain = max(0.0, (rate.low - base) / max(1.0 - base, 1e-12))
    return rate.score("suppressed cells predicted", rows=len(correct), gain=gain, note=note)


def _predict(
    subject: MeasuredRelease, cells: Cells, place: int, name: str, hidden: NDArray[np.int64]
) -> PredictedCells | None:
    """Predict the suppressed cells of one column; None if too few rows show it, or if there is no other column."""
    assert subject.origin is not None
    generator = subject.generator(f"prediction of {name}")
    own, others = cells.released[:, place], np.delete(np.arange(cells.released.shape[1]), place)
    shown = generator.permutation(np.flatnonzero(~np.isnan(own)))[:LEARNT]
    hidden = generator.permutation(hidden)[:PREDICTED]
    if len(shown) < FEWEST or not others.size:
        return None
    is_number = subject.original.kinds[name].is_numeric and subject.released.kinds[name].is_numeric
    model = _learn(cells.released[shown][:, others], own[shown], generator, is_number=is_number)
    values, counts = np.unique(own[shown], return_counts=True)
    usual = float(np.median(own[shown])) if is_number else float(values[counts.argmax()])
    truth = cells.original[subject.origin[hidden], place]
    people, like = _like(truth, cells.reference[:, place], generator)
    pattern = np.isnan(cells.released[hidden[like]][:, others])
    outside = np.where(pattern, np.nan, cells.reference[people][:, others])
    return PredictedCells(
        column=name,
        correct=_is_right(model(cells.released[hidden][:, others]), truth, is_number=is_number),
        usual=_is_right(np.full(len(hidden), usual), truth, is_number=is_number),
        outside=_is_right(model(outside), cells.reference[people, place], is_number=is_number),
    )


def _like(
    truth: NDArray[np.float64], outside: NDArray[np.float64], generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a random person outside with the same value as each cell, and which cells these are; some have nobody.

    Suppressed values are rare ones, which are harder to predict than those of random people.
    """
    order = generator.permutation(len(outside))
    order = order[np.argsort(outside[order], kind="stable")]
    first, last = (np.searchsorted(outside[order], truth, side) for side in ("left", "right"))
    like = np.flatnonzero(last > first)
    return order[first[like] + (generator.random(len(like)) * (last - first)[like]).astype(np.int64)], like


def _learn(
    features: NDArray[np.float64], wanted: NDArray[np.float64], generator: np.random.Generator, *, is_number: bool
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return a function that predicts a column from others; a missing cell is a value below all others."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    lowest = np.nanmin(np.where(np.isnan(features), np.inf, features), axis=0, initial=0.0) - 1.0
    forest = RandomForestRegressor if is_number else RandomForestClassifier
    model = forest(n_estimators=TREES, min_samples_leaf=3, random_state=int(generator.integers(2**31)))
    model.fit(np.where(np.isnan(features), lowest, features), wanted)

    def predict(cells: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(model.predict(np.where(np.isnan(cells), lowest, cells))) if len(cells) else np.empty(0)

    return predict


def _is_right(guess: NDArray[np.float64], truth: NDArray[np.float64], *, is_number: bool) -> NDArray[np.bool_]:
    """Return which guesses are right: numbers nearly, categories exactly."""
    return np.asarray(np.abs(guess - truth) <= (CLOSE * np.abs(truth) if is_number else 1e-9))
