"""Attributes: columns as codes of their domain, so that the codes say nothing about the people.

A number is on a grid of at most ``MOST_CELLS`` equal cells of its domain: of one whole number each where there are few
enough. The last code of every attribute stands for a missing value, whether one occurs or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from sfumato.errors import CannotRelease
from sfumato.methods.private_columns import CategoryDomain, NumberDomain
from sfumato.table.kinds import Kind, number_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.private_columns import Domain
    from sfumato.table.table import Table

MOST_CATEGORIES = 1024
MOST_CELLS = 1024  # of the grid of a number


class Attribute(Protocol):
    """A column with a domain; a missing value has the code ``values``."""

    @property
    def domain(self) -> Domain:
        """The domain, declared or found privately."""
        ...

    @property
    def values(self) -> int:
        """Number of codes, without that of a missing value."""
        ...

    def encode(self, table: Table) -> NDArray[np.int64]:
        """Return the code of each row."""
        ...

    def decode(self, first: NDArray[np.int64], last: NDArray[np.int64], generator: np.random.Generator) -> pa.Array:
        """Return one cell for each range of codes, ``first`` to ``last``; a range of ``values`` alone is missing."""
        ...


@dataclass(frozen=True)
class CategoryAttribute:
    """A column of categories; a category that is not in its domain counts as missing."""

    domain: CategoryDomain

    @property
    def values(self) -> int:
        return len(self.domain.categories)

    def encode(self, table: Table) -> NDArray[np.int64]:
        return self.domain.codes(table)

    def decode(self, first: NDArray[np.int64], last: NDArray[np.int64], generator: np.random.Generator) -> pa.Array:
        indices = pa.array(first, pa.int32(), mask=first == self.values)
        if self.domain.kind is Kind.BOOLEAN:
            return pa.array([False, True]).take(indices)
        words = pa.array(self.domain.categories, pa.string())
        return pa.DictionaryArray.from_arrays(indices, words, ordered=self.domain.kind is Kind.ORDERED)


@dataclass(frozen=True)
class GridAttribute:
    """A column of numbers on a grid of equal cells; a number outside its domain counts as the nearest end."""

    domain: NumberDomain
    cuts: tuple[float, ...] = ()  # ends of cells in addition, where a declared condition parts the numbers

    @property
    def is_whole(self) -> bool:
        """Whether the numbers are whole, or days; the ends of cells then are, too."""
        return self.domain.kind is not Kind.CONTINUOUS

    @property
    def values(self) -> int:
        return len(self.ends) - 1

    @property
    def ends(self) -> NDArray[np.float64]:
        """The lower end of each cell, and the upper end of the last; cells of whole numbers are half open."""
        ends = self._even_ends
        return np.union1d(ends, [cut for cut in self.cuts if ends[0] < cut < ends[-1]]) if self.cuts else ends

    @property
    def _even_ends(self) -> NDArray[np.float64]:
        low, high = self.domain.low, self.domain.high
        if not self.is_whole:
            return np.linspace(low, high, MOST_CELLS + 1) if high > low else np.array([low, high])
        low, high = np.ceil(low), np.floor(high) + 1.0
        width = max(1.0, -(-(high - low) // MOST_CELLS))
        return np.append(np.arange(low, high, width), high)

    def encode(self, table: Table) -> NDArray[np.int64]:
        numbers = self.domain.numbers(table)
        places = np.searchsorted(self.ends, numbers, side="right") - 1
        return np.where(np.isnan(numbers), self.values, np.clip(places, 0, self.values - 1)).astype(np.int64)

    def decode(self, first: NDArray[np.int64], last: NDArray[np.int64], generator: np.random.Generator) -> pa.Array:
        ends, missing = self.ends, first == self.values
        low = ends[np.minimum(first, self.values - 1)]
        high = ends[np.minimum(last, self.values - 1) + 1]
        unit = 10.0**self.decimals
        start, end = np.ceil(low * unit), np.ceil(high * unit)  # the first number of each range, and the one after it
        drawn = np.minimum(start + np.floor((end - start) * generator.random(len(first))), np.maximum(end - 1.0, start))
        numbers = np.clip(np.round(drawn / unit, self.decimals), self.domain.low, self.domain.high)
        return number_column(np.where(missing, np.nan, numbers), self.domain.kind, pa.date32())

    @property
    def decimals(self) -> int:
        """Decimal places of released numbers: a cell has at least ten of them, and no digits that mean nothing."""
        even = self._even_ends
        width = float(even[1] - even[0])
        if self.is_whole or width <= 0.0:
            return 0
        return int(np.clip(np.ceil(-np.log10(width / 10.0)), 0, 15))


def attribute_of(domain: Domain, cuts: tuple[float, ...] = ()) -> Attribute:
    """Return the attribute of a domain, its numbers parted at ``cuts``; raise if it has no number or too many names."""
    if isinstance(domain, NumberDomain):
        attribute = GridAttribute(domain, cuts)
        if attribute.values < 1:
            raise CannotRelease(
                f"The domain of column {domain.name!r} must contain a whole number.", fix="a wider domain"
            )
        return attribute
    if len(domain.categories) > MOST_CATEGORIES:
        raise CannotRelease(
            f"Column {domain.name!r} must have at most {MOST_CATEGORIES:,} categories.",
            found=f"{len(domain.categories):,} declared",
            fix="fewer categories, or the role identifier to leave the column out",
        )
    return CategoryAttribute(domain)
