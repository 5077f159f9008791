"""Attribute inference: guessing one column from all others, by the value of the nearest released row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.neighbours import nearest
from sfumato.measures.permutation import excess
from sfumato.measures.privacy.attacks.risk import AttackRisk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.release.assessment import Score
    from sfumato.table.encoder import Encoder

INFERRED_PEOPLE = 1000  # people attacked on each side
PAIRS = 2 * 10**9  # largest number of distances computed for all columns together
CLOSE = 0.05  # a guess of a number is correct if its relative error is at most this


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Inference:
    """The guesses of one column."""

    column: str
    inside: NDArray[np.bool_]  # whether the guess was correct, for each person attacked
    outside: NDArray[np.bool_]

    @property
    def risk(self) -> AttackRisk:
        """The risk of this column."""
        return AttackRisk.of(int(self.inside.sum()), len(self.inside), int(self.outside.sum()), len(self.outside))


def inferences(subject: MeasuredRelease) -> tuple[Inference, ...]:
    """Attack every column; return nothing without a reference or with a single column."""
    if subject.others is None or subject.reference_matrix is None or len(subject.names) < 2:
        return ()
    generator = subject.generator("inference")
    targets = max(50, min(INFERRED_PEOPLE, PAIRS // (2 * len(subject.names) * len(subject.rows))))
    inside = subject.original_matrix[generator.permutation(len(subject.original_matrix))[:targets]]
    outside = subject.reference_matrix[generator.permutation(len(subject.reference_matrix))[:targets]]
    people = np.concatenate([inside, outside])
    guessed = {name: _correct(subject.code, name, people, subject.released_matrix) for name in subject.names}
    return tuple(
        Inference(column=name, inside=correct[: len(inside)], outside=correct[len(inside) :])
        for name, correct in guessed.items()
    )


def inference_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the risk over all columns, and that of the worst column."""
    found = inferences(subject)
    if not found:
        return
    attacks = found[0].risk.attacks
    inside, outside = (np.sum([getattr(one, side) for one in found], axis=0) for side in ("inside", "outside"))
    p_value = excess(inside, outside, subject.generator("inference of a column"))
    yield _together(inside, outside, len(found)).score(
        "inference of a column", f"over {len(found)} columns, {attacks} people each", p_value
    )
    worst = max(found, key=lambda one: one.risk.low)
    # the largest of many intervals is sometimes above 0 by chance, so it has no test
    yield worst.risk.score("inference of a column, largest", f"column {worst.column!r}")


def _together(inside: NDArray[np.int64], outside: NDArray[np.int64], columns: int) -> AttackRisk:
    """Return the risk over all columns, given how many columns of each person were guessed.

    The guesses of one person depend on each other, so they count as fewer attacks: as many as have the same variance.
    """
    counts = []
    for correct in (inside, outside):
        rate = float(correct.mean()) / columns
        alone = columns * rate * (1.0 - rate)  # variance of the columns guessed if guesses did not depend
        trials = len(correct) * columns / max(1.0, float(correct.var()) / alone if alone > 0.0 else 1.0)
        counts += [round(rate * trials), round(trials)]
    return AttackRisk.of(*counts)


def _correct(
    code: Encoder, column: str, people: NDArray[np.float64], released: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which people have the value of the row that is nearest in the other columns."""
    own = code.columns(column)
    rest = np.setdiff1d(np.arange(code.width), own)
    row = nearest(people[:, rest], released[:, rest], 1).index[:, 0]
    for category in code.categories:
        if category.name == column:
            return np.asarray(people[:, own].argmax(axis=1) == released[row][:, own].argmax(axis=1))
    number = next(number for number in code.numbers if number.name == column)
    true, guess = number.natural(people), number.natural(released[row])
    correct = np.abs(guess - true) <= CLOSE * np.abs(true) + 1e-12
    if number.missing is not None:
        is_missing, guessed = people[:, number.missing] > 0.0, released[row, number.missing] > 0.0
        correct = np.where(is_missing | guessed, is_missing & guessed, correct)
    return np.asarray(correct)
