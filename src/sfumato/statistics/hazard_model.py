"""Cox's proportional hazards: ``survival(time, event) ~ age + C(sex)`` with the family "cox"."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.enclosure import Deadline
from sfumato.statistics.bounds.risk_sets import RiskBoxes
from sfumato.statistics.bounds.score_equation import FAMILIES, LikelihoodBoxes
from sfumato.statistics.conditions import quote
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import interval, quantity
from sfumato.statistics.model_fit import Fit, FittedModel, Model, truth_of
from sfumato.statistics.statistic import Statistic
from sfumato.statistics.weighted_boxes import WeightedBoxes

Array = NDArray[np.float64]
TRUE, FALSE = "true", "false"
MOST_SPLIT = 200_000  # records of equal boxes that are told apart if their times are intervals


@dataclass(frozen=True)
class HazardModel(Model):
    """Proportional hazards: ``response`` is the time, and ``event`` is 1 or true for an event, else censored.

    The coefficients maximise the partial likelihood, with Breslow's ties.
    """

    is_shift_free: ClassVar[bool] = True

    event: str = ""

    def __post_init__(self) -> None:
        if self.event == self.response:
            raise StatisticError(f"{self} must name two different columns of time and event.")
        if not self.factors:
            raise StatisticError(f"{self} needs a term.", fix="survival(time, event) ~ age")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super().columns, self.event)))

    def resolve(self, table: CountedBoxes) -> Statistic:
        if self.response in table.calendars:
            raise StatisticError(f"{self} needs times that are numbers.", found="dates")
        found = super().resolve(table)
        if self.event not in table.categories or not isinstance(found, HazardModel):
            return found
        return replace(found, levels={**(found.levels or {}), self.event: table.levels(self.event)})

    def other_columns(self, table: CountedBoxes, ends: Mapping[str, Array]) -> list[Array]:
        if self.event in ends:
            return [ends[self.event]]
        if not set(map(str, table.levels(self.event))) <= {FALSE, TRUE}:
            raise self.not_an_event()
        return [truth_of(table, self.event, TRUE)]

    def not_an_event(self) -> StatisticError:
        """Return the error for a column of events with other values."""
        return StatisticError(
            f"The column {self.event!r} must be 1 (or true) for an event and 0 (or false) for a censored record."
        )

    def fitted_to(self, boxes: WeightedBoxes, weighted_by: str | None, deadline: Deadline) -> FittedModel:
        if (boxes.low[:, 0] < boxes.high[:, 0]).any():
            boxes = boxes.split_into_records(MOST_SPLIT)
        from_late_to_early = np.argsort(-boxes.high[:, 0], kind="stable")
        sorted_boxes = boxes.take(from_late_to_early, np.ones(len(from_late_to_early)))
        return _FittedHazards(self, sorted_boxes, weighted_by, deadline)

    def as_record(self, estimates: Sequence[Any]) -> Fit:
        return HazardFit(str(self), self.family, self.terms, tuple(estimates), self)

    def mean_of(self, eta: Array) -> Array:
        return FAMILIES["poisson"].mean(eta)

    @property
    def left(self) -> str:
        return f"survival({quote(self.response)}, {quote(self.event)})"


@dataclass(frozen=True, eq=False, repr=False)
class _FittedHazards(FittedModel):
    """Proportional hazards with their records: the event is the column before the design."""

    @property
    def _events(self) -> tuple[Array, Array]:
        return self.boxes.low[:, 3], self.boxes.high[:, 3]

    def check(self) -> None:
        super().check()
        least, most = self._events
        if least.min() < 0.0 or most.max() > 1.0 or ((least == most) & (least != np.rint(least))).any():
            assert isinstance(self.model, HazardModel)
            raise self.model.not_an_event()

    def design(self, centre: Array, scale: Array) -> LikelihoodBoxes:
        boxes, (least, most) = self.boxes, self._events
        alone = (boxes.parts == 1) & (boxes.extra == 0.0) & (self.weighted_by is None)  # else it may be several records
        return RiskBoxes(
            *self.scaled(centre, scale),
            boxes.low[:, 0],
            boxes.high[:, 0],
            (least + most) / 2.0,
            (most - least) / 2.0,
            alone,
        )


@dataclass(frozen=True)
class HazardFit(Fit):
    """Fitted proportional hazards: the exponential of a coefficient is a hazard ratio.

    Examples
    --------
    >>> import sfumato as sf
    >>> boxes = sf.read_release({"time": [5, 8, 3, 9, 1, 7], "died": [1, 0, 1, 1, 1, 0],
    ...     "age_low": [60, 50, 70, 50, 65, 60], "age_high": [61, 51, 71, 51, 66, 61]})
    >>> fit = boxes.fit("survival(time, died) ~ age", family="cox")
    >>> round(fit["age"].value, 4)
    0.2414
    >>> fit["age"].low <= fit["age"].value <= fit["age"].high
    True
    """

    @property
    def hazard_ratios(self) -> dict[str, tuple[float, float, float]]:
        """The hazard ratio of each term: at the midpoints, and its guaranteed ends."""
        return {
            term: (_exp(one.value), _exp(one.low), _exp(one.high)) for term, one in zip(self.terms, self, strict=True)
        }

    def predict(self, **values: Any) -> tuple[float, float, float]:
        """Return the hazard for given values over that of all 0: at the midpoints, and its certain limits."""
        return super().predict(**values)

    def to_pandas(self) -> Any:
        """Return a pandas data frame with one row per coefficient, and its hazard ratio."""
        frame, ratios = super().to_pandas(), list(self.hazard_ratios.values())
        for place, name in enumerate(("hazard_ratio", "hazard_ratio_low", "hazard_ratio_high")):
            frame[name] = [one[place] for one in ratios]
        return frame

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        ratios = [(quantity(one), interval(low, high)) for one, low, high in self.hazard_ratios.values()]
        return [(*row, *ratio) for row, ratio in zip(super()._rows, ratios, strict=True)]

    @property
    def _headings(self) -> tuple[str, ...]:
        return (*super()._headings, "hazard ratio", "guaranteed")


def _exp(value: float) -> float:
    return math.exp(value) if value < 700.0 else math.nan if math.isnan(value) else math.inf
