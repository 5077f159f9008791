"""Local recoding: merging, relocating, exchanging, dissolving and splitting groups of rows with low common nodes.

Rows that are similar stand near each other in an order, so that each row is compared with the groups of the rows around
it only; the caller repeats the steps with many random orders.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import sort
from sfumato.methods.recodings.row_group_kernels import (
    AFTER,
    FIRST,
    GROUP,
    SIZE,
    common_level,
    complete,
    cost_of,
    cost_with,
    is_checked,
    is_generalized,
    join,
    joint_cost,
    node_cost,
    put_in,
    take_out,
)

LEAST = 1e-12  # smallest improvement that counts
LARGE = 16  # rows of a group, as a multiple of k, beyond which it is not worth looking for better places of its rows


@jit(allocates=False)
def merge_incomplete(rows, groups, is_complete, order, window, most):
    """Join each incomplete group with the group nearby that adds least cost per incomplete row, if at most ``most``.

    Return the number of incomplete groups that were joined. With an empty order it only marks the complete groups.
    """
    for group in range(len(groups.cost)):
        is_complete[group] = is_complete[group] or complete(rows, groups, group, -1, -1)
    joined, count = 0, len(order)
    for place in range(count):
        group = groups.row[GROUP, order[place]]
        if is_complete[group]:
            continue
        best, chosen = most, -1
        for near in range(max(0, place - window), min(count, place + window + 1)):
            other = groups.row[GROUP, order[near]]
            if other in (group, chosen):
                continue
            size, more = groups.slot[SIZE, group], groups.slot[SIZE, other]
            cost = joint_cost(rows, groups, group, other)
            added = (size + more) * cost - size * groups.cost[group] - more * groups.cost[other]
            added /= size if is_complete[other] else size + more
            if added <= best:
                best, chosen = added, other
        if chosen >= 0:
            if groups.slot[SIZE, chosen] < groups.slot[SIZE, group]:
                group, chosen = chosen, group
            join(rows, groups, group, chosen)
            is_complete[chosen] = complete(rows, groups, chosen, -1, -1)
            joined += 1
    return joined


@jit(allocates=False)
def pair_cost(rows, one, other, most):
    """Return the cost of a row with the common nodes of two: a group with both costs at least as much.

    If it is above ``most``, any number above that is returned.
    """
    cost = 0.0
    for column in range(len(rows.start)):
        if cost > most:
            break
        value = rows.cells[one, column]
        level = common_level(rows, column, 0, value, rows.cells[other, column])
        cost += node_cost(rows, column, level, value)
    return cost


@jit(forceinline=True, allocates=False)
def other_row(groups, group, row):
    """Return a row of a group of several rows that is not this one."""
    first = groups.slot[FIRST, group]
    return groups.row[AFTER, first] if first == row else first


@jit(allocates=False)
def improve(rows, groups, order, window, allowed):
    """Move or exchange rows between groups that are near each other, where this lowers the cost; return by how much.

    ``allowed`` is the cost that a move may add (threshold accepting); 0 for moves that lower the cost only.
    """
    saved, count = 0.0, len(order)
    checked = is_checked(rows)
    for place in range(count):
        row = order[place]
        group = groups.row[GROUP, row]
        size = groups.slot[SIZE, group]
        if size > LARGE * rows.k or not is_generalized(groups, group):
            continue
        spare = size > rows.k and (not checked or complete(rows, groups, group, row, -1))
        old, rest = size * groups.cost[group], cost_of(rows, groups, group, row, -1)
        best, chosen, partner, last = allowed - LEAST, -1, -1, group
        for near in range(max(0, place - window), min(count, place + window + 1)):
            other = groups.row[GROUP, order[near]]
            if other in (group, last):
                continue
            last = other
            more, before = groups.slot[SIZE, other], groups.slot[SIZE, other] * groups.cost[other]
            left = (size - 1) * rest - old - before
            if spare and left + (more + 1) * groups.cost[other] < best:  # a group costs no less with the row
                change = left + (more + 1) * cost_with(rows, groups, other, row, (best - left) / (more + 1))
                if change < best and (not checked or complete(rows, groups, other, -1, row)):
                    best, chosen, partner = change, other, -1
            if more > LARGE * rows.k:
                continue
            mate = order[near]
            change = size * rest - old - before  # what the group costs with the mate is at least what the rest costs
            if more > 1:
                limit = (best - change) / more
                if pair_cost(rows, row, other_row(groups, other, mate), limit) >= limit:
                    continue
            change += more * cost_of(rows, groups, other, mate, row)
            if change < best:
                change += size * (cost_of(rows, groups, group, row, mate) - rest)
                if change < best and (
                    not checked
                    or (complete(rows, groups, other, mate, row) and complete(rows, groups, group, row, mate))
                ):
                    best, chosen, partner = change, other, mate
        if chosen >= 0:
            take_out(rows, groups, row)
            if partner >= 0:
                take_out(rows, groups, partner)
                put_in(rows, groups, partner, group)
            put_in(rows, groups, row, chosen)
            saved -= best
    return saved


@jit(allocates=False)
def cheapest_group(rows, groups, order, place, window, row, most):
    """Return the group near a place that a row can join at the least cost below ``most``, −1 for none, and the cost."""
    group, best, chosen = groups.row[GROUP, row], most, -1
    last, checked = group, is_checked(rows)
    for near in range(max(0, place - window), min(len(order), place + window + 1)):
        other = groups.row[GROUP, order[near]]
        if other in (group, last):
            continue
        last, more = other, groups.slot[SIZE, other]
        before = more * groups.cost[other]
        if groups.cost[other] >= best:  # a group costs no less with the row
            continue
        change = (more + 1) * cost_with(rows, groups, other, row, (best + before) / (more + 1)) - before
        if change < best and (not checked or complete(rows, groups, other, -1, row)):
            best, chosen = change, other
    return chosen, best


@jit(allocates=False)
def refill(rows, groups, order, window, allowed):
    """Move rows out of groups of k that take in a spare row of a third group, where this lowers the cost."""
    saved, count = 0.0, len(order)
    checked = is_checked(rows)
    for place in range(count):
        row = order[place]
        group = groups.row[GROUP, row]
        size = groups.slot[SIZE, group]
        if size != rows.k or not is_generalized(groups, group):
            continue
        target, moved = cheapest_group(rows, groups, order, place, window, row, np.inf)
        moved -= size * groups.cost[group]
        if target < 0 or moved + size * cost_of(rows, groups, group, row, -1) >= allowed - LEAST:
            continue
        best, spare = allowed - LEAST, -1
        for near in range(max(0, place - window), min(count, place + window + 1)):
            mate = order[near]
            other = groups.row[GROUP, mate]
            more = groups.slot[SIZE, other]
            if other in (group, target) or more <= rows.k or (more > LARGE * rows.k and is_generalized(groups, other)):
                continue
            limit = (best - moved) / size
            if pair_cost(rows, mate, other_row(groups, group, row), limit) >= limit:
                continue  # no group of these two costs less
            change = moved + size * cost_of(rows, groups, group, row, mate)
            if change < best:
                left = cost_of(rows, groups, other, mate, -1) if is_generalized(groups, other) else groups.cost[other]
                change += (more - 1) * left - more * groups.cost[other]
                if change < best and (
                    not checked
                    or (complete(rows, groups, group, row, mate) and complete(rows, groups, other, mate, -1))
                ):
                    best, spare = change, mate
        if spare >= 0:
            take_out(rows, groups, row)
            take_out(rows, groups, spare)
            put_in(rows, groups, spare, group)
            put_in(rows, groups, row, target)
            saved -= best
    return saved


@jit
def dissolve(rows, groups, order, place_of, window):
    """Distribute the rows of a group over the groups near them, where this lowers the cost; return by how much."""
    saved, count = 0.0, len(order)
    members = np.empty(4 * rows.k, dtype=np.int64)
    for start in range(count):
        group = groups.row[GROUP, order[start]]
        size = groups.slot[SIZE, group]
        if not is_generalized(groups, group) or size > 4 * rows.k or groups.slot[FIRST, group] != order[start]:
            continue
        row, found = groups.slot[FIRST, group], 0
        while row >= 0:
            members[found], found = row, found + 1
            row = groups.row[AFTER, row]
        limit, added, moved = size * groups.cost[group] - LEAST, 0.0, 0
        while moved < found:
            row = members[moved]
            chosen, cost = cheapest_group(rows, groups, order, place_of[row], window, row, limit - added)
            if chosen < 0:
                break
            take_out(rows, groups, row)
            put_in(rows, groups, row, chosen)
            added += cost
            moved += 1
        if moved == found:
            saved += limit + LEAST - added
            continue
        for place in range(moved):
            take_out(rows, groups, members[place])
            put_in(rows, groups, members[place], group)
    return saved


@jit(allocates=False)
def far_row(rows, groups, group, row):
    """Return the row of a group that is farthest from one of its rows."""
    best, chosen, other = -1.0, row, groups.slot[FIRST, group]
    while other >= 0:
        apart = pair_cost(rows, row, other, np.inf)
        if apart > best:
            best, chosen = apart, other
        other = groups.row[AFTER, other]
    return chosen


@jit
def split_large(rows, groups, empty):
    """Split groups of at least 2k rows in two where this lowers the cost; ``empty`` lists unused groups.

    Return the number of splits.
    """
    splits = 0
    for group in range(len(groups.cost)):
        size = groups.slot[SIZE, group]
        if size < 2 * rows.k or not is_generalized(groups, group) or splits == len(empty):
            continue
        one = far_row(rows, groups, group, groups.slot[FIRST, group])
        two = far_row(rows, groups, group, one)
        members, lean = np.empty(size, dtype=np.int64), np.empty(size)
        row, found = groups.slot[FIRST, group], 0
        while row >= 0:
            members[found], lean[found] = row, pair_cost(rows, row, two, np.inf) - pair_cost(rows, row, one, np.inf)
            found += 1
            row = groups.row[AFTER, row]
        sort(lean, members)
        old, other = size * groups.cost[group], empty[splits]
        best, at = old - LEAST, 0
        for moved in range(size - rows.k):
            take_out(rows, groups, members[moved])
            put_in(rows, groups, members[moved], other)
            if moved + 1 < rows.k:
                continue
            cost = (moved + 1) * groups.cost[other] + (size - moved - 1) * groups.cost[group]
            if cost < best and complete(rows, groups, other, -1, -1) and complete(rows, groups, group, -1, -1):
                best, at = cost, moved + 1
        for moved in range(at, size - rows.k):
            take_out(rows, groups, members[moved])
            put_in(rows, groups, members[moved], group)
        splits += at > 0
    return splits


ROW_TIME = 40.0  # microseconds that a row takes as Python, in ``local_python``


@jit(work=lambda _, __, ___, order, *____: ROW_TIME * len(order), seconds=5.0)
def improve_once(rows, groups, is_complete, order, window, allowed, is_merging):
    """Join incomplete groups, or improve complete ones once; a join or move may add a cost of ``allowed``.

    Return the number of joins. All steps are one kernel, which is compiled in half the time that five would take.
    """
    if is_merging:
        return merge_incomplete(rows, groups, is_complete, order, window, allowed)
    place_of = np.empty(len(order), dtype=np.int64)
    for place in range(len(order)):
        place_of[order[place]] = place
    improve(rows, groups, order, window, allowed)
    refill(rows, groups, order, window, allowed)
    dissolve(rows, groups, order, place_of, window)
    empty, found = np.empty(len(groups.cost), dtype=np.int64), 0
    for group in range(len(groups.cost)):
        if groups.slot[SIZE, group] == 0:
            empty[found], found = group, found + 1
    split_large(rows, groups, empty[:found])
    return 0
