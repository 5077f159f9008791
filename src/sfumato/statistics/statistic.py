"""The base class of all statistics, a statistic under a condition, and their estimates from counted boxes.

A statistic knows the records that it needs, its best guess and its intervals, and its unit. A new one is a subclass in
one file and a line in :mod:`.language`; nothing else asks which statistic it has before it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.enclosure import Deadline, Enclosure, EstimateBudget, Factor, Witness
from sfumato.statistics.bounds.records import PooledRows, Records
from sfumato.statistics.bounds.scaled_boxes import compile_kernels
from sfumato.statistics.conditions import ALWAYS, Condition
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import Estimate
from sfumato.statistics.estimate_records import RegressionEstimate
from sfumato.statistics.moments import Gradient, Moments, derivatives, sensitivities
from sfumato.statistics.units import Calendar, Days, Unit
from sfumato.statistics.weighted_boxes import Unseen, WeightedBoxes

if TYPE_CHECKING:
    from sfumato.statistics.survey_design import SurveyDesign

MOST_STEPS = 60  # along the gradient; a statistic that still grows is left at the value that it has reached


@dataclass(frozen=True)
class Statistic(ABC):
    """A number, or for a regression several ``parts()``, computed from the records of a table.

    A *characteristic* in the sense of XK and XF is a function of mean and covariance. It implements ``value``,
    ``gradient`` and ``scale`` for the moments of exactly its ``columns``, in that order, and ``enclose_population`` if
    there is a guaranteed interval. Counts, sums and quantiles are not functions of moments; they implement ``enclose``,
    and the methods with moments raise a StatisticError.
    """

    is_characteristic: ClassVar[bool] = True  # whether its parts are functions of the moments of all records
    takes_condition: ClassVar[bool] = True  # whether ``| condition`` may follow
    parts_share_records: ClassVar[bool] = True  # whether all parts are computed from the same records
    has_errors: ClassVar[bool] = False  # whether its estimates have standard errors and confidence of themselves
    limits: ClassVar[tuple[float, float]] = (-math.inf, math.inf)  # of all values that it can have

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of all columns that are read, in the order in which moments are expected."""

    @property
    def box_columns(self) -> tuple[str, ...]:
        """Names of the numeric columns whose values the statistic is computed from."""
        return self.columns

    @property
    def where(self) -> Condition:
        """The condition that its records meet."""
        return ALWAYS

    @property
    def unconditional(self) -> Statistic:
        """The same statistic of the records that meet its condition."""
        return self

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the parts, if the estimate is a record of several; otherwise empty."""
        return ()

    @property
    def divisors(self) -> tuple[str, ...]:
        """Columns by whose spread it is divided: it is not defined if one of them is constant."""
        return ()

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What its guaranteed interval assumes, for the notes of an estimate."""
        return ()

    def parts(self) -> tuple[Statistic, ...]:
        """Return the single numbers that this statistic consists of."""
        return (self,)

    def text_under(self, condition: Condition) -> str:
        """Return the statistic with a condition as the language writes it."""
        return f"{str(self)[:-1]} | {condition})"

    def value(self, moments: Moments) -> float:
        """Compute the statistic from the moments of exactly its columns, in their order; NaN if it is not defined."""
        raise self._not_a_characteristic()

    def gradient(self, moments: Moments) -> Gradient:
        """Compute the derivatives with respect to mean and covariance; zero if the statistic is not defined."""
        raise self._not_a_characteristic()

    def scale(self, moments: Moments) -> float:
        """Compute the natural unit of a change: the change if every moment changes by the spread of its columns."""
        gradient, sd = self.gradient(moments), moments.sd
        return float(np.abs(gradient.mean) @ sd + sd @ np.abs(gradient.covariance) @ sd)

    def _not_a_characteristic(self) -> StatisticError:
        return StatisticError(
            f"{self} must be a single function of means and covariances.",
            fix="use its parts, or a mean, variance, sd, covariance, correlation or regression coefficient",
        )

    def resolve(self, table: CountedBoxes) -> Statistic:
        """Return the statistic with what it takes from the table, such as the groups that there are."""
        return self

    def given(self, condition: Condition) -> Statistic:
        """Return the statistic of the records that meet a condition."""
        return ConditionalStatistic(self, condition)

    def as_record(self, estimates: Sequence[Any]) -> Any:
        """Return the estimates of the parts as the user gets them: one estimate, or a record of several."""
        return RegressionEstimate(str(self), self.terms, tuple(estimates)) if self.terms else estimates[0]

    def at_confidence(self, confidence: float) -> Statistic:
        """Return the statistic with this confidence, if its estimates have some of themselves."""
        return self

    def with_survey(self, estimates: Sequence[Any], survey: SurveyDesign) -> tuple[Any, ...]:
        """Return estimates that have standard errors with those of a survey's design."""
        return tuple(estimates)

    def estimate_in(self, table: CountedBoxes, deadline: Deadline) -> Estimate:
        """Estimate a single number, in the units of the table's columns, from its own records."""
        records = Records(_add_unseen(self, table, self.records_in(table)), _find_rows(self, table))
        one = replace(_estimate_part(self, records, deadline), weighted_by=table.weighted_by)
        return self.unconditional.unit(table.calendars).express(one)

    def estimate_parts(self, table: CountedBoxes, budget: EstimateBudget | None = None) -> tuple[Estimate, ...]:
        """Return one Estimate per part of the statistic."""
        parts = self.parts()
        if not self.parts_share_records:
            limits = (budget or EstimateBudget()).deadlines(len(parts))
            return tuple(part.estimate_in(table, deadline) for part, deadline in zip(parts, limits, strict=True))
        boxes = _add_unseen(parts[0], table, parts[0].records_in(table))  # all parts use the same records
        records = Records(boxes, _find_rows(parts[0], table))
        deadlines = start_deadlines([parts[0]], boxes, budget, len(parts))
        return tuple(
            part.unconditional.unit(table.calendars).express(
                replace(_estimate_part(part, records, deadline), weighted_by=table.weighted_by)
            )
            for part, deadline in zip(parts, deadlines, strict=True)
        )

    def records_in(self, table: CountedBoxes) -> WeightedBoxes:
        """Return the records from which to compute it."""
        return self.unconditional.records_where(table, self.where)

    def records_where(self, table: CountedBoxes, where: Condition) -> WeightedBoxes:
        """Return the records that meet a condition; there must be one, unless they are only counted."""
        boxes = table.meeting(self.box_columns, where)
        if self.box_columns and not len(boxes.weight):
            requirement = "is complete and meets the condition" if where.predicates else "is complete"
            raise StatisticError(
                f"{self.text_under(where) if where.predicates else self} needs at least one record that {requirement}.",
                found=f"{int(table.count.sum())} records, none of which qualifies or has a positive weight",
            )
        return boxes

    def unseen_ends(self, unseen: Unseen) -> list[tuple[float, float]]:
        """Return the ranges of the numbers of rows that were not released."""
        return [unseen.domains.get(name, (-math.inf, math.inf)) for name in self.box_columns]

    def covers(self, unseen: Unseen) -> bool:
        """Return whether rows that were not released can be taken into account: their values have known ranges."""
        return set(self.unconditional.box_columns) <= set(unseen.domains)

    def prepare(self, boxes: WeightedBoxes | None) -> None:
        """Compile the kernels that ``enclose`` needs for these boxes, so that no deadline includes this time."""
        compile_kernels()

    @property
    def population(self) -> Statistic:
        """The statistic divided by the number of records, if it is unbiased; otherwise the statistic itself."""
        return self

    def factor(self, boxes: WeightedBoxes) -> Factor:
        """Return what the population form is multiplied by."""
        return Factor()

    def enclose(self, records: Records, deadline: Deadline) -> Enclosure:
        """Compute the best guess and the guaranteed, attained and linear intervals over all values in the boxes."""
        population, factor = self.population, self.factor(records.boxes)
        value, half = population.linear_interval(records.boxes)
        enclosure = population.enclose_population(records, half, deadline)
        if records.rows is not None:
            value = population.linear_interval(records.rows.boxes)[0]
            enclosure = records.rows.attain(population, enclosure)
        value, half = factor.likely * value, factor.likely * half
        low, high = self.clip(value - half, value + half)
        if half == 0.0 and not records.boxes.is_certain:  # it only knows widths, and here rows that may not count
            low = high = math.nan
        return replace(factor.multiply(enclosure), value=value, linear_low=low, linear_high=high)

    def enclose_population(self, records: Records, half: float, deadline: Deadline) -> Enclosure:
        """Enclose the population form; the linear half-width ``half`` determines the precision.

        Where nothing is known about the function, as here, the guaranteed interval is infinite, and the inner ends are
        attained by following the derivatives.
        """
        boxes = records.split
        lowest, highest = (self._follow_gradient(boxes, sign) for sign in (-1.0, 1.0))
        inner_low, inner_high = (
            math.nan if witness is None else self.value(witness.moments) for witness in (lowest, highest)
        )
        return Enclosure(-math.inf, math.inf, inner_low, inner_high, lowest, highest)

    def _follow_gradient(self, boxes: WeightedBoxes, sign: float) -> Witness | None:
        weight, points = boxes.weight + boxes.extra, boxes.midpoints
        best, best_value = None, -math.inf
        for _ in range(MOST_STEPS):
            witness = Witness(boxes.box, points, weight)
            value = sign * self.value(witness.moments)
            if math.isnan(value) or value <= best_value:
                break
            best, best_value = witness, value
            slopes = sign * derivatives(self, witness.moments, points)
            points = np.where(slopes > 0.0, boxes.high, np.where(slopes < 0.0, boxes.low, points))
        return best

    def linear_interval(self, boxes: WeightedBoxes) -> tuple[float, float]:
        """Compute C̃ at the midpoints and Δ = Σ w Σᵢ aᵢΔᵢ with the sensitivities there (XK §II)."""
        weight, middle = boxes.likely_weight, boxes.midpoints
        moments = Moments.of(middle, weight)
        slopes = sensitivities(self, moments, middle)
        value = self.value(moments)
        half = float((weight[:, None] * slopes * boxes.half_widths).sum()) / moments.weight
        return value, half if math.isfinite(value) else math.nan

    def clip(self, low: float, high: float) -> tuple[float, float]:
        """Return the ends of an interval within the limits of the statistic."""
        return max(low, self.limits[0]), min(high, self.limits[1])

    def unit(self, calendars: Mapping[str, Calendar]) -> Unit:
        """Return the unit of its numbers; ``calendars`` are the units of the columns that hold dates."""
        return self._unit_of_dates(calendars) if any(name in calendars for name in self.columns) else Unit()

    def _unit_of_dates(self, calendars: Mapping[str, Calendar]) -> Unit:
        """Return the unit if one of its columns holds dates; that of the user's own statistic is not known."""
        return Days()


