"""The cheapest strips of a cell: runs of neighbouring records along one axis, each large and diverse enough.

The cost of a strip is Σ_i (Σ a_i) · width_i, as in :mod:`sfumato.kernels.partition`. Two neighbouring strips never cost
more than the strip that contains both, so strips that contain no two others are sufficient. Dynamic programming over
the sorted records finds the cheapest of them.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import smallest
from sfumato.kernels.tally import add, clear, cost

PLACES = 16  # strips of a cell with more records end at about this many evenly spaced places


@jit
def ends_of(count):
    """Return the places at which strips of ``count`` records may begin and end: 0 first, ``count`` last."""
    step = (count + PLACES - 1) // PLACES
    ends = np.empty((count + step - 1) // step + 1, np.int64)
    for number in range(len(ends)):
        ends[number] = min(number * step, count)
    return ends


@jit
def is_spread(values, l, separation):
    """Return whether l of the values are pairwise different and ``separation`` apart, chosen from the smallest up."""
    last = smallest(values)
    for found in range(1, l):
        best = np.inf
        for value in values:
            if value < best and value > last and value >= last + separation:
                best = value
                if found == l - 1:  # any value will do
                    break
        if best == np.inf:
            return False
        last = best
    return True


@jit
def shortest_ends(problem, rows, ends):
    """Return, for each end, the first end after it with a large and diverse enough strip between.

    Ends are numbered from 0; the number after the last means that there is none.
    """
    columns = problem.protected.shape[1]
    values = np.empty((columns, len(rows)))  # in the order of the rows, because every value is read many times
    for place in range(len(rows)):
        for column in range(columns):
            values[column, place] = problem.protected[rows[place], column]
    shortest = np.zeros(len(ends) + 1, np.int64)
    shortest[-1] = len(ends)
    for column in range(columns):  # a longer strip is as diverse, so the end of a strip only moves forward
        end = 0
        for begin in range(len(ends)):
            end = max(end, shortest[begin])
            while end < len(ends) and (
                ends[end] - ends[begin] < problem.k
                or not is_spread(values[column, ends[begin] : ends[end]], problem.l, problem.separation[column])
            ):
                end += 1
            shortest[begin] = end
    return shortest


@jit
def cheapest_strips(problem, rows, most, tally, bits):
    """Return the cost and the first places of the cheapest strips of the sorted rows.

    The cost is infinite if there are no strips that cost less than ``most``.
    """
    ends = ends_of(len(rows))
    shortest = shortest_ends(problem, rows, ends)
    last = len(ends) - 1
    best, before = np.full(last + 1, np.inf), np.zeros(last + 1, np.int64)
    best[0] = 0.0
    for begin in range(last):
        if best[begin] == np.inf or shortest[begin] > last:
            continue
        clear(tally, bits)
        for end in range(begin + 1, min(shortest[shortest[begin]], last) + 1):
            for row in rows[ends[end - 1] : ends[end]]:
                add(tally, bits, problem.values, problem.weights, problem.set_start, problem.trees, row)
            if end >= shortest[begin]:
                total = best[begin] + cost(tally, problem.set_start)
                if total < best[end] and total < most:
                    best[end], before[end] = total, begin
    starts = np.empty(last, np.int64)
    strips, end = 0, last if best[last] < np.inf else 0
    while end > 0:
        end = before[end]
        starts[strips] = ends[end]
        strips += 1
    return best[last], starts[:strips][::-1].copy()
