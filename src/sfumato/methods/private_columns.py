"""Columns of a differentially private release: what is declared about them, and what has to be found privately.

Whatever else depends on cells tells something about people: the type that a text file is read as, a role that is
suggested, a value outside its declared domain that makes a release fail. So cells are read as the schema declares, and
nothing is refused: a number outside its domain is moved to the end of the domain, a category that is not declared is
missing. The ends of a number without a domain, and the categories of a text without an order, are found by noisy
counts, with a part of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import SchemaError
from sfumato.methods.discrete_noise import add_noise, gaussian_scale
from sfumato.schema.columns import Column, Role, expand_patterns
from sfumato.schema.schema import FittedTable, Schema
from sfumato.table.kinds import Kind, order_categories
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALLEST, LARGEST = -20, 60  # powers of two between which the size of a number is looked for
ERROR = 0.01  # probability with which an empty size is taken for one of the column
UNREADABLE = (Role.WEIGHT, Role.HOUSEHOLD)  # roles that no private method uses
NUMBERS = (Kind.CONTINUOUS, Kind.WHOLE, Kind.DATE)


@dataclass(frozen=True, kw_only=True)
class NumberDomain:
    """The ends between which the numbers of a column are, declared or found privately."""

    name: str
    kind: Kind
    low: float
    high: float

    @property
    def center(self) -> float:
        """The middle."""
        return (self.low + self.high) / 2.0

    @property
    def half(self) -> float:
        """Half of the width; 1 for a single number, so that it can be divided by."""
        return (self.high - self.low) / 2.0 or 1.0

    def numbers(self, table: Table) -> NDArray[np.float64]:
        """Return the numbers of the column, moved into the domain; NaN where they are missing."""
        return np.clip(table.numbers(self.name), self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class CategoryDomain:
    """The categories of a column, declared or found privately; others count as missing."""

    name: str
    kind: Kind
    categories: tuple[str, ...]

    def codes(self, table: Table) -> NDArray[np.int64]:
        """Return the position of each category, and the number of categories where it is missing."""
        found = pc.index_in(_texts(table.arrow.column(self.name)), value_set=pa.array(self.categories, pa.string()))
        return np.asarray(found.fill_null(len(self.categories)).to_numpy(), dtype=np.int64)


Domain = NumberDomain | CategoryDomain


def read_as_declared(table: Table, schema: Schema | None, *, is_typed: bool = True, decimal: str = ".") -> FittedTable:
    """Return the table with cells read as the schema declares; nothing that is refused depends on a cell.

    ``is_typed`` says that the types of the columns were given with the table: those of a text file must be declared.
    ``decimal`` is the decimal mark of numbers that are written as text.
    """
    columns = _declared_columns(schema or Schema(()), table, is_typed=is_typed)
    arrow = pa.table({column.name: _read(table.arrow.column(column.name), column, decimal) for column in columns})
    kinds = {column.name: column.kind or Kind.NOMINAL for column in columns}
    return FittedTable(Table(arrow, kinds), Schema(tuple(columns)))


def domains_of(table: Table, schema: Schema) -> dict[str, Domain | None]:
    """Return what is declared about each column of the schema; None for what has to be found."""
    found: dict[str, Domain | None] = {}
    for column in schema.columns:
        kind = table.kinds[column.name]
        cells = table.arrow.schema.field(column.name).type
        if kind in NUMBERS:
            ends = column.domain
            found[column.name] = ends and NumberDomain(name=column.name, kind=kind, low=ends[0], high=ends[1])
        elif kind is Kind.BOOLEAN:
            found[column.name] = CategoryDomain(name=column.name, kind=kind, categories=("false", "true"))
        elif pt.is_dictionary(cells):
            chunks = table.arrow.column(column.name).unify_dictionaries().chunks
            listed = column.order or (chunks[0].dictionary.to_pylist() if chunks else ())
            found[column.name] = CategoryDomain(name=column.name, kind=kind, categories=tuple(listed))
        else:
            found[column.name] = None
    return found


def limit_rows(table: Table, person: str | None, most: int, stream: np.random.Generator) -> Table:
    """Return at most ``most`` rows of each person, drawn at random; rows without a person are left out.

    Which of her rows are kept depends on nobody else's.
    """
    if person is None:
        return table
    coded = table.coded(person)
    order = stream.permutation(table.rows)
    present = order[~np.isin(coded.codes[order], np.flatnonzero(coded.values.is_null()))]
    by_person = present[np.argsort(coded.codes[present], kind="stable")]
    people = coded.codes[by_person]
    first = np.flatnonzero(np.append(True, people[1:] != people[:-1])) if len(people) else np.zeros(0, dtype=np.int64)
    place = np.arange(len(people)) - np.repeat(first, np.diff(np.append(first, len(people))))
    return table.take(np.sort(by_person[place < most]))


def find_ends(table: Table, name: str, *, rho: float, rows_per_person: int) -> NumberDomain:
    """Find the ends of a column of numbers by noisy counts of their sizes, as powers of two: ρ-zCDP.

    One row is in one of the sizes, so one person changes the counts by at most ``rows_per_person``.
    """
    numbers = table.numbers(name)
    numbers = numbers[np.isfinite(numbers)]
    powers = np.clip(np.frexp(numbers)[1], SMALLEST, LARGEST) - SMALLEST + 1
    sizes = LARGEST - SMALLEST + 1
    signed = np.where(numbers == 0.0, 0, np.where(numbers < 0.0, -powers, powers)) + sizes
    sigma = gaussian_scale(squared_sensitivity=rows_per_person**2, rho=rho)
    noisy = add_noise(np.bincount(signed, minlength=2 * sizes + 1), sigma)
    threshold = float(sigma) * math.sqrt(2.0 * math.log((2 * sizes + 1) / ERROR))
    there = np.flatnonzero(noisy > threshold) - sizes
    if not len(there):
        return NumberDomain(name=name, kind=table.kinds[name], low=0.0, high=1.0)
    lowest, highest = _end(int(there[0]), upper=False), _end(int(there[-1]), upper=True)
    return NumberDomain(name=name, kind=table.kinds[name], low=lowest, high=highest)


def find_categories(table: Table, name: str, *, rho: float, delta: float, rows_per_person: int) -> CategoryDomain:
    """Find the categories of a column by noisy counts above a threshold: ρ-zCDP, except with probability δ.

    A category of a single person is found with probability at most δ ÷ (number of her categories), because a discrete
    Gaussian exceeds t with probability at most e^(−t² ÷ 2σ²).
    """
    counted = _texts(table.arrow.column(name)).value_counts()
    counts = np.array([one["counts"].as_py() for one in counted if one["values"].is_valid], dtype=np.int64)
    words = [one["values"].as_py() for one in counted if one["values"].is_valid]
    sigma = gaussian_scale(squared_sensitivity=rows_per_person**2, rho=rho)
    threshold = rows_per_person + float(sigma) * math.sqrt(2.0 * math.log(rows_per_person / delta))
    noisy = add_noise(counts, sigma)
    found = sorted(word for word, count in zip(words, noisy, strict=True) if count > threshold)
    return CategoryDomain(name=name, kind=table.kinds[name], categories=tuple(found))


def find_domains(
    declared: Mapping[str, Domain | None], table: Table, *, rho: float, chance: float, rows_per_person: int
) -> dict[str, Domain]:
    """Return the domains of all columns; those that are not declared share the budget ρ, and the chance, equally."""
    absent = [name for name, domain in declared.items() if domain is None]
    shares = split_budget(rho, [1.0] * len(absent)) if absent else []
    found: dict[str, Domain] = {name: domain for name, domain in declared.items() if domain is not None}
    for name, share in zip(absent, shares, strict=True):
        found[name] = (
            find_ends(table, name, rho=share, rows_per_person=rows_per_person)
            if table.kinds[name].is_numeric
            else find_categories(table, name, rho=share, delta=chance / len(absent), rows_per_person=rows_per_person)
        )
    return {name: found[name] for name in declared}


def _end(size: int, *, upper: bool) -> float:
    """Return the outer end of the numbers of a size: sign times 2^power, where 0 is the number 0."""
    if size == 0:
        return 0.0
    power = abs(size) - 1 + SMALLEST
    outer = (size > 0) == upper
    end = 2.0**power if outer else 2.0 ** (power - 1)
    return math.copysign(end if abs(size) > 1 or outer else 0.0, size)


def _declared_columns(schema: Schema, table: Table, *, is_typed: bool) -> list[Column]:
    by_pattern = expand_patterns(schema.columns, table.names)
    absent = [name for name in table.names if name not in schema and name not in by_pattern]
    if absent:
        raise SchemaError(
            "With differential privacy every column must have a declared role: a suggestion would depend on cells.",
            found=f"none for {', '.join(map(repr, absent[:20]))}",
            fix=f'schema={{"{absent[0]}": {{"role": "quasi", "domain": [0, 100]}}}} (--schema)',
        )
    columns = [schema[name] if name in schema else by_pattern[name] for name in table.names]
    wrong = [column.name for column in columns if column.role in UNREADABLE or column.pseudonym or column.shift]
    if wrong:
        raise SchemaError(
            "A differentially private release has no sampling weights, households, pseudonyms or shifted dates.",
            found=", ".join(map(repr, wrong)),
            fix="the role identifier, which removes the column",
        )
    return [replace(column, kind=_kind(column, table, is_typed=is_typed), reason="") for column in columns]


def _kind(column: Column, table: Table, *, is_typed: bool) -> Kind:
    """Return the kind of a column by what is declared, or by the type that it was given with."""
    if column.role in (Role.IDENTIFIER, Role.PERSON):
        return Kind.NOMINAL  # not released: its type would tell of cells
    if column.order:
        return Kind.ORDERED
    if column.kind is not None:
        return Kind.NOMINAL if column.kind is Kind.TEXT else column.kind
    cells = table.arrow.schema.field(column.name).type
    if column.domain is not None:
        return _kind_of_numbers(cells) if is_typed else Kind.CONTINUOUS
    if not is_typed:
        raise SchemaError(
            f"The type of column {column.name!r} must be declared: in a text file it is read off the cells.",
            fix=f'in a schema file [columns.{column.name}] domain = [0, 100], order = ["a", "b"] or kind = "nominal"',
        )
    if pt.is_temporal(cells):
        return Kind.DATE
    if pt.is_boolean(cells):
        return Kind.BOOLEAN
    if pt.is_dictionary(cells):
        return Kind.ORDERED if cells.ordered else Kind.NOMINAL
    is_number = pt.is_integer(cells) or pt.is_floating(cells) or pt.is_decimal(cells)
    return _kind_of_numbers(cells) if is_number else Kind.NOMINAL


def _kind_of_numbers(cells: pa.DataType) -> Kind:
    """Return the kind of numbers of a type that was given with the table."""
    return Kind.DATE if pt.is_temporal(cells) else Kind.WHOLE if pt.is_integer(cells) else Kind.CONTINUOUS


def _read(cells: pa.ChunkedArray, column: Column, decimal: str) -> pa.ChunkedArray:
    if column.role in (Role.IDENTIFIER, Role.PERSON):
        return _texts(cells)
    if column.kind is Kind.ORDERED and column.order:
        ordered = order_categories(_texts(cells), column.order)
        if ordered.num_chunks:
            return ordered
        empty = pa.DictionaryArray.from_arrays(
            pa.array([], pa.int32()), pa.array(column.order, pa.string()), ordered=True
        )
        return pa.chunked_array([empty])  # the categories are declared, whether or not there are rows
    if column.kind is Kind.BOOLEAN:
        words = pc.utf8_lower(_texts(cells))
        true, false = (
            pc.is_in(words, value_set=pa.array(some)) for some in (["true", "1", "1.0"], ["false", "0", "0.0"])
        )
        return pc.if_else(true, True, pc.if_else(false, False, pa.scalar(None, pa.bool_())))
    if column.kind not in NUMBERS:
        return cells if pt.is_dictionary(cells.type) else _texts(cells)
    numbers = _numbers(cells, decimal)
    if column.domain is not None:
        numbers = np.clip(numbers, *column.domain)
    numbers[np.isinf(numbers)] = np.nan
    if column.kind is Kind.CONTINUOUS:
        return pa.chunked_array([pa.array(numbers, from_pandas=True)])
    whole = pa.array(np.rint(np.clip(numbers, -(2.0**52), 2.0**52)), from_pandas=True).cast(pa.int64())
    return pa.chunked_array([whole if column.kind is Kind.WHOLE else _dates(whole)])


def _numbers(cells: pa.ChunkedArray, decimal: str) -> NDArray[np.float64]:
    """Return the cells as numbers, days for dates; NaN for what is no number."""
    if pt.is_temporal(cells.type):
        days = cells.cast(pa.date32(), safe=False).cast(pa.int32())
        return np.array(days.cast(pa.float64()).to_numpy(), dtype=np.float64)
    if pt.is_dictionary(cells.type) or pt.is_string(cells.type):
        texts = _texts(cells).to_pylist()
        return np.array([_number(text, decimal) for text in texts], dtype=np.float64)
    return np.array(cells.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _number(text: str | None, decimal: str) -> float:
    try:
        return math.nan if text is None else float(text if decimal == "." else text.replace(decimal, "."))
    except ValueError:
        pass
    try:
        return float((date.fromisoformat(str(text)[:10]) - date(1970, 1, 1)).days)
    except ValueError:
        return math.nan


def _dates(days: pa.Array) -> pa.Array:
    first, last = ((one - date(1970, 1, 1)).days for one in (date.min, date.max))
    return (
        pc.min_element_wise(pc.max_element_wise(days, first, skip_nulls=False), last, skip_nulls=False)
        .cast(pa.int32())
        .cast(pa.date32())
    )


def _texts(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    texts = cells.cast(pa.string())
    return texts if texts.num_chunks else pa.chunked_array([pa.array([], pa.string())])


def split_budget(rho: float, weights: Sequence[float]) -> list[float]:
    """Return shares of a budget in proportion to the weights, whose exact sum is not above it.

    Examples
    --------
    >>> split_budget(0.3, [1.0, 2.0])
    [0.0999999999, 0.1999999998]
    """
    total = sum(weights)
    shares = [rho * (1.0 - 1e-9) * weight / total for weight in weights]
    assert sum(map(Fraction, shares)) <= Fraction(rho)
    return shares
