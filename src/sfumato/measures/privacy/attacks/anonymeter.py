"""Three attacks on single people: singling out, linkability and attribute inference (Giomi et al. 2023, Anonymeter).

Each attack is tried on people of the original and on people of the reference, who did not take part. The risk is how
much more often it succeeds on people of the original.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.kernels.neighbours import nearest
from sfumato.measures.confidence import (
    DIGITS,
    AttackRisk,
    adjust_p_values,
    excess_p_value,
    exchanges,
    exchanges_among,
)
from sfumato.measures.privacy.intruders import Intruder, intruders, rescale

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.release.assessment import Score
    from sfumato.table.encoder import Encoder


ATTACKS = 2000
TRIES = 8  # descriptions that are drawn at most for each that is unique in the release
SLACK = 0.1  # standard deviations by which a condition on a number is wider: numbers may have been moved
FITTING = 100  # a description that fits more people of the original and the reference singles out nobody
CELLS = 4 * 10**9  # largest number of comparisons for all attacks together


def singling_out_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Measure singling out (Cohen and Nissim): descriptions taken from the release that fit exactly one person.

    A description uses a few columns of one released row: equal to its category, or at least (at most) its number if
    that is above (below) the median, a little less (more) because numbers may have been moved. Another one uses a
    single column, equal to its category or number. Descriptions are drawn until they fit one released row only, as an
    intruder would do. A description singles out somebody if exactly one person fits. People outside are singled out by
    chance, too: a description that fits one person in N fits exactly one of N people with probability 37 %.

    Descriptions are tried on the original and on the reference, both reduced to the same number of people. All of them
    are tried on the same people, so they depend on each other; the test exchanges people inside and outside.
    """
    if subject.reference_matrix is None:
        return
    generator = subject.generator("singling out")
    people = min(len(subject.original_matrix), len(subject.reference_matrix))
    inside = subject.original_matrix[generator.permutation(len(subject.original_matrix))[:people]]
    outside = subject.reference_matrix[generator.permutation(len(subject.reference_matrix))[:people]]
    everyone = np.asfortranarray(np.concatenate([inside, outside]))  # conditions read whole columns
    attacks = max(100, min(ATTACKS, CELLS // (TRIES * 2 * people * len(subject.names))))
    found = {
        "singling out": _descriptions(subject, everyone, attacks, generator),
        "singling out by one column": _single_cells(subject, everyone, attacks, generator),
    }
    counts = {name: _single_out(described, people, generator) for name, described in found.items()}
    longest = max(len(singled) for singled in counts.values())
    excess = [np.resize(singled[:, 0] - singled[:, 1], longest) for singled in counts.values()]
    for (name, singled), p_value in zip(counts.items(), adjust_p_values(np.column_stack(excess)), strict=True):
        tried = len(found[name])
        risk = AttackRisk.of(int(singled[0, 0]), tried, int(singled[0, 1]), tried)
        note = "descriptions that fit one released row only, and exactly one person"
        yield risk.score(name, note, float(p_value))


def _descriptions(
    subject: MeasuredRelease, everyone: NDArray[np.float64], attacks: int, generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return whom each description fits: a few columns of a random row, drawn until no other released row fits."""
    released = np.asfortranarray(subject.released_matrix)
    medians, width, described = np.median(released, axis=0), len(subject.names), list[Any]()
    for _ in range(TRIES * attacks):
        row = released[int(generator.integers(len(released)))]
        columns = generator.permutation(width)[: int(generator.integers(1, width + 1))]
        row = row - SLACK * np.sign(row - medians)  # of numbers only: categories are equal
        if len(_fitting(subject, released, row, medians, columns)) == 1:
            described.append(_fitting(subject, everyone, row, medians, columns))
        if len(described) == attacks:
            break
    return described


def _single_cells(
    subject: MeasuredRelease, everyone: NDArray[np.float64], attacks: int, generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return whom each description fits: a cell that only one released row has."""
    released, described = subject.released_matrix, list[Any]()
    for name in subject.names:
        cells, others = (np.round(side[:, subject.code.columns(name)], DIGITS) for side in (released, everyone))
        both = np.concatenate([cells, others])
        labels = np.unique(both, axis=0, return_inverse=True)[1].ravel()
        shown = np.bincount(labels[: len(cells)], minlength=int(labels.max()) + 1)
        order = np.argsort(labels[len(cells) :], kind="stable")
        ordered = labels[len(cells) :][order]
        for label in np.flatnonzero(shown == 1):
            low, high = np.searchsorted(ordered, [label, label + 1])
            described.append(order[low:high])
    chosen = generator.permutation(len(described))[:attacks]
    return [described[place] for place in chosen]


def _single_out(described: list[NDArray[np.int64]], people: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Count the descriptions that fit exactly one person inside, and outside (columns), for each exchange (row).

    ``people`` is the number of people inside, and outside as well.
    """
    few = [fitting for fitting in described if 0 < len(fitting) <= FITTING]
    if not few:
        return np.zeros((1, 2))
    size = np.array([len(fitting) for fitting in few])
    start = np.cumsum(size) - size
    fitting, place = np.unique(np.concatenate(few), return_inverse=True)
    labels = exchanges_among(fitting, people, people, generator)
    inside = np.array([np.add.reduceat(label[place].astype(np.int64), start) for label in labels])
    return np.column_stack([(inside == 1).sum(axis=1), (size - inside == 1).sum(axis=1)]).astype(np.float64)


def _fitting(
    subject: MeasuredRelease,
    matrix: NDArray[np.float64],
    row: NDArray[np.float64],
    medians: NDArray[np.float64],
    columns: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the rows of the matrix that fit the description."""
    fits = np.ones(len(matrix), dtype=bool)
    chosen = {subject.names[column] for column in columns}
    for number in subject.code.numbers:
        if number.name in chosen:
            value, place = row[number.position], number.position
            # a person must fit the description of their own copy in spite of rounding errors
            fits &= matrix[:, place] >= value - 1e-9 if value > medians[place] else matrix[:, place] <= value + 1e-9
    for category in subject.code.categories:
        if category.name in chosen:
            fits &= matrix[:, category.start + int(row[category.columns].argmax())] > 0.0
    return np.flatnonzero(fits)


LINKED_PEOPLE = 2000  # people attacked on each side
PAIRS = 2 * 10**9  # largest number of distances computed


def linkability_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Measure linkability: whether two halves of a person's columns lead to the same released row.

    The columns are split at random into two halves. An attack succeeds if both halves have the same nearest row.
    """
    if subject.others is None or subject.reference_matrix is None or len(subject.names) < 2:
        return
    generator = subject.generator("linkability")
    names = generator.permutation(list(subject.names))
    first = np.concatenate([subject.code.columns(name) for name in names[: len(names) // 2]])
    second = np.setdiff1d(np.arange(subject.code.width), first)
    targets = max(50, min(LINKED_PEOPLE, PAIRS // (4 * len(subject.rows))))
    inside = subject.original_matrix[generator.permutation(len(subject.original_matrix))[:targets]]
    outside = subject.reference_matrix[generator.permutation(len(subject.reference_matrix))[:targets]]
    people, released = np.concatenate([inside, outside]), subject.released_matrix
    ends = [nearest(people[:, half], released[:, half], 1).index[:, 0] for half in (first, second)]
    linked = np.asarray(ends[0] == ends[1])
    within, without = linked[: len(inside)], linked[len(inside) :]
    risk = AttackRisk.of(int(within.sum()), len(within), int(without.sum()), len(without))
    note = "both halves of the columns have the same nearest row"
    yield risk.score("linkability", note, excess_p_value(within, without, generator))


INFERRED_PEOPLE = 1000  # people attacked on each side
CLOSE = 0.05  # a guess of a number is correct if its relative error is at most this


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Inference:
    """The guesses of one column by one intruder."""

    column: str
    intruder: Intruder
    inside: NDArray[np.bool_]  # whether the guess was correct, for each person attacked
    outside: NDArray[np.bool_]

    @property
    def risk(self) -> AttackRisk:
        """The risk of this column."""
        return AttackRisk.of(int(self.inside.sum()), len(self.inside), int(self.outside.sum()), len(self.outside))


def inferences(subject: MeasuredRelease) -> tuple[tuple[Inference, ...], ...]:
    """Let every intruder attack every column; return nothing without a reference or with a single column."""
    if subject.others is None or subject.reference_matrix is None or len(subject.names) < 2:
        return ()
    generator, tried = subject.generator("inference"), tuple(intruders(subject))
    targets = max(50, min(INFERRED_PEOPLE, PAIRS // (2 * len(tried) * len(subject.names) * len(subject.rows))))
    inside = subject.original_matrix[generator.permutation(len(subject.original_matrix))[:targets]]
    outside = subject.reference_matrix[generator.permutation(len(subject.reference_matrix))[:targets]]
    everyone = np.concatenate([inside, outside])
    return tuple(_infer(subject, one, everyone, len(inside)) for one in tried)


def _infer(
    subject: MeasuredRelease, intruder: Intruder, everyone: NDArray[np.float64], inside: int
) -> tuple[Inference, ...]:
    """Return the guesses of one intruder: the value of the nearest row in the columns that the intruder knows."""
    people, rows = (rescale(subject, side, intruder.scale) for side in (everyone, subject.released_matrix))
    found = []
    for name in subject.names:
        places = intruder.places(subject, without=name)
        if places.size:
            row = nearest(people[:, places], rows[:, places], 1).index[:, 0]
            correct = _correct(subject.code, name, everyone, subject.released_matrix[row])
            found.append(Inference(column=name, intruder=intruder, inside=correct[:inside], outside=correct[inside:]))
    return tuple(found)


def inference_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Measure attribute inference: guessing one column from others, by the value of the nearest released row.

    Several intruders try it, who know different columns and compare numbers on different scales; the worst is reported.
    The scores are the risk over all columns, and that of the column with the largest risk. A guess of a number is
    correct if it is within 5 %.
    """
    attacks = [found for found in inferences(subject) if found]
    if not attacks:
        return
    inside, outside = (
        np.column_stack([np.sum([getattr(one, side) for one in found], axis=0) for found in attacks])
        for side in ("inside", "outside")
    )
    labels = exchanges(len(inside), len(outside), subject.generator("inference of a column"))
    correct = np.concatenate([inside, outside]).astype(np.float64)
    p_values = adjust_p_values(np.asarray(labels.astype(np.float64) @ correct))
    risks = [_together(inside[:, one], outside[:, one], len(found)) for one, found in enumerate(attacks)]
    worst = min(range(len(attacks)), key=lambda one: (float(p_values[one]), -risks[one].value))
    found = attacks[worst]
    note = f"over {len(found)} columns, {len(inside)} people each, by {found[0].intruder}"
    yield risks[worst].score("inference of a column", note, float(p_values[worst]))
    largest = max((one for found in attacks for one in found), key=lambda one: one.risk.low)
    # the largest of many intervals is sometimes above 0 by chance, so it has no test
    yield largest.risk.score("inference of a column, largest", f"column {largest.column!r}, by {largest.intruder}")


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
    code: Encoder, column: str, people: NDArray[np.float64], guessed: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which people have the value of the row that was found for them."""
    own = code.columns(column)
    for category in code.categories:
        if category.name == column:
            return np.asarray(people[:, own].argmax(axis=1) == guessed[:, own].argmax(axis=1))
    number = next(number for number in code.numbers if number.name == column)
    true, guess = number.natural(people), number.natural(guessed)
    correct = np.abs(guess - true) <= CLOSE * np.abs(true) + 1e-12
    if number.missing is not None:
        is_missing, guessed_missing = people[:, number.missing] > 0.0, guessed[:, number.missing] > 0.0
        correct = np.where(is_missing | guessed_missing, is_missing & guessed_missing, correct)
    return np.asarray(correct)
