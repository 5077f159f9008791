"""Permutations of the rows of one column: within groups, between near ranks, between subsets, rows or households."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.permutation_plan import sort_rows
from sfumato.table.groups import rows_by_label

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]

PARTNERS = 50  # rows that are tried as the partner of a row that is alone


def within_groups(groups: Rows, share: float, generator: np.random.Generator) -> Rows:
    """Return the row from which each row gets its cell: another row of the same group, if one takes part.

    A random ``share`` of the rows takes part. Those of a group are put in random order, and each gets the cell of the
    next one, so that none keeps its own.
    """
    source = np.arange(len(groups))
    taking = np.flatnonzero(generator.random(len(groups)) < share) if share < 1.0 else source.copy()
    if not taking.size:
        return source
    order = taking[sort_rows(groups[taking], generator)]
    label = groups[order]
    first = np.flatnonzero(np.diff(label, prepend=label[0] - 1))
    last = np.append(first[1:], len(order)) - 1
    following = np.roll(order, -1)
    following[last] = order[first]
    source[order] = following
    return source


def between_near_ranks(codes: NDArray[np.number], window: int, share: float, generator: np.random.Generator) -> Rows:
    """Return the row from which each row gets its cell: one whose rank is at most ``window`` away (Moore 1996).

    Of the pairs of ranks, a random ``share`` exchanges cells.
    """
    from sfumato.methods.swap_kernels import rank_partners

    source, rank = np.arange(len(codes)), np.arange(len(codes))
    order = sort_rows(codes, generator)
    partner = rank_partners(generator.random(len(codes)), window)
    taking = (generator.random(len(codes)) < share)[np.minimum(rank, partner)]
    source[order] = order[np.where(taking, partner, rank)]
    return source


def between_blocks(
    alone: NDArray[np.bool_], classes: Rows, places: Rows, share: float, generator: np.random.Generator
) -> Rows:
    """Return the row from which each row gets its place: a random ``share`` of the rows that are ``alone`` takes part.

    Each of them exchanges places with a random row of the same class that has another place, and that has not exchanged
    its own. If none of PARTNERS random rows is one, it keeps its place.
    """
    source = np.arange(len(classes))
    order = generator.permutation(len(classes))
    members = {label: order[rows] for label, rows in enumerate(rows_by_label(classes[order]))}
    free = np.ones(len(classes), dtype=bool)
    for row in order[alone[order] & (generator.random(len(order)) < share)]:
        if not free[row]:
            continue
        others = members[int(classes[row])]
        others = others[generator.integers(others.size, size=PARTNERS)]
        others = others[free[others] & (places[others] != places[row])]
        if others.size:
            other = others[0]
            source[[row, other]] = other, row
            free[[row, other]] = False
    return source


def random_subsets(rows: int, subsets: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return a random subset of each row, all of the same size; up to ``subsets`` − 1 rows are in none (−1)."""
    size = rows // subsets
    labels = np.full(rows, -1)
    labels[generator.permutation(rows)[: size * subsets]] = np.repeat(np.arange(subsets), size)
    return labels


def between_subsets(codes: NDArray[np.number], subsets: Rows, generator: np.random.Generator) -> Rows:
    """Return the row from which each row gets its cell: the one of the same rank in the next subset.

    (Carlson and Salabasis 2002.) A row that is in no subset exchanges its cell with the row of the next higher rank.
    """
    source = np.arange(len(codes))
    order = sort_rows(codes, generator)
    ranked = [order[subsets[order] == label] for label in range(int(subsets.max()) + 1)]
    for label, rows in enumerate(ranked):
        source[rows] = ranked[(label + 1) % len(ranked)]
    places = np.flatnonzero(subsets[order] < 0)
    for place in places:
        one, other = order[place], order[place + 1 if place + 1 < len(order) else place - 1]
        source[one], source[other] = source[other], source[one]
    return source


def households_between_blocks(
    homes: Rows, people: Rows, classes: Rows, places: Rows, share: float, generator: np.random.Generator
) -> Rows:
    """Return the row from which each row gets its place: whole households exchange, as rows do in ``between_blocks``.

    ``homes``, ``people``, ``classes`` and ``places`` number the household of each row, its quasi-identifiers, what
    partners agree in, and its place. A household is alone if no other has people with the same quasi-identifiers, and
    partners are households with as many people of each class.
    """
    by_class = np.lexsort((generator.random(len(homes)), classes))
    members = [by_class[own] for own in rows_by_label(homes[by_class])]  # of a household in the order of their classes
    profiles = [_number(values, members) for values in (people, classes, places)]
    alone = np.bincount(profiles[0])[profiles[0]] == 1
    exchanged = between_blocks(alone, profiles[1], profiles[2], share, generator)
    source = np.arange(len(homes))
    for home in np.flatnonzero(exchanged != np.arange(len(exchanged))):
        source[members[home]] = members[exchanged[home]]
    return source


def _number(values: Rows, members: list[Rows]) -> Rows:
    """Return a number for each household: equal for those whose people have the same values, each as often."""
    found: dict[tuple[int, ...], int] = {}
    return np.array([found.setdefault(tuple(sorted(values[own].tolist())), len(found)) for own in members])


def clusters(matrix: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Return the cluster of each row: cells of ``size`` to 2·size − 1 rows, cut along principal components.

    A cell is halved along the component with the largest range.
    """
    from sfumato.kernels.eigenvectors import principal_axes
    from sfumato.kernels.neighbours import median_cells

    centred = matrix - matrix.mean(axis=0)
    return median_cells(centred @ principal_axes(centred).vectors, size)
