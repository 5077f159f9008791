"""Sensitivities: how much each coordinate of each record matters, the weights used to cut boxes (XK §II, XF §IV).

A kept statistic C with importance p_C and wanted accuracy Δ0_C adds (p_C / Δ0_C) · |b_i(x)| to axis i, where b(x) is
its derivative with respect to the record. Columns that no kept statistic uses share a constant weight, so that they
remain useful.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import OptionError, StatisticError
from sfumato.methods.boxes.axes import Axes, NumberAxis, SetAxis
from sfumato.methods.boxes.moments_lookup import FEW, MomentsLookup
from sfumato.params import require_number
from sfumato.statistics.language import parse
from sfumato.statistics.moment_statistics import Correlation, Mean, Variance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.all_statistics import AllStatistics
    from sfumato.methods.boxes.rules import Rules
    from sfumato.statistics.moments import Moments
    from sfumato.statistics.statistic import Statistic
    from sfumato.table.table import Table

ACCURACY = 0.1  # wanted accuracy of a kept statistic: share of its natural scale
# products of these are finite in single precision: a weight that is not a number would stop the partition
LARGEST = np.float32(1e25)  # weight of an axis
LARGEST_SAMPLING = 1e12  # sampling weight
RANGE_IN_SD = 6.0  # width of a set of all values, in standard deviations


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A statistic to keep accurate."""

    statistic: Statistic
    importance: float  # p_C
    accuracy: float | None  # Δ0_C, in the unit of the statistic; None: the default

    def wanted(self, moments: Moments) -> float:
        """Return Δ0_C: as given, or 10 % of the natural scale, which is not changed by a shift of a column."""
        return ACCURACY * self.statistic.scale(moments) if self.accuracy is None else self.accuracy


@dataclass(frozen=True, repr=False)
class Sensitivities:
    """The function from a row to its weights: linear terms, all statistics of many columns, a constant per axis."""

    columns: tuple[str, ...]  # columns that the terms read
    weight: str | None  # column of sampling weights
    axis: NDArray[np.int64]
    constant: NDArray[np.float64]
    starts: NDArray[np.int64]
    positions: NDArray[np.int64]
    coefficients: NDArray[np.float64]
    floor: NDArray[np.float64]  # constant weight of each axis, the same for all records
    every: AllStatistics | None = None  # all statistics of the numeric axes, if there are too many for terms
    rules: Rules | None = None  # expert rules that multiply the weights

    def of(self, rows: Table) -> NDArray[np.float32]:
        """Return the weight of each axis (columns) for each row."""
        from sfumato.kernels.sensitivity import combined

        weights = np.empty((rows.rows, len(self.floor)), dtype=np.float32)
        weights[:] = self.floor
        if len(self.axis):
            points = rows.matrix(self.columns)
            terms = (self.axis, self.constant, self.starts, self.positions, self.coefficients)
            cores = os.cpu_count() or 1
            with ThreadPoolExecutor(cores) as pool:
                parts = pairwise(np.linspace(0, rows.rows, cores + 1).astype(int))
                list(pool.map(lambda part: combined(points[slice(*part)], *terms, weights[slice(*part)]), parts))
        if self.every is not None:
            self.every.add_to(weights, rows)
        np.fmin(weights, LARGEST, out=weights)
        if self.weight is not None:
            sampling = np.nan_to_num(rows.numbers(self.weight))
            weights *= np.minimum(sampling, LARGEST_SAMPLING)[:, None].astype(np.float32)
        if self.rules is not None:
            weights *= self.rules.factors(rows)
        return weights


def kept_statistics(
    keep: Sequence[str | Statistic] | None,
    importance: Sequence[float] | Mapping[str, float] | None,
    accuracy: Sequence[float] | Mapping[str, float] | None,
    names: Sequence[str],
    numbers: Sequence[str],
) -> tuple[Kept, ...]:
    """Return the parts of the statistics to keep; by default all means, variances and correlations of ``numbers``.

    They are not listed if there are more than a few ``numbers``, and all statistics count alike: see ``AllStatistics``.
    """
    if keep is None and importance is None and accuracy is None and len(numbers) > FEW:
        return ()
    if keep is None:
        wholes: list[Statistic] = [kind(name) for kind in (Mean, Variance) for name in numbers]
        wholes += [Correlation(first, second) for first, second in combinations(numbers, 2)]
    else:
        wholes = [_characteristic(parse(text, names=names)) for text in keep]
    importances = _one_each(importance, wholes, "importance", least=0.0)
    accuracies = _one_each(accuracy, wholes, "accuracy", above=0.0)
    total = sum(1.0 if share is None else share for share in importances) or 1.0
    return tuple(
        Kept(
            statistic=part,
            importance=(1.0 if share is None else share) * len(wholes) / total / len(whole.parts()),
            accuracy=wanted,
        )
        for whole, share, wanted in zip(wholes, importances, accuracies, strict=True)
        for part in whole.parts()
    )


def _characteristic(statistic: Statistic) -> Statistic:
    """Return the statistic; raise unless it is a function of means and covariances of all records."""
    if not statistic.is_characteristic:
        raise StatisticError(
            f"Boxes cannot be cut for {statistic}: it is not a function of the means and covariances of all records.",
            fix="keep the mean, variance or correlation of its columns; it can still be estimated from the release",
        )
    return statistic


