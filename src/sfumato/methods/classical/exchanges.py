"""Permutations of the rows of one column: within groups, between near ranks, and between subsets of equal ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.classical.ranks import sorted_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]


def within_groups(groups: Rows, share: float, generator: np.random.Generator) -> Rows:
    """Return the row from which each row gets its cell: another row of the same group, if one takes part.

    A random ``share`` of the rows takes part. Those of a group are put in random order, and each gets the cell of the
    next one, so that none keeps its own.
    """
    source = np.arange(len(groups))
    taking = np.flatnonzero(generator.random(len(groups)) < share) if share < 1.0 else source.copy()
    if not taking.size:
        return source
    order = taking[sorted_rows(groups[taking], generator)]
    label = groups[order]
    first = np.flatnonzero(np.diff(label, prepend=label[0] - 1))
    last = np.append(first[1:], len(order)) - 1
    following = np.roll(order, -1)
    following[last] = order[first]
    source[order] = following
    return source


def between_near_ranks(codes: NDArray[np.integer], window: int, share: float, generator: np.random.Generator) -> Rows:
    """Return the row from which each row gets its cell: one whose rank is at most ``window`` away (Moore 1996).

    Of the pairs of ranks, a random ``share`` exchanges cells.
    """
    from sfumato.kernels.rank_swaps import rank_partners

    source, rank = np.arange(len(codes)), np.arange(len(codes))
    order = sorted_rows(codes, generator)
    partner = rank_partners(generator.random(len(codes)), window)
    taking = (generator.random(len(codes)) < share)[np.minimum(rank, partner)]
    source[order] = order[np.where(taking, partner, rank)]
    return source


def random_subsets(rows: int, subsets: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return a random subset of each row, all of the same size; up to ``subsets`` − 1 rows are in none (−1)."""
    size = rows // subsets
    labels = np.full(rows, -1)
    labels[generator.permutation(rows)[: size * subsets]] = np.repeat(np.arange(subsets), size)
    return labels


def between_subsets(codes: NDArray[np.integer], subsets: Rows, generator: np.random.Generator) -> Rows:
    """Return the row from which each row gets its cell: the one of the same rank in the next subset.

    (Carlson and Salabasis 2002.) A row that is in no subset exchanges its cell with the row of the next higher rank.
    """
    source = np.arange(len(codes))
    order = sorted_rows(codes, generator)
    ranked = [order[subsets[order] == label] for label in range(int(subsets.max()) + 1)]
    for label, rows in enumerate(ranked):
        source[rows] = ranked[(label + 1) % len(ranked)]
    places = np.flatnonzero(subsets[order] < 0)
    for place in places:
        one, other = order[place], order[place + 1 if place + 1 < len(order) else place - 1]
        source[one], source[other] = source[other], source[one]
    return source
