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
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sfumato.errors import OptionError, StatisticError
from sfumato.methods.boxes.axes import Axes, NumberAxis, SetAxis
from sfumato.params import require_number
from sfumato.plan.questions import Answers, MomentsOf
from sfumato.statistics.language import parse
from sfumato.statistics.moment_statistics import Correlation, Mean, Variance
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.rules import Rules
    from sfumato.plan.survey import Survey
    from sfumato.statistics.moments import Moments
    from sfumato.statistics.statistic import Statistic


FEW = 24  # up to this number of columns, one question about all of them is cheaper than one about each


@dataclass(frozen=True, repr=False)
class MomentsLookup:
    """The moments of columns without missing values are answered together, those of other statistics one by one."""

    position: Mapping[str, int]  # of the columns that are answered together
    joint: Moments | None
    weight: str | None  # column of sampling weights
    answers: Answers

    @classmethod
    def ask(
        cls,
        survey: Survey,
        statistics: Sequence[Statistic],
        numbers: Sequence[str],
        missing: Mapping[str, int],
        weight: str | None,
    ) -> MomentsLookup:
        """Ask for the moments of the ``statistics`` and of each of ``numbers``; ``missing`` counts missing values."""
        used = dict.fromkeys(name for statistic in statistics for name in statistic.columns)
        together = dict.fromkeys([*used, *numbers]) if len(numbers) <= FEW else used
        complete = tuple(name for name in together if not missing[name])
        position = {name: number for number, name in enumerate(complete)}
        wanted = dict.fromkeys([*(tuple(one.columns) for one in statistics), *((name,) for name in numbers)])
        questions = [MomentsOf(names, weight) for names in wanted if not all(name in position for name in names)]
        joint = MomentsOf(complete, weight)
        answers = survey.ask([*questions, joint] if complete else questions)
        return cls(position, answers[joint] if complete else None, weight, answers)

    def __call__(self, names: Sequence[str]) -> Moments:
        if self.joint is not None and all(name in self.position for name in names):
            return self.joint.select([self.position[name] for name in names])
        return self.answers[MomentsOf(tuple(names), self.weight)]


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

    def wanted_accuracy(self, moments: Moments) -> float:
        """Return Δ0_C: as given, or 10 % of the natural scale, which is not changed by a shift of a column."""
        return ACCURACY * self.statistic.scale(moments) if self.accuracy is None else self.accuracy


class RowWeights(Protocol):
    """Weights of kept statistics that are computed row by row (:mod:`.aimed`)."""

    @property
    def columns(self) -> set[str]:
        """The columns of numbers that have a weight in every row."""

    @property
    def weight(self) -> float:
        """The weight of all of these statistics."""

    def add_to(self, weights: NDArray[np.float32], rows: Table) -> None:
        """Add to the weight of each axis (columns) for each row."""


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
    aimed: RowWeights | None = None  # kept statistics that are no functions of moments

    def of(self, rows: Table) -> NDArray[np.float32]:
        """Return the weight of each axis (columns) for each row."""
        from sfumato.methods.boxes.sensitivity_kernels import combined

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
        if self.aimed is not None:
            self.aimed.add_to(weights, rows)
        np.fmin(weights, LARGEST, out=weights)
        if self.weight is not None:
            sampling = np.nan_to_num(rows.numbers(self.weight))
            weights *= np.minimum(sampling, LARGEST_SAMPLING)[:, None].astype(np.float32)
        if self.rules is not None:
            weights *= self.rules.factors(rows)
        return weights


