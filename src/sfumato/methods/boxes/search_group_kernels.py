"""Groups of records that are improved by exchanging records, so that their boxes may overlap.

A *window* consists of some neighbouring groups. Its records are redistributed by simulated annealing while everything
else stays fixed, and the result is accepted if it is cheaper. A partition therefore never gets worse, and windows do
not depend on each other, so that two partitions can be combined region by region.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import argsort, copy_to, total_of
from sfumato.methods.boxes.partition_kernels import diverse, is_checked
from sfumato.methods.boxes.search_branch_kernels import (
    box_costs,
    cost_of_forms,
    cost_of_sets,
    cost_of_widths,
    fitness_of,
    problem_of,
)

LEAST, MOST = 4, 24  # smallest and largest number of groups in a window
RECORDS = 240  # approximate largest number of records in a window, unless LEAST groups have more
SWEEPS = 200  # proposals for each record of a window
HEAT = 0.3  # initial temperature, in units of the mean cost of a group
REBUILD = 0.02  # share of proposals that merge two groups and divide their records again
WIDE = 3  # a group has at most this × k records


class WindowGroups(NamedTuple):
    """The groups of a window; those from ``used[0]`` on are empty."""

    members: NDArray[np.int64]  # (groups, most records): record at each place
    size: NDArray[np.int64]
    cost: NDArray[np.float64]
    label: NDArray[np.int64]  # group of each record
    place: NDArray[np.int64]  # place of each record in its group
    used: NDArray[np.int64]


@jit
def runs_of(label):
    """Return the records in the order of their groups, and the start of each group."""
    starts = np.zeros(label.max() + 2, np.int64)
    for group in label:
        starts[group + 1] += 1
    for group in range(1, len(starts)):
        starts[group] += starts[group - 1]
    order, filled = np.empty(len(label), np.int64), starts.copy()
    for row in range(len(label)):
        order[filled[label[row]]] = row
        filled[label[row]] += 1
    return order, starts


@jit
def numbered(label):
    """Return the same groups, numbered 0, 1, … in the order of their first records."""
    number = np.full(label.max() + 1, -1)
    dense = np.empty(len(label), np.int64)
    count = 0
    for row in range(len(label)):
        if number[label[row]] < 0:
            number[label[row]] = count
            count += 1
        dense[row] = number[label[row]]
    return dense


@jit
def rebuild(values, k, desk, count, generator):
    """Merge the records of both sides of the desk and divide them along a random axis; empty if a side is too small."""
    rows = np.concatenate((desk[0, : count[0]], desk[1, : count[1]]))
    spare = len(rows) - 2 * k
    left = k + int(generator.random() * (spare + 1))
    if spare < 0 or max(left, len(rows) - left) > desk.shape[1]:
        count[0] = 0
        return
    rows = rows[argsort(values[rows, int(generator.random() * values.shape[1])])]
    count[0], count[1] = left, len(rows) - left
    copy_to(desk[0, :left], rows[:left])
    copy_to(desk[1, : count[1]], rows[left:])


@jit
def anneal(problem, fitness, near, neighbours, groups, generator):
    """Redistribute the records of a window by simulated annealing: swap two, move one, or merge and divide two groups.

    Row i has ``neighbours[i]`` neighbours in the window, near[i]. The two groups of a proposal are written to a desk
    first. All arrays are local and the cost is computed in one place, because a call with many arrays takes longer than
    computing the cost of a box.
    """
    k, values, weights, set_start = problem.k, problem.values, fitness.weights, problem.set_start
    forms, columns, sampling, offset = fitness.forms, fitness.columns, fitness.sampling, fitness.offset
    members, size, cost, label, place, used = groups
    trees = problem.trees
    records, width, numbers = len(label), members.shape[1], values.shape[1] - len(set_start)
    faces, bits = np.empty((2, values.shape[1])), np.empty(problem.set_words, np.uint64)
    unbounded = np.empty((2, 0))  # boxes of exchanged records are hulls
    desk, count, price = np.empty((2, width), np.int64), np.zeros(2, np.int64), np.zeros(2)
    pair = np.zeros(2, np.int64)
    warm = HEAT * total_of(cost) / used[0]
    for proposal in range(SWEEPS * records):
        row = int(generator.random() * records)
        if neighbours[row] == 0:
            continue
        other = near[row, int(generator.random() * neighbours[row])]
        pair[0], pair[1] = label[row], label[other]
        kind = generator.random()
        if pair[0] == pair[1]:
            if kind >= REBUILD or size[pair[0]] < 2 * k or used[0] == len(size):
                continue
            pair[1] = used[0]  # an empty group: the large group is divided in two
        for side in range(2):
            count[side] = size[pair[side]]
            for at in range(count[side]):
                desk[side, at] = members[pair[side], at]
        if kind < REBUILD:
            rebuild(values, k, desk, count, generator)
            if count[0] == 0:
                continue
        elif kind < 0.5 and count[0] > k and count[1] < width:
            desk[0, place[row]], desk[1, count[1]] = desk[0, count[0] - 1], row
            count[0] -= 1
            count[1] += 1
        else:
            at = int(generator.random() * count[1])
            if desk[1, at] == other:  # the record should join its neighbour, not replace it
                continue
            desk[0, place[row]], desk[1, at] = desk[1, at], row
        for side in range(2):
            rows = desk[side, : count[side]]
            price[side] = cost_of_widths(values, weights, numbers, trees, rows, faces, unbounded)
            if len(set_start) > 0:
                price[side] += cost_of_sets(values, weights, set_start, rows, bits)
            if len(forms) > 0:
                price[side] += cost_of_forms(forms, columns, sampling, offset, rows, faces)
        rise = price[0] + price[1] - cost[pair[0]] - cost[pair[1]]
        if rise > 0.0:
            cooled = 1.0 - proposal / (SWEEPS * records)
            temperature = warm * (cooled * cooled)
            if rise > 20.0 * temperature or generator.random() >= math.exp(-rise / temperature):
                continue
        if is_checked(problem) and not (
            diverse(problem, desk[0, : count[0]]) and diverse(problem, desk[1, : count[1]])
        ):
            continue
        used[0] = max(used[0], pair[1] + 1)
        for side in range(2):
            take_over(groups, pair[side], desk[side, : count[side]], price[side])


@jit
def take_over(groups, group, rows, cost):
    """Make ``rows`` the members of a group."""
    groups.size[group], groups.cost[group] = len(rows), cost
    for place in range(len(rows)):
        groups.members[group, place] = rows[place]
        groups.label[rows[place]], groups.place[rows[place]] = group, place


@jit
def gather(first, label, order, starts, near, taken, window):
    """Fill ``window`` with the group of a record and groups around it that are not taken; return their number."""
    window[0], found, head = label[first], 1, 0
    taken[label[first]] = True
    while head < found:
        for row in order[starts[window[head]] : starts[window[head] + 1]]:
            for other in near[row]:
                if found == len(window):
                    return found
                if not taken[label[other]]:
                    taken[label[other]] = True
                    window[found] = label[other]
                    found += 1
        head += 1
    return found


@jit
def groups_of(problem, fitness, sizes):
    """Return the groups of a window whose records are listed group by group, with space for as many as k allows."""
    records = len(problem.values)
    slots = max(len(sizes), records // problem.k)
    groups = WindowGroups(
        np.empty((slots, max(WIDE * problem.k, sizes.max())), np.int64),
        np.zeros(slots, np.int64),
        np.zeros(slots),
        np.empty(records, np.int64),
        np.empty(records, np.int64),
        np.array([len(sizes)]),
    )
    starts = np.zeros(len(sizes) + 1, np.int64)
    for group in range(len(sizes)):
        starts[group + 1] = starts[group] + sizes[group]
    costs = box_costs(problem, fitness, np.arange(records), starts)
    for group in range(len(sizes)):
        take_over(groups, group, np.arange(starts[group], starts[group + 1]), costs[group])
    return groups


@jit
def inner_neighbours(near, rows, position):
    """Return the neighbours of each row that are among the rows, as places; ``position`` must be −1 everywhere."""
    inner, found = np.empty((len(rows), near.shape[1]), np.int64), np.zeros(len(rows), np.int64)
    for place in range(len(rows)):
        position[rows[place]] = place
    for place in range(len(rows)):
        for other in near[rows[place]]:
            if position[other] >= 0:
                inner[place, found[place]] = position[other]
                found[place] += 1
    for row in rows:
        position[row] = -1
    return inner, found


@jit(work=lambda *_: np.inf)
def regroup(problem, fitness, label, near, windows, generator):
    """Improve a partition in up to ``windows`` windows without common groups; return the groups of all records."""
    order, starts = runs_of(label)
    sizes = starts[1:] - starts[:-1]
    taken = sizes > WIDE * problem.k * 2  # too large to be redistributed record by record
    position = np.full(len(label), -1)
    bettered, fresh = label.copy(), len(sizes)
    most = max(LEAST, min(MOST, RECORDS // problem.k))
    for _ in range(windows):
        first = int(generator.random() * len(label))
        if taken[label[first]]:
            continue
        window = np.empty(LEAST + int(generator.random() * (most - LEAST + 1)), np.int64)
        window = window[: gather(first, label, order, starts, near, taken, window)]
        rows = np.empty(sizes[window].sum(), np.int64)
        filled = 0
        for group in window:
            copy_to(rows[filled : filled + sizes[group]], order[starts[group] : starts[group + 1]])
            filled += sizes[group]
        part, judged = problem_of(problem, rows, problem.weights[rows]), fitness_of(fitness, rows)
        groups = groups_of(part, judged, sizes[window])
        before = total_of(groups.cost)
        if (len(window) < 2 and sizes[window[0]] < 2 * problem.k) or before <= 0.0:
            continue
        inner, neighbours = inner_neighbours(near, rows, position)
        anneal(part, judged, inner, neighbours, groups, generator)
        if total_of(groups.cost) < before:
            for place in range(len(rows)):
                group = groups.label[place]
                bettered[rows[place]] = window[group] if group < len(window) else fresh + group
            fresh += len(groups.size)
    return numbered(bettered)


@jit
def root_of(parent, node):
    """Return the root of a node, halving its path on the way."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@jit
def cross_groups(problem, fitness, one, other):
    """Combine two partitions: in every region the cheaper one. A region is a smallest union of whole groups of both.

    No group of either partition is divided, so k and ℓ hold, and the child costs at most as much as the cheaper parent.
    """
    order, starts = runs_of(one)
    costs = box_costs(problem, fitness, order, starts)
    other_order, other_starts = runs_of(other)
    other_costs = box_costs(problem, fitness, other_order, other_starts)
    parent = np.arange(len(costs) + len(other_costs))
    for row in range(len(one)):
        parent[root_of(parent, len(costs) + other[row])] = root_of(parent, one[row])
    saved = np.zeros(len(parent))
    for group in range(len(costs)):
        saved[root_of(parent, group)] += costs[group]
    for group in range(len(other_costs)):
        saved[root_of(parent, len(costs) + group)] -= other_costs[group]
    child = one.copy()
    for row in range(len(one)):
        if saved[root_of(parent, one[row])] > 0.0:
            child[row] = len(costs) + other[row]
    return numbered(child)
