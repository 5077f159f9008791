"""A graphical model: p(x) ∝ exp(Σ_r θ_r(x_r)) over measured marginals r, with sums by messages along a junction tree.

Messages are sums of products and not of logarithms, because one exponential per parameter is much cheaper than one per
cell of a clique. Parameters are kept within ``LARGEST`` of the largest of their marginal, and beliefs are divided by
their sums, so that no product leaves the range of a double.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_letters
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import OptionError
from sfumato.methods.private_synthesis.junction_tree import Clique, JunctionTree, build_junction_tree

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.private_synthesis.structural_zeros import StructuralZero

    Array = NDArray[np.float64]

LARGEST = 60.0  # difference of two parameters of a marginal that still counts: e⁻⁶⁰ of 10¹² people is nobody


@dataclass(frozen=True, repr=False)
class Calibrated:
    """The model with these parameters: probabilities of the cells of each clique and of each measured marginal."""

    tree: JunctionTree
    sizes: tuple[int, ...]
    beliefs: tuple[Array, ...]
    marginals: tuple[Array, ...]  # of the measured marginals, in their order
    log_partition: float

    def marginal(self, attributes: Clique) -> Array:
        """Return the joint probabilities of one or two attributes, wherever they are in the tree."""
        holder = self.tree.holder(attributes, self.sizes)
        if holder is not None:
            return _sum_onto(self.beliefs[holder], self.tree.cliques[holder], attributes)
        first, second = attributes
        return self._along(self.tree.path(first, second), first, second)

    def _along(self, way: list[int], first: int, second: int) -> Array:
        """Return the probabilities of two attributes that no clique has: Σ p(first, s) p(s′ | s) … p(second | s″)."""
        cliques = self.tree.cliques
        shared = tuple(sorted({*cliques[way[0]]} & {*cliques[way[1]]}))
        reached = _sum_onto(self.beliefs[way[0]], cliques[way[0]], (first, *shared), keep_order=True)
        for position, place in enumerate(way[1:], start=1):
            last = place == way[-1]
            onward = (second,) if last else tuple(sorted({*cliques[place]} & {*cliques[way[position + 1]]}))
            kept = tuple(sorted({*shared, *onward}))
            joint = _sum_onto(self.beliefs[place], cliques[place], kept)
            given = _divide(joint, _sum_onto(joint, kept, shared, keep_axes=True))
            reached = _contract(reached, (first, *shared), given, kept, (first, *onward))
            shared = onward
        return reached


class GraphicalModel:
    """The structure of a model: its measured marginals, its junction tree, and which clique holds which marginal.

    Attributes are best numbered by ascending size: the last axis of a clique is then its longest.
    """

    def __init__(self, sizes: Sequence[int], marginals: Sequence[Clique], zeros: Sequence[StructuralZero] = ()) -> None:
        self.sizes = tuple(sizes)
        self.marginals = tuple(marginals)
        self.tree = build_junction_tree(sizes, [*marginals, *(one.clique for one in zeros)])
        self._zeros: list[list[StructuralZero]] = [[] for _ in self.tree.cliques]
        for zero in zeros:
            holder = self.tree.holder(zero.clique, sizes)
            assert holder is not None
            self._zeros[holder].append(zero)
        self._held: list[list[list[int]]] = [[[] for _ in clique] for clique in self.tree.cliques]
        for number, clique in enumerate(marginals):  # by the clique and the last axis that it needs
            holder = self.tree.holder(clique, sizes)
            assert holder is not None
            self._held[holder][self.tree.cliques[holder].index(clique[-1])].append(number)
        self.possible: list[NDArray[np.bool_]] = []  # cells of each marginal that zeros leave; empty without zeros
        if zeros:
            even = [np.zeros([sizes[one] for one in clique]) for clique in marginals]
            self.possible = [one > 0.0 for one in self.calibrate(even).marginals]

    def calibrate(self, parameters: Sequence[Array]) -> Calibrated:
        """Return the probabilities of all cliques and marginals, by one pass of messages up the tree and one down."""
        if self.possible:
            parameters = [np.where(there, one, -np.inf) for one, there in zip(parameters, self.possible, strict=True)]
        highest = [float(one.max()) for one in parameters]
        factors = [np.exp(np.maximum(one - top, -LARGEST)) for one, top in zip(parameters, highest, strict=True)]
        beliefs = [self._multiply(place, factors) for place in range(len(self.tree.cliques))]
        messages, log_partition = self._collect(beliefs)
        self._distribute(beliefs, messages)
        marginals: list[Array] = [np.empty(0)] * len(self.marginals)
        for place, belief in enumerate(beliefs):
            self._sum_marginals(place, belief, marginals)
        return Calibrated(self.tree, self.sizes, tuple(beliefs), tuple(marginals), log_partition + math.fsum(highest))

    def _multiply(self, place: int, factors: Sequence[Array]) -> Array:
        """Multiply the factors of a clique, axis by axis: only those of its last axis are as large as the clique."""
        clique = self.tree.cliques[place]
        product: Array = np.ones(())
        for axis, numbers in enumerate(self._held[place]):
            shape = [self.sizes[attribute] for attribute in clique[: axis + 1]]
            product = product[..., None]
            for number in numbers:
                product = product * _spread(factors[number], self.marginals[number], clique[: axis + 1])
            if product.shape[-1] != shape[-1]:
                product = np.repeat(product, shape[-1], axis=-1)
        for zero in self._zeros[place]:
            product = product * _spread(zero.possible, zero.clique, clique)
        return product

    def _collect(self, beliefs: list[Array]) -> tuple[list[Array], float]:
        """Multiply each belief by the messages of its children; return the messages and log Z."""
        messages: list[Array] = [np.empty(0)] * len(beliefs)
        log_partition = 0.0
        for place in range(len(beliefs) - 1, -1, -1):
            total = float(beliefs[place].sum())
            if total <= 0.0:
                raise OptionError(
                    "What never occurs must leave something that can.", found="conditions that rule out all"
                )
            beliefs[place] /= total
            log_partition += math.log(total)
            parent = self.tree.parents[place]
            if parent >= 0:
                separator = self.tree.separators[place]
                messages[place] = _sum_onto(beliefs[place], self.tree.cliques[place], separator)
                beliefs[parent] *= _spread(messages[place], separator, self.tree.cliques[parent])
        return messages, log_partition

    def _distribute(self, beliefs: list[Array], messages: list[Array]) -> None:
        """Bring each clique to the sums of its parent."""
        for place in range(1, len(beliefs)):
            parent, separator = self.tree.parents[place], self.tree.separators[place]
            wanted = _sum_onto(beliefs[parent], self.tree.cliques[parent], separator)
            beliefs[place] *= _spread(_divide(wanted, messages[place]), separator, self.tree.cliques[place])

    def _sum_marginals(self, place: int, belief: Array, marginals: list[Array]) -> None:
        clique = self.tree.cliques[place]
        for axis in range(len(clique) - 1, -1, -1):
            for number in self._held[place][axis]:
                marginals[number] = _sum_onto(belief, clique[: axis + 1], self.marginals[number])
            if any(self._held[place][:axis]):
                belief = belief.sum(axis=-1)


def _spread(array: Array, attributes: Clique, clique: Clique) -> Array:
    """Give an array the axes of a clique, with length 1 where it does not depend on an attribute."""
    lengths = iter(array.shape)
    return array.reshape([next(lengths) if attribute in attributes else 1 for attribute in clique])


def _sum_onto(
    array: Array, clique: Clique, attributes: Clique, *, keep_order: bool = False, keep_axes: bool = False
) -> Array:
    """Sum a table of a clique onto some of its attributes."""
    over = tuple(axis for axis, attribute in enumerate(clique) if attribute not in attributes)
    summed: Array = array.sum(axis=over, keepdims=keep_axes) if over else array
    if keep_order:  # the attributes in the order given, which may differ from that of the clique
        left = [attribute for attribute in clique if attribute in attributes]
        summed = summed.transpose([left.index(attribute) for attribute in attributes])
    return summed


def _contract(one: Array, its: Clique, other: Array, others: Clique, kept: Clique) -> Array:
    """Multiply two tables and sum over what is not kept."""
    letter = dict(zip(dict.fromkeys((*its, *others)), ascii_letters, strict=False))
    words = ["".join(letter[attribute] for attribute in some) for some in (its, others, kept)]
    contracted: Array = np.einsum(f"{words[0]},{words[1]}->{words[2]}", one, other)
    return contracted


def _divide(array: Array, by: Array) -> Array:
    """Divide; nothing divided by nothing is nothing."""
    return np.divide(array, by, out=np.zeros(np.broadcast_shapes(array.shape, by.shape)), where=by > 0.0)