@dataclass(frozen=True)
class OneColumn(Statistic):
    """A statistic of one numeric column."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True)
class ConditionalStatistic(Statistic):
    """A statistic of the records that meet a condition."""

    is_characteristic = False
    takes_condition = False

    statistic: Statistic
    condition: Condition

    def __post_init__(self) -> None:
        if not self.statistic.takes_condition:
            raise StatisticError(f"{self.statistic} has a condition already.", fix="join the conditions with 'and'")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the statistic and of the condition, each once."""
        return tuple(dict.fromkeys((*self.statistic.columns, *self.condition.columns)))

    @property
    def where(self) -> Condition:
        return self.condition

    @property
    def unconditional(self) -> Statistic:
        return self.statistic

    @property
    def terms(self) -> tuple[str, ...]:
        return self.statistic.terms

    def parts(self) -> tuple[Statistic, ...]:
        return tuple(ConditionalStatistic(part, self.condition) for part in self.statistic.parts())

    def covers(self, unseen: Unseen) -> bool:
        return self.statistic.covers(unseen)

    def __str__(self) -> str:
        return self.statistic.text_under(self.condition)


def estimate(
    statistic: Statistic, intervals: CountedBoxes, budget: EstimateBudget | None = None
) -> tuple[Estimate, ...]:
    """Return one Estimate per part of the statistic."""
    return statistic.estimate_parts(intervals, budget)


