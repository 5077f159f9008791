"""Encode mixed columns as a numeric matrix, and decode the matrix (TL §2, §4.2.1).

A number is standardised, after a logarithm if the column is positive and skewed. A category becomes one indicator per
value: +1 for the value of the row and −1 for the others; if wanted, the branches of its tree have indicators as well.
A missing number is encoded as the mean, and an extra indicator column marks it; so are, if wanted, values that many
rows share. A missing category is one more category. Cells that were not changed in the matrix decode to their original
values.

A spectral method mixes rows of the matrix, so a mixed row must be decoded to the nearest valid record: the category
with the largest indicator (or a random one, weighted by the indicators), whole numbers rounded, dates as dates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.errors import TableError
from sfumato.params import require_choice
from sfumato.table.encoded_columns import (
    CategoryEncoding,
    Logs,
    NumberEncoding,
    category_values,
    finite_numbers,
    number_encoding,
    shares_of,
)
from sfumato.table.facts import ColumnFacts
from sfumato.table.kinds import Kind
from sfumato.table.table import Table


@dataclass(frozen=True, repr=False)
class Encoder:
    """A mapping between the columns of a table and those of a matrix.

    It is fitted on one table and can be used for other tables with the same columns.
    """

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
        atoms: bool = False,
        branches: Mapping[str, NDArray[np.bool_]] | None = None,
    ) -> Encoder:
        """Fit centres, scales and categories.

        ``logs="auto"`` log-transforms columns that are positive and skewed (skewness above 1) if that reduces the
        skewness; a tuple names the columns to transform. With ``categories_at_most``, only the most common categories
        of a column get an indicator. If the table is a sample, ``categories`` and ``facts`` describe the whole table:
        the values of categorical columns, and the extremes and missing cells of numeric columns. With ``atoms``, values
        that many rows of a numeric column share, such as zeros, get an indicator of their own.
        ``branches`` are those of the trees of some columns: for each branch, which of the ``categories`` are in it.
        """
        require_logs(logs)
        table.require(logs if isinstance(logs, tuple) else ())
        _require_no_text(table)
        number_encodings, category_encodings, width = [], [], 0
        for name in table.names:
            if table.kinds[name].is_numeric:
                number = number_encoding(
                    table, name, position=width, logs=logs, facts=(facts or {}).get(name), atoms=atoms
                )
                number_encodings.append(number)
                width += number.width
            else:
                values = (categories or {}).get(name)
                values = category_values(table, name, categories_at_most) if values is None else values
                category = CategoryEncoding(
                    name=name,
                    kind=table.kinds[name],
                    start=width,
                    values=values,
                    branches=(branches or {}).get(name),
                )
                category_encodings.append(category)
                width += category.width
        return cls(table.names, tuple(number_encodings), tuple(category_encodings))

    @property
    def width(self) -> int:
        """Number of columns of the matrix."""
        return sum(number.width for number in self.numbers) + sum(code.width for code in self.categories)

    @property
    def logged(self) -> tuple[str, ...]:
        """Names of the columns that are log-transformed."""
        return tuple(number.name for number in self.numbers if number.logged)

    def columns(self, name: str) -> NDArray[np.int64]:
        """Return the columns of the matrix that represent one column of the table."""
        for category in self.categories:
            if category.name == name:
                return np.arange(category.start, category.start + category.width)
        number = next(number for number in self.numbers if number.name == name)
        return np.arange(number.position, number.position + number.width)

    def part(self, names: Sequence[str]) -> Encoder:
        """Return the encoder of some of the columns, whose matrix has only their columns."""
        chosen, width = frozenset(names), 0
        numbers, categories = [], []
        for number in self.numbers:
            if number.name in chosen:
                missing = None if number.missing is None else number.missing - number.position + width
                numbers.append(replace(number, position=width, missing=missing))
                width += number.width
        for category in self.categories:
            if category.name in chosen:
                categories.append(replace(category, start=width))
                width += category.width
        return Encoder(tuple(names), tuple(numbers), tuple(categories))

    def encode(self, table: Table) -> NDArray[np.float64]:
        """Return the matrix, with one row per record."""
        matrix = np.empty((table.rows, self.width))
        for number in self.numbers:
            number.encode(matrix, finite_numbers(table, number.name))
        for category in self.categories:
            category.encode(matrix, table)
        return matrix

    def natural(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the numeric columns in their own units, neither rounded nor clipped."""
        numbers = np.empty((len(matrix), len(self.numbers)))
        for position, number in enumerate(self.numbers):
            numbers[:, position] = number.natural(matrix)
        return numbers

    def decode(
        self,
        matrix: NDArray[np.float64],
        *,
        numbers: NDArray[np.float64] | None = None,
        generator: np.random.Generator | None = None,
        shares: Callable[[NDArray[np.float64]], NDArray[np.float64]] = shares_of,
    ) -> Table:
        """Return the table that a matrix represents, with the columns, types and kinds of the fitted table.

        ``numbers`` replaces the result of :meth:`natural` if a method has changed it. With a ``generator``, each
        category is drawn with the probabilities that ``shares`` computes from the indicators; without one, the largest
        indicator decides.
        """
        natural = self.natural(matrix) if numbers is None else numbers
        columns = {n.name: n.decode(matrix, natural[:, place]) for place, n in enumerate(self.numbers)}
        columns |= {
            category.name: category.largest(matrix) if generator is None else category.sample(matrix, generator, shares)
            for category in self.categories
        }
        kinds = {number.name: number.kind for number in self.numbers}
        kinds |= {category.name: category.kind for category in self.categories}
        return Table(pa.table({name: columns[name] for name in self.names}), {name: kinds[name] for name in self.names})


def require_logs(logs: Logs) -> None:
    """Raise unless ``logs`` is "auto", "never" or a tuple of column names."""
    if not (isinstance(logs, tuple) and all(isinstance(name, str) for name in logs)):
        require_choice(logs, name="logs", choices=("auto", "never"))


def _require_no_text(table: Table) -> None:
    text = [name for name, kind in table.kinds.items() if kind is Kind.TEXT]
    if text:
        raise TableError(
            "Columns of free text cannot be encoded as numbers.",
            found=", ".join(map(repr, text)),
            fix="give them the role 'identifier', or remove them",
        )
