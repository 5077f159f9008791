"""One column ↔ its columns of the matrix: numbers and days by scale, categories by indicators (TL §4.2.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import TableError
from sfumato.table.facts import ColumnFacts
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

Logs = Literal["auto", "never"] | tuple[str, ...]  # by rule, for no column, or for these

SKEWED = 1.0  # skewness above which a positive column is taken in logarithms, if that makes it less skewed
EXTREMES = 5  # lowest and highest values that are averaged into a limit, so that a limit is nobody's own value
BELOW_ALL = 10.0  # standard deviations below the mean: where a number without a logarithm stands on a logarithmic scale
WHOLE_LIMIT = 2.0**53  # whole numbers beyond it are not exact as floats


@dataclass(frozen=True, kw_only=True, repr=False)
class NumberEncoding:
    """How one column of numbers or days stands in the matrix."""

    name: str
    kind: Kind
    type: pa.DataType
    position: int  # its column in the matrix
    missing: int | None  # the column of the matrix that is +1 where the number is missing; None where none is
    logged: bool
    centre: float  # mean, of the logarithms where logged
    scale: float  # standard deviation, likewise; 1 for a constant column
    low: float  # mean of the few lowest values, in the column's unit
    high: float  # mean of the few highest

    @property
    def exact(self) -> bool:
        """Whether a number leaves as it was computed: never missing, never rounded."""
        return self.missing is None and self.kind is Kind.CONTINUOUS and bool(pt.is_float64(self.type))

    def encode(self, matrix: NDArray[np.float64], numbers: NDArray[np.float64]) -> None:
        """Write the column into the matrix."""
        is_missing = np.isnan(numbers)
        if self.logged:
            positive = numbers > 0.0
            numbers = np.log(numbers, where=positive, out=np.full(len(numbers), self.centre - BELOW_ALL * self.scale))
        matrix[:, self.position] = np.where(is_missing, 0.0, (numbers - self.centre) / self.scale)
        if self.missing is not None:
            matrix[:, self.missing] = np.where(is_missing, 1.0, -1.0)

    def natural(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """The numbers in the column's own unit, not yet rounded, those that will be missing included."""
        numbers: NDArray[np.float64] = matrix[:, self.position] * self.scale + self.centre
        return np.exp(np.minimum(numbers, 700.0)) if self.logged else numbers

    def decode(self, matrix: NDArray[np.float64], numbers: NDArray[np.float64]) -> pa.Array:
        """The column of the table; ``numbers`` are in its own unit."""
        is_missing = None if self.missing is None else matrix[:, self.missing] > 0.0
        return _as_arrow(numbers, is_missing, self.type, whole=self.kind is not Kind.CONTINUOUS)


@dataclass(frozen=True, kw_only=True, repr=False)
class CategoryEncoding:
    """How one column of categories stands in the matrix."""

    name: str
    kind: Kind
    start: int  # the column of the matrix that is the first indicator
    values: pa.Array  # one indicator each; the missing value, where there is one, is one of them

    @property
    def columns(self) -> slice:
        """The columns of the matrix that are its indicators."""
        return slice(self.start, self.start + len(self.values))

    def encode(self, matrix: NDArray[np.float64], table: Table) -> None:
        """Write the column into the matrix; a value that was not there when the code was made has no indicator."""
        coded = table.coded(self.name)
        found = _same_text(coded.values, self.values.type)
        known = pc.index_in(found, value_set=_same_text(self.values, found.type), skip_nulls=False)
        indicator = known.fill_null(-1).to_numpy()[coded.codes]
        matrix[:, self.columns] = -1.0
        rows = np.flatnonzero(indicator >= 0)
        matrix[rows, self.start + indicator[rows]] = 1.0

    def largest(self, matrix: NDArray[np.float64]) -> pa.Array:
        """The category of the largest indicator of each row."""
        return self.values.take(pa.array(np.argmax(matrix[:, self.columns], axis=1)))

    def drawn(
        self,
        matrix: NDArray[np.float64],
        draw: np.random.Generator,
        shares: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    ) -> pa.Array:
        """A category drawn for each row, in the shares that ``shares`` reads from the indicators."""
        up_to = np.cumsum(shares(matrix[:, self.columns]), axis=1)
        return self.values.take(pa.array((draw.random((len(up_to), 1)) > up_to[:, :-1]).sum(axis=1)))