Result = TypeVar("Result")


def compute_in_groups(statistic: Statistic, compute: Callable[[], Result]) -> Result:
    """Return what is computed for the groups of a statistic; a group that is refused has a value in its name."""
    try:
        return compute()
    except StatisticError as refused:
        if refused.message.startswith(str(statistic)):
            raise
    raise StatisticError(
        f"{statistic} needs enough complete records in every group.", found="a group without such records"
    )


def enclose(statistic: Statistic, intervals: CountedBoxes, budget: EstimateBudget | None = None) -> Enclosure:
    """Return the enclosure of a single number, with the choices of values that attain its ends."""
    boxes = statistic.records_in(intervals)
    deadline = next(start_deadlines([statistic], boxes, budget, 1))
    return statistic.unconditional.enclose(Records(boxes), deadline)


def start_deadlines(
    statistics: Sequence[Statistic], boxes: WeightedBoxes | None, budget: EstimateBudget | None, parts: int
) -> Iterator[Deadline]:
    """Compile the kernels that the statistics need if the time is limited, and start the clock after that."""
    for statistic in statistics if budget else ():
        statistic.unconditional.prepare(boxes)
    return (budget or EstimateBudget()).deadlines(parts)


def _estimate_part(part: Statistic, records: Records, deadline: Deadline) -> Estimate:
    statistic, boxes = part.unconditional, records.boxes
    enclosure = statistic.enclose(records, deadline)
    return Estimate(
        name=str(part),
        value=enclosure.value,
        low=enclosure.low,
        high=enclosure.high,
        inner_low=enclosure.inner_low,
        inner_high=enclosure.inner_high,
        linear_low=enclosure.linear_low,
        linear_high=enclosure.linear_high,
        records=boxes.records,
        uncertain_records=boxes.most_records - boxes.records,
        ended_early=deadline.ended_early,
        notes=(*_describe_constants(statistic, boxes), *statistic.assumptions),
    )


