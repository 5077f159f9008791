"""The result of an estimate that undoes the known effect of noise: a value and a standard error, and no guarantee."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from sfumato.statistics.quantities import quantity, write_html_table

NO_GUARANTEE = "an estimate, no guarantee"


@dataclass(frozen=True, kw_only=True, repr=False)
class RecoveredEstimate:
    """A statistic of the original, recovered from a release with noise of known variance.

    It is returned by :meth:`sfumato.Release.estimate` for columns to which :class:`sfumato.Noise` added noise. Nothing
    is guaranteed: another draw of the noise gives another value. Variances and covariances are right on average.

    Attributes
    ----------
    name : str
        The statistic, such as ``"corr(age, income)"``.
    value : float
        The recovered value, in the unit of the statistic.
    standard_error : float
        Standard deviation of the value over draws of the noise, in the same unit: how far the noise moves it from the
        statistic of the original. It does not include the sampling error of the original itself.
    released : float
        The same statistic of the released rows as they are, for comparison.
    records : int
        Number of records without a missing value in any column of the statistic.
    notes : tuple of str
        What makes the value less accurate, such as rounding or a declared range.
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
    weighted_by: str | None = None  # weights are altered, too: a recovered statistic is unweighted
    of: str = "original"
    unit: str = ""
    notes: tuple[str, ...] = ()

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
        rows = f"{self.records_text} records, unweighted, of the {self.of}"
        return f"{self.name} ≈ {quantity(self.value)}, {error}, {NO_GUARANTEE} ({rows})"

    def __repr__(self) -> str:
        return f"RecoveredEstimate({self})"

    @staticmethod
    def html_table(estimates: Sequence[RecoveredEstimate]) -> str:
        """Return an HTML table with one row per estimate."""
        headings = ("statistic", "value", "standard error", "as released", "guaranteed")
        rows = [
            (
                one.name,
                *(quantity(number) for number in (one.value, one.standard_error, one.released)),
                f"nothing: {NO_GUARANTEE}",
            )
            for one in estimates
        ]
        return write_html_table(headings, rows)

    def _repr_html_(self) -> str:
        return self.html_table([self])
