"""Optimal boxes along one axis: the cheapest groups of at least k neighbouring records.

The cost of a group is (Σ a) · width, as in :mod:`sfumato.kernels.partition`. A group of 2k records or more never costs
less than its two parts, so groups of k to 2k − 1 records are sufficient. Dynamic programming over the sorted records
takes rows × k steps.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.jit import jit


@jit(work=lambda lower, upper, weights, k: len(weights) * k)
def cheapest_ends(lower, upper, weights, k):
    """Return the ends of the cheapest groups of at least k sorted records, given the weight of each record.

    ``lower`` and ``upper`` are the faces of a group that begins or ends with a record: its value, for hulls.
    """
    count = len(weights)
    total = np.zeros(count + 1)
    for place in range(count):
        total[place + 1] = total[place] + weights[place]
    best, size = np.full(count + 1, np.inf), np.zeros(count + 1, np.int64)
    best[0] = 0.0
    for end in range(k, count + 1):
        size[end] = end if end < 2 * k else k  # in case no cost is a number
        for records in range(k, min(2 * k - 1, end) + 1):
            first = end - records
            cost = best[first] + (total[end] - total[first]) * (upper[end - 1] - lower[first])
            if cost < best[end]:
                best[end], size[end] = cost, records
    ends = np.empty(count // k, np.int64)
    groups, end = 0, count
    while end > 0:
        ends[groups] = end
        groups += 1
        end -= size[end]
    return ends[:groups][::-1].copy()


@jit
def note_line_cuts(values, starts, axis, cuts):
    """Record the cuts between groups as a balanced tree, in the format of :func:`sfumato.kernels.partition.split`.

    ``values`` are sorted; ``starts`` are the first places of the groups and, last, the number of records.
    """
    stack = [(0, len(starts) - 1)]
    while len(stack) > 0:
        first, last = stack.pop()
        if last - first < 2:
            continue
        middle = (first + last) // 2
        place = starts[middle]
        cut = cuts[place]
        cut[0], cut[1] = axis, 0.5 * (values[place - 1] + values[place])
        cut[2], cut[3] = starts[first], starts[last]
        stack.append((first, middle))
        stack.append((middle, last))