def _describe_constants(statistic: Statistic, boxes: WeightedBoxes) -> tuple[str, ...]:
    """Say that the statistic is not defined, if a column that it divides by is certainly constant."""
    constant = [
        name
        for position, name in enumerate(statistic.columns)
        if name in statistic.divisors and boxes.low[:, position].min() == boxes.high[:, position].max()
    ]
    return (f"not defined: {', '.join(constant)} has the same value in all records",) if constant else ()


def _find_rows(statistic: Statistic, intervals: CountedBoxes) -> PooledRows | None:
    """Return the rows that may count, if only total and range of the weights of a box are known and its rows differ."""
    pools = intervals.pools
    if pools is None or not pools.merge_groups:
        return None
    rows = statistic.records_in(intervals.as_released)
    is_whole = rows.is_certain and rows.records == intervals.count.sum()
    return PooledRows(rows, intervals.count[rows.box], pools.box[rows.box], pools, bool(is_whole))


def _add_unseen(statistic: Statistic, intervals: CountedBoxes, boxes: WeightedBoxes) -> WeightedBoxes:
    """Add the rows of the original that were not released, if the statistic can take them into account."""
    unseen = intervals.unseen
    if unseen is None or not statistic.covers(unseen):
        return boxes
    ends = statistic.unconditional.unseen_ends(unseen)
    certain = (
        not statistic.unconditional.box_columns and not statistic.where.predicates
    )  # rows of which nothing is required
    return boxes.with_unseen([low for low, _ in ends], [high for _, high in ends], unseen.rows, certain=certain)
