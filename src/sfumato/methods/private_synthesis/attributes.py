"""Attributes: columns as codes of a domain that is declared, so that the codes say nothing about the people.

The categories of a column are those of its Arrow dictionary (a pandas Categorical), its declared ``order`` or the two
of a boolean. A number has a declared domain, cut into a grid of at most ``MOST_CELLS`` equal cells: of one whole number
each where there are few enough. The last code of every attribute stands for a missing value, whether one occurs or not.
The types of columns, like the domains, are taken as public.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import CannotRelease
from sfumato.table.kinds import Kind, number_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.schema.columns import Column
    from sfumato.table.table import Table

MOST_CATEGORIES = 1024
MOST_CELLS = 1024  # of the grid of a number
FINE_CELLS = 128  # a grid of at most this many cells is counted at once, a larger one where people are


@dataclass(frozen=True)
class Attribute(ABC):
    """A column with a declared domain; a missing value has the code ``values``."""

    name: str
    kind: Kind

    @property
    @abstractmethod
    def values(self) -> int:
        """Number of codes, without that of a missing value."""

    @abstractmethod
    def encode(self, table: Table) -> NDArray[np.int64]:
        """Return the code of each row."""

    @abstractmethod
    def decode(
        self, first: NDArray[np.int64], last: NDArray[np.int64], generator: np.random.Generator
    ) -> pa.Array:
        """Return one cell for each range of codes, ``first`` to ``last``; a range of ``values`` alone is missing."""


@dataclass(frozen=True)
class Categories(Attribute):
    """A column of declared categories; a category that is not declared counts as missing."""

    words: tuple[str, ...]

    @property
    def values(self) -> int:
        return len(self.words)

    def encode(self, table: Table) -> NDArray[np.int64]:
        cells = table.arrow.column(self.name)
        texts = cells.cast(cells.type.value_type) if pt.is_dictionary(cells.type) else cells
        codes = pc.fill_null(pc.index_in(texts.cast(pa.string()), value_set=pa.array(self.words)), self.values)
        return np.asarray(codes.to_numpy(), dtype=np.int64)

    def decode(
        self, first: NDArray[np.int64], last: NDArray[np.int64], generator: np.random.Generator
    ) -> pa.Array:
        indices = pa.array(first, pa.int32(), mask=first == self.values)
        if self.kind is Kind.BOOLEAN:
            return pa.array([word == TRUE for word in self.words]).take(indices)
        return pa.DictionaryArray.from_arrays(indices, pa.array(self.words), ordered=self.kind is Kind.ORDERED)


@dataclass(frozen=True)
class Numbers(Attribute):
    """A column of numbers in a declared domain, on a grid of equal cells; other numbers count as the nearest end."""

    low: float
    high: float
    cells: int
    type: pa.DataType

    @property
    def values(self) -> int:
        return self.cells

    @property
    def is_whole(self) -> bool:
        """Whether the numbers are whole; so are the ends of cells."""
        return self.kind is not Kind.CONTINUOUS

    @property
    def ends(self) -> NDArray[np.float64]:
        """The lower end of each cell, and the upper end of the last."""
        if not self.is_whole:
            return np.linspace(self.low, self.high, self.cells + 1)
        width = -(-(self.high - self.low + 1.0) // self.cells)
        return np.minimum(self.low + width * np.arange(self.cells + 1), self.high + 1.0)

    def encode(self, table: Table) -> NDArray[np.int64]:
        numbers = table.numbers(self.name)
        places = np.searchsorted(self.ends, numbers, side="right") - 1
        return np.where(np.isnan(numbers), self.cells, np.clip(places, 0, self.cells - 1)).astype(np.int64)

    def decode(
        self, first: NDArray[np.int64], last: NDArray[np.int64], generator: np.random.Generator
    ) -> pa.Array:
        missing = first == self.cells
        inside = np.minimum(first, self.cells - 1)
        low, high = self.ends[inside], self.ends[np.minimum(last, self.cells - 1) + 1]
        drawn = low + (high - low) * generator.random(len(first))
        numbers = np.minimum(np.floor(drawn), high - 1.0) if self.is_whole else np.clip(drawn, low, high)
        return number_column(np.where(missing, np.nan, numbers), self.kind, self.type)


FALSE, TRUE = "false", "true"  # booleans as Arrow writes them


def attribute_of(column: Column, table: Table) -> Attribute:
    """Return the attribute of a column; raise if its domain is not declared."""
    cells = table.arrow.column(column.name)
    if pt.is_dictionary(cells.type):
        dictionary = cells.unify_dictionaries().chunk(0).dictionary if cells.num_chunks else pa.array([], pa.string())
        return _categories(column, tuple(dictionary.to_pylist()), ordered=cells.type.ordered)
    if pt.is_boolean(cells.type) or column.kind is Kind.BOOLEAN:
        return Categories(column.name, Kind.BOOLEAN, (FALSE, TRUE))
    if column.domain is None:
        raise CannotRelease(
            f"The domain of column {column.name!r} must be declared, so that it says nothing about the people.",
            found=f"type {cells.type}, without a domain or categories",
            fix="schema={...: {'role': 'quasi', 'domain': [0, 120]}} for numbers; a pandas Categorical, an Arrow "
            "dictionary or an order = [...] in the schema for categories; or the role identifier to leave it out",
        )
    return _numbers(column, cells.type)


def _categories(column: Column, words: tuple[str, ...], *, ordered: bool) -> Categories:
    if not 1 <= len(words) <= MOST_CATEGORIES:
        raise CannotRelease(
            f"Column {column.name!r} must have between 1 and {MOST_CATEGORIES:,} declared categories.",
            found=f"{len(words):,}",
            fix="fewer categories, or the role identifier to leave the column out",
        )
    return Categories(column.name, Kind.ORDERED if ordered else Kind.NOMINAL, words)


def _numbers(column: Column, type: pa.DataType) -> Numbers:
    assert column.domain is not None
    low, high = column.domain
    kind = Kind.DATE if pt.is_temporal(type) else Kind.WHOLE if pt.is_integer(type) else Kind.CONTINUOUS
    if kind is not Kind.CONTINUOUS:
        low, high = float(np.ceil(low)), float(np.floor(high))
        width = -(-(high - low + 1.0) // MOST_CELLS)
        cells = int(-(-(high - low + 1.0) // max(width, 1.0)))
    else:
        cells = MOST_CELLS if high > low else 1
    if cells < 1:
        raise CannotRelease(
            f"The domain of column {column.name!r} must contain a whole number.", found="none", fix="a wider domain"
        )
    return Numbers(column.name, kind, low, high, cells, type)
