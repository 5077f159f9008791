"""The changes that a search may make to boxes: replace cuts within their tree, or exchange records between them.

With *CutMoves* the boxes remain a true subdivision: only cuts change. With *ExchangeMoves* boxes may overlap, which
gives narrower boxes that are no longer a subdivision. Both preserve k and ℓ at every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from sfumato.methods.boxes.judges import total_cost
from sfumato.methods.leaves import Leaves

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.kernels.partition import PartitionProblem
    from sfumato.kernels.search_fitness import Fitness

NEIGHBOURS = 12  # neighbours of each record, whose groups it may join
DIMENSIONS = 3  # up to this number of dimensions one tree finds the neighbours of all records
PORTION = 2048  # with more dimensions, neighbours are found among this many records in the order of the boxes

State = TypeVar("State")


class Moves(Protocol, Generic[State]):
    """The changes of partitions of one kind; a state is never changed in place."""

    def begin(self, leaves: Leaves) -> State:
        """Return the state of a partition."""
        ...

    def leaves(self, state: State) -> Leaves:
        """Return the partition of a state."""
        ...

    def cost(self, state: State, fitness: Fitness) -> float:
        """Return the cost of the boxes of a state."""
        ...

    def mutate(self, state: State, fitness: Fitness, steps: int, generator: np.random.Generator) -> State:
        """Return a state that is changed in up to ``steps`` places and does not cost more."""
        ...

    def cross(self, one: State, other: State, fitness: Fitness) -> State:
        """Combine two states: in each region the cheaper one."""
        ...

    def steps(self, boxes: int, islands: int) -> int:
        """Return the steps of a round: so few that islands rarely change the same boxes and a round takes a second."""
        ...


@dataclass(frozen=True, repr=False)
class CutMoves:
    """Only cuts change; the boxes remain a subdivision. A state is the partition itself."""

    problem: PartitionProblem

    def begin(self, leaves: Leaves) -> Leaves:
        return leaves

    def leaves(self, state: Leaves) -> Leaves:
        return state

    def cost(self, state: Leaves, fitness: Fitness) -> float:
        return total_cost(self.problem, fitness, state)

    def mutate(self, state: Leaves, fitness: Fitness, steps: int, generator: np.random.Generator) -> Leaves:
        from sfumato.kernels.search_tree import recut

        order, begins, cuts = _open(state)
        recut(self.problem, fitness, order, begins, cuts, steps, generator)
        return _closed(order, begins, cuts)

    def cross(self, one: Leaves, other: Leaves, fitness: Fitness) -> Leaves:
        from sfumato.kernels.search_tree import cross_trees

        order, begins, cuts = _open(one)
        cross_trees(self.problem, fitness, order, begins, cuts, *_open(other))
        return _closed(order, begins, cuts)

    def steps(self, boxes: int, islands: int) -> int:
        return int(np.clip(boxes // (8 * islands), 20, 500))


@dataclass(frozen=True, repr=False)
class ExchangeMoves:
    """Records are exchanged; boxes may overlap. A state is the box of each record."""

    problem: PartitionProblem
    near: NDArray[np.int64]  # (records, neighbours)

    @classmethod
    def of(cls, problem: PartitionProblem, leaves: Leaves) -> ExchangeMoves:
        """Find the neighbours of each record in the space scaled by the mean weights of the axes."""
        scale = problem.weights.mean(axis=0, dtype=np.float64)
        matters = scale > 0.0
        values = on_lines(problem)
        places = values[:, matters] * scale[matters] if matters.any() else values
        return cls(problem, neighbours(places, leaves.order))

    def begin(self, leaves: Leaves) -> NDArray[np.int64]:
        label = np.empty(len(leaves.order), dtype=np.int64)
        label[leaves.order] = np.repeat(np.arange(leaves.count), leaves.sizes)
        return label

    def leaves(self, state: NDArray[np.int64]) -> Leaves:
        from sfumato.kernels.search_groups import runs_of

        order, starts = runs_of(state)
        return Leaves(order, starts, np.empty((0, 4)))

    def cost(self, state: NDArray[np.int64], fitness: Fitness) -> float:
        from sfumato.kernels.search_fitness import box_costs

        leaves = self.leaves(state)
        return float(box_costs(self.problem, fitness, leaves.order, leaves.starts).sum())

    def mutate(
        self, state: NDArray[np.int64], fitness: Fitness, steps: int, generator: np.random.Generator
    ) -> NDArray[np.int64]:
        from sfumato.kernels.search_groups import regroup

        improved: NDArray[np.int64] = regroup(self.problem, fitness, state, self.near, steps, generator)
        return improved

    def cross(self, one: NDArray[np.int64], other: NDArray[np.int64], fitness: Fitness) -> NDArray[np.int64]:
        from sfumato.kernels.search_groups import cross_groups

        child: NDArray[np.int64] = cross_groups(self.problem, fitness, one, other)
        return child

    def steps(self, boxes: int, islands: int) -> int:
        return int(np.clip(boxes // (14 * islands), 4, 500))  # a window has 14 groups on average


def on_lines(problem: PartitionProblem) -> NDArray[np.float64]:
    """Return the values with ranks in trees replaced by positions on a line, as far apart as their nodes are wide."""
    values = problem.values.copy() if len(problem.trees.start) else problem.values
    for axis in np.flatnonzero(problem.trees.start >= 0):
        ranks, first = values[:, axis].astype(np.int64), problem.trees.start[axis]
        steps = problem.trees.widest[0, first : first + ranks.max()]
        values[:, axis] = np.concatenate([[0.0], np.cumsum(steps)])[ranks]
    return values


def neighbours(places: NDArray[np.float64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the nearest records of each record (which may include itself); in many dimensions, approximately.

    In many dimensions a tree over all records would have to visit most of them. Neighbours are then found within
    portions of ``order``, which lists records that are close in space one after the other.
    """
    from scipy.spatial import cKDTree

    records, dimensions = places.shape
    portion = records if dimensions <= DIMENSIONS else PORTION
    near = np.empty((records, min(NEIGHBOURS, max(min(portion, records) - 1, 1))), dtype=np.int64)
    for begin in range(0, records, portion):
        first = min(begin, max(records - portion, 0))  # the last portion is as large as the others
        rows = order[first : first + portion]
        found = cKDTree(places[rows]).query(places[rows], k=near.shape[1] + 1, workers=-1)[1]
        near[rows] = rows[np.minimum(found[:, 1:], len(rows) - 1)]
    return near


def _open(leaves: Leaves) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64]]:
    """Return copies of the order, the marks of first places, and the cuts, which may be changed in place."""
    begins = np.zeros(len(leaves.order), dtype=np.bool_)
    begins[leaves.starts[:-1]] = True
    return leaves.order.copy(), begins, leaves.cuts.copy()


def _closed(order: NDArray[np.int64], begins: NDArray[np.bool_], cuts: NDArray[np.float64]) -> Leaves:
    return Leaves(order, np.append(np.flatnonzero(begins), len(order)), cuts)
