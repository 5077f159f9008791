"""The cheapest groups of at least k along one sorted column (LT §4.1), by dynamic programming.

``best[j] = min over i of best[i] + cost(points i … j − 1)``, or the larger of the two for the centre cost. A point may
represent several rows (``counts``): then equal values stay together, and a group is a run of points with at least k
rows in total.

No group needs to be so large that it can be cut in two, because a cut never increases the cost. With one row per point
the sizes are therefore k … 2k − 1, and the time is O(n·k) after sorting. Costs are accumulated point by point from the
right, which is more accurate than differences of long sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The cost of a group:
SQUARED = 0  # sum of squared distances to its mean
MEDIAN = 1  # sum of distances to its median
CELLULAR = 2  # number of rows × radius around its best member
WIDTH = 3  # number of rows × width
CENTRE = 4  # width; the total cost is that of the widest group


@jit
def _cheapest_last_group(values: Floats, counts: Ints, best: Floats, end: int, k: int, cost: int) -> tuple[float, int]:
    """Return the smallest total cost of the points before ``end``, and the first point of the last group."""
    cheapest, start = np.inf, -1
    rows, least_rows, own = 0, 0, 0.0
    mean = 0.0
    middle, right = end - 1, 0  # the median and the rows from it on, or the member nearest to the centre of the range
    for first in range(end - 1, -1, -1):
        value, count = values[first], counts[first]
        rows += count
        if cost == SQUARED:  # Welford's update, relative to the last value to stay accurate far from zero
            step = value - values[end - 1] - mean
            mean += step * count / rows
            own += step * count * (value - values[end - 1] - mean)
        elif cost == MEDIAN:  # points added on the left move the median to the left
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


@jit(work=lambda values, counts, k, cost: 2.0 * len(values) * k)
def cheapest_groups(values: Floats, counts: Ints, k: int, cost: int) -> tuple[Ints, float]:
    """Return the end of each group (exclusive, in points) and the total cost.

    With fewer than k rows there is no group and the cost is infinite. ``values`` are sorted; ``counts`` are the rows at
    each point, at least 1; ``cost`` is one of the constants above.
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
    """Return the number of the merged group of each group; neighbours are joined until each has at least k rows."""
    merged = np.empty(len(sizes), np.int64)
    number, rows = 0, 0
    for group in range(len(sizes)):
        if rows >= k:
            number, rows = number + 1, 0
        merged[group] = number
        rows += sizes[group]
    if rows < k and number > 0:  # the last group is too small, so it is joined to the previous one
        for group in range(len(sizes) - 1, -1, -1):
            if merged[group] < number:
                break
            merged[group] = number - 1
    return merged
