"""Components that depend on each other in pairs: a forest of pairs, along which scores are swapped together (TL §6.3).

Independent components are seldom independent. Bach and Jordan (2003) look for components whose dependences form a
forest. Here the components are those of the basis, and the forest is the one with the largest mutual information (Chow
and Liu, 1968), of pairs that chance does not explain. A swap then gives a row the score of a root from anybody, and the
score of every other component from somebody whose score of its neighbour in the forest is near that of the row. So the
joint distribution of each pair in the forest is nearly kept, also if it is not linear, and everything else is as
unrelated as in a swap of each component by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Rows = NDArray[np.int64]

LEADING = 60  # components among which pairs are looked for
PER_CELL = 8  # rows per pair of bins on average
BINS = (2, 8)  # fewest and most bins of a component
CHANCE = 0.01  # probability that any pair of independent components is found
NEAR = 10  # rows with near scores of a component, among which those of the next component are exchanged


@dataclass(frozen=True)
class Edge:
    """Two components that depend on each other: the second is swapped given the first."""

    parent: int
    child: int


def dependence_forest(scores: Array) -> tuple[Edge, ...]:
    """Return the pairs of the forest, each after the one that leads to its parent."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

    strength = dependences(scores[:, :LEADING])
    tree = minimum_spanning_tree(csr_array(-strength))
    linked = tree + tree.T
    edges: list[Edge] = []
    waiting = set(range(len(strength)))
    while waiting:
        order, parents = breadth_first_order(linked, min(waiting), directed=False)
        edges += [Edge(int(parents[one]), int(one)) for one in order[1:]]
        waiting -= set(order.tolist())
    return tuple(edges)


def dependences(scores: Array) -> Array:
    """Return the mutual information of each pair of components, in nats; 0 for a pair that chance explains.

    Scores are put into bins of equally many rows. Twice the rows times the information of two independent components
    has about the χ² distribution with (bins − 1)² degrees of freedom.
    """
    from scipy.special import chdtri

    rows, components = scores.shape
    bins = int(np.clip(np.sqrt(rows / PER_CELL), *BINS))
    if components < 2 or rows < bins**2:
        return np.zeros((components, components))
    ranks = scores.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    member = (ranks * bins // rows)[:, :, None] == np.arange(bins)
    flat = member.reshape(rows, components * bins).astype(np.float64)
    joint = (flat.T @ flat).reshape(components, bins, components, bins).transpose(0, 2, 1, 3) / rows
    share = flat.mean(axis=0).reshape(components, bins)
    expected = share[:, None, :, None] * share[None, :, None, :]
    information = (joint * np.log(np.where(joint > 0.0, joint, 1.0) / expected)).sum(axis=(2, 3))
    pairs = components * (components - 1) / 2
    found = 2.0 * rows * information > chdtri((bins - 1) ** 2, CHANCE / pairs)
    return np.where(found & ~np.eye(components, dtype=bool), information, 0.0)


def swap_along_forest(scores: Array, generator: np.random.Generator) -> Array:
    """Return swapped scores: each column has its own values, and pairs of the forest are nearly those of somebody."""
    rows, components = scores.shape
    sources = [generator.permutation(rows) for _ in range(components)]
    for edge in dependence_forest(scores):
        sources[edge.child] = _among_near(scores[:, edge.parent], generator)[sources[edge.parent]]
    return np.column_stack([scores[source, place] for place, source in enumerate(sources)])


def _among_near(scores: Array, generator: np.random.Generator) -> Rows:
    """Return for each row another row, a different one for each, whose score is one of the nearest."""
    order = np.argsort(scores, kind="stable")
    groups = np.array_split(order, max(1, len(order) // NEAR))
    other = np.empty(len(order), dtype=np.int64)
    for group in groups:
        mixed = generator.permutation(group)
        other[mixed] = np.roll(mixed, 1)  # nobody is the own neighbour
    return other
