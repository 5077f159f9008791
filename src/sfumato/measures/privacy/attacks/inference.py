"""Attribute inference: guessing one column from all others, by the value of the nearest released row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.neighbours import nearest
from sfumato.measures.privacy.attacks.risk import Risk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.measures.scores import Score
    from sfumato.table.encoder import Encoder

TARGETS = 1000  # people attacked on each side
PAIRS = 2 * 10**9  # largest number of distances computed for all columns together
CLOSE = 0.05  # a guess of a number is correct if its relative error is at most this


@dataclass(frozen=True, kw_only=True)
class Inference:
    """The risk of one column."""

    column: str
    risk: Risk


def inferences(subject: MeasuredRelease) -> tuple[Inference, ...]:
    """Attack every column; return nothing without a reference or with a single column."""
    if subject.others is None or subject.reference_matrix is None or len(subject.names) < 2:
        return ()
    generator = subject.generator("inference")
    targets = max(50, min(TARGETS, PAIRS // (2 * len(subject.names) * len(subject.rows))))
    inside = subject.original_matrix[generator.permutation(len(subject.original_matrix))[:targets]]
    outside = subject.reference_matrix[generator.permutation(len(subject.reference_matrix))[:targets]]
    code, released = subject.code, subject.released_matrix
    return tuple(
        Inference(
            column=column,
            risk=Risk.of(*_hits(code, column, inside, released), *_hits(code, column, outside, released)),
        )
        for column in subject.names
    )


def inference_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the risk over all columns, and that of the worst column."""
    found = inferences(subject)
    if not found:
        return
    attacks = found[0].risk.attacks
    inside = sum(round(one.risk.inside * one.risk.attacks) for one in found)
    trials = sum(one.risk.attacks for one in found)
    outside = sum(round(one.risk.outside * one.risk.attacks) for one in found)
    everything = Risk.of(inside, trials, outside, trials)
    yield everything.score("inference of a column", f"over {len(found)} columns, {attacks} people each")
    worst = max(found, key=lambda one: one.risk.low)
    # the largest of many intervals is sometimes above 0 by chance, so it gives no verdict
    yield replace(worst.risk.score("inference of a column, largest", f"column {worst.column!r}"), passed=None)


def _hits(code: Encoder, column: str, people: NDArray[np.float64], released: NDArray[np.float64]) -> tuple[int, int]:
    """Count the people whose value is that of the row that is nearest in the other columns, and the people attacked."""
    own = code.columns(column)
    rest = np.setdiff1d(np.arange(code.width), own)
    row = nearest(people[:, rest], released[:, rest], 1).index[:, 0]
    for category in code.categories:
        if category.name == column:
            correct = people[:, own].argmax(axis=1) == released[row][:, own].argmax(axis=1)
            return int(correct.sum()), len(people)
    number = next(number for number in code.numbers if number.name == column)
    true, guess = number.natural(people), number.natural(released[row])
    correct = np.abs(guess - true) <= CLOSE * np.abs(true) + 1e-12
    if number.missing is not None:
        is_missing, guessed = people[:, number.missing] > 0.0, released[row, number.missing] > 0.0
        correct = np.where(is_missing | guessed, is_missing & guessed, correct)
    return int(correct.sum()), len(people)
