"""Convert one column to and from matrix columns: numbers and dates by scale, categories by indicators (TL §4.2.1).

A row of a numeric column is in one *state*: it has a number, one of the column's atoms, which are its
:func:`sfumato.table.facts.point_masses`, or no value. Each atom and the missing value has an indicator, +1 in its rows
and −1 in the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.errors import TableError
from sfumato.table.facts import ColumnFacts, point_masses
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

Logs = Literal["auto", "never"] | tuple[str, ...]  # detected, no column, or these columns

SKEWED = 1.0  # skewness above which a positive column is log-transformed, if that reduces the skewness
ROOM = 1.5  # margin of the largest possible variance over the wanted one, below which moments are not promised
COARSEST = 1e-6  # standard deviation, as a share of the mean, below which rounding changes moments by 1e-9 of it
EXTREMES = 5  # number of lowest and highest values averaged into a limit, so that no limit is one person's value
FEWEST_EXTREMES = 3  # in a table of few rows
DOMINANT = 0.25  # p of the p % rule: the highest value may be estimated no better than within this share of its excess
BELOW_ALL = 10.0  # standard deviations below the mean; replaces the logarithm of a number that is not positive
WHOLE_LIMIT = 2.0**53  # larger whole numbers are not exact as floats
NUMBER = -1  # the state of a row with a number that is no atom


@dataclass(frozen=True, kw_only=True, repr=False)
class NumberEncoding:
    """The encoding of one column of numbers or dates in the matrix."""

    name: str
    kind: Kind
    type: pa.DataType
    position: int  # column of the matrix
    missing: int | None  # column of the matrix that is +1 where the number is missing; None if no number is missing
    logged: bool
    centre: float  # mean of the numbers that are no atoms, of the logarithms if logged
    scale: float  # their standard deviation, of the logarithms if logged; 1 for a constant column
    low: float  # mean of the EXTREMES lowest of these numbers that do not dominate, in the unit of the column
    high: float  # mean of the EXTREMES highest
    atoms: tuple[float, ...] = ()  # values that many rows share; the indicators follow the position, in this order
    number_share: float = 1.0  # share of the rows that have a number that is no atom
    has_room: bool = True  # whether numbers from low to high can have the mean and variance of the column
    has_numbers: bool = True  # whether enough rows have one; otherwise only atoms and missing values are decoded

    @property
    def indicators(self) -> slice:
        """Columns of the matrix that indicate the atoms and the missing value."""
        return slice(self.position + 1, self.position + self.width)

    @property
    def width(self) -> int:
        """Number of columns of the matrix."""
        return 1 + len(self.atoms) + (self.missing is not None)

    @property
    def exact(self) -> bool:
        """Whether a decoded number is neither rounded nor set to missing."""
        return self.missing is None and self.kind is Kind.CONTINUOUS and bool(pt.is_float64(self.type))

    def encode(self, matrix: NDArray[np.float64], numbers: NDArray[np.float64]) -> None:
        """Write the column into the matrix; a row without a number of its own has the mean, 0."""
        is_missing = np.isnan(numbers)
        without = is_missing | np.isin(numbers, self.atoms) if self.atoms else is_missing
        values = numbers
        if self.logged:
            positive = numbers > 0.0
            values = np.log(numbers, where=positive, out=np.full(len(numbers), self.centre - BELOW_ALL * self.scale))
        matrix[:, self.position] = np.where(without, 0.0, (values - self.centre) / self.scale)
        for place, atom in enumerate(self.atoms, self.position + 1):
            matrix[:, place] = np.where(numbers == atom, 1.0, -1.0)
        if self.missing is not None:
            matrix[:, self.missing] = np.where(is_missing, 1.0, -1.0)

    def states(self, matrix: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the state of each row: the number of an atom, ``len(atoms)`` if missing, or ``NUMBER``.

        The largest indicator decides, if it is positive.
        """
        scores = matrix[:, self.indicators]
        if not scores.shape[1]:
            return np.full(len(matrix), NUMBER)
        largest: NDArray[np.int64] = scores.argmax(axis=1)
        return np.where(scores.max(axis=1) > 0.0, largest, NUMBER) if self.has_numbers else largest

    def natural(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return numbers and atoms in the unit of the column, before rounding and before missing cells are set."""
        numbers: NDArray[np.float64] = matrix[:, self.position] * self.scale + self.centre
        if self.logged:
            numbers = np.exp(np.minimum(numbers, 700.0))
        if self.atoms:
            states = self.states(matrix)
            is_atom = (states >= 0) & (states < len(self.atoms))
            numbers[is_atom] = np.array(self.atoms)[states[is_atom]]
        return numbers

    def decode(self, matrix: NDArray[np.float64], numbers: NDArray[np.float64]) -> pa.Array:
        """Return the column of the table; ``numbers`` are in the unit of the column."""
        is_missing = None if self.missing is None else self.states(matrix) == len(self.atoms)
        return _as_arrow(numbers, is_missing, self.type, whole=self.kind is not Kind.CONTINUOUS)


@dataclass(frozen=True, kw_only=True, repr=False)
class CategoryEncoding:
    """The encoding of one column of categories in the matrix."""

    name: str
    kind: Kind
    start: int  # column of the matrix that holds the first indicator
    values: pa.Array  # one indicator per value; the missing value, if there is one, is among them
    branches: NDArray[np.bool_] | None = None  # (branches, values): one indicator per branch of a tree of the values

    @property
    def columns(self) -> slice:
        """Columns of the matrix that hold the indicators of values; those of branches follow."""
        return slice(self.start, self.start + len(self.values))

    @property
    def width(self) -> int:
        """Number of columns of the matrix."""
        return len(self.values) + (0 if self.branches is None else len(self.branches))

    def encode(self, matrix: NDArray[np.float64], table: Table) -> None:
        """Write the column into the matrix; a value that the encoding does not know has no indicator."""
        coded = table.coded(self.name)
        values = _same_text(coded.values, self.values.type)
        known = pc.index_in(values, value_set=_same_text(self.values, values.type), skip_nulls=False)
        indicator = known.fill_null(-1).to_numpy()[coded.codes]
        matrix[:, self.start : self.start + self.width] = -1.0
        rows = np.flatnonzero(indicator >= 0)
        matrix[rows, self.start + indicator[rows]] = 1.0
        if self.branches is not None:
            above = self.branches.T[indicator[rows]]
            matrix[rows, self.columns.stop : self.start + self.width] = np.where(above, 1.0, -1.0)

    def scores(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how well each value fits: its indicator, and those of the branches above it.

        The value that fits best is that of the nearest valid row: all valid rows have the same length, so the nearest
        one has the largest product with the indicators.
        """
        if self.branches is None:
            return matrix[:, self.columns]
        above = matrix[:, self.columns.stop : self.start + self.width]
        return np.asarray(matrix[:, self.columns] + above @ self.branches)

    def largest(self, matrix: NDArray[np.float64]) -> pa.Array:
        """Return the category with the largest indicator in each row, of branches and value together."""
        return self.values.take(pa.array(np.argmax(self.scores(matrix), axis=1)))

    def sample(
        self,
        matrix: NDArray[np.float64],
        generator: np.random.Generator,
        shares: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    ) -> pa.Array:
        """Draw a category for each row with the probabilities that ``shares`` computes from the indicators."""
        cumulative = np.cumsum(shares(matrix[:, self.columns]), axis=1)
        return self.values.take(pa.array((generator.random((len(cumulative), 1)) > cumulative[:, :-1]).sum(axis=1)))


def number_encoding(
    table: Table, name: str, *, position: int, logs: Logs, facts: ColumnFacts | None, atoms: bool = False
) -> NumberEncoding:
    """Fit the encoding of a numeric column; ``facts`` describe the whole table if ``table`` is a sample of it.

    With ``atoms``, values that many rows share are encoded by indicators.
    """
    numbers = finite_numbers(table, name)
    present = numbers[~np.isnan(numbers)]
    missing = present.size < numbers.size or (facts is not None and facts.missing > 0)
    lowest = present.min(initial=np.inf) if facts is None or not facts.present else facts.low
    shared = point_masses(present) if atoms else ()
    if shared:
        present = present[~np.isin(present, shared)]
        # the lowest of a sample may be an atom, and a lower number may be outside the sample
        lowest = present.min(initial=np.inf) if lowest in shared else lowest
    logged = (
        name in logs
        if isinstance(logs, tuple)
        else logs == "auto" and table.kinds[name] is not Kind.DATE and lowest > 0.0 and _better_in_logarithms(present)
    )
    if logged and (lowest <= 0.0 or table.kinds[name] is Kind.DATE):
        raise TableError(
            f"Column {name!r} must hold only positive numbers to be log-transformed.",
            found="a column of dates" if table.kinds[name] is Kind.DATE else "zero or negative numbers",
            fix='use logs="auto", which transforms only the columns that allow it',
        )
    scaled = np.log(present) if logged else present
    with np.errstate(over="ignore", invalid="ignore"):
        centre, scale = (float(scaled.mean()), float(scaled.std())) if scaled.size else (0.0, 1.0)
        spread = (
            float(present.std()) if logged and present.size else scale
        )  # moments are kept in the unit of the column
    if not (np.isfinite(centre) and np.isfinite(scale) and np.isfinite(spread)):
        raise TableError(
            f"The squares of the numbers in column {name!r} must be finite.",
            found="numbers that are too large",
            fix="express the column in a larger unit",
        )
    constant = scale <= 1e-12 * abs(centre) or scale == 0.0
    low, high = _limits(present, numbers.size)
    return NumberEncoding(
        name=name,
        kind=table.kinds[name],
        type=table.arrow.schema.field(name).type,
        position=position,
        missing=position + 1 + len(shared) if missing else None,
        logged=logged,
        centre=centre,
        scale=1.0 if constant else scale,
        low=low,
        high=high,
        atoms=shared,
        number_share=present.size / max(1, numbers.size),
        has_room=_has_room(present, low, high),
        has_numbers=not shared or present.size >= EXTREMES,
    )


def _better_in_logarithms(present: NDArray[np.float64]) -> bool:
    if not present.size or present.min() <= 0.0:
        return False
    skewed = skewness(present)
    return skewed > SKEWED and abs(skewness(np.log(present))) < skewed


def _limits(present: NDArray[np.float64], rows: int) -> tuple[float, float]:
    """Return the means of the EXTREMES lowest and highest values among which none dominates.

    Fewer values are averaged in a table of less than 100 rows.
    """
    if not present.size:
        return 0.0, 0.0
    few = min(EXTREMES, max(FEWEST_EXTREMES, rows // 20), present.size)
    ends = np.sort(present)  # faster than a partition at both ends
    low, high = -_upper_limit(-ends[::-1], few), _upper_limit(ends, few)
    return min(low, high), max(low, high)  # rounding errors may put two means of the same values in another order


def _upper_limit(ordered: NDArray[np.float64], few: int) -> float:
    """Return the mean of the ``few`` highest values after dominant ones have been left out.

    The mean of a few values discloses one that is far above all others, to a person who knows the second highest and to
    everybody who sees that the others are small. By the p % rule the highest is left out if the excess of the third and
    following ones over the next lower value is less than DOMINANT of its own; then the rule is applied again.
    """
    kept = ordered
    while kept.size > max(2 * few, ordered.size // 2):
        excess = kept[-few:] - kept[-few - 1]
        if excess[-1] <= 0.0 or excess[:-2].sum() >= DOMINANT * excess[-1]:
            break
        kept = kept[:-1]
    return _mean(kept[-few:])


def _has_room(present: NDArray[np.float64], low: float, high: float) -> bool:
    """Whether numbers from ``low`` to ``high`` can have the mean and, with a margin, the variance of these numbers.

    The variance of numbers within limits is at most (mean − low)(high − mean) (Bhatia and Davis). A single outlier far
    beyond the limits makes the variance larger than that. Floats far from zero have no digits left for small changes.
    """
    if not present.size:
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = float(present.mean()), float(present.std())
        is_fine = spread >= COARSEST * abs(mean) or bool((present == present[0]).all())
        return is_fine and bool((mean - low) * (high - mean) >= ROOM * spread**2)


def _mean(numbers: NDArray[np.float64]) -> float:
    """Return the mean, without a rounding error if all numbers are equal."""
    return float(numbers[0]) if (numbers == numbers[0]).all() else float(numbers.mean())


def skewness(numbers: NDArray[np.float64]) -> float:
    """Compute the third standardised moment; 0 for a constant."""
    centred = numbers - numbers.mean() if numbers.size else numbers
    largest = float(np.abs(centred).max(initial=0.0))
    if largest == 0.0:
        return 0.0
    centred = centred / largest  # so that cubes of large numbers do not overflow
    return float((centred**3).mean() / (centred**2).mean() ** 1.5)


def shares_of(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convert indicators to shares of the categories: (s + 1)/2 where positive, normalised to sum to one.

    A linear mixture of indicators is 2p − 1 for a share p of +1, so an unchanged row returns its own category.
    """
    shares = np.maximum((scores + 1.0) / 2.0, 0.0)
    total = shares.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, shares / np.where(total > 0.0, total, 1.0), 1.0 / scores.shape[1])


def class_probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convert indicators to a distribution over the categories by the normalised inverse logit (TL §2, p. 24).

    The result is less extreme than that of :func:`shares_of`: an unchanged row of two categories gives 0.73 and 0.27.
    """
    odds = 1.0 / (1.0 + np.exp(-np.clip(scores, -700.0, 700.0)))
    probabilities: NDArray[np.float64] = odds / odds.sum(axis=1, keepdims=True)
    return probabilities


OTHER = "(other)"  # stands for all values that have no column of probabilities
NO_CATEGORY = "(missing)"


def probability_name(column: str, value: object) -> str:
    """Return the name of the released column that holds the probabilities of a value."""
    return f"{column}={NO_CATEGORY if value is None else value}"


def finite_numbers(table: Table, name: str) -> NDArray[np.float64]:
    """Return the numbers of a column, and raise if any is infinite."""
    numbers = table.numbers(name)
    infinite = int(np.isinf(numbers).sum())
    if infinite:
        raise TableError(
            f"Every number in column {name!r} must be finite.",
            found=f"{infinite:,} infinite numbers",
            fix="make them missing, or replace them by a finite bound",
        )
    return numbers


def category_values(table: Table, name: str, at_most: int | None) -> pa.Array:
    """Return the values that get an indicator: all of them, or the ``at_most`` most common ones."""
    coded = table.coded(name)
    if at_most is None or coded.size <= at_most:
        return coded.values
    common = np.argsort(-np.bincount(coded.codes, minlength=coded.size), kind="stable")[:at_most]
    return coded.values.take(pa.array(np.sort(common)))


def _same_text(values: pa.Array, other: pa.DataType) -> pa.Array:
    """Return the values unchanged if the types agree, else as text, so that 1 and "1" are the same category."""
    return values if values.type == other else pc.cast(values, pa.string())


def number_limits(kind: pa.DataType) -> tuple[float, float]:
    """Return the lowest and the highest number that a column of this Arrow type can hold."""
    if pt.is_decimal(kind):
        largest = 10.0 ** (kind.precision - kind.scale) - 1.0
        return -largest, largest
    if pt.is_floating(kind):
        largest = float(np.finfo(kind.to_pandas_dtype()).max)
        return -largest, largest
    if pt.is_integer(kind):
        info = np.iinfo(kind.to_pandas_dtype())
        return max(float(info.min), -WHOLE_LIMIT), min(float(info.max), WHOLE_LIMIT)
    return -WHOLE_LIMIT, WHOLE_LIMIT


def _as_arrow(
    numbers: NDArray[np.float64], is_missing: NDArray[np.bool_] | None, kind: pa.DataType, *, whole: bool
) -> pa.Array:
    """Convert numbers to a column of the given Arrow type."""
    if pt.is_date(kind):
        days = pa.array(np.rint(np.clip(numbers, -7e5, 2.9e6)).astype(np.int32), mask=is_missing)
        return days.cast(pa.date32()).cast(kind)
    if pt.is_timestamp(kind):
        moments = pa.array(np.rint(np.clip(numbers, -WHOLE_LIMIT, WHOLE_LIMIT)).astype(np.int64), mask=is_missing)
        return moments.cast(pa.timestamp("us", tz=kind.tz)).cast(kind, safe=False)
    if pt.is_integer(kind):
        return pa.array(np.rint(np.clip(numbers, *number_limits(kind))).astype(kind.to_pandas_dtype()), mask=is_missing)
    floats = pa.array(np.rint(numbers) if whole else numbers, mask=is_missing)
    return floats.cast(kind, safe=False)
