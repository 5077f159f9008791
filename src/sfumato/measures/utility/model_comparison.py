"""Models of a release: those that analysts fit, and one that tells released rows from original ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.release.assessment import Score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease


CLASSIFIER_ROWS = 5_000  # largest number of rows from which classifiers are trained
REGRESSION_ROWS = 50_000  # largest number of rows of a regression
TARGETS = 5  # largest number of columns that are predicted
CLASSES = 20  # largest number of categories of a column that a classifier predicts
Z = 1.959964  # quantile of the normal distribution of a 95 % interval


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Coefficients:
    """Coefficients of a linear regression with their standard errors, without the intercept."""

    values: NDArray[np.float64]
    errors: NDArray[np.float64]


def regression(predictors: NDArray[np.float64], target: NDArray[np.float64]) -> Coefficients:
    """Fit a linear regression with an intercept; predictors that depend on others are handled by the pseudo-inverse."""
    design = np.column_stack([np.ones(len(target)), predictors])
    left, singular, right = np.linalg.svd(design, full_matrices=False)  # no product of columns by columns
    real = singular > 1e-5 * singular.max(initial=0.0)
    inverse = right[real] / singular[real, None]
    values = (left[:, real].T @ target) @ inverse
    freedom = max(1, len(target) - int(real.sum()))
    variance = float(np.sum((target - design @ values) ** 2)) / freedom
    return Coefficients(values=values[1:], errors=np.sqrt((inverse**2).sum(axis=0)[1:] * variance))


def interval_overlap(one: Coefficients, other: Coefficients) -> float:
    """Return the mean overlap of the 95 % intervals of coefficients, from 0 (none overlap) to 1 (Karr et al. 2006).

    The overlap is divided by the length of either interval, and the two shares are averaged.
    """
    low = np.maximum(one.values - Z * one.errors, other.values - Z * other.errors)
    high = np.minimum(one.values + Z * one.errors, other.values + Z * other.errors)
    common = np.maximum(high - low, 0.0)
    usable = (one.errors > 1e-12) & (other.errors > 1e-12)
    if not usable.any():
        return float(np.allclose(one.values, other.values))
    shares = (common[usable] / (2.0 * Z)) * (1.0 / one.errors[usable] + 1.0 / other.errors[usable]) / 2.0
    return float(shares.mean())


def model_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Measure models that analysts fit: do regressions give the same coefficients, do classifiers predict as well?

    The scores are the overlap of the confidence intervals of regressions, and the accuracy that classifiers keep.
    """
    generator = subject.generator("models")
    original, released = (
        matrix[_draw_positions(len(matrix), REGRESSION_ROWS, generator)]
        for matrix in (subject.original_matrix, subject.released_matrix)
    )
    usable = _predictors(subject, original, released)
    overlaps = [
        interval_overlap(*(regression(matrix[:, others], matrix[:, target]) for matrix in (original, released)))
        for target in [number.position for number in subject.code.numbers if number.position in usable][:TARGETS]
        if len(others := usable[usable != target])
    ]
    if overlaps:
        yield Score(
            name="overlap of regression intervals, mean",
            family="utility",
            value=float(np.mean(overlaps)),
            better="higher",
            rows=len(released),
            note=f"95 % intervals of the slopes; each of {len(overlaps)} numeric columns explained by all others",
        )
    places = [
        _draw_positions(rows, CLASSIFIER_ROWS, generator) for rows in (subject.original.rows, subject.released.rows)
    ]
    yield from _classifier_scores(subject, places)


def _classifier_scores(subject: MeasuredRelease, places: list[NDArray[np.int64]]) -> Iterator[Score]:
    """Train on half of the original and on the release, and predict the other half of the original."""
    half = len(places[0]) // 2
    train, test = places[0][:half], places[0][half:]
    overlaps: list[tuple[float, float, float]] = []
    for category in subject.code.categories:
        labels = _labels(subject, category.name)
        if labels is None or len(overlaps) == TARGETS:
            continue
        others = np.delete(np.arange(subject.code.width), np.arange(category.columns.start, category.columns.stop))
        if not len(others):
            continue
        truth = labels[0][test]
        ours = _accuracy(subject.original_matrix[np.ix_(train, others)], labels[0][train], subject, others, test, truth)
        rows = places[1][labels[1][places[1]] >= 0][: max(half, 1)]
        kept = _accuracy(subject.released_matrix[np.ix_(rows, others)], labels[1][rows], subject, others, test, truth)
        usual = float(np.bincount(truth).max() / len(truth))
        overlaps.append((ours, kept, usual))
    if not overlaps:
        return
    ours, kept, usual = np.mean(overlaps, axis=0)
    yield Score(
        name="accuracy of classifiers",
        family="utility",
        value=float(kept),
        better="higher",
        rows=len(test),
        note=f"trained on the release, predicting original rows; mean of {len(overlaps)} columns. Trained on other "
        f"original rows: {ours:.3f}; always the most frequent value: {usual:.3f}",
    )


