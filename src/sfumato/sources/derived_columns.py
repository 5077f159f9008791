"""Columns that are computed from one other column while a table is read: an age, a year, steps of a number, a prefix.

A rule is ``NAME = FUNCTION(COLUMN, ARGUMENT)``; backticks enclose names with other signs than letters, digits and _. If
the name is that of a column, the column is replaced. Each cell depends on the cell of its own row only.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import OptionError, TableError
from sfumato.params import require_choice
from sfumato.sources.base import TableSource
from sfumato.table.table import Table

NAME = r"(`[^`]+`|\w+)"
RULE = re.compile(rf"\s*{NAME}\s*=\s*(\w+)\(\s*{NAME}\s*(?:,\s*([^,)`]+?)\s*)?\)\s*")
EXAMPLE = "age = years(birth_date, 2026-01-01)"
LONGEST_PREFIX = 1000  # characters


@dataclass(frozen=True, kw_only=True)
class DerivedColumn:
    """A rule for one column: what it is called, and from which column it is computed, how."""

    name: str
    function: str
    column: str
    argument: str = ""

    @classmethod
    def of(cls, text: str) -> DerivedColumn:
        """Read a rule, and check its argument.

        >>> DerivedColumn.of("age = years(`birth date`, 2026-01-01)").column
        'birth date'
        """
        found = RULE.fullmatch(text)
        if found is None:
            raise OptionError(
                "A derived column must be written as NAME = FUNCTION(COLUMN, ARGUMENT).", found=repr(text), fix=EXAMPLE
            )
        name, function, column, argument = found.groups()
        rule = cls(
            name=name.strip("`"),
            function=require_choice(function, name="The function of a derived column", choices=tuple(FUNCTIONS)),
            column=column.strip("`"),
            argument=argument or "",
        )
        FUNCTIONS[rule.function](rule)
        return rule

    def __str__(self) -> str:
        """The rule as text.

        >>> str(DerivedColumn(name="age", function="years", column="birth date", argument="2026-01-01"))
        'age = years(`birth date`, 2026-01-01)'
        """
        inside = ", ".join(filter(None, (_quote(self.column), self.argument)))
        return f"{_quote(self.name)} = {self.function}({inside})"

    def compute(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the cells of the new column."""
        plain = cells.cast(cells.type.value_type) if pt.is_dictionary(cells.type) else cells
        return FUNCTIONS[self.function](self)(plain)


Computation = Callable[[pa.ChunkedArray], pa.ChunkedArray]


