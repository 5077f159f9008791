"""Results of an estimate: a value, and intervals that state how precisely it is known; and their numbers as text."""

from __future__ import annotations

import datetime
import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

# Numbers of an estimate as text: dates as dates, counts as counts, other numbers with five digits.


COUNT, DATE, DAYS, SQUARE_DAYS = "count", "date", "days", "days²"  # units; "" is the unit of the columns


def quantity(value: Any, unit: str = "") -> str:
    """Return a number or date as text; a dash if it is not defined."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if unit == COUNT:
        return f"{value:,.1f}".removesuffix(".0")
    return f"{value:.5g}"


def interval(low: Any, high: Any, unit: str = "") -> str:
    """Return the two ends of an interval as text, with the unit of time if there is one."""
    suffix = f" {unit}" if unit in (DAYS, SQUARE_DAYS) else ""
    return f"{quantity(low, unit)} … {quantity(high, unit)}{suffix}"


def write_html_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table of texts."""
    lines = ["".join(f"<th>{heading}</th>" for heading in headings)]
    lines += ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


NO_GUARANTEE = "an estimate, no guarantee"


ASSUMING = "guaranteed only if "  # begins a note about what the guaranteed interval assumes


def to_frame(keys: Sequence[Any], estimates: Sequence[Any]) -> Any:
    """Return estimates as a pandas data frame: value, intervals and records, and where there are some errors and p."""
    import pandas as pd

    shown = ("name", "value", "low", "high", "inner_low", "inner_high", "records", "of")
    told = ("standard_error", "confidence", "confidence_low", "confidence_high", "p_value", "p_low", "p_high")
    some = [name for name in told if any(getattr(one, name, None) is not None for one in estimates)]
    asked = [name for name in some if not name.startswith("confidence_") or "confidence" in some]
    rows = [{name: getattr(one, name, math.nan) for name in (*shown, *asked)} for one in estimates]
    return pd.DataFrame(rows, index=list(map(str, keys)))


@dataclass(frozen=True, kw_only=True, repr=False)
class RecoveredEstimate:
    """A statistic of the original, recovered from columns that a method altered at random.

    It is returned by :meth:`sfumato.Release.estimate` for columns to which :class:`sfumato.Noise` added noise, whose
    categories :class:`sfumato.Pram` changed, or that :class:`sfumato.Synthesize` made. Nothing is guaranteed: another
    draw of random numbers gives another value, which is right on average.

    Attributes
    ----------
    name : str
        The statistic, such as ``"corr(age, income)"``.
    value : float
        The recovered value, in the unit of the statistic.
    standard_error : float
        Standard deviation of the value over draws of the method, in the same unit: how far it is from the statistic of
        the original. It does not include the sampling error of the original itself, unless ``of`` is "population".
    released : float
        The same statistic of the released rows as they are, for comparison.
    records : int
        Number of records without a missing value in any column of the statistic.
    notes : tuple of str
        What makes the value less accurate, such as rounding or a declared range.
    confidence, confidence_low, confidence_high : float
        Confidence interval of the parameter of the population, if it was asked for; otherwise None and NaN. It holds
        the parameter that often over samples and draws of the method, if its model is right: it guarantees nothing.
    low, high : float
        Guaranteed interval: always infinite.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = {"x": np.random.default_rng(0).normal(50.0, 10.0, 2000)}
    >>> noisy = sf.Noise(level=0.5, correct=False).release(people, schema={"x": "quasi"}, seed=1)
    >>> found = noisy.estimate("sd(x)")
    >>> bool(abs(found.value - people["x"].std()) < 3 * found.standard_error)
    True
    >>> found.low, found.high
    (-inf, inf)
    """

    derived: ClassVar[tuple[str, ...]] = ("guarantee",)  # properties reported with the fields

    name: str
    value: float
    standard_error: float
    released: float
    records: int
    weighted_by: str | None = None  # sampling weights, if they are not altered
    of: str = "original"
    unit: str = ""
    notes: tuple[str, ...] = ()
    confidence: float | None = None
    confidence_low: float = math.nan
    confidence_high: float = math.nan
    error_of: str = "the noise"  # what causes the standard error

    @property
    def guarantee(self) -> str:
        """What is guaranteed: nothing."""
        return NO_GUARANTEE

    @property
    def low(self) -> float:
        """Lower end of the guaranteed interval: −∞."""
        return -math.inf

    @property
    def high(self) -> float:
        """Upper end of the guaranteed interval: ∞."""
        return math.inf

    @property
    def numbers(self) -> RecoveredEstimate:
        """The same estimate: it never contains dates."""
        return self

    @property
    def records_text(self) -> str:
        """The number of records in words."""
        return f"{self.records:,}"

    def __str__(self) -> str:
        error = f"standard error {quantity(self.standard_error)}"
        if self.confidence is not None:
            error += f", {self.confidence:.0%} confidence {interval(self.confidence_low, self.confidence_high)}"
        weights = "unweighted" if self.weighted_by is None else f"weighted by {self.weighted_by}"
        rows = f"{self.records_text} records, {weights}, of the {self.of}"
        return f"{self.name} ≈ {quantity(self.value)}, {error}, {NO_GUARANTEE} ({rows})"

    def __repr__(self) -> str:
        return f"RecoveredEstimate({self})"

    def to_pandas(self) -> Any:
        """Return a pandas data frame of one row."""
        return to_frame([self.name], [self])

    @staticmethod
    def html_table(estimates: Sequence[RecoveredEstimate]) -> str:
        """Return an HTML table with one row per estimate."""
        headings = ("statistic", "value", "standard error", "confidence", "as released", "guaranteed")
        rows = [
            (
                one.name,
                *(quantity(number) for number in (one.value, one.standard_error)),
                "–" if one.confidence is None else interval(one.confidence_low, one.confidence_high),
                quantity(one.released),
                f"nothing: {NO_GUARANTEE}",
            )
            for one in estimates
        ]
        return write_html_table(headings, rows)

    def _repr_html_(self) -> str:
        return self.html_table([self])


