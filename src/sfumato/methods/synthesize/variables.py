"""The variables that a model of a table describes, how values are drawn, and how they become rows of a matrix.

A column of categories is one variable of codes. A numeric column is one variable of numbers; if some rows have an
atom or no value (:mod:`sfumato.table.encoded_columns`), a variable of codes before it tells which: code 0 is a
number. Missing values are therefore drawn like any other code, and their pattern over the columns is part of the
model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.table.encoded_columns import NUMBER, CategoryEncoding, NumberEncoding
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.encoder import Encoder

Drawn = list["NDArray[Any]"]  # one array per variable: whole numbers for codes, floats for numbers
CELLS = 8  # per root of the number of rows, over all variables
FEWEST = 40  # cells of a variable, however many variables there are
SHARED = 4  # times as many cells are allowed if all variables use the same groups, which depend less on each value
Sampler = Callable[[int, np.random.Generator], Drawn]  # draws this many rows


@dataclass(frozen=True, repr=False)
class Codes:
    """A variable of codes from 0 to ``size`` − 1: categories, or the state of a numeric column."""

    values: NDArray[np.int64]
    size: int
    ordered: bool  # whether the order of the codes means something
    column: CategoryEncoding | NumberEncoding

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of the rows that have each code."""
        return np.bincount(self.values, minlength=self.size) / max(1, len(self.values))


@dataclass(frozen=True, repr=False)
class Numbers:
    """A variable of numbers, in the unit of the matrix; rows that have none contain a drawn one."""

    values: NDArray[np.float64]
    known: NDArray[np.bool_]  # rows that have a number
    low: float  # range of the numbers that may be released
    high: float
    state: int | None  # position of the variable that tells which rows have a number; None if all have one
    column: NumberEncoding


Variable = Codes | Numbers


@dataclass(frozen=True, repr=False)
class Problem:
    """What a model is fitted to: the variables of a block, and the options that models use."""

    variables: tuple[Variable, ...]
    k: int  # smallest number of rows in a leaf, a bin or a cluster
    order: int  # number of columns that are considered together
    repeated: float = 1.0  # how often a row occurs, averaged over rows
    kept: tuple[NDArray[Any], ...] = ()  # values of the first variables in the drawn rows; the others are drawn

    @property
    def rows(self) -> int:
        """Number of rows of the block."""
        return len(self.variables[0].values)

    @property
    def cells(self) -> int:
        """Largest number of cells, of groups of rows times values, from which one variable is drawn.

        A person adds one row to a cell of every variable, or ``repeated`` ones, which makes the own row likelier than
        that of somebody else by about (cells of all variables) × repeated ÷ rows. With a number of cells that grows
        with √rows this is less than what chance hides, however many rows there are.
        """
        return max(FEWEST, int(CELLS * np.sqrt(self.rows) / (len(self.variables) * self.repeated)))

    @property
    def clusters(self) -> int:
        """Largest number of groups of rows that all variables share."""
        numbers = sum(isinstance(one, Numbers) for one in self.variables)
        codes = sum(effective_values(one.values) for one in self.variables if isinstance(one, Codes))
        moments = numbers * (2.0 + numbers / 2.0)  # means, variances and covariances
        return max(1, int(SHARED * self.cells * len(self.variables) / (codes + moments)))

    def resample(self, generator: np.random.Generator) -> Problem:
        """Return the problem with as many rows drawn with replacement, as an approximate draw of its parameters."""
        rows = generator.integers(self.rows, size=self.rows)
        drawn = tuple(_of_rows(variable, rows) for variable in self.variables)
        # the mean of m² is 2 for a Poisson number m of mean 1
        return Problem(drawn, self.k, self.order, repeated=2.0, kept=self.kept)


def own_values(variable: Variable) -> NDArray[Any]:
    """Return the values of a variable; a row without a number has 0, as it has where it is synthetic."""
    return np.where(variable.known, variable.values, 0.0) if isinstance(variable, Numbers) else variable.values


def effective_values(codes: NDArray[np.int64]) -> float:
    """Return how many equally common codes have the same entropy."""
    counts = np.unique(codes, return_counts=True)[1]
    return float(np.exp(np.log(len(codes)) - counts @ np.log(counts) / len(codes)))


def _of_rows(variable: Variable, rows: NDArray[np.int64]) -> Variable:
    if isinstance(variable, Codes):
        return Codes(variable.values[rows], variable.size, variable.ordered, variable.column)
    return Numbers(
        variable.values[rows], variable.known[rows], variable.low, variable.high, variable.state, variable.column
    )


