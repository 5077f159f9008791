"""The cost of a partition in a search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.methods.boxes.partition import cell_bounds

if TYPE_CHECKING:
    from sfumato.kernels.partition import PartitionProblem
    from sfumato.kernels.search_fitness import Fitness
    from sfumato.methods.leaves import Leaves


def total_cost(problem: PartitionProblem, fitness: Fitness, leaves: Leaves) -> float:
    """Return the cost of all boxes: of the hulls of their records or, if the problem has faces, of the cells."""
    from sfumato.kernels.faces import whole_space
    from sfumato.kernels.search_fitness import cell_costs

    bounds = cell_bounds(problem, leaves, whole_space(problem.faces))
    return float(cell_costs(problem, fitness, leaves.order, leaves.starts, bounds).sum())
