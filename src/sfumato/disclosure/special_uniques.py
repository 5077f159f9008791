"""Special uniques: rows that few columns already single out (SUDA; Elliot, Manning and Ford 2002).

A set of columns is a minimal sample unique (MSU) of a row if the row is unique in these columns, and not unique in
any smaller set of them. Rows with many and small MSUs are more likely to be unique in the population, too, and
therefore at a higher risk. A row that is unique in some columns is unique in more columns, so only rows that are
unique in all columns have MSUs, and a row that is unique in a set needs not be looked at in larger sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.disclosure.uniqueness import require_columns
from sfumato.errors import OptionError
from sfumato.params import require_int, require_probability
from sfumato.table.frames import as_table
from sfumato.table.groups import group_labels, refine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Coded

MOST_SETS = 20_000  # column sets that are looked at


@dataclass(frozen=True, kw_only=True, eq=False)
class SpecialUniques:
    """Which rows are singled out by few columns, returned by :func:`sfumato.special_uniques`.

    Attributes
    ----------
    columns : tuple of str
        The quasi-identifiers.
    rows : int
        Rows of the table.
    unique_rows : int
        Rows that are unique in all columns together.
    sets_by_size : tuple of int
        Number of minimal sample uniques of 1, 2, … columns, over all rows.
    contributions : mapping of str to float
        For each column, the share of the total score that is due to minimal sample uniques with this column.
    sampling_fraction : float
        Share of the population that is in the table, which ``dis_scores`` assume.
    scores : array of float, shape (rows,)
        SUDA score of each row: the sum of (m − s)! over its minimal sample uniques, where s is their size and m the
        number of columns; 0 for a row that is not unique. Not shown by ``repr``, like the following one.
    dis_scores : array of float, shape (rows,)
        DIS-SUDA score of each row: the probability that a match with this row is correct, from 0 to 1.
    """

    columns: tuple[str, ...]
    rows: int
    unique_rows: int
    sets_by_size: tuple[int, ...]
    contributions: Mapping[str, float]
    sampling_fraction: float
    scores: NDArray[np.float64] = field(repr=False)
    dis_scores: NDArray[np.float64] = field(repr=False)


def special_uniques(
    table: Any, columns: Sequence[str], *, max_size: int | None = None, sampling_fraction: float = 0.01
) -> SpecialUniques:
    """Score rows by how few columns single them out (SUDA), as sdcMicro's ``suda2`` does.

    Parameters
    ----------
    table : Table, path or data frame
        The table, a sample of a population.
    columns : sequence of str
        The quasi-identifiers. A missing value is a value of its own.
    max_size : int, optional
        Largest number of columns in a minimal sample unique. Default: all columns, up to 14 of them.
    sampling_fraction : float, default 0.01
        Share of the population that is in the table, between 0 and 1, for the DIS-SUDA scores.

    Returns
    -------
    SpecialUniques
        The scores of all rows, and which columns contribute to them.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"sex": ["f", "f", "m", "m"], "age": [30, 30, 30, 90], "town": ["a", "a", "a", "b"]}
    >>> uniques = sf.special_uniques(people, ["sex", "age", "town"])
    >>> uniques.scores.tolist()  # the last row: age alone and town alone; the third: sex and age, sex and town
    [0.0, 0.0, 2.0, 4.0]
    >>> uniques.sets_by_size
    (2, 2, 0)
    """
    table = as_table(table)
    names = require_columns(table.kinds, table.rows, columns)
    m = len(names)
    largest = m if max_size is None else min(m, require_int(max_size, name="max_size", at_least=1))
    fraction = require_probability(sampling_fraction, name="sampling_fraction")
    _require_few_sets(m, largest)
    sizes = np.bincount(labels := group_labels(table, names))
    scores, by_column, by_size = np.zeros(table.rows), np.zeros(m), [0] * largest
    is_unique = sizes[labels] == 1
    for members, row in _minimal_uniques([table.coded(name) for name in names], is_unique, largest):
        worth = float(math.factorial(m - len(members)))
        scores[row] += worth
        by_size[len(members) - 1] += len(row)
        by_column[list(members)] += worth * len(row)
    total = float(scores.sum())
    return SpecialUniques(
        columns=names,
        rows=table.rows,
        unique_rows=int(is_unique.sum()),
        sets_by_size=tuple(by_size),
        contributions={name: float(by_column[place] / total) if total else 0.0 for place, name in enumerate(names)},
        sampling_fraction=fraction,
        scores=scores,
        dis_scores=dis_suda(scores, m, int((sizes == 1).sum()), 2 * int((sizes == 2).sum()), fraction),
    )


def dis_suda(
    scores: NDArray[np.float64], columns: int, uniques: int, paired: int, fraction: float
) -> NDArray[np.float64]:
    """Return the DIS-SUDA scores of rows with these SUDA scores (Elliot and Manning 2003, as computed by sdcMicro).

    An intruder's match with a unique row is correct with probability D = U f / (U f + P (1 − f)) on average, given U
    unique rows, P rows that are equal to just one other, and the sampling fraction f (Skinner and Elliot 2002). It is
    distributed over the rows by their scores x: 1 / (1 + (U/D − U) / (x^q Σ x^−q)), with q = 1 + (8 − columns)/20.

    Examples
    --------
    >>> import numpy as np
    >>> dis_suda(np.array([0.0, 2.0, 2.0]), columns=8, uniques=2, paired=2, fraction=0.5).tolist()  # D = ½
    [0.0, 0.5, 0.5]
    """
    scores_of_rows = np.zeros(len(scores))
    scored = scores > 0.0
    if not scored.any():
        return scores_of_rows
    power = scores[scored] ** (1.0 + (8 - columns) / 20.0)
    correct = uniques * fraction / (uniques * fraction + paired * (1.0 - fraction))
    scores_of_rows[scored] = 1.0 / (1.0 + (uniques / correct - uniques) / (power * (1.0 / power).sum()))
    return scores_of_rows


def _minimal_uniques(
    coded: Sequence[Coded], is_unique: NDArray[np.bool_], largest: int
) -> Iterator[tuple[tuple[int, ...], NDArray[np.int64]]]:
    """Yield sets of columns and the rows of which they are minimal sample uniques; each set after its subsets.

    The rows that are still in question are kept with each set: those whose group contains a row that is unique in all
    columns, and that are not unique in the set itself.
    """
    everything = np.arange(len(is_unique))
    alive: dict[tuple[int, ...], tuple[NDArray[np.int64], NDArray[np.int64]]] = {
        (): (everything, np.zeros(len(everything), dtype=np.int64))
    }
    alone: dict[tuple[int, ...], NDArray[np.bool_]] = {(): np.zeros(len(is_unique), dtype=bool)}
    for size in range(1, largest + 1):
        before, lonely = alive, alone
        alive, alone = {}, {}
        for parent, (rows, labels) in before.items():
            for column in range(parent[-1] + 1 if parent else 0, len(coded)):
                members = (*parent, column)
                known = [members[:place] + members[place + 1 :] for place in range(size)]
                if any(one not in lonely for one in known):
                    continue  # a subset singles out all candidates already
                refined = refine(labels, coded[column].codes[rows], coded[column].size)
                counts = np.bincount(refined)
                single = rows[counts[refined] == 1]
                single = single[is_unique[single]]
                earlier = np.logical_or.reduce([lonely[one] for one in known])
                new = single[~earlier[single]]
                if len(new):
                    yield members, new
                earlier[single] = True
                if size < largest and (earlier < is_unique).any():
                    asked = np.bincount(refined, weights=is_unique[rows]) > 0
                    kept = (counts[refined] > 1) & asked[refined]
                    alive[members], alone[members] = (rows[kept], refined[kept]), earlier


def _require_few_sets(columns: int, largest: int) -> None:
    sets = sum(math.comb(columns, size) for size in range(1, largest + 1))
    if sets > MOST_SETS:
        raise OptionError(
            f"At most {MOST_SETS:,} sets of columns can be searched.",
            found=f"{sets:,} sets of up to {largest} of {columns} columns",
            fix="a smaller max_size, or fewer columns",
        )