def number_encoding(table: Table, name: str, *, position: int, logs: Logs, facts: ColumnFacts | None) -> NumberEncoding:
    """How a column of numbers is encoded; ``facts`` are of the whole table, where this one is a sample of it."""
    numbers = finite(table, name)
    present = numbers[~np.isnan(numbers)]
    lowest = present.min(initial=np.inf) if facts is None or not facts.present else facts.low
    logged = (
        name in logs
        if isinstance(logs, tuple)
        else logs == "auto" and table.kinds[name] is not Kind.DATE and lowest > 0.0 and _better_in_logarithms(present)
    )
    if logged and (lowest <= 0.0 or table.kinds[name] is Kind.DATE):
        raise TableError(
            f"Only positive numbers have logarithms: {name!r} must hold no others.",
            found="a column of days" if table.kinds[name] is Kind.DATE else "others",
            fix='logs="auto", which takes logarithms where it can',
        )
    scaled = np.log(present) if logged else present
    with np.errstate(over="ignore", invalid="ignore"):
        centre, scale = (float(scaled.mean()), float(scaled.std())) if scaled.size else (0.0, 1.0)
    if not (np.isfinite(centre) and np.isfinite(scale)):
        raise TableError(
            f"The numbers of {name!r} must have finite squares.",
            found="numbers too large",
            fix="measure the column in a larger unit",
        )
    constant = scale <= 1e-12 * abs(centre) or scale == 0.0
    low, high = _limits(present)
    return NumberEncoding(
        name=name,
        kind=table.kinds[name],
        type=table.arrow.schema.field(name).type,
        position=position,
        missing=position + 1 if present.size < numbers.size or (facts is not None and facts.missing) else None,
        logged=logged,
        centre=centre,
        scale=1.0 if constant else scale,
        low=low,
        high=high,
    )


def _better_in_logarithms(present: NDArray[np.float64]) -> bool:
    if not present.size or present.min() <= 0.0:
        return False
    skewed = skewness(present)
    return skewed > SKEWED and abs(skewness(np.log(present))) < skewed


def _limits(present: NDArray[np.float64]) -> tuple[float, float]:
    """Means of the few lowest and highest values; of the extremes alone in a table of less than forty rows."""
    if not present.size:
        return 0.0, 0.0
    few = min(EXTREMES, max(1, present.size // 20))
    ends = np.partition(present, (few - 1, present.size - few))
    low, high = float(ends[:few].mean()), float(ends[-few:].mean())
    return (low, high) if low <= high else (float(present.min()), float(present.max()))


def skewness(numbers: NDArray[np.float64]) -> float:
    """Third standardised moment; 0 for a constant."""
    centred = numbers - numbers.mean() if numbers.size else numbers
    largest = float(np.abs(centred).max(initial=0.0))
    if largest == 0.0:
        return 0.0
    centred = centred / largest  # so that the cube of a large number stays a number
    return float((centred**3).mean() / (centred**2).mean() ** 1.5)


def shares_of(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Indicators read as shares of the categories: (s + 1)/2 where positive, made to sum to one.

    An indicator that was mixed linearly is 2p − 1 for a share p of +1, so an untouched row gives back its category.
    """
    shares = np.maximum((scores + 1.0) / 2.0, 0.0)
    total = shares.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, shares / np.where(total > 0.0, total, 1.0), 1.0 / scores.shape[1])


def class_probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Indicators read as a distribution over the categories by the normalised inverse logit (TL §2, p. 24).

    Softer than :func:`shares_of`: an untouched row of two categories gives 0.73 and 0.27.
    """
    odds = 1.0 / (1.0 + np.exp(-np.clip(scores, -700.0, 700.0)))
    probabilities: NDArray[np.float64] = odds / odds.sum(axis=1, keepdims=True)
    return probabilities


def finite(table: Table, name: str) -> NDArray[np.float64]:
    """The numbers of a column, none of them infinite."""
    numbers = table.numbers(name)
    infinite = int(np.isinf(numbers).sum())
    if infinite:
        raise TableError(
            f"Every number of {name!r} must be finite.",
            found=f"{infinite:,} infinite ones",
            fix="leave them empty, or put a bound in their place",
        )
    return numbers


def category_values(table: Table, name: str, at_most: int | None) -> pa.Array:
    coded = table.coded(name)
    if at_most is None or coded.size <= at_most:
        return coded.values
    common = np.argsort(-np.bincount(coded.codes, minlength=coded.size), kind="stable")[:at_most]
    return coded.values.take(pa.array(np.sort(common)))


def _same_text(values: pa.Array, other: pa.DataType) -> pa.Array:
    """Values as they are where the types agree, else as text, so that 1 and "1" are the same category."""
    return values if values.type == other else pc.cast(values, pa.string())


def _as_arrow(
    numbers: NDArray[np.float64], is_missing: NDArray[np.bool_] | None, kind: pa.DataType, *, whole: bool
) -> pa.Array:
    """Numbers as a column of their Arrow type."""
    if pt.is_date(kind):
        days = pa.array(np.rint(np.clip(numbers, -7e5, 2.9e6)).astype(np.int32), mask=is_missing)
        return days.cast(pa.date32()).cast(kind)
    if pt.is_timestamp(kind):
        moments = pa.array(np.rint(np.clip(numbers, -WHOLE_LIMIT, WHOLE_LIMIT)).astype(np.int64), mask=is_missing)
        return moments.cast(pa.timestamp("us", tz=kind.tz)).cast(kind, safe=False)
    if pt.is_integer(kind):
        info = np.iinfo(kind.to_pandas_dtype())
        inside = np.clip(numbers, max(float(info.min), -WHOLE_LIMIT), min(float(info.max), WHOLE_LIMIT))
        return pa.array(np.rint(inside).astype(kind.to_pandas_dtype()), mask=is_missing)
    floats = pa.array(np.rint(numbers) if whole else numbers, mask=is_missing)
    return floats.cast(kind, safe=False)
