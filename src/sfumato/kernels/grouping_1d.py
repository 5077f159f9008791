"""The cheapest groups of at least k along one sorted column (LT §4.1), by dynamic programming.

``best[j] = min over i of best[i] + cost(points i … j − 1)``, or the larger of the two for the centre cost. Points may
stand for several rows (``counts``): then equal values are kept together, and a group is a run of points with at least k
rows in all.

No group needs to be so large that it can be cut in two, for no cost here rises by a cut. With one row a point the sizes
are therefore k … 2k − 1, and the whole takes O(n·k) after the sort. Costs are built up point by point from the right,
which keeps them accurate where differences of long sums would not be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# What a group costs:
SQUARED = 0  # sum of squared distances to its mean
MEDIAN = 1  # sum of distances to its median
CELLULAR = 2  # its rows times the radius around its best member
WIDTH = 3  # its rows times its width
CENTRE = 4  # its width, and of all groups only the widest counts


@jit
def _cheapest_last_group(values: Floats, counts: Ints, best: Floats, end: int, k: int, cost: int) -> tuple[float, int]:
    """The least total cost of the points before ``end``, and the first point of the group that reaches up to it."""
    cheapest, start = np.inf, -1
    rows, least_rows, own = 0, 0, 0.0
    mean = 0.0
    middle, right = end - 1, 0  # the median and the rows from it on; or the member nearest the middle of the range
    for first in range(end - 1, -1, -1):
        value, count = values[first], counts[first]
        rows += count
        if cost == SQUARED:  # Welford's update, counted from the last value to keep all digits far from zero
            step = value - values[end - 1] - mean
            mean += step * count / rows
            own += step * count * (value - values[end - 1] - mean)
        elif cost == MEDIAN:  # what joins on the left pulls the median to the left
            if first == middle:
                right = rows
            own += count * (values[middle] - value)
            while rows - right > right:
                middle -= 1
                own -= (rows - 2 * right) * (values[middle + 1] - values[middle])
                right += counts[middle]
        elif cost == CELLULAR:
            while middle > first and values[middle] - value > values[end - 1] - values[middle - 1]:
                middle -= 1
            own = rows * max(values[end - 1] - values[middle], values[middle] - value)
        elif cost == WIDTH:
            own = rows * (values[end - 1] - value)
        else:
            own = values[end - 1] - value
        if rows < k:
            continue
        if least_rows == 0:
            least_rows = rows
        if rows - least_rows >= k:  # from here on a group could be cut in two
            break
        total = max(best[first], own) if cost == CENTRE else best[first] + own
        if total < cheapest:
            cheapest, start = total, first
    return cheapest, start


@jit
def cheapest_groups(values: Floats, counts: Ints, k: int, cost: int) -> tuple[Ints, float]:
    """End of each group (exclusive, in points) and the cost of all; no group and an infinite cost under k rows.

    ``values`` rise; ``counts`` are the rows at each point, at least 1; ``cost`` is one of the words above.
    """
    points = len(values)
    best = np.full(points + 1, np.inf)
    best[0] = 0.0
    start_of = np.full(points + 1, -1)
    for end in range(1, points + 1):
        best[end], start_of[end] = _cheapest_last_group(values, counts, best, end, k, cost)
    ends = np.empty(points, np.int64)
    groups, end = 0, points
    while end > 0 and start_of[end] >= 0:
        ends[groups] = end
        groups, end = groups + 1, start_of[end]
    return ends[:groups][::-1].copy(), best[points]


@jit
def merge_small(sizes: Ints, k: int) -> Ints:
    """Number of the merged group of each group, so that neighbours join until every one has at least k rows."""
    merged = np.empty(len(sizes), np.int64)
    number, rows = 0, 0
    for group in range(len(sizes)):
        if rows >= k:
            number, rows = number + 1, 0
        merged[group] = number
        rows += sizes[group]
    if rows < k and number > 0:  # the last one is short: it joins the one before
        for group in range(len(sizes) - 1, -1, -1):
            if merged[group] < number:
                break
            merged[group] = number - 1
    return merged
