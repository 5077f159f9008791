"""Junction trees: cliques of attributes in a tree in which every attribute spans a connected part.

The attributes of the measured marginals form a graph. Eliminating its attributes one after the other, each time the one
whose clique has the fewest cells, gives the cliques of a triangulated graph. A spanning tree of them with the largest
separators is a junction tree (Koller & Friedman 2009, §10.4): if an attribute is in two cliques, it is in every clique
on the way between them, so that sums over whole tables become messages between neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

Clique = tuple[int, ...]  # numbers of attributes, in ascending order


@dataclass(frozen=True)
class JunctionTree:
    """Cliques, each after its parent; the first is the root."""

    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]  # position of the parent of each clique; −1 for the root

    @cached_property
    def separators(self) -> tuple[Clique, ...]:
        """The attributes that each clique shares with its parent; none for the root."""
        return tuple(
            () if parent < 0 else tuple(sorted({*clique} & {*self.cliques[parent]}))
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )

    def holder(self, attributes: Clique, sizes: Sequence[int]) -> int | None:
        """Return the position of the smallest clique that contains these attributes; None if none does."""
        holding = [place for place, clique in enumerate(self.cliques) if {*attributes} <= {*clique}]
        return min(holding, key=lambda place: count_cells(self.cliques[place], sizes), default=None)

    def path(self, start: int, end: int) -> list[int]:
        """Return the positions of the shortest way of cliques from one that has the attribute ``start`` to ``end``."""
        came_from = {place: place for place, clique in enumerate(self.cliques) if start in clique}
        waiting = list(came_from)
        for place in waiting:  # grows while it is read
            if end in self.cliques[place]:
                return self._way_back(place, came_from)
            for near in self._neighbours(place):
                if near not in came_from:
                    came_from[near] = place
                    waiting.append(near)
        raise AssertionError("a tree connects all its cliques")

    def _neighbours(self, place: int) -> list[int]:
        children = [child for child, parent in enumerate(self.parents) if parent == place]
        return children if self.parents[place] < 0 else [self.parents[place], *children]

    @staticmethod
    def _way_back(place: int, came_from: dict[int, int]) -> list[int]:
        way = [place]
        while came_from[way[-1]] != way[-1]:
            way.append(came_from[way[-1]])
        return way[::-1]


def count_cells(clique: Iterable[int], sizes: Sequence[int]) -> int:
    """Return the number of cells of the table of a clique."""
    return math.prod(sizes[attribute] for attribute in clique)


def triangulate(sizes: Sequence[int], marginals: Iterable[Clique]) -> list[Clique]:
    """Return the maximal cliques after greedy elimination; attributes without a marginal are cliques of their own."""
    near: dict[int, set[int]] = {attribute: {attribute} for attribute in range(len(sizes))}
    for clique in marginals:
        for attribute in clique:
            near[attribute] |= {*clique}
    found: list[set[int]] = []
    while near:
        chosen = min(near, key=lambda attribute: (count_cells(near[attribute], sizes), attribute))
        clique_of = near.pop(chosen)
        for attribute in clique_of - {chosen}:
            near[attribute] = (near[attribute] | clique_of) - {chosen}
        if not any(clique_of <= other for other in found):
            found.append(clique_of)
    return [tuple(sorted(one)) for one in found]


def count_tree_cells(sizes: Sequence[int], marginals: Iterable[Clique]) -> int:
    """Return the number of cells of all cliques of the junction tree of these marginals."""
    return sum(count_cells(clique, sizes) for clique in triangulate(sizes, marginals))


def build_junction_tree(sizes: Sequence[int], marginals: Iterable[Clique]) -> JunctionTree:
    """Return a junction tree that has a clique for each marginal; the largest clique is the root."""
    cliques = sorted(triangulate(sizes, marginals), key=lambda clique: (-count_cells(clique, sizes), clique))
    order, parents = [0], [-1]
    rest = set(range(1, len(cliques)))
    while rest:  # Prim: the next clique is the one that shares most attributes with the tree
        _, last, parent = max(
            (len({*cliques[place]} & {*cliques[inside]}), -place, -position)
            for place in rest
            for position, inside in enumerate(order)
        )
        order.append(-last)
        parents.append(-parent)
        rest.remove(-last)
    return JunctionTree(tuple(cliques[place] for place in order), tuple(parents))
