"""An evolutionary search on islands, which starts from the greedy partition and never returns a worse one.

Each island holds one partition. In a round every island improves its partition in a few places (mutation) and then
takes the cheaper regions from its neighbour (crossover), so that improvements spread to all islands. Both steps
preserve k and ℓ and never increase the cost that they minimise. The result is the partition with the best measured
cost, or the start if none is better.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.methods.boxes.search_moves import CutMoves, ExchangeMoves, Moves
from sfumato.methods.diagnostics import SearchTrace
from sfumato.methods.search_budget import SearchReporter, SpentBudget

if TYPE_CHECKING:
    import numpy as np

    from sfumato.kernels.partition import PartitionProblem
    from sfumato.methods.boxes.judges import Judge
    from sfumato.methods.leaves import Leaves
    from sfumato.methods.search_budget import SearchBudget

ISLANDS = 4  # independent of the number of cores, so that a seed gives the same result on every machine
EPOCHS = 12  # number of times the partition is measured and the fitness updated, more often at the beginning
LONGEST_ROUND = 0.5  # in seconds
ROUND_SHARE = 0.05  # largest share of a time limit that one round may take

log = logging.getLogger("sfumato")


@dataclass(frozen=True, repr=False)
class Found:
    """The best partition that a search found, with a summary of the search."""

    leaves: Leaves
    trace: SearchTrace


def search(
    start: Leaves,
    problem: PartitionProblem,
    judge: Judge,
    *,
    overlap: str,
    budget: SearchBudget,
    generators: Sequence[np.random.Generator],
) -> Found:
    """Improve a partition until the budget is spent or the user interrupts; one generator per island.

    ``start`` must contain its cuts unless overlap is allowed.
    """
    moves: Moves[Any] = ExchangeMoves.of(problem, start) if overlap == "allowed" else CutMoves(problem)
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
    return Found(islands.leaves, trace)


class _Islands:
    """One partition per island, and the best measured partition."""

    def __init__(
        self, moves: Moves[Any], judge: Judge, start: Leaves, generators: Sequence[np.random.Generator]
    ) -> None:
        self.moves, self.judge, self.generators = moves, judge, generators
        self.leaves = start
        self.first = self.best = self.latest = judge.measure(start)
        self.start = moves.begin(start)
        self.states = [self.start] * len(generators)
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
        leaves = moves.leaves(min(self.states, key=lambda state: moves.cost(state, fitness)))
        self.latest = self.judge.measure(leaves, self.latest)
        if self.latest.is_better_than(self.best):
            self.best, self.leaves = self.latest, leaves
        elif self.latest.is_too_wide:
            self.states = [moves.begin(self.leaves)] * len(self.states)
