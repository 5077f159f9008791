"""Numbers for the rows of a matrix that have none: the atoms and missing values of numeric columns.

The encoder gives these rows the mean. A method that mixes rows would spread the means over rows that do have a
number, and so shrink its variance and its correlations. Drawn numbers make the column one distribution, and its
relations to the other columns are those of the rows that have a number. The indicators still tell which rows have
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.table.encoded_columns import NUMBER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.encoded_columns import NumberEncoding
    from sfumato.table.encoder import Encoder

FITTED_ROWS = 5000  # rows to which a regression is fitted
FEWEST_FITTED_ROWS = 2  # a regression needs this many rows; without them the mean stays


def imputed(matrix: NDArray[np.float64], encoder: Encoder, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return the matrix with a drawn number in each row that has none; the matrix itself if all rows have one.

    A number is the prediction of a ridge regression on the other columns plus the residual of a random row (stochastic
    regression imputation). Columns are filled one after the other, and later ones use the numbers drawn before.
    """
    numbers = [number for number in encoder.numbers if number.width > 1]
    if not numbers:
        return matrix
    filled = matrix.copy()
    for number in numbers:
        known = number.states(matrix) == NUMBER
        if FEWEST_FITTED_ROWS <= known.sum() < len(matrix):
            filled[~known, number.position] = _drawn(filled, number, known, generator)
    return filled


def _drawn(
    matrix: NDArray[np.float64], number: NumberEncoding, known: NDArray[np.bool_], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return a number for each row that has none."""
    rows = np.flatnonzero(known)
    rows = rows if len(rows) <= FITTED_ROWS else generator.choice(rows, FITTED_ROWS, replace=False)
    own = np.arange(number.position, number.position + number.width)
    others = np.delete(matrix, own, axis=1)
    centre, wanted = others[rows].mean(axis=0), matrix[rows, number.position]
    fitted = others[rows] - centre
    # a ridge of one row per column: with few rows, predictions are near the mean
    gram = fitted.T @ fitted + len(centre) * np.eye(len(centre))
    slopes = np.linalg.solve(gram, fitted.T @ (wanted - wanted.mean()))
    residuals = wanted - wanted.mean() - fitted @ slopes
    drawn = wanted.mean() + (others[~known] - centre) @ slopes
    return np.asarray(drawn + generator.choice(residuals, len(drawn)))
