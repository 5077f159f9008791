"""Models of a release: coefficients with certain intervals, and predictions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.enclosure import Deadline, EstimateBudget
from sfumato.statistics.bounds.score_equation import FAMILIES, DesignBoxes, LikelihoodBoxes, enclose_coefficients
from sfumato.statistics.combined import is_value
from sfumato.statistics.conditions import Condition, Predicate, quote
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import Estimate, interval, quantity, to_frame, write_html_table
from sfumato.statistics.estimate_records import FittedCoefficient
from sfumato.statistics.regression import INTERCEPT
from sfumato.statistics.statistic import Statistic
from sfumato.statistics.weighted_boxes import Unseen, WeightedBoxes

if TYPE_CHECKING:
    from sfumato.statistics.survey_design import SurveyDesign

Array = NDArray[np.float64]
UNPROVEN = "no finite interval was proven: some completion may have no finite fit"
UNPROVEN_IN_TIME = "no finite interval was proven in time: a larger budget may find one"
ONE_CLUSTER = "no joined interval: all records are in one cluster"
NAMES = {"binomial": "logistic"}  # of families, as the language of statistics writes their models
AT_MIDPOINTS = "interval of all completions, widened by the standard error at the midpoints"


@dataclass(frozen=True)
class ModelFactor:
    """A column of a formula: a number, or a category whose values become columns of 0 and 1."""

    column: str
    as_category: bool = False

    def __str__(self) -> str:
        return f"C({quote(self.column)})" if self.as_category else quote(self.column)


@dataclass(frozen=True)
class Model(Statistic):
    """A generalized linear model: a response, terms that are products of factors, and an offset."""

    is_characteristic = False
    takes_condition = False
    parts_share_records = False
    has_errors = True
    is_shift_free: ClassVar[bool] = False  # whether a column may be shifted although there is no intercept

    response: str
    factors: tuple[tuple[ModelFactor, ...], ...]
    family: str = "gaussian"
    intercept: bool = True
    offset: str | None = None
    weights: str | None = None
    confidence: float = 0.95
    levels: Mapping[str, tuple[Any, ...]] | None = None  # of the categories, once the table is known
    named: bool = False  # whether it was asked for as a statistic, such as logistic(y ~ x)

    @property
    def columns(self) -> tuple[str, ...]:
        named = [factor.column for term in self.factors for factor in term]
        others = [name for name in (self.offset, self.weights) if name]
        return tuple(dict.fromkeys((self.response, *named, *others)))

    def covers(self, unseen: Unseen) -> bool:
        return False

    def resolve(self, table: CountedBoxes) -> Statistic:
        categories = {
            factor.column
            for term in self.factors
            for factor in term
            if factor.as_category or factor.column in table.categories
        }
        return replace(self, levels={name: table.levels(name) for name in categories})

    @property
    def design(self) -> tuple[tuple[tuple[ModelFactor, Any], ...], ...]:
        """The columns of the design: factors, each with a level or None for a number; () is the intercept."""
        found: list[tuple[tuple[ModelFactor, Any], ...]] = [()] if self.intercept else []
        for term in self.factors:
            columns: list[tuple[tuple[ModelFactor, Any], ...]] = [()]
            for factor in term:
                levels = (self.levels or {}).get(factor.column)
                own = [None] if levels is None else list(levels[1:])
                columns = [(*before, (factor, level)) for before in columns for level in own]
            found += columns
        return tuple(found)

    @property
    def terms(self) -> tuple[str, ...]:
        return tuple(_name(column) for column in self.design)

    def as_record(self, estimates: Sequence[Any]) -> Fit:
        return Fit(str(self), self.family, self.terms, tuple(estimates), self)

    def estimate_parts(self, table: CountedBoxes, budget: EstimateBudget | None = None) -> tuple[Estimate, ...]:
        deadline = next((budget or EstimateBudget()).deadlines(1))
        return self.fitted_to(self.records_of(table), table.weighted_by, deadline).estimates()

    def at_confidence(self, confidence: float) -> Statistic:
        return replace(self, confidence=confidence)

    def with_survey(self, estimates: Sequence[Any], survey: SurveyDesign) -> tuple[Any, ...]:
        deadline = next(EstimateBudget().deadlines(1))
        fitted = self.fitted_to(self.records_of(survey.table.as_released), survey.table.weighted_by, deadline)
        errors, freedom = fitted.errors_in(survey)
        factor = float(stats.t.ppf(0.5 + self.confidence / 2.0, freedom)) if freedom else math.inf
        return tuple(
            replace(
                one,
                standard_error=float(error),
                confidence_low=one.low - factor * float(error),
                confidence_high=one.high + factor * float(error),
                notes=(*one.notes, *(survey.notes if freedom else (ONE_CLUSTER,))),
            )
            for one, error in zip(estimates, errors, strict=True)
        )

    def fitted_to(self, boxes: WeightedBoxes, weighted_by: str | None, deadline: Deadline) -> FittedModel:
        """Return the model with its records."""
        return FittedModel(self, boxes, weighted_by, deadline)

    def records_of(self, table: CountedBoxes) -> WeightedBoxes:
        """Return the complete records: response, offset, weights, others and the design, one column for each."""
        numeric = [name for name in self.columns if name not in (self.levels or {})]
        present = Condition(tuple(Predicate(name, "!=", None) for name in self.levels or {}))
        clauses = table.clauses(numeric, present)
        ends = dict(zip(numeric, np.transpose(table.clip(numeric, clauses), (2, 0, 1)), strict=True))
        nothing = np.zeros((2, len(table.count)))
        columns = [ends[self.response], ends[self.offset] if self.offset else nothing]
        columns += [ends[self.weights] if self.weights else nothing + 1.0, *self.other_columns(table, ends)]
        for column in self.design:
            product = np.ones((2, len(table.count)))
            for factor, level in column:
                own = ends[factor.column] if level is None else truth_of(table, factor.column, level)
                product = _multiply(product, own)
            columns.append(product)
        stacked = np.stack(columns, axis=-1)
        boxes = table.with_weights(table.rows_meeting(clauses), stacked[0], stacked[1])
        if not len(boxes.weight):
            raise StatisticError(f"{self} needs at least one complete record.", found="none")
        return boxes

    def other_columns(self, table: CountedBoxes, ends: Mapping[str, Array]) -> list[Array]:
        """Return the ends of further columns that the model needs, besides its design."""
        return []

    def mean_of(self, eta: Array) -> Array:
        """Return the expected outcome for values of the linear predictor."""
        return FAMILIES[self.family].mean(eta)

    @property
    def left(self) -> str:
        """The left side of the formula."""
        return quote(self.response)

    def __str__(self) -> str:
        right = [":".join(map(str, term)) for term in self.factors] + (
            [f"offset({quote(self.offset)})"] if self.offset else []
        )
        formula = f"{self.left} ~ {' + '.join(([] if self.intercept or self.is_shift_free else ['0']) + right) or '1'}"
        return f"{NAMES.get(self.family, self.family)}({formula})" if self.named else formula


def truth_of(table: CountedBoxes, column: str, level: Any) -> Array:
    """Return the interval of the indicator of a level for each group: 0, 1 or both."""
    rows = table.rows_meeting(table.clauses([], is_value((column,), (level,))))
    return np.stack([rows.least == table.count, rows.most > 0.0]).astype(np.float64)


def _multiply(one: Array, other: Array) -> Array:
    corners = np.stack([one[i] * other[j] for i in range(2) for j in range(2)])
    return np.stack([corners.min(axis=0), corners.max(axis=0)])


def _name(column: Sequence[tuple[ModelFactor, Any]]) -> str:
    parts = [str(factor) if level is None else f"{factor}[T.{level}]" for factor, level in column]
    return ":".join(parts) or INTERCEPT


@dataclass(frozen=True, eq=False, repr=False)
class FittedModel:
    """A model with its records; the columns of the design are the last ones."""

    model: Model
    boxes: WeightedBoxes
    weighted_by: str | None
    deadline: Deadline

    def estimates(self) -> tuple[Estimate, ...]:
        model = self.model
        self.check()
        centre, scale = self._scaling()
        shift, unit = self._response_scaling()
        design = self.design(centre, scale)
        beta = design.fit()
        if beta is None:
            note = "not defined: the columns are collinear, or they separate the outcomes"
            return tuple(self._estimate(name, math.nan, math.nan, (-math.inf, math.inf), note) for name in model.terms)
        back = self._back(centre, scale)
        turned = [back[0]] if model.intercept and len(beta) > 1 else []
        around, others = enclose_coefficients(design, beta, np.array(turned), self.deadline)
        values, errors = unit * (back @ beta), unit * self._errors(design, beta, back)
        values[0] += shift
        reach = (np.full(len(beta), math.inf),) * 2 if around is None else around
        ends = unit * np.stack([-reach[0], reach[1]], axis=1) / scale[:, None]
        if turned:
            ends[0] = unit * np.array(others[0])
        rounding = 1e-12 * np.abs(values) + 1e-300
        note = "" if around is not None else UNPROVEN_IN_TIME if self.deadline.ended_early else UNPROVEN
        return tuple(
            self._estimate(name, value, error, (value + low - slack, value + high + slack), note)
            for name, value, error, (low, high), slack in zip(model.terms, values, errors, ends, rounding, strict=True)
        )

    def _back(self, centre: Array, scale: Array) -> Array:
        """Return the matrix that turns the coefficients of the scaled design into those of the columns."""
        back = np.diag(1.0 / scale)
        if self.model.intercept:
            back[0, 1:] = -centre[1:] / scale[1:]
        return back

    def errors_in(self, survey: SurveyDesign) -> tuple[Array, int]:
        """Return the standard errors at the midpoints by the design of a survey, and their degrees of freedom.

        The covariance is J⁻¹ V J⁻¹ with the information J and the covariance V of the score, whose terms are totalled
        by cluster (Binder 1983).
        """
        boxes, (centre, scale), (_, unit) = self.boxes, self._scaling(), self._response_scaling()
        design, freedom = self.design(centre, scale), survey.freedom(boxes.box)
        beta = design.fit()
        if beta is None or not freedom:
            return np.full(self._size, math.nan), freedom
        score, table = design.residuals(beta) * design.likely[:, None], survey.table
        share = np.bincount(boxes.box, weights=boxes.likely_weight, minlength=len(table.count)) / table.weight
        rows = np.maximum(np.ceil(share * table.count - 1e-6), 1.0).astype(np.int64)[boxes.box]
        totals = [survey.centred(survey.totals(boxes.box, one, rows)) for one in score.T]
        turned = self._back(centre, scale) @ np.linalg.inv(design.information(beta)) @ np.array(totals)
        return unit * np.linalg.norm(turned, axis=1), freedom

    def check(self) -> None:
        """Raise unless the model can have these values."""
        low, high = self.boxes.low, self.boxes.high
        if (low[:, 1:3] < high[:, 1:3]).any() or (low[:, 2] < 0.0).any():
            raise StatisticError("An offset and weights must be released as they are, and weights not below 0.")
        if self.model.family == "binomial" and (low[:, 0].min() < 0.0 or high[:, 0].max() > 1.0):
            raise StatisticError(f"The outcome {self.model.response!r} of a binomial model must lie between 0 and 1.")
        if self.model.family == "poisson" and low[:, 0].min() < 0.0:
            raise StatisticError(f"The outcome {self.model.response!r} of a Poisson model must not be negative.")

    @property
    def _size(self) -> int:
        return len(self.model.terms)

    def _scaling(self) -> tuple[Array, Array]:
        """Return the mean and the spread of the columns of the design, by which they are scaled."""
        middle, weight = self.boxes.midpoints[:, -self._size :], self.boxes.likely_weight
        total = max(float(weight.sum()), 1e-300)
        mean = weight @ middle / total
        spread = np.sqrt(np.maximum(weight @ (middle - mean) ** 2 / total, 0.0))
        if self.model.intercept:
            mean[0], spread[0] = 0.0, 1.0
        elif not self.model.is_shift_free:
            mean, spread = np.zeros_like(mean), np.sqrt(weight @ middle**2 / total)
        return mean, np.where(spread > 0.0, spread, 1.0)

    def _response_scaling(self) -> tuple[float, float]:
        """Return mean and spread of the response of a linear model, by which it is scaled; 0 and 1 for other models."""
        if self.model.family != "gaussian":
            return 0.0, 1.0
        response, weight = self.boxes.midpoints[:, 0] - self.boxes.low[:, 1], self.boxes.likely_weight
        total = max(float(weight.sum()), 1e-300)
        mean = float(weight @ response) / total if self.model.intercept else 0.0
        spread = math.sqrt(float(weight @ (response - mean) ** 2) / total)
        return mean, spread if 0.0 < spread < math.inf else 1.0

    def scaled(self, centre: Array, scale: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
        """Return centres and half-widths of the scaled design, the offset, and three weights of each record."""
        boxes = self.boxes
        ends, given = (boxes.low[:, -self._size :], boxes.high[:, -self._size :]), boxes.low[:, 2]
        low, high = ((end - centre) / scale for end in ends)
        slack = 4.0 * np.finfo(float).eps * (np.abs(ends[0]) + np.abs(centre)) / scale
        half = np.where(ends[0] < ends[1], (high - low) / 2.0 + slack, 0.0)
        weight, extra, likely = (one * given for one in (boxes.weight, boxes.extra, boxes.likely_weight))
        return (low + high) / 2.0, half, boxes.low[:, 1], weight, extra, likely

    def design(self, centre: Array, scale: Array) -> LikelihoodBoxes:
        """Return the records of the scaled model."""
        boxes, family = self.boxes, FAMILIES[self.model.family]
        shift, unit = self._response_scaling()
        middle, half, offset, weight, extra, likely = self.scaled(centre, scale)
        response, edge = (boxes.midpoints[:, 0] - shift) / unit, boxes.half_widths[:, 0] / unit
        edge = np.where(edge > 0.0, edge + 4.0 * np.finfo(float).eps * np.abs(boxes.midpoints[:, 0]) / unit, 0.0)
        return DesignBoxes(middle, half, offset / unit, weight, extra, likely, response, edge, family)

    def _errors(self, design: LikelihoodBoxes, beta: Array, back: Array) -> Array:
        """Return the standard errors at the midpoints: of the model, or by linearization with sampling weights."""
        covariance = np.linalg.inv(design.information(beta))
        if self.weighted_by is not None:
            rows = np.sqrt(np.maximum(self.boxes.parts, 1))
            score = design.residuals(beta) * (design.likely / rows)[:, None]
            covariance = covariance @ (score.T @ score) @ covariance
        elif self.model.family == "gaussian" and isinstance(design, DesignBoxes):
            records = (self.boxes.records + self.boxes.most_records) / 2.0
            squares = float(design.likely @ (design.response - design.middle @ beta - design.offset) ** 2)
            covariance = covariance * squares / max(records - len(beta), 1e-300)
        return np.sqrt(np.maximum(np.diag(back @ covariance @ back.T), 0.0))

    def _estimate(
        self, name: str, value: float, error: float, ends: tuple[float, float], note: str
    ) -> FittedCoefficient:
        freedom = self.boxes.records - len(self.model.terms)
        tail = 0.5 + self.model.confidence / 2.0
        student = self.model.family == "gaussian" and freedom > 0
        factor = float(stats.t.ppf(tail, freedom) if student else stats.norm.ppf(tail))
        return FittedCoefficient(
            name=f"{self.model}: {name}",
            value=float(value),
            low=float(ends[0]),
            high=float(ends[1]),
            inner_low=float(value),
            inner_high=float(value),
            linear_low=math.nan,
            linear_high=math.nan,
            records=self.boxes.records,
            uncertain_records=self.boxes.most_records - self.boxes.records,
            weighted_by=self.weighted_by,
            ended_early=self.deadline.ended_early,
            notes=(note,) if note else (),
            standard_error=float(error),
            confidence=self.model.confidence,
            confidence_low=float(ends[0] - factor * error),
            confidence_high=float(ends[1] + factor * error),
            confidence_by=AT_MIDPOINTS,
        )


@dataclass(frozen=True)
class Fit:
    """A fitted model: one coefficient per term, found by name or position.

    It is returned by :meth:`sfumato.Release.fit`. Each coefficient has a ``value`` at the midpoints of the boxes, a
    guaranteed interval ``low`` to ``high`` that holds it for every choice of values in the boxes, a ``standard_error``,
    and a joined interval ``confidence_low`` to ``confidence_high``.

    Examples
    --------
    >>> import sfumato as sf
    >>> boxes = sf.read_release({"x_low": [1, 3, 6, 7], "x_high": [1.1, 3.1, 6.1, 7.1], "y_low": [1.0, 2.0, 6.0, 6.5],
    ...     "y_high": [1.0, 2.0, 6.0, 6.5]})
    >>> fit = boxes.fit("y ~ x")
    >>> fit.terms
    ('intercept', 'x')
    >>> fit["x"].low <= fit["x"].value <= fit["x"].high
    True
    """

    formula: str
    family: str
    terms: tuple[str, ...]
    coefficients: tuple[FittedCoefficient, ...]
    model: Model

    def __getitem__(self, key: int | str) -> FittedCoefficient:
        if isinstance(key, int):
            return self.coefficients[key]
        names = [_plain(name) for name in self.terms]
        if key in self.terms:
            return self.coefficients[self.terms.index(key)]
        if _plain(key) not in names:
            raise StatisticError(f"{self.formula} has no coefficient {key!r}.", found=", ".join(map(repr, self.terms)))
        return self.coefficients[names.index(_plain(key))]

    def __len__(self) -> int:
        return len(self.coefficients)

    def __iter__(self) -> Iterator[FittedCoefficient]:
        return iter(self.coefficients)

    def predict(self, **values: Any) -> tuple[float, float, float]:
        """Return the expected outcome for given values: at the midpoints of the boxes, and its certain limits."""
        point = [math.prod(_value(values, factor, level) for factor, level in column) for column in self.model.design]
        shift = float(values.get(self.model.offset or "", 0.0))
        low = sum(min(one.low * x, one.high * x) if x else 0.0 for one, x in zip(self, point, strict=True))
        high = sum(max(one.low * x, one.high * x) if x else 0.0 for one, x in zip(self, point, strict=True))
        middle = sum(one.value * x for one, x in zip(self, point, strict=True))
        found = self.model.mean_of(np.array([middle, low, high], dtype=np.float64) + shift)
        return float(found[0]), float(found[1]), float(found[2])

    def to_pandas(self) -> Any:
        """Return a pandas data frame with one row per coefficient."""
        return to_frame(self.terms, self.coefficients)

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                term,
                quantity(one.value),
                quantity(one.standard_error),
                interval(one.low, one.high),
                interval(one.confidence_low, one.confidence_high),
            )
            for term, one in zip(self.terms, self, strict=True)
        ]

    @property
    def _headings(self) -> tuple[str, ...]:
        return ("", "coef", "std err", "guaranteed", f"[{self.model.confidence:.0%} confidence]")

    def summary(self) -> str:
        """Return the coefficients as a table of text."""
        rows = [self._headings, *self._rows]
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        rule = "=" * len(lines[0])
        first = self.coefficients[0]
        who = f"{first.records_text} records, {first.weighting}, of the {first.of}"
        head = f"{self.formula}, {self.family}: {who}"
        notes = dict.fromkeys(note for one in self for note in one.notes)
        return "\n".join([head, rule, lines[0], "-" * len(rule), *lines[1:], rule, *notes])

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return write_html_table(self._headings, self._rows)


def _plain(name: str) -> str:
    """Return the name of a coefficient without C(…) and T., so that both ways to write it are found."""
    return re.sub(r"C\((.*?)\)", r"\1", name).replace("[T.", "[").replace("`", "").lower()


def _value(values: Mapping[str, Any], factor: ModelFactor, level: Any) -> float:
    if factor.column not in values:
        raise StatisticError(f"A prediction needs a value of {factor.column!r}.")
    given = values[factor.column]
    return float(given) if level is None else float(str(given) == str(level))
