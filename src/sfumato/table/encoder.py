"""Mixed columns as a matrix of numbers, and back (TL §2, §4.2.1).

A number is standardised, after a logarithm where the column is positive and skewed. A category becomes one indicator
for each of its values, +1 for the value that holds and −1 for the others. A missing number takes the mean inside the
matrix and says so in an indicator of its own; a missing category is one more category. Nothing that was not changed in
the matrix comes back changed.

Rows of numbers and not of people are what a spectral method mixes, so a mixed row must be read as the nearest valid
person: the category of the largest indicator (or one drawn by the indicators), whole numbers rounded, days as days.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.errors import TableError
from sfumato.params import require_choice
from sfumato.table.encoded_columns import (
    CategoryEncoding,
    Logs,
    NumberEncoding,
    category_values,
    finite,
    number_encoding,
    shares_of,
)
from sfumato.table.facts import ColumnFacts
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, repr=False)
class Encoder:
    """Columns of a table ↔ columns of a matrix, learnt from one table and usable on others with the same columns."""

    names: tuple[str, ...]
    numbers: tuple[NumberEncoding, ...]
    categories: tuple[CategoryEncoding, ...]

    @classmethod
    def fit(
        cls,
        table: Table,
        *,
        logs: Logs = "auto",
        categories_at_most: int | None = None,
        categories: Mapping[str, pa.Array] | None = None,
        facts: Mapping[str, ColumnFacts] | None = None,
    ) -> Encoder:
        """Learn centres, scales and categories.

        ``logs="auto"`` takes logarithms of columns that are positive and skewed (skewness above 1) and less so in
        logarithms; a tuple names the columns to take them of. With ``categories_at_most`` only the most common
        categories of a column get an indicator. Where the table is a sample, ``categories`` and ``facts`` say what
        the whole holds: the values of columns of categories, and the ends and missing cells of columns of numbers.
        """
        require_logs(logs)
        table.require(logs if isinstance(logs, tuple) else ())
        _require_codable(table)
        number_codes, category_codes, width = [], [], 0
        for name in table.names:
            if table.kinds[name].is_numeric:
                number = number_encoding(table, name, position=width, logs=logs, facts=(facts or {}).get(name))
                number_codes.append(number)
                width += 1 if number.missing is None else 2
            else:
                values = (categories or {}).get(name)
                values = category_values(table, name, categories_at_most) if values is None else values
                category_codes.append(CategoryEncoding(name=name, kind=table.kinds[name], start=width, values=values))
                width += len(values)
        return cls(table.names, tuple(number_codes), tuple(category_codes))

    @property
    def width(self) -> int:
        """Number of columns of the matrix."""
        return sum(1 if number.missing is None else 2 for number in self.numbers) + sum(
            len(category.values) for category in self.categories
        )

    @property
    def logged(self) -> tuple[str, ...]:
        """Names of the columns that are taken in logarithms."""
        return tuple(number.name for number in self.numbers if number.logged)

    def columns(self, name: str) -> NDArray[np.int64]:
        """The columns of the matrix that stand for one column of the table."""
        for category in self.categories:
            if category.name == name:
                return np.arange(category.columns.start, category.columns.stop)
        number = next(number for number in self.numbers if number.name == name)
        return np.array([number.position] if number.missing is None else [number.position, number.missing])

    def encode(self, table: Table) -> NDArray[np.float64]:
        """The matrix: one row a person."""
        matrix = np.empty((table.rows, self.width))
        for number in self.numbers:
            number.encode(matrix, finite(table, number.name))
        for category in self.categories:
            category.encode(matrix, table)
        return matrix

    def natural(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """The columns of numbers alone, in their own units, neither rounded nor held in limits."""
        numbers = np.empty((len(matrix), len(self.numbers)))
        for position, number in enumerate(self.numbers):
            numbers[:, position] = number.natural(matrix)
        return numbers

    def decode(
        self,
        matrix: NDArray[np.float64],
        *,
        numbers: NDArray[np.float64] | None = None,
        draw: np.random.Generator | None = None,
        shares: Callable[[NDArray[np.float64]], NDArray[np.float64]] = shares_of,
    ) -> Table:
        """The table that a matrix stands for, with the columns, types and kinds of the one the code was learnt from.

        ``numbers`` stands in for :meth:`natural` where a method has worked on them; with ``draw`` a category is drawn
        in the shares that ``shares`` reads from the indicators, instead of taken by the largest.
        """
        natural = self.natural(matrix) if numbers is None else numbers
        columns = {n.name: n.decode(matrix, natural[:, place]) for place, n in enumerate(self.numbers)}
        columns |= {
            category.name: category.largest(matrix) if draw is None else category.drawn(matrix, draw, shares)
            for category in self.categories
        }
        kinds = {number.name: number.kind for number in self.numbers}
        kinds |= {category.name: category.kind for category in self.categories}
        return Table(pa.table({name: columns[name] for name in self.names}), {name: kinds[name] for name in self.names})


def require_logs(logs: Logs) -> None:
    """Raise unless ``logs`` is "auto", "never" or names of columns."""
    if not (isinstance(logs, tuple) and all(isinstance(name, str) for name in logs)):
        require_choice(logs, name="logs", choices=("auto", "never"))


def _require_codable(table: Table) -> None:
    text = [name for name, kind in table.kinds.items() if kind is Kind.TEXT]
    if text:
        raise TableError(
            "Columns of free text cannot be turned into numbers.",
            found=", ".join(map(repr, text)),
            fix="give them the role 'identifier', or leave them out",
        )