def _accuracy(
    features: NDArray[np.float64],
    labels: NDArray[np.int64],
    subject: MeasuredRelease,
    others: NDArray[np.int64],
    test: NDArray[np.int64],
    truth: NDArray[np.int64],
) -> float:
    from sklearn.linear_model import RidgeClassifier

    if len(np.unique(labels)) < 2:
        return float(np.mean(truth == labels[0])) if len(labels) else 0.0
    model = RidgeClassifier().fit(features, labels)  # needs no iterations, unlike a logistic regression
    return float(np.mean(model.predict(subject.original_matrix[np.ix_(test, others)]) == truth))


def _labels(subject: MeasuredRelease, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return the category of each original and released row, −1 for cells that are not a single category."""
    coded, shown = subject.original.coded(name), subject.released.coded(name)
    if not 2 <= coded.size <= CLASSES:
        return None
    values = pc.cast(coded.values, pa.string()).to_pylist()
    cells = pc.cast(shown.values, pa.string()).to_pylist()
    place = np.array([values.index(cell) if cell in values else -1 for cell in cells], dtype=np.int64)
    return coded.codes.astype(np.int64), place[shown.codes]


def _predictors(
    subject: MeasuredRelease, original: NDArray[np.float64], released: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the columns that vary in both matrices, without one indicator of each category, which the others imply."""
    varies = (original.std(axis=0) > 1e-9) & (released.std(axis=0) > 1e-9)
    for category in subject.code.categories:
        first = np.flatnonzero(varies[category.columns])[:1]
        varies[category.columns.start + first] = False
    return np.flatnonzero(varies)


def _draw_positions(rows: int, at_most: int, generator: np.random.Generator) -> NDArray[np.int64]:
    return generator.permutation(rows)[:at_most]


PROPENSITY_ROWS = 10_000  # largest number of rows of each table that are used
RIDGE = 1e-4  # penalty per row, so that columns that depend on each other do no harm


@dataclass(frozen=True, kw_only=True)
class Propensity:
    """How well released rows can be told from original ones."""

    separated: float  # mean (p − c)² / (c (1 − c)), from 0 (not at all) to 1 (every row is recognised)
    by_chance: float  # expected ``separated`` of two samples of one population
    rows: int


def propensity(
    original: NDArray[np.float64], released: NDArray[np.float64], numbers: Sequence[int] | None = None
) -> Propensity:
    """Fit a logistic regression on two matrices with the same columns, and on the squares of ``numbers``.

    ``numbers`` are positions of columns, by default of all. Indicators of categories must not be among them: an
    original row has −1 and 1 and a set of categories something between, so squares would tell how a release is written.
    For a correct model with q parameters besides the intercept, mean (p − c)² is q c (1 − c) / rows on average if both
    tables are samples of one population (Snoke et al. 2018, eq. 3).
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    features = np.vstack([original, released])
    spread = features.std(axis=0)
    features = (features - features.mean(axis=0))[:, spread > 1e-12] / spread[spread > 1e-12]
    is_number = np.isin(np.arange(len(spread)), np.arange(len(spread)) if numbers is None else numbers)
    squares = features[:, is_number[spread > 1e-12]] ** 2
    squares = np.minimum(squares, 10.0)  # a few extreme numbers must not decide
    curved = squares.std(axis=0) > 1e-9
    used = np.column_stack([features, (squares[:, curved] - 1.0) / squares[:, curved].std(axis=0)])
    is_released = np.repeat([False, True], [len(original), len(released)])
    if not used.shape[1]:
        return Propensity(separated=0.0, by_chance=0.0, rows=len(used))
    model = LogisticRegression(C=1.0 / (RIDGE * len(used)), max_iter=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rows that are told apart completely need no more steps
        model.fit(used, is_released)
    c = is_released.mean()
    separated = float(np.mean((model.predict_proba(used)[:, 1] - c) ** 2) / (c * (1.0 - c)))
    parameters = np.linalg.matrix_rank(used)
    return Propensity(separated=separated, by_chance=float(parameters / len(used)), rows=len(used))


def propensity_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Measure propensity-score utility: can a model tell released rows from original ones?

    A logistic regression predicts from a row whether it was released. If release and original have the same
    distribution, its probabilities are all c, the share of released rows, up to chance (Woo et al. 2009; Snoke et al.
    2018). The note compares the score with chance and with the reference.
    """
    generator = subject.generator("propensity")
    original, released = (
        _draw_rows(matrix, generator) for matrix in (subject.original_matrix, subject.released_matrix)
    )
    numbers = [number.position for number in subject.code.numbers]
    difference = propensity(original, released, numbers)
    note = f"pMSE / (c (1 − c)); {difference.by_chance:.3g} is expected of a sample of the same population"
    if subject.reference_matrix is not None:
        usual = propensity(original, _draw_rows(subject.reference_matrix, generator), numbers)
        note += f"; the reference has {usual.separated:.3g}"
    yield Score(
        name="propensity (0: like the original)",
        family="utility",
        value=difference.separated,
        better="lower",
        rows=difference.rows,
        note=note,
    )


def _draw_rows(matrix: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    return (
        matrix
        if len(matrix) <= PROPENSITY_ROWS
        else matrix[generator.choice(len(matrix), PROPENSITY_ROWS, replace=False)]
    )
