"""The search for better boxes: islands that replace cuts within their tree, or exchange records between boxes.

With *CutMoves* the boxes remain a true subdivision: only cuts change. With *ExchangeMoves* boxes may overlap, which
gives narrower boxes that are no longer a subdivision. Both preserve k and ℓ at every step.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.boxes.search_objective import Judge, total_cost
from sfumato.methods.partition import BoxPartition
from sfumato.methods.search_budget import SearchBudget, SearchReporter, SpentBudget
from sfumato.plan.plan import SearchTrace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.partition_kernels import PartitionProblem
    from sfumato.methods.boxes.search_branch_kernels import Fitness

NEIGHBOURS = 12  # neighbours of each record, whose groups it may join
DIMENSIONS = 3  # up to this number of dimensions one tree finds the neighbours of all records
PORTION = 2048  # with more dimensions, neighbours are found among this many records in the order of the boxes


@dataclass(frozen=True, repr=False)
class CutMoves:
    """Only cuts change; the boxes remain a subdivision. A state is the partition itself."""

    problem: PartitionProblem

    def begin(self, boxes: BoxPartition) -> BoxPartition:
        """Return the state of a partition."""
        return boxes

    def boxes(self, state: BoxPartition) -> BoxPartition:
        """Return the partition of a state."""
        return state

    def cost(self, state: BoxPartition, fitness: Fitness) -> float:
        """Return the cost of the boxes of a state."""
        return total_cost(self.problem, fitness, state)

    def mutate(self, state: BoxPartition, fitness: Fitness, steps: int, generator: np.random.Generator) -> BoxPartition:
        """Return a state that is changed in up to ``steps`` places and does not cost more."""
        from sfumato.methods.boxes.search_tree_kernels import recut

        order, begins, cuts = _open(state)
        recut(self.problem, fitness, order, begins, cuts, steps, generator)
        return _close(order, begins, cuts)

    def cross(self, one: BoxPartition, other: BoxPartition, fitness: Fitness) -> BoxPartition:
        """Combine two states: in each region the cheaper one."""
        from sfumato.methods.boxes.search_tree_kernels import cross_trees

        order, begins, cuts = _open(one)
        cross_trees(self.problem, fitness, order, begins, cuts, *_open(other))
        return _close(order, begins, cuts)

    def steps(self, boxes: int, islands: int) -> int:
        """Return the steps of a round: so few that islands rarely change the same boxes and a round takes a second."""
        return int(np.clip(boxes // (8 * islands), 20, 500))


@dataclass(frozen=True, repr=False)
class ExchangeMoves:
    """Records are exchanged; boxes may overlap. A state is the box of each record."""

    problem: PartitionProblem
    near: NDArray[np.int64]  # (records, neighbours)

    @classmethod
    def of(cls, problem: PartitionProblem, boxes: BoxPartition) -> ExchangeMoves:
        """Find the neighbours of each record in the space scaled by the mean weights of the axes."""
        scale = problem.weights.mean(axis=0, dtype=np.float64)
        matters = scale > 0.0
        values = on_lines(problem)
        places = values[:, matters] * scale[matters] if matters.any() else values
        return cls(problem, neighbours(places, boxes.order))

    def begin(self, boxes: BoxPartition) -> NDArray[np.int64]:
        label = np.empty(len(boxes.order), dtype=np.int64)
        label[boxes.order] = boxes.numbers
        return label

    def boxes(self, state: NDArray[np.int64]) -> BoxPartition:
        from sfumato.methods.boxes.search_group_kernels import runs_of

        order, starts = runs_of(state)
        return BoxPartition(order, starts, np.empty((0, 4)))

    def cost(self, state: NDArray[np.int64], fitness: Fitness) -> float:
        from sfumato.methods.boxes.search_branch_kernels import box_costs

        boxes = self.boxes(state)
        return float(box_costs(self.problem, fitness, boxes.order, boxes.starts).sum())

    def mutate(
        self, state: NDArray[np.int64], fitness: Fitness, steps: int, generator: np.random.Generator
    ) -> NDArray[np.int64]:
        from sfumato.methods.boxes.search_group_kernels import regroup

        return np.asarray(regroup(self.problem, fitness, state, self.near, steps, generator))

    def cross(self, one: NDArray[np.int64], other: NDArray[np.int64], fitness: Fitness) -> NDArray[np.int64]:
        from sfumato.methods.boxes.search_group_kernels import cross_groups

        return np.asarray(cross_groups(self.problem, fitness, one, other))

    def steps(self, boxes: int, islands: int) -> int:
        return int(np.clip(boxes // (14 * islands), 4, 500))  # a window has 14 groups on average


Moves = CutMoves | ExchangeMoves  # a state is never changed in place


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
        nearest = cKDTree(places[rows]).query(places[rows], k=near.shape[1] + 1, workers=-1)[1]
        near[rows] = rows[np.minimum(nearest[:, 1:], len(rows) - 1)]
    return near


def _open(boxes: BoxPartition) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64]]:
    """Return copies of the order, the marks of first places, and the cuts, which may be changed in place."""
    begins = np.zeros(len(boxes.order), dtype=np.bool_)
    begins[boxes.starts[:-1]] = True
    return boxes.order.copy(), begins, boxes.cuts.copy()


def _close(order: NDArray[np.int64], begins: NDArray[np.bool_], cuts: NDArray[np.float64]) -> BoxPartition:
    return BoxPartition(order, np.append(np.flatnonzero(begins), len(order)), cuts)


# An evolutionary search on islands, which starts from the greedy partition and never returns a worse one.
#
# Each island holds one partition. In a round every island improves its partition in a few places (mutation) and then
# takes the cheaper regions from its neighbour (crossover), so that improvements spread to all islands. Both steps
# preserve k and ℓ and never increase the cost that they minimise. The result is the partition with the best measured
# cost, or the start if none is better.


ISLANDS = 4  # independent of the number of cores, so that a seed gives the same result on every machine
EPOCHS = 12  # number of times the partition is measured and the fitness updated, more often at the beginning
LONGEST_ROUND = 0.5  # in seconds
ROUND_SHARE = 0.05  # largest share of a time limit that one round may take

log = logging.getLogger("sfumato")


@dataclass(frozen=True, repr=False)
class SearchedBoxes:
    """The best partition that a search found, with a summary of the search."""

    boxes: BoxPartition
    trace: SearchTrace


def search(
    start: BoxPartition,
    problem: PartitionProblem,
    judge: Judge,
    *,
    overlap: str,
    budget: SearchBudget,
    generators: Sequence[np.random.Generator],
) -> SearchedBoxes:
    """Improve a partition until the budget is spent or the user interrupts; one generator per island.

    ``start`` must contain its cuts unless overlap is allowed.
    """
    moves: Moves = ExchangeMoves.of(problem, start) if overlap == "allowed" else CutMoves(problem)
    islands = _Islands(moves, judge, start, generators)
    islands.warm_up()
    reporter, stop = SearchReporter(SpentBudget(budget)), "budget"
    try:  # an interrupt while kernels run takes effect when they end, within about a second; their round is lost
        for epoch in range(1, EPOCHS + 1):
            if islands.evolve(reporter, until=(epoch / EPOCHS) ** 2):
                begun = time.monotonic()
                islands.measure()
                reporter.spent.reserved = time.monotonic() - begun  # the next measurement will take about as long
    except KeyboardInterrupt:
        stop = "interrupted"
        islands.measure()
    unit = 2.0 * judge.weight
    trace = SearchTrace(
        overlap=overlap,
        rounds=reporter.spent.rounds,
        seconds=reporter.spent.seconds,
        stop=stop,
        before=islands.first.kept / unit,
        after=islands.best.kept / unit,
        widths_before=islands.first.widths,
        widths_after=islands.best.widths,
    )
    log.info("search: %d rounds, %.1f %% gained, ended by %s", trace.rounds, 100.0 * trace.gain, trace.stop)
    return SearchedBoxes(islands.boxes, trace)


class _Islands:
    """One partition per island, and the best measured partition."""

    def __init__(
        self, moves: Moves, judge: Judge, start: BoxPartition, generators: Sequence[np.random.Generator]
    ) -> None:
        self.moves, self.judge, self.generators = moves, judge, generators
        self.boxes = start
        self.first = self.best = self.latest = judge.measure(start)
        self.start: Any = moves.begin(start)  # a state of the moves
        self.states: list[Any] = [self.start] * len(generators)
        self.steps = moves.steps(start.count, len(generators))

    def warm_up(self) -> None:
        """Compile the kernels, so that the budget is spent on the search only."""
        self.moves.mutate(self.start, self.first.fitness, 0, self.generators[0])
        self.moves.cross(self.start, self.start, self.first.fitness)

    def evolve(self, reporter: SearchReporter, *, until: float) -> bool:
        """Run rounds of mutation and crossover up to a share of the budget; return whether there were any."""
        moves, fitness = self.moves, self.latest.fitness
        base, rounds = moves.cost(self.start, fitness), reporter.spent.rounds
        with ThreadPoolExecutor(min(os.cpu_count() or 1, len(self.generators))) as pool:
            while reporter.spent.share < until:
                begun = time.monotonic()
                tasks = pool.map(
                    lambda state, generator: moves.mutate(state, fitness, self.steps, generator),
                    self.states,
                    self.generators,
                )
                mutants = list(tasks)
                neighbours = mutants[-1:] + mutants[:-1]
                self.states = list(pool.map(lambda one, other: moves.cross(one, other, fitness), mutants, neighbours))
                reporter.report(1.0 - moves.cost(self.states[0], fitness) / base if base > 0.0 else 0.0)
                self._keep_rounds_short(time.monotonic() - begun, reporter.spent.budget)
        return reporter.spent.rounds > rounds

    def _keep_rounds_short(self, seconds: float, budget: SearchBudget) -> None:
        """Reduce the steps of a round if it takes long, so that the time limit is met and Ctrl-C takes effect soon.

        With a budget in rounds the steps are never changed, so that the result is the same on every machine.
        """
        if budget.seconds is not None and seconds > min(LONGEST_ROUND, ROUND_SHARE * budget.seconds):
            self.steps = max(1, self.steps // 2)

    def measure(self) -> None:
        """Measure the cheapest partition and keep it if it is the best; return to the best if it is far worse."""
        moves, fitness = self.moves, self.latest.fitness
        cheapest: Any = min(self.states, key=lambda state: moves.cost(state, fitness))
        boxes = moves.boxes(cheapest)
        self.latest = self.judge.measure(boxes, self.latest)
        if self.latest.is_better_than(self.best):
            self.best, self.boxes = self.latest, boxes
        elif self.latest.is_too_wide:
            self.states = [moves.begin(self.boxes)] * len(self.states)
