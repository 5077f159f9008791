"""Released rows that equal the row of somebody who is unique in the original, and how they are made different.

A swap makes rows from the cells of many people, and a made row can be somebody's row by chance: above all a row of
zeros and common categories in which one cell is rare. Such a row exchanges a random cell with another row until it is
no copy. In a table of one column, or of columns that are multiples of each other, exchanges change nothing: the
numbers of the row are averaged with those of another row. What is still a copy is replaced by another released row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.table.encoded_columns import NUMBER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.encoder import Encoder
    from sfumato.table.table import Table

ATTEMPTS = 40  # rounds in which copies are changed
AVERAGE_FROM = 5  # round from which numbers are averaged, in every other round
REPLACE_FROM = 30  # round from which copies are replaced


@dataclass(frozen=True, repr=False)
class Cells:
    """A table whose cells can be exchanged: its matrix, with the states and categories, and its numbers."""

    encoder: Encoder
    matrix: NDArray[np.float64]
    numbers: NDArray[np.float64]  # in their units

    @classmethod
    def of(cls, released: Table, numbers: NDArray[np.float64], encoder: Encoder) -> Cells:
        """Take a released table apart; ``numbers`` have not been rounded."""
        return cls(encoder, encoder.encode(released), numbers)

    @property
    def table(self) -> Table:
        """The table that the cells represent."""
        return self.encoder.decode(self.matrix, numbers=self.numbers)

    def separated(self, copies: NDArray[np.int64], attempt: int, generator: np.random.Generator) -> Cells:
        """Return cells in which these rows, which are copies, have been changed; later attempts change more."""
        if attempt >= REPLACE_FROM:
            return self.replaced(copies, generator)
        if attempt >= AVERAGE_FROM and attempt % 2:
            return self.averaged(copies, generator)
        return self.exchanged(copies, generator)

    def exchanged(self, rows: NDArray[np.int64], generator: np.random.Generator) -> Cells:
        """Let each of these rows exchange the cell of a random column with a random row."""
        matrix, numbers, names = self.matrix.copy(), self.numbers.copy(), self.encoder.names
        place_of = {number.name: place for place, number in enumerate(self.encoder.numbers)}
        columns = {name: self.encoder.columns(name) for name in names}
        chosen, partners = (
            generator.integers(len(names), size=len(rows)),
            generator.integers(len(matrix), size=len(rows)),
        )
        # one exchange after the other: a row can be the partner of several
        for row, partner, column in zip(rows, partners, chosen, strict=True):
            cells, place = columns[names[column]], place_of.get(names[column])
            matrix[np.ix_([row, partner], cells)] = matrix[np.ix_([partner, row], cells)]
            if place is not None:
                numbers[[row, partner], place] = numbers[[partner, row], place]
        return replace(self, matrix=matrix, numbers=numbers)

    def averaged(self, rows: NDArray[np.int64], generator: np.random.Generator) -> Cells:
        """Average the numbers of each of these rows with those of a random row, in the columns where both have one."""
        numbers, partners = self.numbers.copy(), generator.integers(len(self.matrix), size=len(rows))
        for place, number in enumerate(self.encoder.numbers):
            states = number.states(self.matrix)
            both = (states[rows] == NUMBER) & (states[partners] == NUMBER)
            numbers[rows[both], place] = (self.numbers[rows[both], place] + self.numbers[partners[both], place]) / 2.0
        return replace(self, numbers=numbers)

    def replaced(self, rows: NDArray[np.int64], generator: np.random.Generator) -> Cells:
        """Put random other rows, which are no copies, in the place of these rows."""
        others = np.setdiff1d(np.arange(len(self.matrix)), rows)
        if not others.size:
            return self
        matrix, numbers, chosen = self.matrix.copy(), self.numbers.copy(), generator.choice(others, len(rows))
        matrix[rows], numbers[rows] = matrix[chosen], numbers[chosen]
        return replace(self, matrix=matrix, numbers=numbers)