def sensitivities(
    kept: Sequence[Kept],
    axes: Axes,
    moments_of: MomentsLookup,
    *,
    others: float | None,
    every: AllStatistics | None = None,
) -> Sensitivities:
    """Compute the weights of the axes from the kept statistics.

    ``others`` is the share of the whole weight for the columns that no kept statistic uses, if the user chose the
    statistics. None: all statistics are kept, and a categorical column, which none of them can use, counts as much as a
    numeric one. ``every`` are all statistics, where there are too many of them to be ``kept`` one by one.
    """
    position = {axis.name: number for number, axis in enumerate(axes.all)}
    columns = tuple(dict.fromkeys(name for one in kept for name in one.statistic.columns))
    place = {name: number for number, name in enumerate(columns)}
    terms = [term for one in kept for term in _terms(one, moments_of, position, place)]
    used = {*columns, *(every.columns if every else ())}
    unit = np.array([0.0 if axis.name in used else _per_unit(axis, moments_of) for axis in axes.all])
    if others is None:
        floor = unit * (len(axes.numbers) + 1) / ACCURACY
    else:
        floor = unit * _shared(others, sum(_weight(one, moments_of, position) for one in kept), int((unit > 0.0).sum()))
    sizes = [len(term.columns) for term in terms]
    return Sensitivities(
        columns=columns,
        weight=moments_of.weight,
        axis=np.array([term.axis for term in terms], dtype=np.int64),
        constant=np.array([term.constant for term in terms]),
        starts=np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64),
        positions=np.array([number for term in terms for number in term.columns], dtype=np.int64),
        coefficients=np.concatenate([term.slopes for term in terms]) if terms else np.zeros(0),
        floor=floor,
        every=every,
    )


@dataclass(frozen=True, repr=False)
class Term:
    """What one statistic adds to one axis: |constant + slopes · x|."""

    axis: int
    constant: float
    columns: list[int]  # positions of the columns x
    slopes: NDArray[np.float64]


def _terms(
    one: Kept, moments_of: MomentsLookup, position: Mapping[str, int], place: Mapping[str, int]
) -> Iterator[Term]:
    """Yield what a kept statistic adds to each of its axes."""
    names = one.statistic.columns
    moments = moments_of(names)
    gradient, wanted = one.statistic.gradient(moments), one.wanted(moments)
    share = one.importance / wanted if wanted > 0.0 else 0.0
    slopes, level = 2.0 * gradient.covariance, gradient.mean
    for number, name in enumerate(names):
        row = share * slopes[number]
        constant = share * (level[number] - slopes[number] @ moments.mean)
        if name in position and np.isfinite(row).all() and math.isfinite(constant) and (row.any() or constant):
            yield Term(position[name], constant, [place[other] for other in names], row)


def _weight(one: Kept, moments_of: MomentsLookup, position: Mapping[str, int]) -> float:
    """Return the weight of a kept statistic in boxes: importance ÷ (accuracy ÷ natural scale), 0 without a scale."""
    moments = moments_of(one.statistic.columns)
    scale, wanted = one.statistic.scale(moments), one.wanted(moments)
    is_in_boxes = any(name in position for name in one.statistic.columns)
    return one.importance * scale / wanted if is_in_boxes and scale > 0.0 and wanted > 0.0 else 0.0


def _shared(others: float, kept: float, axes: int) -> float:
    """Return the weight of each of ``axes`` axes, if together they have the share ``others`` and the rest is ``kept``.

    Weights are per standard deviation of a column. Without a kept weight there is no other to compare with.
    """
    if not axes:
        return 0.0
    return (others / (1.0 - others) * kept if kept > 0.0 else 1.0) / axes


def _per_unit(axis: NumberAxis | SetAxis, moments_of: MomentsLookup) -> float:
    """Return one over the standard deviation, or the equivalent for a set."""
    if isinstance(axis, SetAxis):
        return RANGE_IN_SD / axis.size
    moments = moments_of([axis.name])
    sd = float(moments.sd[0]) if moments.records else 0.0
    return 1.0 / sd if sd > 0.0 else 0.0


def _one_each(
    given: Sequence[float] | Mapping[str, float] | None,
    statistics: Sequence[Statistic],
    option: str,
    least: float | None = None,
    above: float | None = None,
) -> list[float | None]:
    """Return one number for each kept statistic, from a list in order or from a mapping by statistic."""
    if given is None:
        return [None] * len(statistics)
    if isinstance(given, Mapping):
        by_text = {str(parse(text)): number for text, number in given.items()}
        unknown = sorted(set(by_text) - {str(statistic) for statistic in statistics})
        if unknown:
            raise StatisticError(
                f"{option} must name statistics that are kept.", found=", ".join(unknown), fix="add them to keep"
            )
        chosen: list[float | None] = [by_text.get(str(statistic)) for statistic in statistics]
    else:
        chosen = list(given)
        if len(chosen) != len(statistics):
            raise OptionError(
                f"{option} must be one number for each kept statistic, in order.",
                found=f"{len(chosen)} for {len(statistics)} statistics",
            )
    return [
        None if number is None else require_number(number, name=option, at_least=least, above=above)
        for number in chosen
    ]