def statistics_to_keep(
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
        wholes = [parse(text, names=names) for text in keep]
    importances = _one_each(importance, wholes, "importance", least=0.0)
    accuracies = _one_each(accuracy, wholes, "accuracy", above=0.0)
    total = sum(1.0 if share is None else share for share in importances) or 1.0
    return tuple(
        Kept(
            statistic=part,
            importance=(1.0 if share is None else share) * len(wholes) / total / len(parts),
            accuracy=wanted,
        )
        for whole, share, wanted in zip(wholes, importances, accuracies, strict=True)
        for parts in [whole.parts() if whole.is_characteristic else (whole,)]
        for part in parts
    )


def sensitivities(
    kept: Sequence[Kept],
    axes: Axes,
    moments_of: MomentsLookup,
    *,
    others: float | None,
    every: AllStatistics | None = None,
    aimed: RowWeights | None = None,
) -> Sensitivities:
    """Compute the weights of the axes from the kept statistics.

    ``others`` is the share of the whole weight for the columns that no kept statistic uses, if the user chose the
    statistics. None: all statistics are kept, and a categorical column, which none of them can use, counts as much as a
    numeric one. ``every`` are all statistics, where there are too many of them to be ``kept`` one by one, and ``aimed``
    the kept ones that are no functions of moments.
    """
    position = {axis.name: number for number, axis in enumerate(axes.all)}
    columns = tuple(dict.fromkeys(name for one in kept for name in one.statistic.columns))
    place = {name: number for number, name in enumerate(columns)}
    terms = [term for one in kept for term in _terms(one, moments_of, position, place)]
    used = {*columns, *(every.columns if every else ()), *(aimed.columns if aimed else ())}
    unit = np.array([0.0 if axis.name in used else _per_unit(axis, moments_of) for axis in axes.all])
    if others is None:
        floor = unit * (len(axes.numbers) + 1) / ACCURACY
    else:
        whole = sum(_weight(one, moments_of, position) for one in kept) + (aimed.weight if aimed else 0.0)
        floor = unit * _share_weight(others, whole, int((unit > 0.0).sum()))
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
        aimed=aimed,
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
    gradient, wanted = one.statistic.gradient(moments), one.wanted_accuracy(moments)
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
    scale, wanted = one.statistic.scale(moments), one.wanted_accuracy(moments)
    is_in_boxes = any(name in position for name in one.statistic.columns)
    return one.importance * scale / wanted if is_in_boxes and scale > 0.0 and wanted > 0.0 else 0.0


def _share_weight(others: float, kept: float, axes: int) -> float:
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


# The weights of all means, variances and correlations of many columns, without an object for each of them.
#
# With z = (x − mean) ÷ sd, the derivatives of mean, variance and correlation of XK §II add up to
#
#     a_i(x) = (1 + 2 |z_i| + Σ_j |z_j − r_ij z_i|) ÷ (accuracy · sd_i).
#
# Hundreds of columns have too many pairs. The sum over j of absolute values is then replaced by √(2/π) times the root
# of (number of terms · sum of squares), which is the same for normal numbers, and the sum of squares is a matrix
# product.


PAIRS_OF = 200  # with more columns than this, the pairs are summed by a matrix product
SAMPLE = 20_000  # rows from which the correlations are computed; evenly spaced in a larger table
CELLS = 1 << 21  # rows × columns that are computed together, so that the memory does not grow with the table


@dataclass(frozen=True, repr=False)
class AllStatistics:
    """All means, variances and correlations of these columns, each with the same importance."""

    columns: tuple[str, ...]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]  # 0 if the column is constant or has no value: it then has no weight
    correlation: NDArray[np.float32]
    accuracy: float  # wanted accuracy of each statistic: share of its natural scale

    @classmethod
    def of(cls, columns: Sequence[str], moments_of: MomentsLookup, sample: Table, accuracy: float) -> AllStatistics:
        """Read the moments of each column, and compute the correlations of the sampled rows."""
        each = [moments_of([name]) for name in columns]
        mean = np.array([one.mean[0] if one.records else 0.0 for one in each])
        sd = np.array([one.sd[0] if one.records else 0.0 for one in each])
        evenly = np.linspace(0, sample.rows - 1, min(SAMPLE, sample.rows)).astype(np.int64)
        rows = sample if len(evenly) == sample.rows else sample.take(evenly)
        weight = None if moments_of.weight is None else np.nan_to_num(rows.numbers(moments_of.weight))
        unfinished = cls(tuple(columns), mean, sd, np.zeros((0, 0), dtype=np.float32), accuracy)
        correlation = correlations(unfinished.standardise(rows), weight)
        return cls(tuple(columns), mean, sd, correlation, accuracy)

    def standardise(self, rows: Table) -> NDArray[np.float32]:
        """Return z for each row and column: 0 in a constant column, NaN where the value is missing."""
        scale = np.divide(1.0, self.sd, out=np.zeros_like(self.sd), where=self.sd > 0.0)
        z = np.empty((rows.rows, len(self.columns)), dtype=np.float32)
        for position, name in enumerate(self.columns):
            z[:, position] = (rows.numbers(name) - self.mean[position]) * scale[position]
        return z

    def add_to(self, weights: NDArray[np.float32], rows: Table) -> None:
        """Add the weight of each row to the first columns of ``weights``, in place."""
        from sfumato.methods.boxes.sensitivity_kernels import pair_sums

        count = len(self.columns)
        sums = pair_sums if count <= PAIRS_OF else root_mean_squares
        per_unit = np.divide(1.0 / self.accuracy, self.sd, out=np.zeros_like(self.sd), where=self.sd > 0.0)
        step = max(1, CELLS // max(1, count))

        def add(start: int) -> None:
            z = self.standardise(Table(rows.arrow.slice(start, step), rows.kinds))
            added = (1.0 + 2.0 * np.abs(z) + sums(z, self.correlation)) * per_unit.astype(np.float32)
            weights[start : start + step, :count] += np.nan_to_num(added, nan=0.0)

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(add, range(0, rows.rows, step)))


def correlations(z: NDArray[np.float32], weight: NDArray[np.float64] | None) -> NDArray[np.float32]:
    """Return the correlation of each pair of standardised columns, over the rows where both have a value."""
    is_present = ~np.isnan(z)
    filled = np.where(is_present, z, np.float32(0.0))
    row_weight = np.ones(len(z), dtype=np.float32) if weight is None else weight.astype(np.float32)
    products = (filled * row_weight[:, None]).T @ filled
    present = is_present.astype(np.float32)
    total = np.maximum((present * row_weight[:, None]).T @ present, np.finfo(np.float32).tiny)
    return np.asarray(np.clip(products / total, -1.0, 1.0))


def root_mean_squares(z: NDArray[np.float32], correlation: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return √(2/π) · √((m − 1) Σ_j (z_j − r_ij z_i)²) for a row with m values: about Σ_j |z_j − r_ij z_i|."""
    filled = np.nan_to_num(z, nan=0.0)
    others = np.maximum((~np.isnan(z)).sum(axis=1) - 1, 0)[:, None]
    squares = (filled * filled).sum(axis=1)[:, None]
    squares = squares - 2.0 * filled * (filled @ correlation) + filled * filled * (correlation**2).sum(axis=1)
    sums: NDArray[np.float32] = np.sqrt(2.0 / math.pi * others * np.maximum(squares, 0.0)).astype(np.float32)
    sums[np.isnan(z)] = np.nan
    return sums
