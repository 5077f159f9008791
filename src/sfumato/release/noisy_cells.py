"""Estimates from noisy measurements: counts, shares and quantiles with the noise and the width of the cells joined.

A cell meets a condition certainly, possibly or not. The count of the rows that meet it is at least that of the certain
cells, less their noise, and at most that of the possible ones, plus their noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.release.noisy_moments import OF_CELLS, MeasuredCells
from sfumato.release.private_estimates import ESTIMATORS, Ends, NoisySums, make_estimate, reach
from sfumato.statistics.combined import ShareMeeting
from sfumato.statistics.conditions import Condition, Derived
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import COUNT
from sfumato.statistics.moment_statistics import Mean
from sfumato.statistics.tallies import Count, Quantile, Sum
from sfumato.statistics.units import Calendar
from sfumato.table.intervals import format_set, high_name, low_name
from sfumato.table.kinds import Kind, number_column
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.release.manifest import Manifest
    from sfumato.statistics.estimate import Estimate
    from sfumato.statistics.statistic import Statistic

NUMBER = "number of the cell"


def estimate_privately(manifest: Manifest, wanted: Statistic, probability: float) -> tuple[Any, ...] | None:
    """Return the estimates of the parts of a statistic; None if the release has not measured what it needs."""
    estimates = []
    for part in wanted.parts():
        found = _estimate(manifest, part, probability)
        if found is None:
            return None
        estimates.append(found)
    return tuple(estimates)


def _estimate(manifest: Manifest, part: Statistic, probability: float) -> Estimate | None:
    if part.where.predicates or type(part) not in ESTIMATORS:
        counted = count_cells(manifest, part, probability)
        return counted or _with_unit(manifest, part, average_cells(manifest, part, probability))
    asked = frozenset(part.columns)
    order = 1 if isinstance(part, Mean | Sum) else 2
    sets = [NoisySums.of(one) for one in manifest.notes.get("moments") or ()]  # type: ignore[union-attr, arg-type]
    fitting = [one for one in sets if frozenset(one.columns) == asked and one.order >= order]
    if fitting:
        best = min(fitting, key=lambda one: one.noise)
        with np.errstate(all="ignore"):
            value, low, high = ESTIMATORS[type(part)](best, part, 1.0 - probability)
        one: Estimate | None = make_estimate(part, value, low, high, probability, best.records)
    else:
        one = average_bins(manifest, part, probability) if isinstance(part, Mean | Sum) else None
        one = one or average_cells(manifest, part, probability)
    return _with_unit(manifest, part, one)


def _with_unit(manifest: Manifest, part: Statistic, one: Estimate | None) -> Estimate | None:
    if one is None:
        return None
    dates = {column.name: Calendar.DAYS for column in manifest.columns if column.kind is Kind.DATE}
    return part.unconditional.unit({name: dates[name] for name in part.columns if name in dates}).express(one)


def average_cells(manifest: Manifest, part: Statistic, probability: float) -> Estimate | None:
    """Return moments of numbers, perhaps under a condition, from cells that were counted; None if none tell them."""
    measured, inner = NoisyCounts.of(manifest), part.unconditional
    columns = tuple(dict.fromkeys((*inner.columns, *part.where.columns)))
    numbers = all("edges" in measured.histograms.get(name, ()) for name in inner.columns)
    if not isinstance(inner, OF_CELLS) or not numbers or not set(columns) <= set(measured.columns):
        return None
    found = measured.select(inner.columns, part.where, (1.0 - probability) / (1.0 + len(columns)))
    if found is None:
        return None
    cells, error = found
    with np.errstate(all="ignore"):
        value, low, high = cells.estimate(part, error)
    return make_estimate(part, value, low, high, probability, float(cells.counts @ cells.likely))


def count_cells(manifest: Manifest, part: Statistic, probability: float) -> Estimate | None:
    """Return the estimate of a count, a share or a quantile; None if it is another statistic, or not measured."""
    measured, error = NoisyCounts.of(manifest), 1.0 - probability
    known = set(measured.columns)
    if not set(part.columns) <= known or any(isinstance(name, Derived) for name in part.columns):
        return None
    inner, where = part.unconditional, part.where
    if not measured.has_counted(inner.condition.joined(where) if isinstance(inner, ShareMeeting) else where):
        return None
    if isinstance(inner, Count):
        value, low, high = measured.count(where, error)
        return make_estimate(part, max(0.0, value), max(0.0, low), high, probability, measured.rows, COUNT)
    if isinstance(inner, ShareMeeting):
        among = measured.count(where, error / 2.0)
        met = measured.count(inner.condition.joined(where), error / 2.0)
        if among[0] <= 0.0:
            return make_estimate(part, math.nan, 0.0, 1.0, probability, measured.rows)
        ends = max(0.0, met[1]) / max(among[2], 1.0), met[2] / max(among[1], 1e-9) if among[1] > 0.0 else 1.0
        return make_estimate(part, max(0.0, met[0]) / among[0], *ends, probability, among[0])
    if isinstance(inner, Quantile) and not where.predicates and "edges" in measured.histograms[inner.column]:
        return make_estimate(part, *_quantile(measured.histograms[inner.column], inner.share, error), probability, 0.0)
    return None


def average_bins(manifest: Manifest, part: Mean | Sum, probability: float) -> Estimate | None:
    """Return a mean or a sum of a column from the noisy counts of its bins; None if it has none.

    Let each row have the lower end of its bin. With y the noisy counts of bins at x, the sum Σ y(x − m) at their mean m
    is nothing but noise of standard deviation s·√Σ(x − m)². The mean is not below the smallest m that such noise does
    not rule out (Fieller's theorem), nor, with upper ends, above the largest one.
    """
    histogram = NoisyCounts.of(manifest).histograms.get(part.column)
    if histogram is None or "edges" not in histogram:
        return None
    edges, counts = np.asarray(histogram["edges"]), np.asarray(histogram["counts"][:-1], dtype=np.float64)
    step = 0.0 if histogram["kind"] == Kind.CONTINUOUS else 1.0
    ends, noise = (edges[:-1], edges[1:] - step), reach(1.0 - probability) * float(histogram["sigma"])
    rows, middle = float(counts.sum()), (ends[0] + ends[1]) / 2.0
    if isinstance(part, Sum):
        low, high = (
            float(counts @ one) + side * noise * math.sqrt(one @ one) for one, side in zip(ends, (-1, 1), strict=True)
        )
        return make_estimate(part, float(counts @ middle), low, high, probability, rows)
    low, high = _fieller(counts, ends[0], noise)[0], _fieller(counts, ends[1], noise)[1]
    value = float(counts @ middle) / rows if rows > 0.0 else math.nan
    return make_estimate(part, value, max(low, edges[0]), min(high, ends[1][-1]), probability, rows)


def _fieller(counts: NDArray[np.float64], places: NDArray[np.float64], noise: float) -> tuple[float, float]:
    """Return the ends of {m : (Σ counts·(places − m))² ≤ noise² Σ (places − m)²}; infinite if it has none."""
    center = float(places.mean())  # for accuracy: means near 0 lose no digits
    shifted, rows = places - center, float(counts.sum())
    total, square = float(counts @ shifted), noise**2
    a = rows**2 - square * len(places)
    b = total * rows - square * float(shifted.sum())
    c = total**2 - square * float(shifted @ shifted)
    if a <= 0.0 or rows <= 0.0:
        return -math.inf, math.inf
    root = math.sqrt(max(0.0, b**2 - a * c))
    return center + (b - root) / a, center + (b + root) / a


@dataclass(frozen=True, eq=False, repr=False)
class NoisyCounts:
    """The noisy counts of a release: of all rows, of the bins of each column, and of boxes or pairs of columns."""

    whole: NoisySums | None
    histograms: Mapping[str, Mapping[str, Any]]
    cells: Mapping[str, Any]
    pairs: Sequence[Mapping[str, Any]] = ()
    bins: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, manifest: Manifest) -> NoisyCounts:
        """Read the measurements from a manifest."""
        notes: Mapping[str, Any] = manifest.notes
        whole = [NoisySums.of(one) for one in notes.get("moments") or () if not one["columns"]]
        histograms, cells, bins = (notes.get(name) or {} for name in ("histograms", "cells", "bins"))
        return cls(whole[0] if whole else None, histograms, cells, notes.get("pairs") or (), bins)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns with noisy counts."""
        return tuple(self.histograms)

    @property
    def rows(self) -> float:
        """Number of all rows, with noise."""
        return self.whole.records if self.whole else 0.0

    def select(self, names: Sequence[str], where: Condition, error: float) -> tuple[MeasuredCells, float] | None:
        """Return cells that tell these numbers under a condition, and the error that is left for them; None without."""
        columns = tuple(dict.fromkeys((*names, *where.columns)))
        cells = self._cells_of(columns) if len(columns) > 1 else self._bins_of(columns[0])
        if not cells:
            return None
        ranges = {name: np.asarray(cells["ranges"][name]) for name in columns}
        count = len(cells["counts"])
        everything = np.ones(count, dtype=bool)
        least, most, likely = everything, everything, np.ones(count)
        if where.predicates:
            least, most, likely = self._meeting({name: ranges[name] for name in where.columns}, count, where)
        ends = {}
        for name in names:
            ends[name], bins = _ends_of(self.histograms[name], ranges[name]), len(self.histograms[name]["edges"]) - 1
            least, most = least & (ranges[name][1] <= bins), most & (ranges[name][0] < bins)
        unseen = sum(self._unseen_missing(name, ranges[name], error) for name in columns)
        counts = np.asarray(cells["counts"], dtype=np.float64)
        likely = np.where(most, likely, 0.0)
        return MeasuredCells(counts, float(cells["sigma"]), least, most, likely, ends, unseen), _left(cells, error)

    def _bins_of(self, column: str) -> Mapping[str, Any]:
        """Return the bins of one column as cells."""
        bins = np.arange(len(self.histograms[column]["counts"]))
        return {**self.histograms[column], "ranges": {column: np.stack([bins, bins + 1])}}

    def has_counted(self, where: Condition) -> bool:
        """Return whether cells of all columns of a condition were counted."""
        return len(where.columns) < 2 or bool(self._cells_of(where.columns))

    def _cells_of(self, columns: Sequence[str]) -> Mapping[str, Any]:
        """Return counted cells that tell these columns; empty if there are none."""
        if set(columns) <= set(self.cells.get("ranges", ())):
            return self.cells
        fitting = [one for one in self.pairs if set(columns) <= set(one["columns"])]
        if not fitting:
            return {}
        pair = min(fitting, key=lambda one: float(one["sigma"]))
        first, second = (np.asarray(self.bins[name]) for name in pair["columns"])
        ranges = np.repeat(first, second.shape[1], axis=1), np.tile(second, first.shape[1])
        return {**pair, "ranges": dict(zip(pair["columns"], ranges, strict=True))}

    def count(self, where: Condition, error: float) -> Ends:
        """Return the number of rows that meet a condition, and the ends of its interval."""
        if not where.predicates:
            assert self.whole is not None
            half = reach(error) * self.whole.noise + 0.5
            return self.rows, self.rows - half, self.rows + half
        columns = where.columns
        if len(columns) == 1:
            return self._count_bins(columns[0], where, error)
        shares = 1.0 + len(columns)
        cells = self._cells_of(columns)
        ranges = {name: np.asarray(cells["ranges"][name]) for name in columns}
        unseen = sum(self._unseen_missing(name, ranges[name], error / shares) for name in columns)
        value, low, high = self._count(ranges, cells, where, _left(cells, error / shares))
        return value, low - unseen, high + unseen

    def _count_bins(self, column: str, where: Condition, error: float) -> Ends:
        bins = self._bins_of(column)
        return self._count(bins["ranges"], bins, where, error)

    def _count(
        self, ranges: Mapping[str, NDArray[np.int64]], counted: Mapping[str, Any], where: Condition, error: float
    ) -> Ends:
        counts, sigma = np.asarray(counted["counts"], dtype=np.float64), float(counted["sigma"])
        least, most, likely = self._meeting(ranges, len(counts), where)

        def noise(cells: NDArray[np.bool_]) -> float:
            return reach(error) * sigma * math.sqrt(cells.sum()) + 0.5 * bool(cells.any())

        return (
            float(likely @ counts),
            float(counts[least].sum()) - noise(least),
            float(counts[most].sum()) + noise(most),
        )

    def _unseen_missing(self, name: str, ranges: NDArray[np.int64], error: float) -> float:
        """Return how many missing values there may be, if boxes do not tell them apart."""
        histogram = self.histograms[name]
        bins = len(histogram["counts"]) - 1
        if (ranges[1] > bins).any():
            return 0.0
        return max(0.0, float(histogram["counts"][-1]) + reach(error) * float(histogram["sigma"]) + 0.5)

    def _meeting(
        self, ranges: Mapping[str, NDArray[np.int64]], cells: int, where: Condition
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
        """Return which cells certainly and possibly meet a condition, and the likely share of each."""
        parts = [_part_missing(self.histograms[name], *ends) for name, ends in ranges.items()]
        number, columns, kinds = [], [], []
        for chosen in product(*parts):  # cells with missing values and others are looked at in parts
            there = np.logical_and.reduce([one.there for one in chosen])
            number.append(np.flatnonzero(there))
            columns.append(
                {
                    k: v.filter(pa.array(there))
                    for one, name in zip(chosen, ranges, strict=True)
                    for k, v in one.show(name).items()
                }
            )
            kinds.append({k: one.kind for one, name in zip(chosen, ranges, strict=True) for k in one.show(name)})
        joined = {name: pa.concat_arrays([one[name] for one in columns]) for name in columns[0]}
        places = np.concatenate(number)
        table = Table(pa.table({**joined, NUMBER: pa.array(places)}), {**kinds[0], NUMBER: Kind.WHOLE})
        sets = [name for name in ranges if name in joined]
        boxes = CountedBoxes.of(table, [*ranges, NUMBER], sets=sets, numbered=False)
        met = boxes.rows_meeting(boxes.clauses([], where))
        at = boxes.numbers(NUMBER).low.astype(np.int64)
        least, most = np.ones(cells, dtype=bool), np.zeros(cells, dtype=bool)
        np.logical_and.at(least, at, met.least >= boxes.count)
        np.logical_or.at(most, at, met.most > 0.0)
        likely = np.bincount(at, weights=met.likely / boxes.count, minlength=cells)
        return least, most, likely / np.maximum(np.bincount(at, minlength=cells), 1)


def _left(cells: Mapping[str, Any], error: float) -> float:
    """Return the error that is left for cells which were measured as often as noise decided, t times: error ÷ t(t + 1).

    The shares of all t add up to the error, so that it does not matter when the measurements ended.
    """
    times = int(cells.get("times", 0))
    return error / (times * (times + 1)) if times else error


def _ends_of(
    histogram: Mapping[str, Any], ranges: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the smallest and the largest number of each range of bins."""
    edges, bins = np.asarray(histogram["edges"], dtype=np.float64), len(histogram["edges"]) - 1
    step = 0.0 if histogram["kind"] == Kind.CONTINUOUS else 1.0
    return edges[np.minimum(ranges[0], bins)], edges[np.minimum(ranges[1], bins)] - step


@dataclass(frozen=True, eq=False, repr=False)
class _Part:
    """The ranges of one column in all cells: either of its values, or only missing ones."""

    histogram: Mapping[str, Any]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    there: NDArray[np.bool_]  # whether the cell has such rows

    @property
    def kind(self) -> Kind:
        return Kind(self.histogram["kind"]) if "edges" in self.histogram else Kind.NOMINAL

    def show(self, name: str) -> dict[str, pa.Array]:
        """Return the column as a release of boxes spells it."""
        if "edges" not in self.histogram:
            words = (*self.histogram["categories"], None)
            return {
                name: pa.array([format_set(words[a:b]) for a, b in zip(self.low, self.high, strict=True)], pa.string())
            }
        edges, bins = np.asarray(self.histogram["edges"]), len(self.histogram["edges"]) - 1
        last = edges[np.minimum(self.high, bins)]
        if self.kind is Kind.CONTINUOUS:  # an edge between two bins belongs to the upper one
            last = np.where(self.high < bins, np.nextafter(last, -np.inf), last)
        else:
            last = last - 1.0
        empty = self.low >= bins
        ends = {
            low_name(name): np.where(empty, np.nan, edges[np.minimum(self.low, bins)]),
            high_name(name): np.where(empty, np.nan, last),
        }
        return {end: number_column(numbers, self.kind, pa.date32()) for end, numbers in ends.items()}


def _part_missing(histogram: Mapping[str, Any], low: NDArray[np.int64], high: NDArray[np.int64]) -> list[_Part]:
    """Return the ranges of a column; numbers that share a cell with missing ones are apart from them."""
    bins = len(histogram["counts"]) - 1
    mixed = (low < bins) & (high > bins) if "edges" in histogram else np.zeros(len(low), dtype=bool)
    plain = _Part(histogram, low, np.where(mixed, bins, high), np.ones(len(low), dtype=bool))
    if not mixed.any():
        return [plain]
    return [plain, _Part(histogram, np.full(len(low), bins), np.full(len(low), bins + 1), mixed)]


def _quantile(histogram: Mapping[str, Any], share: float, error: float) -> Ends:
    """Return a quantile: the edges up to which clearly too few, and clearly enough, rows are.

    From each end the edges are tested one after the other, until one is not clear. Only the first edge beyond the
    quantile can be clear by error, so one test on each side may fail.
    """
    counts, sigma = np.asarray(histogram["counts"][:-1], dtype=np.float64), float(histogram["sigma"])
    edges, bins = np.asarray(histogram["edges"]), len(histogram["counts"]) - 1
    step = 0.0 if histogram["kind"] == Kind.CONTINUOUS else 1.0
    below = np.arange(bins + 1)
    excess = np.concatenate([[0.0], np.cumsum(counts)]) - share * counts.sum()
    wrong = reach(error) * sigma * np.sqrt(below * (1.0 - share) ** 2 + (bins - below) * share**2) + 1.5
    few, enough = excess + wrong < 0.0, excess - wrong > 0.0
    first = int(np.argmin(few[1:-1])) if bins > 1 and not few[1:-1].all() else bins - 1
    last = bins - (int(np.argmin(enough[1:-1][::-1])) if bins > 1 and not enough[1:-1].all() else bins - 1)
    likely = np.maximum(counts, 0.0)
    total = np.concatenate([[0.0], np.cumsum(likely)])
    value = float(np.interp(share * total[-1], total, edges)) if total[-1] > 0.0 else math.nan
    return value, float(edges[first]), float(edges[last]) - step