ROUNDING = 1e-9  # relative width below which an interval counts as a single number
ORIGINAL, RELEASED_ROWS = "original", "released rows"  # whose statistic an estimate is

Quantity: TypeAlias = Any  # a float, an int for counts, or a date for a mean or quantile of dates


@dataclass(frozen=True, kw_only=True)
class Reweighting:
    """The effect of dismissing records in wide boxes, or of giving them less weight (XK §III, XF §II–III).

    This is not related to sampling weights. The papers minimise ``error``. They do not mention ``shift``: records in
    wide boxes differ from the others, so the statistic changes, and no interval of the reweighted statistic covers this
    change.

    The weights are chosen once, at the moments of all records, and minimise ``minimised``. ``uncertainty`` and
    ``sampling`` are computed at the moments of the reweighted records, because the derivatives of the reweighted
    statistic are those there. For a correlation they can therefore be larger than those of all records.
    """

    derived: ClassVar[tuple[str, ...]] = ("shift", "error", "whole_error")  # properties reported with the fields

    wide_boxes: str  # "keep", "dismiss" or "fuzzy"
    threshold: float  # contribution above which a record has no weight: c₀ or λ; infinite for "keep"
    records: float  # number of records that keep some weight
    value: Quantity  # statistic at the midpoints with these weights
    low: Quantity  # guaranteed interval of the statistic of the records with these weights
    high: Quantity
    uncertainty: float  # Σ w n·c at the reweighted moments: half-width of the linear interval
    sampling: float  # sampling error A·√(Σ w²) at the reweighted moments
    minimised: float  # what the choice of the weights minimised: the objective at the moments of all records
    whole_value: Quantity  # value, uncertainty and sampling error of all records with equal weights
    whole_uncertainty: float
    whole_sampling: float
    statistics: tuple[str, ...] = ()  # the statistics for which these weights were chosen together, if several
    _shift: float | None = field(default=None, repr=False)  # the shift of dates, in days

    @property
    def shift(self) -> float:
        """Change of the statistic due to the weights, computed at the midpoints; no interval here covers this bias."""
        return float(self.value - self.whole_value) if self._shift is None else self._shift

    @property
    def error(self) -> float:
        """Uncertainty of the boxes plus sampling error, both at the reweighted moments."""
        return self.uncertainty + self.sampling

    @property
    def whole_error(self) -> float:
        """The same sum for all records with equal weights."""
        return self.whole_uncertainty + self.whole_sampling


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One statistic of a table of which only the boxes are known.

    Estimates are returned by :meth:`sfumato.Release.estimate`.

    Attributes
    ----------
    name : str
        The statistic, such as ``"corr(age, income)"``.
    value : float, int or date
        Value at the midpoints of the boxes (or of a likely distribution, if it was asked for; ``notes`` say so), in the
        unit of the statistic (as are all intervals). A mean or quantile of
        dates is a date (of timestamps, a datetime), and its ends are rounded outward. Spreads of dates are in days.
    low, high : float, int or date
        Guaranteed interval: it contains the statistic of the rows that ``of`` names, whatever the values in the boxes
        are.
    inner_low, inner_high : float
        Attained interval: some choice of values in the boxes gives each of its ends. The guaranteed interval cannot be
        narrower than this.
    linear_low, linear_high : float
        First-order interval C̃ ± Δ of XK §II. It is a good approximation, but not guaranteed.
    records : int
        Number of records that are used for certain: those without a missing value in any column of the statistic. Boxes
        may leave open how many these are; then it is the smallest possible number.
    uncertain_records : int
        Number of further records that may have to be used. Boxes do not tell which of their records have the missing
        values or meet a condition.
    reweighting : Reweighting or None
        Effect of reweighting records in wide boxes; None (the default) if all records count equally. With reweighting,
        ``value`` and the first-order interval describe the reweighted records. They may lie outside the guaranteed
        interval, which always describes all records.
    weighted_by : str or None
        Name of the column of sampling weights that was used; None if every record counts once.
    of : {"original", "released rows"}
        Whose statistic this is. If rows were suppressed, the guaranteed interval covers all rows of the original only
        for counts, for quantiles, and for columns whose ``domain`` was given. Without a manifest it is not known
        whether rows were suppressed.
    ended_early : bool
        Whether the time of the budget was used up before the interval was as narrow as the budget asks for.
    unit : {"", "count", "date", "days", "days²"}
        Unit of the numbers; "" means the unit that follows from the columns.
    notes : tuple of str
        What else to know about this estimate.
    confidence : float or None
        Confidence of the joined interval, if it was asked for.
    confidence_low, confidence_high : float
        Joined interval: it holds the parameter of the population from which the records were drawn with at least this
        confidence, whatever the values in the boxes are. NaN if it was not asked for.
    confidence_by : str
        How the joined interval was computed.
    probability : float or None
        Probability with which ``low`` and ``high`` hold the statistic, over the noise of a differentially private
        release; None if they are certain.
    numbers : Estimate
        The same estimate with dates as days (of timestamps, microseconds) since 1970-01-01, for further computations.
    gap : float
        Share of the guaranteed interval that is not attained, from 0 (exact) to 1.
    shift : float
        Change of ``value`` due to reweighting; 0 without it.

    Examples
    --------
    >>> import sfumato as sf
    >>> boxes = sf.read_release({"age_low": [20, 30, 50], "age_high": [30, 40, 60]})
    >>> estimate = boxes.estimate("mean(age)")
    >>> round(estimate.value, 1)
    38.3
    >>> round(estimate.low, 1), round(estimate.high, 1)
    (33.3, 43.3)
    >>> estimate.records
    3
    """

    derived: ClassVar[tuple[str, ...]] = ("gap", "shift")  # properties reported with the fields

    name: str
    value: Quantity
    low: Quantity
    high: Quantity
    inner_low: Quantity
    inner_high: Quantity
    linear_low: Quantity
    linear_high: Quantity
    records: int
    uncertain_records: int = 0
    reweighting: Reweighting | None = None
    weighted_by: str | None = None
    of: str = RELEASED_ROWS
    ended_early: bool = False
    unit: str = ""
    notes: tuple[str, ...] = ()
    confidence: float | None = None
    confidence_low: Quantity = math.nan
    confidence_high: Quantity = math.nan
    confidence_by: str = ""
    probability: float | None = None
    _numbers: Estimate | None = field(default=None, repr=False, compare=False)

    @property
    def numbers(self) -> Estimate:
        """The same estimate with numbers in place of dates."""
        return self if self._numbers is None else replace(self._numbers, notes=self.notes)

    @property
    def withdrawn(self) -> Estimate:
        """The estimate with its value only: altered cells give no interval."""
        nothing: dict[str, Any] = dict.fromkeys(("inner_low", "inner_high", "linear_low", "linear_high"), math.nan)
        low, high = (-math.inf, math.inf) if self.confidence else (math.nan, math.nan)
        nothing |= {"confidence_low": low, "confidence_high": high}
        return replace(self, low=-math.inf, high=math.inf, probability=None, _numbers=None, **nothing)

    @property
    def gap(self) -> float:
        """Share of the guaranteed interval that is not attained, from 0 (exact) to 1."""
        if self._numbers is not None:
            return self._numbers.gap
        width, inner = self.high - self.low, self.inner_high - self.inner_low
        if not math.isfinite(inner) or math.isinf(width):
            return 1.0
        if width <= ROUNDING * max(abs(self.low), abs(self.high)):
            return 0.0  # the width is due to rounding only
        return max(0.0, 1.0 - float(inner / width))

    @property
    def shift(self) -> float:
        """Change of the value due to reweighting; 0 without it."""
        return self.reweighting.shift if self.reweighting else 0.0

    def __str__(self) -> str:
        """Return one line: value, guaranteed interval, records, weights, and whose statistic it is."""
        ends = interval(self.low, self.high, self.unit) + (", ended early" if self.ended_early else "")
        rows = f"{self.records_text} records, {self.weighting}, of the {self.of}"
        rows += "".join(f"; {note}" for note in self.notes if note.startswith(ASSUMING))
        return f"{self.name} = {quantity(self.value, self.unit)}, {self.held} {ends} ({rows})"

    @property
    def held(self) -> str:
        """How certain the interval is, in words: "guaranteed", or "with probability 0.95"."""
        return "guaranteed" if self.probability is None else f"with probability {self.probability:g}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to say besides the intervals: the joined interval, if there is one."""
        if self.confidence is None or not self.confidence_by:
            return ()
        joined = interval(self.confidence_low, self.confidence_high, self.unit)
        return (f"{self.name}: {self.confidence:.0%} confidence {joined} ({self.confidence_by}).",)

    @property
    def records_text(self) -> str:
        """The number of records in words: "156", or "156 to 164" if boxes leave it open."""
        most = f" to {self.records + self.uncertain_records:,}" if self.uncertain_records else ""
        return f"{self.records:,}{most}"

    @property
    def weighting(self) -> str:
        """The sampling weights in words: "weighted by w" or "unweighted"."""
        return "unweighted" if self.weighted_by is None else f"weighted by {self.weighted_by}"

    def to_pandas(self) -> Any:
        """Return a pandas data frame of one row."""
        return to_frame([self.name], [self])

    @staticmethod
    def html_table(estimates: Sequence[Estimate]) -> str:
        """Return an HTML table with one row per estimate."""
        held = " / ".join(dict.fromkeys(estimate.held for estimate in estimates))
        headings = ("statistic", "value", held, "first order", "records", "weights", "of")
        rows = [
            (
                estimate.name,
                quantity(estimate.value, estimate.unit),
                interval(estimate.low, estimate.high, estimate.unit)
                + (" (ended early)" if estimate.ended_early else ""),
                interval(estimate.linear_low, estimate.linear_high, estimate.unit),
                estimate.records_text,
                estimate.weighting,
                estimate.of,
            )
            for estimate in estimates
        ]
        return write_html_table(headings, rows)

    def _repr_html_(self) -> str:
        return self.html_table([self])
