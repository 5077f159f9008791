"""Cells of private boxes: ranges of bins in all columns, halved where noisy counts show enough rows.

Several times all cells get a noisy count, and those with clearly many rows are cut in two, at the median that the
noisy counts of single columns tell. At last all cells are counted once more, with fresh noise: a count that decided
that its cell is not cut is too low on average, because low noise decided so. A row is in one cell, so that each time
costs what one count costs. Nothing else looks at the rows: which cells there are follows from noisy counts only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.discrete_noise import add_noise, gaussian_scale
from sfumato.methods.private_boxes.axes import BinnedColumn, Histogram
from sfumato.methods.private_columns import split_budget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table

MOST_LEVELS = 11
ENOUGH = 5.0  # standard deviations of the noise that the count of a cell must have to be cut


@dataclass(frozen=True, eq=False, repr=False)
class PrivateCells:
    """The cells that were not cut: ranges of bins, the noisy count of each, and how many rows are released of each."""

    axes: tuple[BinnedColumn, ...]
    low: NDArray[np.int64]  # (cells, columns)
    high: NDArray[np.int64]
    counts: NDArray[np.int64]
    sigma: float
    rows: NDArray[np.int64]

    @property
    def note(self) -> dict[str, Any]:
        """What the manifest tells."""
        ranges = {axis.name: np.stack([low, high]).tolist() for axis, low, high in self._ranges()}
        return {"ranges": ranges, "counts": self.counts.tolist(), "sigma": self.sigma}

    def _ranges(self) -> zip[tuple[BinnedColumn, NDArray[np.int64], NDArray[np.int64]]]:
        return zip(self.axes, self.low.T, self.high.T, strict=True)


@dataclass(frozen=True, eq=False, repr=False)
class Medians:
    """How the noisy counts of single columns weigh the bins, and how important each column is."""

    weights: tuple[NDArray[np.float64], ...]  # of each bin, the missing one last
    importance: NDArray[np.float64]

    @classmethod
    def of(cls, histograms: Sequence[Histogram], importance: Sequence[float]) -> Medians:
        """Take the weights of noisy counts; a column without clearly missing values has no bin for them."""
        weights = []
        for one in histograms:
            missing = max(1.0, float(one.noisy.numbers[-1])) if one.has_missing else 0.0
            weights.append(np.append(one.weights, missing))
        return cls(tuple(weights), np.asarray(importance, dtype=np.float64))

    @property
    def root(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The range of all bins in each column."""
        high = [len(one) - (one[-1] == 0.0) for one in self.weights]
        return np.zeros(len(high), dtype=np.int64), np.array(high, dtype=np.int64)

    def cut(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> tuple[int, int] | None:
        """Return the column and the first bin of the upper part; None if no range can be cut."""
        best: tuple[float, int, int] | None = None
        for column, weights in enumerate(self.weights):
            start, end = int(low[column]), int(high[column])
            if end - start < 2:
                continue
            total = np.cumsum(weights[start:end])
            share = float(total[-1] / weights.sum()) * float(self.importance[column])
            if end == len(weights) and weights[-1] > 0.0:
                place, share = end - 1, share + 1.0  # missing values apart, before anything else
            else:
                place = start + int(np.clip(np.searchsorted(total, total[-1] / 2.0) + 1, 1, end - start - 1))
            if best is None or share > best[0]:
                best = (share, column, place)
        return None if best is None else best[1:]


def cut_cells(
    table: Table,
    histograms: Sequence[Histogram],
    importance: Sequence[float],
    rows: float,
    *,
    rho: float,
    rows_per_person: int,
) -> PrivateCells:
    """Cut the space of all columns into cells by noisy counts: ρ-zCDP."""
    axes, medians = tuple(one.axis for one in histograms), Medians.of(histograms, importance)
    levels, sigma = _choose_levels(rows, rho, rows_per_person)
    codes = np.column_stack([_code_rows(one, table) for one in histograms])
    cells = _GrowingCells.of(medians.root, len(codes), rows)
    for _ in range(levels):
        if not len(cells.open):
            break
        cells.cut(codes, medians, cells.count(sigma)[cells.open], ENOUGH * float(sigma))
    counts = cells.count(sigma)
    released = _round(cells.expect(counts), rows)
    return PrivateCells(axes, np.array(cells.low), np.array(cells.high), counts, float(sigma), released)


@dataclass(eq=False, repr=False)
class _GrowingCells:
    """Cells while they are cut: the lower part of a cell keeps its number, the upper part gets a new one."""

    low: list[NDArray[np.int64]]
    high: list[NDArray[np.int64]]
    expected: list[float]  # count of each cell, consistent with that of the cell that it was cut from
    open: NDArray[np.int64]  # cells that may still be cut; two parts of a cell are side by side
    cell_of: NDArray[np.int64]  # of each row

    @classmethod
    def of(cls, root: tuple[NDArray[np.int64], NDArray[np.int64]], people: int, rows: float) -> _GrowingCells:
        """Put all rows into one cell."""
        return cls([root[0]], [root[1]], [rows], np.zeros(1, dtype=np.int64), np.zeros(people, dtype=np.int64))

    def count(self, sigma: Fraction) -> NDArray[np.int64]:
        """Count the rows of all cells, with fresh noise."""
        return add_noise(np.bincount(self.cell_of, minlength=len(self.low)), sigma)

    def cut(self, codes: NDArray[np.int64], medians: Medians, noisy: NDArray[np.int64], enough: float) -> None:
        """Cut the open cells whose noisy count is high enough; the others are not looked at again."""
        self._agree(noisy)
        column, start, upper = (np.full(len(self.low), -1, dtype=np.int64) for _ in range(3))
        for cell, count in zip(self.open.tolist(), noisy.tolist(), strict=True):
            place = medians.cut(self.low[cell], self.high[cell]) if count > enough else None
            if place is None:
                continue
            column[cell], start[cell], upper[cell] = *place, len(self.low)
            self.low.append(self.low[cell].copy())
            self.high.append(self.high[cell].copy())
            self.expected.append(self.expected[cell])
            self.low[-1][place[0]] = self.high[cell][place[0]] = place[1]
        cut = np.flatnonzero(upper >= 0)
        self.open = np.stack([cut, upper[cut]], axis=1).ravel()
        own = codes[np.arange(len(codes)), column[self.cell_of]]
        moved = (upper[self.cell_of] >= 0) & (own >= start[self.cell_of])
        self.cell_of = np.where(moved, upper[self.cell_of], self.cell_of)

    def _agree(self, noisy: NDArray[np.int64]) -> None:
        """Move the counts of two parts of a cell by the same number, so that they add up to that of the cell."""
        if len(noisy) < 2:
            return
        for (one, two), (first, second) in zip(self.open.reshape(-1, 2), noisy.reshape(-1, 2), strict=True):
            rest = (self.expected[one] - first - second) / 2.0
            self.expected[one], self.expected[two] = first + rest, second + rest

    def expect(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the likely number of rows of each cell, by its last count and by those that it was cut by."""
        is_open = np.isin(np.arange(len(counts)), self.open)
        self._agree(counts[self.open])
        known = np.array(self.expected)
        return np.where(is_open, known, (known + counts) / 2.0)


def _choose_levels(rows: float, rho: float, rows_per_person: int) -> tuple[int, Fraction]:
    """Return the number of times that cells are cut, so that the last ones are larger than their noise."""
    for levels in range(MOST_LEVELS, -1, -1):
        share = split_budget(rho, [1.0] * (levels + 1))[0]
        sigma = gaussian_scale(squared_sensitivity=rows_per_person**2, rho=share)
        if levels == 0 or rows / 2**levels >= 2.0 * float(sigma):
            break
    return levels, sigma


def _code_rows(one: Histogram, table: Table) -> NDArray[np.int64]:
    """Return the bin of each row; missing values that are not clearly there go to the bin with most rows."""
    codes = one.axis.codes(table)
    return codes if one.has_missing else np.where(codes == one.axis.bins, int(np.argmax(one.weights)), codes)


def _round(totals: NDArray[np.float64], rows: float) -> NDArray[np.int64]:
    """Return whole numbers of rows, none negative, that add up to about all rows; at least one row in all."""
    wanted = max(1, round(rows))
    positive = np.maximum(totals, 0.0)
    scaled = (
        positive * (wanted / positive.sum()) if positive.sum() > 0.0 else np.full(len(totals), wanted / len(totals))
    )
    whole: NDArray[np.int64] = np.floor(scaled).astype(np.int64)
    most = np.argsort(whole - scaled, kind="stable")[: wanted - int(whole.sum())]
    whole[most] += 1
    return whole
