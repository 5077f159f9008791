"""A search for groups with less squared error, with a budget."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.diagnostics import SearchTrace
from sfumato.methods.search_budget import SearchReporter, SpentBudget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.search_budget import SearchBudget

STEPS = 500  # windows of one round, which takes well below a second
NEIGHBOURS = 30  # smallest number of neighbours of a row through which groups are neighbours
FEW = 20_000  # rows up to which neighbours are exact
CELL = 4096  # rows of a cell in which the neighbours of a larger table are searched

log = logging.getLogger("sfumato")


def searched(
    matrix: NDArray[np.float64],
    labels: NDArray[np.int64],
    k: int,
    budget: SearchBudget,
    generator: np.random.Generator,
) -> tuple[NDArray[np.int64], SearchTrace]:
    """Improve groups until the budget is spent or the user interrupts; the squared error never increases."""
    from sfumato.kernels.group_search import partition_of, search_groups, squared_errors

    values = np.ascontiguousarray(matrix)
    partition = partition_of(labels, k)
    before = squared_errors(values, partition)
    near = _neighbours(values, min(len(values), max(NEIGHBOURS, 4 * k)))
    search_groups(values, partition, near, k, 0, generator)  # compiles the kernel before the time starts
    reporter, stop, saved = SearchReporter(SpentBudget(budget)), "budget", 0.0
    try:
        while reporter.spent.share < 1.0 and before > 0.0:
            saved += search_groups(values, partition, near, k, STEPS, generator)
            reporter.report(saved / before)
    except KeyboardInterrupt:  # takes effect between two rounds
        stop = "interrupted"
    trace = SearchTrace(
        overlap="allowed",
        rounds=reporter.spent.rounds,
        seconds=reporter.spent.seconds,
        stop=stop,
        before=before,
        after=squared_errors(values, partition),
        widths_before=(),
        widths_after=(),
        cost="squared error",
    )
    log.info("search: %d rounds, %.1f %% gained, ended by %s", trace.rounds, 100.0 * trace.gain, trace.stop)
    return partition.labels, trace


def _neighbours(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return neighbours of each row, nearest first: all rows are searched, or those of its cell in a large table."""
    from sfumato.kernels.cell_groups import cut
    from sfumato.kernels.neighbours import nearest

    if len(values) <= FEW:
        return nearest(values, values, count).index
    order = np.arange(len(values))
    starts = cut(values, order, max(CELL, 4 * count))
    near = np.empty((len(values), count), dtype=np.int64)
    for rows in np.split(order, starts[1:-1]):
        near[rows] = rows[nearest(values[rows], values[rows], count).index]
    return near
