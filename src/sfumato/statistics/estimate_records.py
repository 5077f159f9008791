"""Records of several estimates, and estimates of tests and models, which have more to tell than an interval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, overload

from sfumato.errors import StatisticError
from sfumato.statistics.estimate import Estimate, RecoveredEstimate, interval, to_frame


@dataclass(frozen=True)
class GroupedEstimate:
    """One estimate per group, found by the value of the group, or by a tuple of values if there are several columns.

    It is returned by :meth:`sfumato.Release.estimate` for a statistic ``by`` a column. All intervals hold together.
    Iterating gives the estimates, in the order of ``keys``.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20, 21, 22, 40, 41, 42, 60, 61, 62, 63], "sex": list("ffmmfmfmfm"), "ill": list("nynynynyny")}
    >>> release = sf.Boxes(k=3).release(people, schema={"age": "quasi", "sex": "other", "ill": "other"})
    >>> by_sex = release.estimate("mean(age) by sex")
    >>> by_sex.keys, round(by_sex["f"].low, 1), round(by_sex["f"].high, 1)
    (('f', 'm'), 40.0, 42.4)
    """

    name: str
    keys: tuple[Any, ...]
    estimates: tuple[Any, ...]

    def __getitem__(self, key: Any) -> Any:
        wanted = [place for place, own in enumerate(self.keys) if own == key] or [
            place for place, own in enumerate(self.keys) if _texts(own) == _texts(key)
        ]
        if not wanted:
            raise StatisticError(f"{self.name} has no group {key!r}.", found=f"{len(self.keys)} groups, see .keys")
        return self.estimates[wanted[0]]

    def __len__(self) -> int:
        return len(self.estimates)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.estimates)

    def to_pandas(self) -> Any:
        """Return a pandas data frame with one row per group."""
        return to_frame(self.keys, self.estimates)

    def __str__(self) -> str:
        return "\n".join(map(str, self.estimates))

    def _repr_html_(self) -> str:
        return type(self.estimates[0]).html_table(self.estimates) if self.estimates else ""


@dataclass(frozen=True)
class TableEstimate(GroupedEstimate):
    """The counts of a table of two columns, ``found[row, column]``; None in place of a value gives the margin.

    ``shares`` are the same cells as shares of all records without a missing value in the two columns.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20, 21, 22, 40, 41, 42, 60, 61, 62, 63], "sex": list("ffmmfmfmfm"), "ill": list("nynynynyny")}
    >>> release = sf.Boxes(k=3).release(people, schema={"age": "quasi", "sex": "other", "ill": "other"})
    >>> table = release.estimate("table(sex, ill)")
    >>> int(table["f", "n"].value), int(table["f", None].value), table.shares["f", "n"].value
    (4, 5, 0.4)
    """

    shares: GroupedEstimate


def _texts(key: Any) -> tuple[str, ...]:
    return tuple(map(str, key)) if isinstance(key, tuple) else (str(key),)


@dataclass(frozen=True, kw_only=True)
class TestEstimate(Estimate):
    """A statistic of a test, with the p-values of all choices of values in the boxes.

    Attributes
    ----------
    p_low, p_high : float
        Smallest and largest p-value: that of every choice lies between them.
    p_value : float
        The p-value at the midpoints of the boxes.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20, 21, 22, 40, 41, 42, 60, 61, 62, 63], "sex": list("ffmmfmfmfm"), "ill": list("nynynynyny")}
    >>> release = sf.Boxes(k=3).release(people, schema={"age": "quasi", "sex": "other", "ill": "other"})
    >>> test = release.estimate("ttest(age ~ sex)")
    >>> test.verdict
    'significant at 0.05 for no completion'
    >>> test.p_low < test.p_value < test.p_high
    True
    """

    __test__: ClassVar[bool] = False  # not a test of pytest
    derived: ClassVar[tuple[str, ...]] = ("gap", "shift", "verdict")

    p_value: float = math.nan
    p_low: float = 0.0
    p_high: float = 1.0
    level: float = 0.05  # of significance

    @property
    def verdict(self) -> str:
        """Whether the test is significant: for every choice, for no choice, or undecided."""
        if self.p_high < self.level:
            return f"significant at {self.level:g} for every completion"
        return f"significant at {self.level:g} for no completion" if self.p_low >= self.level else "undecided"

    @property
    def withdrawn(self) -> Estimate:
        return replace(super().withdrawn, p_low=0.0, p_high=1.0)  # type: ignore[call-arg]

    @property
    def remarks(self) -> tuple[str, ...]:
        return (f"{self.name}: p {interval(self.p_low, self.p_high)}, {self.verdict}.", *super().remarks)

    def __str__(self) -> str:
        return f"{super().__str__()}; p {interval(self.p_low, self.p_high)}, {self.verdict}"


@dataclass(frozen=True, kw_only=True)
class FittedCoefficient(Estimate):
    """A coefficient of a model, with the standard error at the midpoints of the boxes.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20, 21, 22, 40, 41, 42, 60, 61, 62, 63], "sex": list("ffmmfmfmfm"), "ill": list("nynynynyny")}
    >>> release = sf.Boxes(k=3).release(people, schema={"age": "quasi", "sex": "other", "ill": "other"})
    >>> fit = release.fit("age ~ C(sex)")
    >>> print(fit["C(sex)[T.m]"])
    age ~ C(sex): C(sex)[T.m] = 4, guaranteed 1.576 … 6.424 (10 records, unweighted, of the original)
    """

    standard_error: float = math.nan


One = TypeVar("One", Estimate, RecoveredEstimate)


@dataclass(frozen=True)
class RegressionEstimate(Sequence[One], Generic[One]):
    """The estimate of a regression: one :class:`Estimate` per coefficient, the intercept first.

    It is returned by :meth:`sfumato.Release.estimate` for a regression. Coefficients are found by position, by the name
    of the regressor, or as ``"intercept"``. If noise was added to the columns, each is a :class:`RecoveredEstimate`.

    Attributes
    ----------
    name : str
        The regression, such as ``"regress(income ~ age)"``.
    terms : tuple of str
        "intercept" and the regressors, in order.
    coefficients : tuple of Estimate or RecoveredEstimate
        The estimate of each term.

    Examples
    --------
    >>> import sfumato as sf
    >>> boxes = sf.read_release({"x_low": [1, 3, 6], "x_high": [2, 4, 8], "y": [1.0, 2.0, 6.0]})
    >>> fit = boxes.estimate("regress(y ~ x)")
    >>> fit["x"] == fit[1]
    True
    >>> fit.terms
    ('intercept', 'x')
    """

    name: str
    terms: tuple[str, ...]
    coefficients: tuple[One, ...]

    @overload
    def __getitem__(self, key: int | str) -> One: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[One, ...]: ...

    def __getitem__(self, key: int | str | slice) -> One | tuple[One, ...]:
        if not isinstance(key, str):
            return self.coefficients[key]
        if key not in self.terms:
            raise StatisticError(f"{self.name} has no coefficient {key!r}.", found=", ".join(map(repr, self.terms)))
        return self.coefficients[self.terms.index(key)]

    def __len__(self) -> int:
        return len(self.coefficients)

    def __iter__(self) -> Iterator[One]:
        return iter(self.coefficients)

    def to_pandas(self) -> Any:
        """Return a pandas data frame with one row per coefficient."""
        return to_frame(self.terms, self.coefficients)

    def __str__(self) -> str:
        return "\n".join(map(str, self.coefficients))

    def _repr_html_(self) -> str:
        return type(self.coefficients[0]).html_table(self.coefficients)