def _quote(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else f"`{name}`"


def _years(rule: DerivedColumn) -> Computation:
    """Return whole years from a date to the day of the argument: an age."""
    day = _day(rule)

    def compute(cells: pa.ChunkedArray) -> pa.ChunkedArray:
        _require(pt.is_temporal(cells.type), rule, "dates", cells)
        later = pc.sum(pc.greater(cells.cast(pa.timestamp("s")).cast(pa.date32()), pa.scalar(day))).as_py() or 0
        if later:
            raise TableError(
                f"The dates of {rule.column!r} must not be after {day}, the day of the age.",
                found=f"{later:,} later dates",
                fix="a later day",
            )
        place = pc.add(pc.multiply(pc.month(cells), 100), pc.day(cells))
        is_before_birthday = pc.greater(place, 100 * day.month + day.day)
        return pc.subtract(pc.subtract(day.year, pc.year(cells)), is_before_birthday.cast(pa.int64()))

    return compute


def _year(rule: DerivedColumn) -> Computation:
    """Return the year of a date."""
    _require_no_argument(rule)

    def compute(cells: pa.ChunkedArray) -> pa.ChunkedArray:
        _require(pt.is_temporal(cells.type), rule, "dates", cells)
        return pc.year(cells)

    return compute


def _steps(rule: DerivedColumn) -> Computation:
    """Return the lower end of the step that a number is in; the argument is the width of a step."""
    width = _number(rule)

    def compute(cells: pa.ChunkedArray) -> pa.ChunkedArray:
        is_number = pt.is_integer(cells.type) or pt.is_floating(cells.type) or pt.is_decimal(cells.type)
        _require(is_number, rule, "numbers", cells)
        lower = pc.multiply(pc.floor(pc.divide(cells.cast(pa.float64()), width)), width)
        is_whole = pt.is_integer(cells.type) and width.is_integer()
        return lower.cast(pa.int64()) if is_whole else pc.round(lower, ndigits=_digits(width))

    return compute


def _prefix(rule: DerivedColumn) -> Computation:
    """Return the first characters of a text; the argument is their number."""
    length = _number(rule)
    if not length.is_integer() or length > LONGEST_PREFIX:
        raise OptionError("The length of a prefix must be a whole number.", found=repr(rule.argument), fix="3")

    def compute(cells: pa.ChunkedArray) -> pa.ChunkedArray:
        _require(pt.is_string(cells.type) or pt.is_integer(cells.type), rule, "texts or whole numbers", cells)
        return pc.utf8_slice_codeunits(cells.cast(pa.string()), 0, int(length))

    return compute


FUNCTIONS: dict[str, Callable[[DerivedColumn], Computation]] = {
    "years": _years,
    "year": _year,
    "steps": _steps,
    "prefix": _prefix,
}


def _day(rule: DerivedColumn) -> datetime.date:
    try:
        return datetime.date.fromisoformat(rule.argument)
    except ValueError:
        pass
    raise OptionError("years needs the day of the age, as year-month-day.", found=repr(rule.argument), fix=EXAMPLE)


def _number(rule: DerivedColumn) -> float:
    try:
        number = float(rule.argument)
    except ValueError:
        number = math.nan
    if not 0.0 < number < math.inf:
        raise OptionError(f"{rule.function} needs a number above 0.", found=repr(rule.argument), fix="5")
    return number


def _digits(width: float) -> int:
    """Return the decimal digits that multiples of a width need.

    >>> _digits(0.25), _digits(5.0)
    (2, 0)
    """
    return max(0, len(repr(width).rpartition(".")[2])) if not width.is_integer() and "e" not in repr(width) else 0


def _require_no_argument(rule: DerivedColumn) -> None:
    if rule.argument:
        raise OptionError(f"{rule.function} takes a column only.", found=repr(rule.argument), fix="leave it out")


def _require(fits: bool, rule: DerivedColumn, wanted: str, cells: pa.ChunkedArray) -> None:
    if not fits:
        raise TableError(f"{rule.function} needs {wanted} in column {rule.column!r}.", found=f"type {cells.type}")


def derive_columns(table: Table, rules: Sequence[DerivedColumn]) -> Table:
    """Return the table with the derived columns: behind the others, or in place of the one of the same name."""
    arrow, kinds = table.arrow, dict(table.kinds)
    for rule in rules:
        if rule.column not in kinds:
            raise TableError(
                f"There is no column {rule.column!r} to derive {rule.name!r} from.", found=f"{len(kinds)} other columns"
            )
        cells = rule.compute(arrow.column(rule.column))
        if rule.name in kinds:
            arrow = arrow.set_column(arrow.column_names.index(rule.name), rule.name, cells)
        else:
            arrow = arrow.append_column(rule.name, cells)
        kinds[rule.name] = Table.from_arrow(pa.table({rule.name: cells})).kinds[rule.name]
    return Table(arrow, kinds)


@dataclass(frozen=True)
class DerivedSource(TableSource):
    """A source with derived columns."""

    inner: TableSource
    rules: tuple[DerivedColumn, ...]

    def read(self) -> Table:
        """Read all rows."""
        return derive_columns(self.inner.read(), self.rules)

    def batches(self) -> Iterator[pa.Table]:
        """Yield the rows, as one batch: kinds depend on all of them."""
        yield self.read().arrow

    def read_declared(self) -> tuple[Table, bool]:
        """Raise: a method with differential privacy may see only what is declared."""
        raise OptionError(
            "A method with differential privacy reads cells as they are declared, so no column can be derived.",
            fix="compute the column before, and declare its domain",
        )

    def memory_needed(self) -> int:
        """Estimate the bytes of memory that working on all rows at once takes."""
        return self.inner.memory_needed()

    def manifest_text(self) -> str | None:
        """Return the text that is stored with the rows; None without it."""
        return self.inner.manifest_text()


def source_with(source: TableSource, derive: Sequence[str]) -> TableSource:
    """Return the source with the derived columns of these rules; the source itself without any."""
    return DerivedSource(source, tuple(map(DerivedColumn.of, derive))) if derive else source
