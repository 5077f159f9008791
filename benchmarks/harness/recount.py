"""Quality, counted again from what was released, with NumPy alone: neither ours nor a rival is imported here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

Cell = tuple[float, float] | frozenset[str]  # an interval, or a set of values


def groups_of(rows: Sequence[Sequence[object]]) -> Counter[tuple[object, ...]]:
    """Return how many rows are equal, by their cells."""
    return Counter(tuple(row) for row in rows)


def loss_of_cells(
    columns: Mapping[str, Sequence[Cell]], original: Mapping[str, Sequence[str]], suppressed: int
) -> float:
    """Return the mean over cells of range ÷ domain, or (values − 1) ÷ (values of the column − 1); 1 if suppressed."""
    shares = []
    for name, cells in columns.items():
        lost = sum(_share(cell, original[name]) for cell in _counted(cells))
        shares.append((lost + suppressed) / (len(cells) + suppressed))
    return float(np.mean(shares))


def _counted(cells: Sequence[Cell]) -> list[tuple[Cell, int]]:
    return list(Counter(cells).items())


def _share(counted: tuple[Cell, int], values: Sequence[str]) -> float:
    cell, count = counted
    if isinstance(cell, frozenset):
        return count * (len(cell) - 1) / (len(set(values)) - 1)
    numbers = [float(value) for value in set(values)]
    return count * (cell[1] - cell[0]) / (max(numbers) - min(numbers))


def granularity(columns: Mapping[str, Sequence[int]], leaves: Mapping[str, int], suppressed: int) -> float:
    """Return 1 − the mean share of the leaves that cells leave open, as a share of the largest (as ARX counts it).

    ``columns`` has the number of leaves under each released cell, and ``leaves`` the leaves of each whole tree.
    """
    lost = most = 0.0
    for name, covered in columns.items():
        size, rows = leaves[name], len(covered) + suppressed
        lost += (float(np.sum(covered) - len(covered)) / size + suppressed * (1.0 - 1.0 / size)) / rows
        most += 1.0 - 1.0 / size
    return 1.0 - lost / most


def variance_lost(original: np.ndarray, released: np.ndarray) -> float:
    """Return 100 SSE ÷ SST on standardised columns; means of groups keep the mean, so it is what the variance loses."""
    return 100.0 * float(np.mean(1.0 - released.var(axis=0) / original.var(axis=0)))


def k_marginal(original: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], bins: int = 20) -> float:
    """Return NIST's score: (2 − mean L1 distance of the shares of all pairs of columns) · 500; 1000 is the original.

    Numbers with more than ``bins`` values are binned by quantiles of the original, as SDNist bins the age.
    """
    codes = {name: _codes(original[name], released[name], bins) for name in original}
    distances = []
    for first, second in combinations(codes, 2):
        (a, b), (c, d) = codes[first], codes[second]
        width = int(max(c.max(), d.max())) + 1
        size = (int(max(a.max(), b.max())) + 1) * width
        before = np.bincount(a * width + c, minlength=size) / len(a)
        after = np.bincount(b * width + d, minlength=size) / len(b)
        distances.append(float(np.abs(before - after).sum()))
    return (2.0 - float(np.mean(distances))) * 500.0


def _codes(original: np.ndarray, released: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Return both columns as numbers of the same categories."""
    if original.dtype.kind in "fiu" and len(np.unique(original)) > bins:
        edges = np.unique(np.quantile(original[np.isfinite(original)], np.linspace(0.0, 1.0, bins + 1)[1:-1]))
        return tuple(  # type: ignore[return-value]
            np.where(np.isfinite(one), np.searchsorted(edges, one, side="right"), len(edges) + 1)
            for one in (original, released)
        )
    _, codes = np.unique(np.concatenate([original.astype(str), released.astype(str)]), return_inverse=True)
    return codes[: len(original)], codes[len(original) :]


def correlation_error(original: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray]) -> float:
    """Return the mean absolute difference of Pearson's correlations, over all pairs of numeric columns."""
    numeric = [name for name, values in original.items() if values.dtype.kind in "fiu"]
    before, after = (
        np.nan_to_num(np.corrcoef([np.nan_to_num(table[name].astype(float), nan=-1.0) for name in numeric]))
        for table in (original, released)
    )
    upper = np.triu_indices(len(numeric), 1)
    return float(np.mean(np.abs(before - after)[upper]))


