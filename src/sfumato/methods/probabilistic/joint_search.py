"""The search for the recoding that loses least, given the joint counts of the rows.

The product of the numbers of values is the number of combinations in the worst case. The joint counts show how many
rows really are in small groups, and often allow many more combinations. The candidates depend neither on k nor on β:
all combinations of levels, and chains of ever finer recodings. So a larger β or a smaller k never increases the loss.

If the table is a sample of the population, the counts have a sampling error, and choosing between candidates by them
is a selection. Then only one chain is used. It is planned on a quarter of the rows and tested, from coarse to fine,
on the others, up to the first candidate that fails. The true share of rows that match k people only falls along the
chain. So the promise can only be broken if the first candidate for which it does not hold passes its test: one test,
whose confidence is that of the promise (fixed-sequence testing).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.probabilistic.refinement_chain import Chain, EffectiveCombinations, SmallGroups, refinement_chain
from sfumato.methods.recodings.joint_counts import JointCounts
from sfumato.methods.recodings.level_search import Levels, SumOfLosses, choose_levels, search_levels
from sfumato.methods.recodings.value_groupings import Groupings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Recodings = list[NDArray[np.int32]]  # the group of each value, for each column

CHAIN_SIZES = (2, 10, 50, 250)  # group sizes for which a chain is planned
PLANNED_ROWS = 32_768  # rows that a chain is planned on, at most
PLANNING_PART = 4  # one row of so many plans the chain if the table is a sample
COMBINATIONS = 30_000  # of levels that are searched, at most
ROW_COMBINATIONS = 1_000_000_000  # rows × combinations of levels that are searched, at most


def least_lossy(columns: Sequence[Groupings], k: int, beta: float) -> Recodings:
    """Return the recoding with the smallest loss that leaves at most a share β of the rows in groups of fewer than k.

    Not worse than the best combination of levels, as long as no more combinations than ``COMBINATIONS`` exist.
    """
    counts = JointCounts.of(columns)

    def holds(recodings: Sequence[NDArray[np.int32]]) -> bool:
        return counts.share_alike(recodings, k) >= 1.0 - beta

    chains = [_last_that_holds(chain, columns, holds) for chain in _counted_chains(columns)]
    best = min(chains, key=lambda recodings: loss_of(columns, recodings))
    return _best_combination(columns, len(counts.counts), holds, below=loss_of(columns, best)) or best


def _best_combination(
    columns: Sequence[Groupings], rows: int, holds: Callable[[Recodings], bool], *, below: float
) -> Recodings | None:
    """Return the best combination of levels; None if there are too many or none has a loss ``below`` this."""
    kept = choose_levels(columns, min(COMBINATIONS, max(1_000, ROW_COMBINATIONS // rows)))
    if kept is None:
        return None

    def recodings(levels: Levels) -> Recodings:
        return [column.levels[level] for column, level in zip(columns, levels, strict=True)]

    losses = [np.array([column.loss(groups) for groups in column.levels]) for column in columns]
    objective = SumOfLosses(losses, lambda levels: holds(recodings(levels)))
    best = search_levels(objective, among=kept, below=below)
    return None if best.levels is None else recodings(best.levels)


def _counted_chains(columns: Sequence[Groupings]) -> list[Chain]:
    rows = len(columns[0].value_of_row)
    if rows > PLANNED_ROWS:
        chosen = np.linspace(0, rows - 1, PLANNED_ROWS).astype(np.int64)
        columns, rows = [column.of_rows(chosen) for column in columns], PLANNED_ROWS
    return [refinement_chain(columns, SmallGroups(k=k, rows=rows)) for k in CHAIN_SIZES if 2 * k <= rows or k == 2]


def _last_that_holds(chain: Chain, columns: Sequence[Groupings], holds: Callable[[Recodings], bool]) -> Recodings:
    """Return the finest candidate of a chain for which the promise holds, or the first one; by bisection."""
    low, high = 0, len(chain) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if holds(chain.groups(columns, middle)):
            low = middle
        else:
            high = middle
    return chain.groups(columns, low)


def finest_tested(
    columns: Sequence[Groupings], population: int, passes: Callable[[Recodings, NDArray[np.int64]], bool]
) -> Recodings:
    """Return the finest candidate of a chain before the first that fails, if the rows are a sample of a population.

    ``passes`` tests a candidate on some rows: on those that did not plan the chain, and on all.
    """
    rows = np.arange(len(columns[0].value_of_row))
    plans = rows % PLANNING_PART == 0
    planned = rows[plans][:: max(1, int(plans.sum()) // PLANNED_ROWS)]
    risk = EffectiveCombinations(rows=len(planned), most=float(population))
    chain = refinement_chain([column.of_rows(planned) for column in columns], risk)
    last = 0
    for steps in range(1, len(chain) + 1):
        candidate = chain.groups(columns, steps)
        if not (passes(candidate, rows[~plans]) and passes(candidate, rows)):
            break
        last = steps
    return chain.groups(columns, last)


def loss_of(columns: Sequence[Groupings], recodings: Sequence[NDArray[np.int32]]) -> float:
    """Return the loss of a recoding, from 0 (nothing changed) to 1 (nothing told); 1 − the granularity."""
    return sum(column.loss(groups) for column, groups in zip(columns, recodings, strict=True))
