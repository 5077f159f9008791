"""Suppress more cells than necessary, so that the reasons for a suppression cannot be guessed.

If no cell is suppressed without need, a row without a value cannot have one that k rows show together with everything
else that it shows: it would be equal to them. Two steps make this reasoning wrong. Each group with suppressed cells
gets company: at least as many rows that need no suppression and show the same otherwise, if there are so many. And
some groups lose one more column, whether they have suppressed cells or not. All groups keep at least k rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.table.groups import group_labels
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray


def with_more_suppressed(
    codes: NDArray[np.int64], hidden: NDArray[np.bool_], k: int, extra: float, generator: np.random.Generator
) -> NDArray[np.bool_]:
    """Return which cells are suppressed, of those that had to be (``hidden``) and of more.

    ``codes`` are the cells, shape (rows, columns), as whole numbers from 0; ``extra`` is the probability that one more
    column of a group is suppressed.
    """
    found = hidden.copy()
    _give_company(codes, found, k, generator)
    _suppress_columns(codes, found, k, extra, generator)
    return found


def _groups(
    codes: NDArray[np.int64], hidden: NDArray[np.bool_], generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return the rows of each group of rows that look alike, in random order."""
    cells = pa.table({str(place): np.where(hidden[:, place], -1, codes[:, place]) for place in range(codes.shape[1])})
    labels = group_labels(Table.from_arrow(cells), tuple(cells.column_names))
    order = generator.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    return np.split(order, np.cumsum(np.bincount(labels))[:-1])


def _give_company(codes: NDArray[np.int64], hidden: NDArray[np.bool_], k: int, generator: np.random.Generator) -> None:
    """Let as many rows that show more join each group with suppressed cells; those that are left are none or k."""
    groups = _groups(codes, hidden, generator)
    for group, donors in _donors(codes, hidden, [rows[0] for rows in groups]):
        rows, missing = groups[group], len(groups[group])
        for donor in generator.permutation(donors) if missing >= k else ():
            given = groups[donor]
            few = len(given) if len(given) < 2 * k else min(missing, len(given) - k)
            groups[donor], rows, missing = given[few:], np.append(rows, given[:few]), missing - few
            hidden[given[:few]] = hidden[groups[group][0]]
            if missing <= 0:
                break
        groups[group] = rows


def _donors(
    codes: NDArray[np.int64], hidden: NDArray[np.bool_], first: list[np.int64]
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each group with suppressed cells, and the groups that show the same and more.

    ``first`` is a row of each group.
    """
    shown, cells = ~hidden[first], codes[first]
    for pattern in np.unique(shown[~shown.all(axis=1)], axis=0):
        takers = np.flatnonzero((shown == pattern).all(axis=1))
        givers = np.flatnonzero((shown >= pattern).all(axis=1) & (shown != pattern).any(axis=1))
        both = np.concatenate([takers, givers])
        labels = np.unique(cells[both][:, pattern], axis=0, return_inverse=True)[1].ravel()
        mine, theirs = labels[: len(takers)], labels[len(takers) :]
        order = np.argsort(theirs, kind="stable")
        starts, ends = (np.searchsorted(theirs[order], mine, side=side) for side in ("left", "right"))
        for group, start, end in zip(takers, starts, ends, strict=True):
            if end > start:
                yield int(group), givers[order[start:end]]


def _suppress_columns(
    codes: NDArray[np.int64], hidden: NDArray[np.bool_], k: int, extra: float, generator: np.random.Generator
) -> None:
    """Suppress one more column in some groups, for all of their rows or for at least k of them.

    At least k rows, or none, stay as they were, so that both parts are groups of at least k rows.
    """
    for rows in _groups(codes, hidden, generator):
        shown = np.flatnonzero(~hidden[rows[0]])
        if generator.random() < extra and len(shown):
            few = len(rows) if len(rows) < 2 * k else int(generator.integers(k, len(rows) - k + 1))
            hidden[rows[:few], generator.choice(shown)] = True
