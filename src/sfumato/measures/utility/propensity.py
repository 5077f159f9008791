"""Propensity-score utility: can a model tell released rows from original ones?

A logistic regression predicts from a row whether it was released. If release and original have the same distribution,
its probabilities are all c, the share of released rows, up to chance (Woo et al. 2009; Snoke et al. 2018).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.release.assessment import Score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease

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
    """Yield how well a model tells released rows from original ones, compared with chance and with the reference."""
    generator = subject.generator("propensity")
    original, released = (_draw_rows(matrix, generator) for matrix in (subject.original_matrix, subject.released_matrix))
    numbers = [number.position for number in subject.code.numbers]
    found = propensity(original, released, numbers)
    note = f"pMSE / (c (1 − c)); {found.by_chance:.3g} is expected of a sample of the same population"
    if subject.reference_matrix is not None:
        usual = propensity(original, _draw_rows(subject.reference_matrix, generator), numbers)
        note += f"; the reference has {usual.separated:.3g}"
    yield Score(
        name="propensity (0: like the original)",
        family="utility",
        value=found.separated,
        better="lower",
        rows=found.rows,
        note=note,
    )


def _draw_rows(matrix: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    return matrix if len(matrix) <= PROPENSITY_ROWS else matrix[generator.choice(len(matrix), PROPENSITY_ROWS, replace=False)]
