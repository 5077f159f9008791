"""Statistics of exact rows, and how much each row changes them; the weights of rows may be negative.

A row of weight w that meets a condition changes a statistic by w times its influence. The variance of a statistic of a
sample is the sum of the squares over records. Where a method changed cells at random, a record stands for several rows
whose weights undo the change on average (:mod:`sfumato.release.corrected`); synthetic rows have weight 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from scipy import stats

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.score_equation import FAMILIES
from sfumato.statistics.combined import Combination, Difference, ShareMeeting, is_value
from sfumato.statistics.conditions import Condition, Predicate, base_columns
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.derived_columns import add_derived
from sfumato.statistics.estimate import ORIGINAL, RecoveredEstimate
from sfumato.statistics.estimate_records import FittedCoefficient
from sfumato.statistics.moment_statistics import Mean
from sfumato.statistics.moments import Moments, influence
from sfumato.statistics.tallies import Count, Sum
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.statistics.model_fit import Model, ModelFactor
    from sfumato.statistics.statistic import Statistic

    Array = NDArray[np.float64]

PLACE = "\x00place"  # a column that numbers the rows, so that equal ones are told apart
STEPS, SMALL = 100, 1e-10  # of Newton's method, and its last step relative to the coefficients


@dataclass(frozen=True, eq=False, repr=False)
class PointRows:
    """Rows of exact cells with weights."""

    cells: CountedBoxes  # one group per row
    places: NDArray[np.int64]  # the row of each group
    weight: Array  # of each row

    @classmethod
    def of(cls, table: Table, columns: Sequence[str], weight: Array) -> PointRows:
        """Read columns, some of which may be computed from others."""
        names = base_columns(columns)
        arrow = table.select(names).arrow.append_column(PLACE, pa.array(np.arange(table.rows)))
        numbered = Table(arrow, {**{name: table.kinds[name] for name in names}, PLACE: Kind.WHOLE})
        cells = add_derived(CountedBoxes.of(numbered, (*names, PLACE), sets=()), columns)
        return cls(cells, cells.numbers(PLACE).low.astype(np.int64), weight)

    def meets(self, condition: Condition) -> NDArray[np.bool_]:
        """Return which rows meet a condition."""
        met: NDArray[np.bool_] = self._in_order(self.cells.rows_meeting(self.cells.clauses([], condition)).most > 0.0)
        return met

    def numbers(self, names: Sequence[str]) -> Array:
        """Return numeric columns, with NaN for missing cells."""
        if set(names) & set(self.cells.calendars):
            raise StatisticError("A corrected estimate needs numbers.", found="a column of dates")
        ordered: Array = self._in_order(np.column_stack([np.empty((len(self.places), 0)), *map(self._column, names)]))
        return ordered

    def _column(self, name: str) -> Array:
        return self.cells.numbers(name).low

    def _in_order(self, values: NDArray[Any]) -> NDArray[Any]:
        ordered = np.empty_like(values)
        ordered[self.places] = values
        return ordered

    @cached_property
    def total(self) -> float:
        """The total weight of all rows."""
        return float(self.weight.sum())


@dataclass(frozen=True, eq=False, repr=False)
class PointEstimate:
    """A statistic of rows, and its change per unit of weight of each row."""

    value: float
    influence: Array  # (rows,)
    records: float  # total weight of the rows from which it was computed


def evaluate(statistic: Statistic, rows: PointRows) -> PointEstimate | None:
    """Return a single number from all rows, or None if it is not known how rows change the statistic."""
    inner, met = statistic.unconditional, rows.meets(statistic.where)
    if isinstance(inner, Combination):
        return _combine(inner, evaluate(inner.first, rows), evaluate(inner.second, rows))
    if isinstance(inner, Count | ShareMeeting):
        among = np.ones(len(met), dtype=bool) if isinstance(inner, Count) else met
        truth = (met if isinstance(inner, Count) else rows.meets(inner.condition))[:, None].astype(np.float64)
        share = _of_moments(Mean(PLACE), truth, among, rows.weight)
        return _scale(share, rows.total) if isinstance(inner, Count) else share
    if isinstance(inner, Sum):
        mean = _of_moments(Mean(PLACE), rows.numbers(inner.columns), met, rows.weight)
        return _scale(mean, mean.records)
    if inner.is_characteristic:
        return _of_moments(inner, rows.numbers(inner.columns), met, rows.weight)
    return _evaluate_table(inner, rows)


def _evaluate_table(inner: Statistic, rows: PointRows) -> PointEstimate | None:
    """Return the odds ratio or the relative risk of a table of two by two."""
    from sfumato.statistics.hypothesis_tests import OddsRatio, RelativeRisk

    if not isinstance(inner, OddsRatio | RelativeRisk):
        return None
    levels = [rows.cells.levels(name) for name in (inner.first, inner.second)]
    if any(len(one) != 2 for one in levels):
        raise StatisticError(f"{inner} needs two columns with two values each.")
    met = rows.meets(inner.condition)
    sides = [
        [rows.meets(is_value((name,), (level,))) & met for level in own]
        for name, own in zip((inner.first, inner.second), levels, strict=True)
    ]
    truth = np.array([one & other for one in sides[0] for other in sides[1]], dtype=np.float64)
    a, b, c, d = counts = truth @ rows.weight
    value, powers = (a * d / (b * c) if b * c else math.inf), np.array([1.0, -1.0, -1.0, 1.0])
    if isinstance(inner, RelativeRisk):
        value = d / (c + d) / (b / (a + b)) if b * (c + d) else math.inf
        powers = np.array([b / (a + b), -a / (a + b), -d / (c + d), c / (c + d)])
    with np.errstate(divide="ignore", invalid="ignore"):
        return PointEstimate(float(value), value * ((powers / counts) @ truth), float(counts.sum()))


def moments_of(points: Array, weight: Array) -> Moments:
    """Return mean and covariance with weights that may be negative."""
    total = float(weight.sum())
    mean = weight @ points / total if total else np.full(points.shape[1], np.nan)
    centred = points - mean
    return Moments(total, mean, (centred * weight[:, None]).T @ centred / (total or math.nan), len(points))


def _of_moments(statistic: Statistic, points: Array, met: NDArray[np.bool_], weight: Array) -> PointEstimate:
    used = met & ~np.isnan(points).any(axis=1)
    moments = moments_of(points[used], weight[used])
    changes = np.zeros(len(points))
    value = statistic.value(moments) if moments.weight > 0.0 else math.nan
    if math.isfinite(value):
        changes[used] = influence(statistic, moments, points[used]) / moments.weight
    return PointEstimate(value, changes, moments.weight)


def _scale(one: PointEstimate, factor: float) -> PointEstimate:
    return replace(one, value=one.value * factor, influence=one.influence * factor)


def _combine(both: Combination, first: PointEstimate | None, second: PointEstimate | None) -> PointEstimate | None:
    if first is None or second is None:
        return None
    records = min(first.records, second.records)
    if isinstance(both, Difference):
        return PointEstimate(first.value - second.value, first.influence - second.influence, records)
    value = first.value / second.value if second.value else math.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        return PointEstimate(value, (first.influence - value * second.influence) / second.value, records)


@dataclass(frozen=True, eq=False, repr=False)
class FittedRows:
    """The coefficients of a model of rows, and their changes per unit of weight of each row."""

    values: Array
    influence: Array  # (rows, terms)
    records: float


def fit_rows(model: Model, rows: PointRows) -> FittedRows:
    """Solve Σ w z (y − μ(zᵀβ)) = 0; coefficients are NaN if there is no solution."""
    response, offset, weight, design = design_of(model, rows)
    used = ~(np.isnan(design).any(axis=1) | np.isnan(response) | np.isnan(offset) | np.isnan(weight))
    z, y, shift = design[used], response[used], offset[used]
    w = rows.weight[used] * weight[used]
    family, beta = FAMILIES[model.family], np.zeros(design.shape[1])
    spread = np.maximum(np.sqrt((z**2).mean(axis=0)), 1e-300) if len(z) else np.ones(design.shape[1])
    z = z / spread
    changes, records = np.zeros(design.shape), float(rows.weight[used].sum())
    for _ in range(STEPS):
        eta = z @ beta + shift
        information = (z * (w * family.slope(eta))[:, None]).T @ z
        try:
            step = np.linalg.solve(information, z.T @ (w * (y - family.mean(eta))))
        except np.linalg.LinAlgError:
            break
        beta = beta + step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        if float(np.abs(step).max()) <= SMALL * max(1.0, float(np.abs(beta).max())):
            residual = weight[used] * (y - family.mean(z @ beta + shift))
            changes[used] = np.linalg.solve(information, (z * residual[:, None]).T).T / spread
            return FittedRows(beta / spread, changes, records)
    return FittedRows(np.full(len(beta), math.nan), changes, records)


def design_of(model: Model, rows: PointRows) -> tuple[Array, Array, Array, Array]:
    """Return response, offset, weights and design of each row, with NaN where a cell is missing."""
    count, nothing = len(rows.weight), np.zeros(len(rows.weight))
    columns = []
    for column in model.design:
        product = np.ones(count)
        for factor, level in column:
            product = product * (rows.numbers([factor.column])[:, 0] if level is None else _truth(rows, factor, level))
        columns.append(product)
    offset = rows.numbers([model.offset])[:, 0] if model.offset else nothing
    weight = rows.numbers([model.weights])[:, 0] if model.weights else nothing + 1.0
    return rows.numbers([model.response])[:, 0], offset, weight, np.column_stack([np.empty((count, 0)), *columns])


def _truth(rows: PointRows, factor: ModelFactor, level: object) -> Array:
    """Return whether a category has a level; NaN if it is missing."""
    present = rows.meets(Condition((Predicate(factor.column, "!=", None),)))
    return np.where(present, rows.meets(is_value((factor.column,), (level,))), np.nan)


@dataclass(frozen=True, kw_only=True)
class Correction:
    """One corrected number: its value, and the variances that the method and the sample cause."""

    value: float
    by_method: float  # variance over draws of the method, for the same original
    total: float  # variance over samples of the population, too
    released: float = math.nan  # the number of the released rows as they are
    records: int = 0

    def estimate(self, name: str, confidence: float | None, notes: Sequence[str]) -> RecoveredEstimate:
        """Return the estimate of a statistic."""
        reach = reach_of(confidence) * math.sqrt(max(self.total, 0.0)) if confidence else math.nan
        return RecoveredEstimate(
            name=name,
            value=self.value,
            standard_error=math.sqrt(max(self.by_method, 0.0)),
            released=self.released,
            records=self.records,
            notes=tuple(notes),
            confidence=confidence,
            confidence_low=self.value - reach,
            confidence_high=self.value + reach,
        )

    def coefficient(self, name: str, model: Model, notes: Sequence[str]) -> FittedCoefficient:
        """Return the coefficient of a model."""
        error = math.sqrt(max(self.total, 0.0)) if math.isfinite(self.value) else math.nan
        return corrected_coefficient(name, model, self.value, error, self.records, notes, reach_of(model.confidence))


def corrected_coefficient(
    name: str, model: Model, value: float, error: float, records: int, notes: Sequence[str], reach: float
) -> FittedCoefficient:
    """Return a coefficient without a guaranteed interval, with a confidence interval of ``reach`` errors."""
    nothing: dict[str, Any] = dict.fromkeys(("inner_low", "inner_high", "linear_low", "linear_high"), math.nan)
    return FittedCoefficient(
        name=f"{model}: {name}",
        value=value,
        low=-math.inf,
        high=math.inf,
        **nothing,
        records=records,
        of=ORIGINAL,
        notes=tuple(notes),
        standard_error=error,
        confidence=model.confidence,
        confidence_low=value - reach * error,
        confidence_high=value + reach * error,
        confidence_by="corrected estimate, no guarantee",
    )


def reach_of(confidence: float) -> float:
    """Return the number of standard errors of an interval."""
    return float(stats.norm.ppf(0.5 + confidence / 2.0))