def unique_matched(original: Sequence[tuple[str, ...]], released: Sequence[tuple[str, ...]]) -> float:
    """Return the share of the rows that are unique in the original and also occur in the release."""
    unique = [row for row, count in Counter(original).items() if count == 1]
    present = set(released)
    return sum(row in present for row in unique) / max(len(unique), 1)


def absence(
    members: Sequence[tuple[str, ...]], others: Sequence[tuple[str, ...]], released: Sequence[tuple[str, ...]]
) -> float:
    """Return how often a row of the table is told from a row outside it because it is present or absent (AUC).

    0.5 tells nothing. Below 0.5, rows of the table are *avoided* by the release, which tells as much as copies do.
    """
    present = set(released)
    inside, outside = (np.mean([row in present for row in rows]) for rows in (members, others))
    return float(0.5 + (inside - outside) / 2.0)


def propensity(original: np.ndarray, released: np.ndarray, seed: int = 0) -> float:
    """Return the mean square of (predicted − ½) · 4 of a logistic model that tells the release from the original.

    0 cannot be told apart, 1 is told apart in every row. Columns are one-hot codes or standardised numbers; the model
    is fitted on one half of the rows and judged on the other.
    """
    rows = np.vstack([original, released]).astype(float)
    label = np.repeat([0.0, 1.0], [len(original), len(released)])
    order = np.random.default_rng(seed).permutation(len(rows))
    fitted, judged = order[::2], order[1::2]
    design = np.column_stack([np.ones(len(rows)), rows])
    weights = _logistic(design[fitted], label[fitted])
    chance = 1.0 / (1.0 + np.exp(-np.clip(design[judged] @ weights, -30.0, 30.0)))
    share = label.mean()
    return float(np.mean((chance - share) ** 2) / (share * (1.0 - share)))


def _logistic(design: np.ndarray, label: np.ndarray, ridge: float = 1.0) -> np.ndarray:
    """Fit a logistic model by Newton's steps, with a small penalty so that it always has a solution."""
    weights = np.zeros(design.shape[1])
    for _ in range(25):
        chance = 1.0 / (1.0 + np.exp(-np.clip(design @ weights, -30.0, 30.0)))
        slope = design.T @ (label - chance) - ridge * weights
        curvature = (design * (chance * (1.0 - chance))[:, None]).T @ design + ridge * np.eye(len(weights))
        step = np.linalg.solve(curvature, slope)
        weights += step
        if np.abs(step).max() < 1e-8:
            break
    return weights


def area(members: Sequence[float], others: Sequence[float]) -> float:
    """Return how often a member has the larger score (AUC); ties count half."""
    scores = np.concatenate([members, others])
    values, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]
    size = len(members)
    return float((ranks[:size].sum() - size * (size + 1) / 2.0) / (size * len(others))) if len(values) else 0.5


def neighbour_bound(matrix: np.ndarray, k: int) -> float:
    """Return a variance, in percent, that every grouping with at least k rows loses.

    SSE ≥ Σ_i min over m in k … 2k − 1 of (1 ÷ 2m) · the m − 1 smallest squared distances of row i.
    """
    scaled = (matrix - matrix.mean(axis=0)) / matrix.std(axis=0)
    total, norms = 0.0, (scaled**2).sum(axis=1)
    for start in range(0, len(scaled), 500):
        part = scaled[start : start + 500]
        squared = np.maximum(norms[start : start + 500, None] + norms - 2.0 * part @ scaled.T, 0.0)
        nearest = np.sort(np.partition(squared, 2 * k, axis=1)[:, : 2 * k], axis=1)[:, 1:]  # without the row itself
        sums = np.cumsum(nearest, axis=1)[:, k - 2 : 2 * k - 2]
        total += float((sums / (2.0 * np.arange(k, 2 * k))).min(axis=1).sum())
    return 100.0 * total / scaled.size
