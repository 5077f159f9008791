"""Permutation tests: what a statistic would be if it did not matter which of two samples a row belongs to.

If a release is a sample of the same population, its rows and those of the sample that it is compared with can be
exchanged. The statistics of random exchanges are then its distribution, however rows, columns and statistics depend on
each other. Several statistics of one measure are adjusted together, by the smallest of their p-values (Westfall and
Young), so that the probability that any of them fails by chance is that of a single test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXCHANGES = 499  # random exchanges; the smallest p-value is 1/500


def exchanges(first: int, second: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Return one row per exchange that says which rows are in the first sample; the first row is how it really is."""
    labels = np.zeros((EXCHANGES + 1, first + second), dtype=bool)
    labels[:, :first] = True
    generator.permuted(labels[1:], axis=1, out=labels[1:])
    return labels


def exchanges_among(
    chosen: NDArray[np.int64], first: int, second: int, generator: np.random.Generator
) -> NDArray[np.bool_]:
    """Return the labels of ``exchanges`` for some rows only, with the same distribution.

    In a random exchange, the number of the chosen rows that are in the first sample is hypergeometric. The work depends
    on the number of chosen rows, not on that of all rows.
    """
    inside = generator.hypergeometric(first, second, len(chosen), size=EXCHANGES)
    labels = np.arange(len(chosen)) < np.concatenate([[0], inside])[:, None]
    labels[0] = chosen < first
    generator.permuted(labels[1:], axis=1, out=labels[1:])
    return labels


def chances(statistics: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for each exchange (row), the share of exchanges with at least as large a statistic, column by column."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(-np.round(statistics, 12), method="max", axis=0) / len(statistics))


def adjusted(statistics: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the p-value of each statistic (column; large is bad), adjusted for their number.

    The first row is what was found, the others are exchanges.
    """
    p_values = chances(statistics)
    smallest = np.sort(p_values.min(axis=1))
    return np.asarray(np.searchsorted(smallest, p_values[0], side="right") / len(smallest))


def excess(inside: NDArray[Any], outside: NDArray[Any], generator: np.random.Generator) -> float:
    """Return the p-value of the excess of the mean inside over the mean outside."""
    if not len(inside) or not len(outside):
        return 1.0
    pooled = np.concatenate([inside, outside]).astype(np.float64)
    sums = exchanges(len(inside), len(outside), generator) @ pooled
    return float(adjusted(sums[:, None])[0])


def areas(labels: NDArray[np.bool_], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the area under the ROC curve of the first sample against the second, for each exchange."""
    from scipy.stats import rankdata

    inside = labels.sum(axis=1)
    pairs = inside * (labels.shape[1] - inside)
    above = labels @ rankdata(scores) - inside * (inside + 1) / 2.0
    return np.asarray(np.divide(above, pairs, where=pairs > 0, out=np.full(len(labels), 0.5)))


def largest_gaps(labels: NDArray[np.bool_], numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Kolmogorov–Smirnov distance of two samples of the same size, for each exchange."""
    order = np.argsort(numbers, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(numbers[order]) > 0.0, True))  # equal numbers are one step
    steps = np.where(labels[:, order], np.int8(1), np.int8(-1))
    return np.asarray(np.abs(np.cumsum(steps, axis=1, dtype=np.int32)[:, ends]).max(axis=1) / (labels.shape[1] / 2.0))
