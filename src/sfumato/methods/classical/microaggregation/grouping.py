"""Groups of at least k rows, by all columns together or by one column alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.classical.microaggregation.fuzzy import fuzzy_groups
from sfumato.methods.classical.microaggregation.search import searched
from sfumato.methods.diagnostics import Trace
from sfumato.methods.leaves import Leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from sfumato.methods.search_budget import SearchBudget
    from sfumato.table.table import Table

    Labels = NDArray[np.int64]

COLUMNWISE = ("each-column", "optimal-1d")
GAINS = (0.2, 1.1)  # of V-MDAV: for scattered and for clustered rows; the better result is used
FEW = 20_000  # rows up to which a search tries to start from MDAV, too


@dataclass(frozen=True, repr=False)
class Groups:
    """A partition of the rows of a block."""

    labels: Labels  # group of each row, from 0 without gaps

    @cached_property
    def leaves(self) -> Leaves:
        """The same groups as runs of rows."""
        ends = np.cumsum(np.bincount(self.labels))
        return Leaves(np.argsort(self.labels, kind="stable"), np.concatenate([[0], ends]), np.empty((0, 4)))


@dataclass(frozen=True, repr=False)
class FoundGroups:
    """Groups, and what a search did to find them."""

    groups: Groups
    trace: Trace


def row_groups(
    matrix: NDArray[np.float64],
    k: int,
    kind: str,
    generator: np.random.Generator,
    *,
    budget: SearchBudget | None = None,
) -> FoundGroups:
    """Group the rows of a matrix; with a budget, the groups are improved by a search."""
    labels = _start(matrix, k, generator) if kind == "search" else GROUPINGS[kind](matrix, k, generator)
    trace = Trace()
    if budget is not None and len(matrix) >= 2 * k:
        labels, done = searched(matrix, labels, k, budget, generator)
        trace = Trace(searches=(done,))
    return FoundGroups(Groups(np.unique(labels, return_inverse=True)[1]), trace)


def column_groups(block: Table, name: str, k: int, kind: str) -> Groups:
    """Group the values of one column: k neighbouring values each, or with the least squared error.

    Missing numbers are placed below all others, and categories by their order.
    """
    values = block.numbers(name) if block.kinds[name].is_numeric else block.coded(name).codes.astype(np.float64)
    present = values[~np.isnan(values)]
    low, high = (present.min(), present.max()) if present.size else (0.0, 0.0)
    return Groups(line_groups(np.where(np.isnan(values), low - max(1.0, 2.0 * (high - low)), values), k, kind))


def line_groups(values: NDArray[np.float64], k: int, kind: str = "optimal-1d") -> Labels:
    """Group numbers along a line into runs of at least k."""
    from sfumato.kernels.grouping_1d import SQUARED, cheapest_groups

    order = np.argsort(values, kind="stable")
    labels = np.zeros(len(values), dtype=np.int64)
    if kind == "each-column":
        labels[order] = np.minimum(np.arange(len(values)) // k, max(len(values) // k - 1, 0))
    elif len(values) >= k:
        ends = cheapest_groups(values[order], np.ones(len(values), dtype=np.int64), k, SQUARED)[0]
        labels[order] = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    return labels


def squared_error(matrix: NDArray[np.float64], labels: Labels) -> float:
    """Return the sum of squared distances of rows to the means of their groups."""
    sizes = np.bincount(labels)
    means = [np.bincount(labels, weights=column) / sizes for column in matrix.T]
    return float(sum(((column - mean[labels]) ** 2).sum() for column, mean in zip(matrix.T, means, strict=True)))


def _start(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    """Return the groups from which a search starts: those of the tree or, in a small table, the better of MDAV's."""
    kinds = ("mdav", "tree") if len(matrix) <= FEW else ("tree",)
    starts = (GROUPINGS[kind](matrix, k, generator) for kind in kinds)
    return min(starts, key=lambda labels: squared_error(matrix, labels))


def _mdav(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    from sfumato.kernels.mdav import mdav

    return mdav(matrix, k)


def _vmdav(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    from sfumato.kernels.mdav import vmdav

    return min((vmdav(matrix, k, gain) for gain in GAINS), key=lambda labels: squared_error(matrix, labels))


def _tree(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    from sfumato.kernels.cell_groups import cell_groups

    return cell_groups(matrix, k)


def _single(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    """Group along the one column whose groups have the least squared error in all columns."""
    return min((line_groups(column, k) for column in matrix.T), key=lambda labels: squared_error(matrix, labels))


def _projection(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> Labels:
    """Group along the first principal component."""
    centred = matrix - matrix.mean(axis=0)
    return line_groups(centred @ np.linalg.eigh(centred.T @ centred)[1][:, -1], k)


GROUPINGS: Mapping[str, Callable[[NDArray[np.float64], int, np.random.Generator], Labels]] = {
    "mdav": _mdav,
    "vmdav": _vmdav,
    "tree": _tree,
    "single": _single,
    "projection": _projection,
    "fuzzy": fuzzy_groups,
}
