"""Cells of private boxes: ranges of bins in all columns, halved where noisy counts show enough rows.

On each level all cells get a noisy count, and those with clearly many rows are cut in two, at the median that the
noisy counts of single columns tell. A row is in one cell of a level, so a level costs what one count costs; the
levels add up. Nothing else looks at the rows: which cells there are follows from noisy counts only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.discrete_noise import draw_discrete_gaussian, gaussian_scale
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
    noise = draw_discrete_gaussian(sigma, 2 ** (levels + 1))
    low, high = (ends[None, :] for ends in medians.root)
    cell_of = np.zeros(len(codes), dtype=np.int64)
    totals = np.array([rows])  # the count of each cell, consistent with the cells that it was cut from
    done: list[tuple[NDArray[np.int64], NDArray[np.int64], int, float]] = []
    for level in range(levels + 1):
        noisy = np.bincount(cell_of[cell_of >= 0], minlength=len(low)) + noise[: len(low)]
        noise = noise[len(low) :]
        totals = totals if level == 0 else _agree(totals, noisy)
        new_low: list[NDArray[np.int64]] = []
        new_high: list[NDArray[np.int64]] = []
        parents, label = [], np.full(len(low), -1)
        for cell in range(len(low)):
            place = None
            if level < levels and noisy[cell] > ENOUGH * float(sigma):
                place = medians.cut(low[cell], high[cell])
            if place is None:
                done.append((low[cell], high[cell], int(noisy[cell]), float(totals[cell])))
                continue
            label[cell] = len(new_low)
            for side in (0, 1):
                ends = low[cell].copy(), high[cell].copy()
                ends[1 - side][place[0]] = place[1]
                new_low.append(ends[0])
                new_high.append(ends[1])
                parents.append(totals[cell])
        if not new_low:
            break
        cell_of = _move_rows(codes, cell_of, label, np.array(new_low))
        low, high, totals = np.array(new_low), np.array(new_high), np.array(parents)
    released = _round(np.array([one[3] for one in done]), rows)
    lows, highs = (np.array([one[end] for one in done]) for end in (0, 1))
    return PrivateCells(axes, lows, highs, np.array([one[2] for one in done]), float(sigma), released)


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


def _move_rows(
    codes: NDArray[np.int64], cell_of: NDArray[np.int64], label: NDArray[np.int64], low: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the new cell of each row: the lower or upper part of its cell, or −1 if that was not cut."""
    first = np.where(cell_of >= 0, label[np.maximum(cell_of, 0)], -1)
    upper = np.minimum(first + 1, len(low) - 1)
    inside = (codes >= low[upper]).all(axis=1)
    moved: NDArray[np.int64] = np.where(first < 0, -1, first + inside)
    return moved


def _agree(parents: NDArray[np.float64], noisy: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the counts of pairs of cells, each pair moved by the same number so that it adds up to its parent."""
    pairs = noisy.reshape(-1, 2).astype(np.float64)
    agreed: NDArray[np.float64] = pairs + (parents.reshape(-1, 2)[:, :1] - pairs.sum(axis=1, keepdims=True)) / 2.0
    return agreed.ravel()


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
