"""Restoration of what a swap loses in single columns: distributions and shares; and the removal of copies.

The moments of the columns are restored in :mod:`sfumato.methods.spectral.moments`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.table.encoded_columns import NUMBER, NumberEncoding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.encoder import Encoder
    from sfumato.table.table import Table

Marginals = Literal["free", "restored"]
MARGINALS: tuple[Marginals, ...] = ("free", "restored")

COMMON = 5  # smallest number of people in a category whose share is restored
SHARE_ROUNDS = 50


def with_distribution(
    numbers: NDArray[np.float64], like: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return numbers with the same ranks whose values follow the distribution of ``like``.

    A value is interpolated between two neighbouring values of ``like``, so that few of them are released unchanged.
    Correlations of heavy-tailed columns become less accurate.
    """
    if not like.size:
        return numbers
    known = np.sort(like)
    rank = np.empty(len(numbers))
    rank[np.argsort(numbers, kind="stable")] = np.arange(len(numbers))
    share = (rank + generator.uniform(size=len(numbers))) / len(numbers)
    return np.interp(share * known.size - 0.5, np.arange(known.size), known)


def with_marginals(
    numbers: NDArray[np.float64],
    like: NDArray[np.float64],
    generator: np.random.Generator,
    *,
    is_atom: NDArray[np.bool_] | None = None,
    codes: Iterable[NumberEncoding] = (),
    only_mixtures: bool = False,
) -> NDArray[np.float64]:
    """Return numbers with the distributions of the columns of ``like``, or only those of columns with atoms.

    Rows that are an atom (``is_atom``, with the encodings ``codes`` of the columns) stay one.
    """
    restored = numbers.copy()
    atoms = [code.atoms for code in codes] or [()] * numbers.shape[1]
    for column, shared in enumerate(atoms):
        if only_mixtures and not shared:
            continue
        known = like[~np.isnan(like[:, column]) & ~np.isin(like[:, column], shared), column]
        rows = ~is_atom[:, column] if is_atom is not None else np.ones(len(numbers), dtype=bool)
        restored[rows, column] = with_distribution(numbers[rows, column], known, generator)
    return restored


def with_shares(
    changed: NDArray[np.float64], like: NDArray[np.float64], code: Encoder, *, only_mixtures: bool = False
) -> NDArray[np.float64]:
    """Return a matrix in which categories, atoms and missing numbers are as common as in ``like``.

    Each indicator is shifted by the same amount in all rows, so the rows nearest to a category get it. Categories of
    fewer than five people are left as they are, so that their number is not disclosed. With ``only_mixtures``, only the
    indicators of columns with atoms are shifted.
    """
    shared = changed.copy()
    for category in () if only_mixtures else code.categories:
        place = category.columns
        shared[:, place] += _offsets(changed[:, place], (like[:, place] > 0.0).sum(axis=0))
    for number in code.numbers:
        if number.atoms or (number.width > 1 and not only_mixtures):
            place = number.indicators
            counts = (like[:, place] > 0.0).sum(axis=0)
            states = np.column_stack([changed[:, place], np.zeros(len(changed))])  # the last state: a number
            offsets = _offsets(states, np.append(counts, len(like) - counts.sum()))
            shared[:, place] += offsets[:-1] - offsets[-1]
    return shared


def _offsets(scores: NDArray[np.float64], wanted: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return what to add to each column so that it is the largest in the wanted number of rows, column by column."""
    offsets = np.zeros(scores.shape[1])
    common = np.flatnonzero((wanted >= COMMON) & (wanted < len(scores)))
    for _ in range(SHARE_ROUNDS):
        if np.array_equal(
            np.bincount((scores + offsets).argmax(axis=1), minlength=len(wanted))[common], wanted[common]
        ):
            break
        for column in common:
            rivals = np.delete(scores + offsets, column, axis=1).max(axis=1)
            behind = np.sort(rivals - scores[:, column])
            offsets[column] = (behind[wanted[column] - 1] + behind[wanted[column]]) / 2.0
    return offsets


# Released rows that equal the row of somebody who is unique in the original, and how they are made different.
#
# A swap makes rows from the cells of many people, and a made row can be somebody's row by chance: above all a row of
# zeros and common categories in which one cell is rare. Such a row exchanges a random cell with another row until it
# is no copy. In a table of one column, or of columns that are multiples of each other, exchanges change nothing: the
# numbers of the row are averaged with those of another row. What is still a copy is replaced by another released row.


ATTEMPTS = 40  # rounds in which copies are changed
AVERAGE_FROM = 5  # round from which numbers are averaged, in every other round
REPLACE_FROM = 30  # round from which copies are replaced


@dataclass(frozen=True, repr=False)
class ExchangeableCells:
    """A table whose cells can be exchanged: its matrix, with the states and categories, and its numbers."""

    encoder: Encoder
    matrix: NDArray[np.float64]
    numbers: NDArray[np.float64]  # in their units

    @classmethod
    def of(cls, released: Table, numbers: NDArray[np.float64], encoder: Encoder) -> ExchangeableCells:
        """Take a released table apart; ``numbers`` have not been rounded."""
        return cls(encoder, encoder.encode(released), numbers)

    @property
    def table(self) -> Table:
        """The table that the cells represent."""
        return self.encoder.decode(self.matrix, numbers=self.numbers)

    def separate(self, copies: NDArray[np.int64], attempt: int, generator: np.random.Generator) -> ExchangeableCells:
        """Return cells in which these rows, which are copies, have been changed; later attempts change more."""
        if attempt >= REPLACE_FROM:
            return self.replace_rows(copies, generator)
        if attempt >= AVERAGE_FROM and attempt % 2:
            return self.average_numbers(copies, generator)
        return self.exchange_cells(copies, generator)

    def exchange_cells(self, rows: NDArray[np.int64], generator: np.random.Generator) -> ExchangeableCells:
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

    def average_numbers(self, rows: NDArray[np.int64], generator: np.random.Generator) -> ExchangeableCells:
        """Average the numbers of each of these rows with those of a random row, in the columns where both have one."""
        numbers, partners = self.numbers.copy(), generator.integers(len(self.matrix), size=len(rows))
        for place, number in enumerate(self.encoder.numbers):
            states = number.states(self.matrix)
            both = (states[rows] == NUMBER) & (states[partners] == NUMBER)
            numbers[rows[both], place] = (self.numbers[rows[both], place] + self.numbers[partners[both], place]) / 2.0
        return replace(self, numbers=numbers)

    def replace_rows(self, rows: NDArray[np.int64], generator: np.random.Generator) -> ExchangeableCells:
        """Put random other rows, which are no copies, in the place of these rows."""
        others = np.setdiff1d(np.arange(len(self.matrix)), rows)
        if not others.size:
            return self
        matrix, numbers, chosen = self.matrix.copy(), self.numbers.copy(), generator.choice(others, len(rows))
        matrix[rows], numbers[rows] = matrix[chosen], numbers[chosen]
        return replace(self, matrix=matrix, numbers=numbers)
