"""Record linkage with weights learnt from the two tables: Fellegi and Sunter (1969), by the EM algorithm (Winkler).

Each pair of a person and a released row has a *pattern*: how well it agrees in each column. A column in which true
pairs agree and others rarely do counts much. Its probabilities are not known to the intruder, but follow from the
patterns of all pairs: those of the few true pairs (m) by the EM algorithm, those of all others (u) are the shares among
all pairs. The weight of a pair is the sum over its columns of log(m/u), and each person is linked to the row with the
largest one.

Two thresholds divide the pairs (TL §2.1.1): *matches*, of which so few are expected to be false that one person in 100
is matched wrongly; *no matches*, among which at most one true pair in 20 is expected; and pairs between them, which a
clerk would have to look at.

The intruders of :mod:`sfumato.measures.privacy.linkage` use one distance for all columns. These learn which columns to
trust, so that one column that was changed a lot does not hide the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.measures.confidence import share
from sfumato.measures.privacy.intruders import Intruder, intruders, rescale
from sfumato.release.assessment import Score
from sfumato.table.encoded_columns import finite_numbers
from sfumato.table.intervals import Intervals, is_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.table.encoded_columns import CategoryEncoding, NumberEncoding

PAIRS = 4 * 10**6  # pairs of a person and a row that are compared by all intruders together
TARGETS = 500  # largest number of people who are attacked
FEWEST = 40  # and the smallest, in a large table
COLUMNS = 24  # largest number of columns that are compared, because a pattern is one 64-bit number
CLOSE = (1e-6, 0.1, 0.3, 0.6, 1.2)  # differences of numbers at which the next level begins, in standard deviations
LEVELS = len(CLOSE) + 1
STARTED = (0.5, 0.2, 0.1, 0.1, 0.05, 0.05)  # true pairs agree more often than not: where the EM algorithm starts
ROUNDS = 100  # of the EM algorithm
CONVERGED = 1e-6  # change of the probabilities at which it ends
FALSE_MATCHES = 0.01  # expected wrong matches for each person
MISSED_MATCHES = 0.05  # share of true pairs that are expected among pairs that are no match


@dataclass(frozen=True, repr=False)
class Weights:
    """The probabilities that true pairs and other pairs have each level of agreement, one row per column."""

    true: NDArray[np.float64]  # m
    other: NDArray[np.float64]  # u

    @property
    def logs(self) -> NDArray[np.float64]:
        """The weight of each level of each column: log(m/u)."""
        return np.log(self.true) - np.log(self.other)


def learn_weights(levels: NDArray[np.int64], counts: NDArray[np.float64], rate: float) -> Weights:
    """Learn the probabilities from patterns (one row each) and how often they occur.

    ``rate`` is the share of pairs that are true: one of as many as there are rows. A level that no pair has keeps a
    small probability (Laplace's rule), so that weights stay finite.
    """
    indicators = _indicators(levels)
    other = _shares(indicators, counts)
    true = np.tile(STARTED, (levels.shape[1], 1))
    for _ in range(ROUNDS):
        odds = np.log(rate / (1.0 - rate)) + indicators @ (np.log(true) - np.log(other)).ravel()
        belief = 1.0 / (1.0 + np.exp(-np.clip(odds, -700.0, 700.0)))
        before, true = true, _shares(indicators, counts * belief)
        if np.abs(true - before).max() < CONVERGED:
            break
    return Weights(true, other)


@dataclass(frozen=True)
class Thresholds:
    """The weights from which a pair is a match, and below which it is none; pairs between them are for review."""

    match: float
    review: float

    @classmethod
    def of(
        cls,
        weights: NDArray[np.float64],
        counts: NDArray[np.float64],
        rate: float,
        *,
        false: float = FALSE_MATCHES,
        missed: float = MISSED_MATCHES,
    ) -> Thresholds:
        """Choose the thresholds of patterns with these weights and counts, of which a ``rate`` of pairs is true.

        A pattern belongs to a true pair with the probability that its weight says. ``false`` is the expected number of
        false matches for each true pair, and ``missed`` the expected share of true pairs below the second threshold.
        """
        order = np.argsort(-weights, kind="stable")
        odds = np.log(rate / (1.0 - rate)) + weights[order]
        belief = 1.0 / (1.0 + np.exp(-np.clip(odds, -700.0, 700.0)))
        wrong = np.cumsum(counts[order] * (1.0 - belief)) / (rate * counts.sum())
        right = np.cumsum(counts[order] * belief)
        ordered = weights[order]
        matches = np.flatnonzero(wrong <= false)
        match = float(ordered[matches[-1]]) if matches.size else np.inf
        enough = int(np.searchsorted(right, (1.0 - missed) * right[-1]))
        return cls(match, min(match, float(ordered[min(enough, len(ordered) - 1)])))


def _indicators(levels: NDArray[np.int64]) -> Any:
    """Return a sparse matrix of patterns by levels of columns: a product with it is a step of the EM algorithm."""
    from scipy.sparse import csr_array

    patterns, columns = levels.shape
    index = (levels + LEVELS * np.arange(columns)).astype(np.int32).ravel()
    starts = np.arange(patterns + 1, dtype=np.int32) * columns
    return csr_array((np.ones(index.size), index, starts), shape=(patterns, LEVELS * columns))


def _shares(indicators: Any, counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of each level in each column, with a little of every level."""
    chances = 0.01 + (counts @ indicators).reshape(-1, LEVELS)
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Links:
    """What one intruder finds: the people who are linked to their own row, and the links that the weights trust."""

    intruder: Intruder
    hits: float  # one of several equal rows is a guess
    trusted: int  # links that the weights say are more likely true than not
    correct: int  # of these
    matched: int  # people with a row that is a match by two thresholds
    matched_correctly: int  # of these, people whose own row it is
    reviewed: int  # people without a match, but with rows for review
    review_rows: float  # rows for review of such a person, on average
    found_in_review: int  # of these, people whose own row is among them


def fellegi_sunter_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the share of people who are linked to their own row, by the worst of several intruders."""
    if subject.origin is None:
        return
    rows, tried = subject.released.rows, tuple(intruders(subject))
    generator = subject.generator("fellegi-sunter")
    present = np.flatnonzero(np.isin(np.arange(subject.original.rows), subject.origin))
    targets = generator.permutation(present)[: int(np.clip(PAIRS // (len(tried) * rows), FEWEST, TARGETS))]
    if not targets.size or rows < 2:
        return
    worst = max((link_people(subject, intruder, targets) for intruder in tried), key=lambda links: links.hits)
    rate = share(round(worst.hits), len(targets))
    yield replace(rate, value=worst.hits / len(targets)).score(
        "correct Fellegi–Sunter links",
        rows=len(targets),
        gain=rate.low,
        note=f"share of people, by {worst.intruder}; {1.0 / rows:.2g} by chance; {worst.correct} of {worst.trusted} "
        f"links are correct for which the weights say that they are more likely true than not; by two thresholds "
        f"{worst.matched} people are matched, {worst.matched_correctly} of them correctly, and {worst.reviewed} are "
        f"for review, with {worst.review_rows:.3g} rows each; {worst.found_in_review} have their own among them",
    )


def link_people(subject: MeasuredRelease, intruder: Intruder, targets: NDArray[np.int64]) -> Links:
    """Link these people to released rows by the columns that an intruder knows."""
    assert subject.origin is not None
    rows, names = subject.released.rows, intruder.columns[:COLUMNS]
    coded = pa.array(_patterns(subject, intruder, targets)).dictionary_encode()  # faster than sorting
    patterns, place = coded.dictionary.to_numpy(), coded.indices.to_numpy()
    levels = (patterns[:, None] // LEVELS ** np.arange(len(names))) % LEVELS
    counts = np.bincount(place).astype(np.float64)
    logs = learn_weights(levels, counts, 1.0 / rows).logs
    weights = logs[np.arange(len(names)), levels].sum(axis=1)
    thresholds = Thresholds.of(weights, counts, 1.0 / rows)
    weight = weights[place].reshape(len(targets), rows)
    largest = weight.max(axis=1, keepdims=True)
    best = weight >= largest - 1e-9
    theirs = subject.origin[None, :] == targets[:, None]
    own = best & theirs
    trusted = (largest[:, 0] > np.log(rows)) & (best.sum(axis=1) == 1)
    matched = (largest[:, 0] >= thresholds.match) & (best.sum(axis=1) == 1)
    shown = weight >= thresholds.review
    reviewed = ~matched & shown.any(axis=1)
    return Links(
        intruder=intruder,
        hits=float((own.sum(axis=1) / best.sum(axis=1)).sum()),
        trusted=int(trusted.sum()),
        correct=int(own[trusted].any(axis=1).sum()),
        matched=int(matched.sum()),
        matched_correctly=int(own[matched].any(axis=1).sum()),
        reviewed=int(reviewed.sum()),
        review_rows=float(shown[reviewed].sum(axis=1).mean()) if reviewed.any() else 0.0,
        found_in_review=int((shown & theirs)[reviewed].any(axis=1).sum()),
    )


def _patterns(subject: MeasuredRelease, intruder: Intruder, targets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pattern of each pair, people by rows, as one number: a digit of base LEVELS per column."""
    patterns = np.zeros((len(targets), subject.released.rows), dtype=np.int64)
    categories = {category.name: category for category in subject.code.categories}
    numbers = {number.name: number for number in subject.code.numbers}
    people, rows = (
        rescale(subject, side, intruder.scale) for side in (subject.original_matrix[targets], subject.released_matrix)
    )
    for place, name in enumerate(intruder.columns[:COLUMNS]):
        if name in categories:
            level = _category_levels(categories[name], people, rows)
        elif is_interval(name, subject.released.kinds):
            level = _range_levels(subject, name, targets)
        else:
            level = _number_levels(numbers[name], people, rows)
        patterns += level.astype(np.int64) * LEVELS**place
    return patterns.ravel()


def _category_levels(
    category: CategoryEncoding, people: NDArray[np.float64], rows: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return 0 if the row has the category of the person, 1 if a set contains it, and the last level otherwise."""
    own = people[:, category.columns].argmax(axis=1)
    indicator = rows[:, category.columns].T[own]
    return np.where(indicator >= 1.0, 0, np.where(indicator > -1.0, 1, LEVELS - 1))


def _range_levels(subject: MeasuredRelease, name: str, targets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0 if the number of the person is in the range of the row, and the last level otherwise."""
    person, ends = finite_numbers(subject.original, name)[targets][:, None], Intervals.of(subject.released, name)
    return np.where((ends.low <= person) & (person <= ends.high), 0, LEVELS - 1)


def _number_levels(number: NumberEncoding, people: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how far apart the numbers are, from 0; a missing number equals a missing one only."""
    apart = np.abs(people[:, number.position][:, None] - rows[:, number.position])
    level = sum((apart > close).view(np.int8) for close in CLOSE)
    if number.missing is None:
        return np.asarray(level, dtype=np.int64)
    person, row = people[:, number.missing][:, None] > 0.0, rows[:, number.missing] > 0.0
    return np.where(person & row, 0, np.where(person | row, LEVELS - 1, level))
