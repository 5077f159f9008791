"""Three attacks on single people: singling out, linkability and attribute inference (Giomi et al. 2023, Anonymeter).

Each attack is tried on people of the original and on people of the reference, who did not take part. The risk is how
much more often it succeeds on people of the original.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.neighbours import nearest, nearest_without_each
from sfumato.measures.confidence import AttackRisk, adjust_p_values, exchanged_p_values, exchanges_among
from sfumato.measures.privacy.box_kernels import SortedPoints
from sfumato.measures.privacy.intruders import Intruder, intruders, rescale, worst_attempt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.release.assessment import Score
    from sfumato.table.encoder import Encoder


ATTACKS = 1000  # descriptions of each way
FEWEST = 100  # in a large table
TRIES = 8  # descriptions that are drawn at most for each that is unique in the release
# Standard deviations by which conditions on numbers are wider, because numbers may have been moved: nobody but the
# custodian knows how far, so each is tried
AT_LEAST = (0.0, 0.03, 0.1, 0.3)
WITHIN = (0.0, 0.03, 0.1, 0.3, 1.0)
ROUNDING = 1e-9  # a person must fit the description of their own copy in spite of rounding errors
FITTING = 12  # a description that fits more people of the original and the reference singles out nobody
CELLS = 2 * 10**9  # largest number of comparisons for all attacks together
BLOCK = 250  # exchanges that are in memory at the same time


@dataclass(frozen=True)
class Way:
    """One way to describe a person by a released row."""

    intruder: Intruder
    slack: float
    two_sided: bool
    most: int  # columns of a description

    def __str__(self) -> str:
        how = "numbers within {:g} standard deviations" if self.two_sided else "numbers at least or at most, ± {:g}"
        return f"{how.format(self.slack) if self.slack or not self.two_sided else 'equal cells'}, by {self.intruder}"


@dataclass(frozen=True, repr=False, eq=False)
class View:
    """The released rows and the people as one intruder compares them."""

    rows: NDArray[np.float64]
    medians: NDArray[np.float64]
    released: SortedPoints
    everyone: SortedPoints


def singling_out_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Measure singling out (Cohen and Nissim): descriptions taken from the release that fit exactly one person.

    A description uses a few columns of one released row: equal to its category, and at least (at most) its number if
    that is above (below) the median, or near its number. How far numbers were moved is not known, so several distances
    are tried, each by several intruders, and the worst is reported. Descriptions are drawn until they fit one released
    row only. A description singles out somebody if exactly one person fits. People outside are singled out by chance,
    too: a description that fits one person in N fits exactly one of N people with probability 37 %.

    Descriptions are tried on the original and on the reference, both reduced to the same number of people. All of them
    are tried on the same people, so they depend on each other; the test exchanges people inside and outside, and
    allows for the number of ways.
    """
    if subject.reference_matrix is None:
        return
    generator = subject.generator("singling out")
    people = min(len(subject.original_matrix), len(subject.reference_matrix))
    everyone = np.concatenate(
        [
            side[generator.permutation(len(side))[:people]]
            for side in (subject.original_matrix, subject.reference_matrix)
        ]
    )
    ways = tuple(_ways(subject))
    attacks = int(np.clip(CELLS // (len(ways) * (2 * people + len(subject.rows))), FEWEST, ATTACKS))
    found = [
        fitting
        for intruder, own in groupby(ways, key=lambda way: way.intruder)
        for fitting in _try(subject, everyone, intruder, tuple(own), attacks, generator)
    ]
    singled = _single_out(found, people, generator)
    p_values = adjust_p_values(singled[:, :, 0] - singled[:, :, 1])
    risks = [
        AttackRisk.of(int(counts[0]), len(fitting), int(counts[1]), len(fitting))
        for counts, fitting in zip(singled[0], found, strict=True)
    ]
    for name, single in (("singling out", False), ("singling out by one column", True)):
        own = [place for place, way in enumerate(ways) if (way.most == 1) == single]
        if own:
            worst = own[worst_attempt([risks[place] for place in own], p_values[own])]
            note = f"descriptions that fit one released row only, and exactly one person; {ways[worst]}"
            yield risks[worst].score(name, note, float(p_values[worst]))


def _ways(subject: MeasuredRelease) -> Iterator[Way]:
    """Yield the ways to describe people; with one column only cells that are unique in the release can do so."""
    for intruder in intruders(subject):
        width = len(intruder.columns)
        for slack, two_sided in [(slack, False) for slack in AT_LEAST] + [(slack, True) for slack in WITHIN]:
            if slack > 0.0 or intruder.scale == "standardised":  # equal cells are equal on any scale
                yield Way(intruder, slack, two_sided, width)
        if intruder.scale == "standardised":
            yield Way(intruder, 0.0, True, 1)


def _try(
    subject: MeasuredRelease,
    everyone: NDArray[np.float64],
    intruder: Intruder,
    ways: Sequence[Way],
    attacks: int,
    generator: np.random.Generator,
) -> Iterator[NDArray[np.int64]]:
    """Yield, for each way of one intruder, whom its descriptions fit."""
    rows, people = (rescale(subject, side, intruder.scale) for side in (subject.released_matrix, everyone))
    view = View(rows, np.median(rows, axis=0), SortedPoints.of(rows), SortedPoints.of(people))
    for way in ways:
        low, high = _unique_descriptions(subject, view, way, attacks, generator)
        yield view.everyone.inside(low, high, FITTING + 1)


def _unique_descriptions(
    subject: MeasuredRelease, view: View, way: Way, attacks: int, generator: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw descriptions until there are enough that fit one released row only; return their lower and upper ends."""
    kept = np.empty((0, 2 * view.rows.shape[1]))
    for _ in range(TRIES):
        low, high = _draw_descriptions(subject, view, way, attacks, generator)
        single = view.released.inside(low, high, 2)[:, 1] < 0
        kept = np.unique(np.concatenate([kept, np.column_stack([low, high])[single]]), axis=0)
        if len(kept) >= attacks:
            break
    chosen = kept[generator.permutation(len(kept))[:attacks]]
    return chosen[:, : view.rows.shape[1]], chosen[:, view.rows.shape[1] :]


def _draw_descriptions(
    subject: MeasuredRelease, view: View, way: Way, count: int, generator: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw descriptions: a few columns of a random row. Return what a person must have at least and at most."""
    row = view.rows[generator.integers(len(view.rows), size=count)]
    low, high = np.full(row.shape, -np.inf), np.full(row.shape, np.inf)
    names, slack = way.intruder.columns, way.slack + ROUNDING
    size = generator.integers(1, way.most + 1, size=count)
    used = generator.permuted(np.tile(np.arange(len(names)), (count, 1)), axis=1) < size[:, None]
    for number in subject.code.numbers:
        if number.name in names:
            one, place = used[:, names.index(number.name)], number.position
            if number.missing is not None:
                is_missing = row[:, number.missing] > 0.0
                low[one & is_missing, number.missing] = 0.0
                high[one & ~is_missing, number.missing] = 0.0
                one = one & ~is_missing
            above = row[:, place] > view.medians[place]
            at_least, at_most = (one, one) if way.two_sided else (one & above, one & ~above)
            low[at_least, place] = row[at_least, place] - slack
            high[at_most, place] = row[at_most, place] + slack
    for category in subject.code.categories:
        if category.name in names:
            chosen = np.flatnonzero(used[:, names.index(category.name)])
            low[chosen, category.start + row[chosen, category.columns].argmax(axis=1)] = ROUNDING
    return low, high


def _single_out(found: Sequence[NDArray[np.int64]], people: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Count the descriptions that fit exactly one person: exchanges × ways × (inside, outside).

    ``found`` are the people whom each description of each way fits; as many are inside as outside.
    """
    from scipy.sparse import csr_array

    few = [fitting[(fitting[:, 0] >= 0) & (fitting[:, FITTING] < 0)] for fitting in found]
    fitting = np.concatenate(few)
    size = (fitting >= 0).sum(axis=1)
    chosen, place = np.unique(fitting[fitting >= 0], return_inverse=True)
    labels = exchanges_among(chosen, people, people, generator)
    fits = csr_array(
        (np.ones(len(place), np.float32), place, np.append(0, np.cumsum(size))), shape=(len(size), len(chosen))
    )
    ends = np.cumsum([0] + [len(one) for one in few])
    counts = np.zeros((len(labels), len(found), 2))
    for start in range(0, len(labels), BLOCK):
        inside = fits @ labels[start : start + BLOCK].T.astype(np.float32)
        for side, fitted in enumerate((inside, size[:, None] - inside)):
            single = [(fitted[first:last] == 1.0).sum(axis=0) for first, last in pairwise(ends)]
            counts[start : start + BLOCK, :, side] = np.column_stack(single)
    return counts


LINKED_PEOPLE = 2000  # people attacked on each side
PAIRS = 2 * 10**9  # largest number of distances computed


def linkability_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Measure linkability: whether two halves of a person's columns lead to the same released row.

    The columns that an intruder knows are split at random into two halves. An attack succeeds if both halves have the
    same nearest row. Several intruders try it, and the worst is reported.
    """
    tried = [intruder for intruder in intruders(subject) if len(intruder.columns) > 1]
    if subject.reference_matrix is None or not tried:
        return
    generator = subject.generator("linkability")
    targets = max(50, min(LINKED_PEOPLE, PAIRS // (4 * len(tried) * len(subject.rows))))
    both = (subject.original_matrix, subject.reference_matrix)
    everyone = np.concatenate([side[generator.permutation(len(side))[:targets]] for side in both])
    inside = min(targets, len(subject.original_matrix))
    linked = np.column_stack([_link(subject, intruder, everyone, generator) for intruder in tried])
    outside = len(linked) - inside
    risks = [AttackRisk.of(int(one[:inside].sum()), inside, int(one[inside:].sum()), outside) for one in linked.T]
    p_values = exchanged_p_values(linked, inside, generator)
    worst = worst_attempt(risks, p_values)
    note = f"both halves of the columns have the same nearest row, by {tried[worst]}"
    yield risks[worst].score("linkability", note, float(p_values[worst]))


def _link(
    subject: MeasuredRelease, intruder: Intruder, everyone: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.bool_]:
    """Return for whom two random halves of the known columns have the same nearest row."""
    people, rows = (rescale(subject, side, intruder.scale) for side in (everyone, subject.released_matrix))
    names = generator.permutation(list(intruder.columns))
    halves = (intruder.places(subject, only=half.tolist()) for half in np.array_split(names, 2))
    first, second = (nearest(people[:, half], rows[:, half], 1).index[:, 0] for half in halves)
    return np.asarray(first == second)


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
    def correct(self) -> NDArray[np.bool_]:
        """Whether the guess was correct, for everybody."""
        return np.concatenate([self.inside, self.outside])

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
    places = [subject.code.columns(name) for name in intruder.columns]
    known, group = np.concatenate(places), np.repeat(np.arange(len(places)), [len(one) for one in places])
    nearest_row = nearest_without_each(people[:, known], rows[:, known], group)
    left_out = {name: number for number, name in enumerate(intruder.columns)}
    found = []
    for name in subject.names:
        number = left_out.get(name, len(places))
        if (group != number).any():
            own, code = subject.code.columns(name), subject.code.part([name])
            guesses = subject.released_matrix[:, own][nearest_row[:, number]]
            correct = _correct(code, everyone[:, own], guesses)
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
    single = [one for found in attacks for one in found]
    totals = [np.sum([one.correct for one in found], axis=0) for found in attacks]
    inside, generator = len(single[0].inside), subject.generator("inference of a column")
    guesses = np.column_stack([*totals, *(one.correct for one in single)])
    p_values = exchanged_p_values(guesses, inside, generator)
    risks = [_together(one[:inside], one[inside:], len(found)) for one, found in zip(totals, attacks, strict=True)]
    worst = worst_attempt(risks, p_values[: len(risks)])
    note = f"over {len(attacks[worst])} columns, {inside} people each, by {attacks[worst][0].intruder}"
    yield risks[worst].score("inference of a column", note, float(p_values[worst]))
    columns = [one.risk for one in single]
    largest = worst_attempt(columns, p_values[len(risks) :])
    note = f"column {single[largest].column!r}, by {single[largest].intruder}"
    p_value = float(p_values[len(risks) + largest])
    yield columns[largest].score("inference of a column, largest", note, p_value)


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


def _correct(code: Encoder, people: NDArray[np.float64], guessed: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which people have the value of the row that was found for them, in a matrix of one column."""
    if code.categories:
        return np.asarray(people.argmax(axis=1) == guessed.argmax(axis=1))
    (number,) = code.numbers
    true, guess = number.natural(people), number.natural(guessed)
    correct = np.abs(guess - true) <= CLOSE * np.abs(true) + 1e-12
    if number.missing is not None:
        is_missing, guessed_missing = people[:, number.missing] > 0.0, guessed[:, number.missing] > 0.0
        correct = np.where(is_missing | guessed_missing, is_missing & guessed_missing, correct)
    return np.asarray(correct)