def variables_of(
    matrix: NDArray[np.float64], filled: NDArray[np.float64], encoder: Encoder, limits: NDArray[np.float64]
) -> tuple[Variable, ...]:
    """Return the variables of a matrix in the order of the table's columns.

    ``filled`` is the matrix with a drawn number in rows that have none, and ``limits`` are the lowest and the highest
    number of each numeric column that may be released, in its unit.
    """
    numbers = {number.name: place for place, number in enumerate(encoder.numbers)}
    categories = {category.name: category for category in encoder.categories}
    variables: list[Variable] = []
    for name in encoder.names:
        if name in categories:
            category = categories[name]
            codes = matrix[:, category.columns].argmax(axis=1)
            variables.append(Codes(codes, len(category.values), category.kind is Kind.ORDERED, category))
            continue
        number, place = encoder.numbers[numbers[name]], numbers[name]
        states, state = number.states(matrix), None
        if number.width > 1:
            state = len(variables)
            variables.append(Codes(states + 1, number.width, False, number))
        low, high = (_scale(number, float(end)) for end in limits[place])
        variables.append(Numbers(filled[:, number.position], states == NUMBER, low, high, state, number))
    return tuple(variables)


def _scale(number: NumberEncoding, end: float) -> float:
    """Return the end of a range in the unit of the matrix."""
    if number.logged:
        end = float(np.log(end)) if end > 0.0 else -np.inf
    return (end - number.centre) / number.scale


def matrix_of(drawn: Sequence[NDArray[Any]], variables: Sequence[Variable], width: int) -> NDArray[np.float64]:
    """Return drawn values as the matrix that the encoder decodes."""
    rows = np.arange(len(drawn[0]))
    matrix = np.full((len(rows), width), -1.0)
    for values, variable in zip(drawn, variables, strict=True):
        if isinstance(variable, Numbers):
            matrix[:, variable.column.position] = np.clip(values, variable.low, variable.high)
        elif isinstance(variable.column, NumberEncoding):
            has_state = values > 0  # code 0 is a number, which has no indicator
            matrix[rows[has_state], variable.column.indicators.start + values[has_state] - 1] = 1.0
        else:
            matrix[rows, variable.column.columns.start + values] = 1.0
    return matrix


@dataclass(frozen=True, repr=False)
class Donors:
    """The values of each group in increasing order, one group after the other."""

    values: NDArray[Any]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, values: NDArray[Any], groups: NDArray[np.int64], count: int) -> Donors:
        """Sort the values of ``count`` groups, numbered from 0."""
        order = np.lexsort((values, groups))
        sizes = np.bincount(groups, minlength=count)
        return cls(values[order], np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)

    def codes(self, groups: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
        """Return the value of a random row of each group; every group must have rows."""
        chosen = self.starts[groups] + (generator.random(len(groups)) * self.sizes[groups]).astype(np.int64)
        return np.asarray(self.values[chosen])

    def numbers(self, groups: NDArray[np.int64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the quantiles at these shares, from 0 to 1, of each group; every group must have rows.

        The quantile function is linear between neighbouring numbers. Below the lowest and above the highest it turns
        back, so that the ends are not drawn more often than other numbers. Numbers that many rows share stay as they
        are, and the mean of a group is nearly kept.
        """
        sizes = self.sizes[groups]
        position = np.abs(shares * sizes - 0.5)
        position = np.minimum(position, 2.0 * (sizes - 1) - position).clip(0.0)
        below = position.astype(np.int64)
        above = np.minimum(below + 1, sizes - 1)
        lower, upper = self.values[self.starts[groups] + below], self.values[self.starts[groups] + above]
        return np.asarray(lower + (position - below) * (upper - lower))


def average_neighbours(values: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Return each number as the mean of k neighbours in order, unless k rows share it; ties get one number.

    The numbers of a whole column lie close together, so a quantile function through each of them would show where its
    people are: a drawn number would be the number of a member more often than that of somebody else.
    """
    width = min(k, len(values))
    if width < 2:
        return values
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    windows = np.lib.stride_tricks.sliding_window_view(ordered, width)
    means = np.einsum("ij,j->i", windows, np.full(width, 1.0 / width)).clip(windows[:, 0], windows[:, -1])
    below, above = (np.searchsorted(ordered, ordered, side) for side in ("left", "right"))
    middle = (below + above - 1) // 2
    means = means[(middle - (width - 1) // 2).clip(0, len(means) - 1)]
    averaged = np.empty_like(ordered)
    averaged[order] = np.where(above - below >= k, ordered, means)
    return averaged
