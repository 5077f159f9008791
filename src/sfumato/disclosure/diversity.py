"""ℓ-diversity of groups, from counts of a sensitive column in each group (Machanavajjhala et al. 2007).

Every function returns one number per group; the table as a whole is as diverse as its least diverse group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.disclosure.sensitive_counts import SensitiveCounts


def distinct_values(counts: SensitiveCounts) -> NDArray[np.int64]:
    """Return the number of different values in each group: distinct ℓ-diversity holds if it is at least ℓ.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.disclosure.sensitive_counts import SensitiveCounts
    >>> groups, values = np.array([0, 0, 0, 1, 1, 1, 1]), np.array([0, 0, 1, 0, 1, 2, 2])
    >>> distinct_values(SensitiveCounts.of(groups, values, 3)).tolist()
    [2, 3]
    """
    return np.bincount(counts.group)


def effective_values(counts: SensitiveCounts) -> NDArray[np.float64]:
    """Return exp(−Σ p ln p) of each group: entropy ℓ-diversity holds if it is at least ℓ.

    It is the number of equally frequent values that would have the same entropy, from 1 to :func:`distinct_values`.
    """
    return np.asarray(np.exp(-np.add.reduceat(counts.shares * np.log(counts.shares), counts.starts)))


def largest_share(counts: SensitiveCounts) -> NDArray[np.float64]:
    """Return the share of the most frequent value of each group: (α, k)-anonymity holds if it is at most α."""
    return np.maximum.reduceat(counts.shares, counts.starts)


def recursive_c(counts: SensitiveCounts, l: int) -> NDArray[np.float64]:
    """Return r₁ / (r_ℓ + … + r_m) of each group, where r₁ ≥ … ≥ r_m are the counts of its values.

    Recursive (c, ℓ)-diversity holds if c is greater than this number: the most frequent value is rarer than c times all
    values from the ℓ-th most frequent one on. It is infinite in groups with fewer than ℓ values.
    """
    ratios = np.full(len(counts.starts), np.inf)
    rank, ratio, group = _ratios(counts)
    here = rank == l - 1
    ratios[group[here]] = ratio[here]
    return ratios


def recursive_profile(counts: SensitiveCounts) -> dict[int, float]:
    """Return the largest :func:`recursive_c` of all groups for each ℓ from 2 up to the fewest values of a group."""
    fewest = int(distinct_values(counts).min(initial=counts.values)) if len(counts.starts) else 0
    rank, ratio, _ = _ratios(counts)
    worst = ratio[rank < fewest].reshape(-1, max(1, fewest)).max(axis=0, initial=0.0)
    return {place + 1: float(worst[place]) for place in range(1, fewest)}


def _ratios(counts: SensitiveCounts) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return rank, r₁ / (r_rank + … + r_m) and group of each pair, by group and from the most frequent value on."""
    order = np.lexsort((-counts.count, counts.group))
    sorted_counts = counts.count[order]
    so_far = np.cumsum(sorted_counts)
    end = np.cumsum(counts.sizes)
    rest = end[counts.group] - so_far + sorted_counts
    rank = np.arange(len(order)) - counts.starts[counts.group]
    return rank, sorted_counts[counts.starts][counts.group] / rest, counts.group
