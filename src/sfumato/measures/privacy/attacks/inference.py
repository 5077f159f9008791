"""What can be guessed of one column from all the others? The nearest released row lends its value."""

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
PAIRS = 2 * 10**9  # distances that all columns together may cost
CLOSE = 0.05  # a number is guessed when it is right to this share of itself


@dataclass(frozen=True, kw_only=True)
class Inference:
    """The gain for one column."""

    column: str
    risk: Risk


def inferences(subject: MeasuredRelease) -> tuple[Inference, ...]:
    """Attack every column in turn; nothing without a reference or with a single column."""
    if subject.others is None or subject.reference_matrix is None or len(subject.names) < 2:
        return ()
    draw = subject.draw("inference")
    targets = max(50, min(TARGETS, PAIRS // (2 * len(subject.names) * len(subject.rows))))
    inside = subject.original_matrix[draw.permutation(len(subject.original_matrix))[:targets]]
    outside = subject.reference_matrix[draw.permutation(len(subject.reference_matrix))[:targets]]
    code, released = subject.code, subject.released_matrix
    return tuple(
        Inference(
            column=column,
            risk=Risk.of(*_hits(code, column, inside, released), *_hits(code, column, outside, released)),
        )
        for column in subject.names
    )


def inference_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """The mean over columns, and the column that gains most."""
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
    # the largest of many intervals is above 0 now and then by chance, so it gives no verdict of its own
    yield replace(worst.risk.score("inference of a column, largest", f"of column {worst.column!r}"), passed=None)


def _hits(code: Encoder, column: str, people: NDArray[np.float64], released: NDArray[np.float64]) -> tuple[int, int]:
    """People whose value in the column the nearest row (by the other columns) tells, and people attacked."""
    own = code.columns(column)
    rest = np.setdiff1d(np.arange(code.width), own)
    row = nearest(people[:, rest], released[:, rest], 1).index[:, 0]
    for category in code.categories:
        if category.name == column:
            right = people[:, own].argmax(axis=1) == released[row][:, own].argmax(axis=1)
            return int(right.sum()), len(people)
    number = next(number for number in code.numbers if number.name == column)
    true, guess = number.natural(people), number.natural(released[row])
    right = np.abs(guess - true) <= CLOSE * np.abs(true) + 1e-12
    if number.missing is not None:
        is_missing, guessed = people[:, number.missing] > 0.0, released[row, number.missing] > 0.0
        right = np.where(is_missing | guessed, is_missing & guessed, right)
    return int(right.sum()), len(people)
