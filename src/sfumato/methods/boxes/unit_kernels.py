"""Units of people are exchanged between boxes, so that these become narrower."""

from __future__ import annotations

import math

import numpy as np

from sfumato.kernels.jit import jit

COLD = 0.08  # last temperature, relative to the first
OPENED = 0.02  # share of proposals that begin a box
LEAST_PRICE, MOST_PRICE = 0.3, 20.0  # of each person whom a box lacks, in units of what one of its people costs


@jit(work=lambda low, high, size, near, box_of, k, scale, steps, generator: 30.0 * steps, seconds=4.0)
def exchange(low, high, size, near, box_of, k, scale, steps, generator):
    """Return boxes that are narrower: items move to the boxes of others near them, to empty ones, or change places.

    By simulated annealing. A box costs the people in it times the sum of its widths, and a price that rises for each
    person whom it lacks; ``scale`` is what one person costs usually.
    """
    count, slots = len(size), 2 * (box_of.max() + 1)
    box, people, cost = box_of.copy(), np.zeros(slots, dtype=np.int64), np.zeros(slots)
    first, following = np.full(slots, -1), np.full(count, -1)
    for item in range(count):
        following[item], first[box[item]] = first[box[item]], item
    for one in range(slots):
        people[one], cost[one] = measure(low, high, size, first[one], following, -1, -1)
    for step in range(steps):
        heat = scale * COLD ** (step / steps)
        price = LEAST_PRICE * (MOST_PRICE / LEAST_PRICE) ** (step / steps)
        item, kind = int(generator.random() * count), generator.random()
        other = near[item, int(generator.random() * near.shape[1])]
        here, there = box[item], box[other]
        if kind < OPENED:
            there = int(generator.random() * slots)
            if people[there] > 0:
                continue
        if here == there:
            continue
        if kind < 0.5:
            other = -1
        mine, my_cost = measure(low, high, size, first[here], following, item, other)
        theirs, their_cost = measure(low, high, size, first[there], following, other, item)
        rise = my_cost + their_cost - cost[here] - cost[there]
        rise += price * (lack(mine, my_cost, k, scale) + lack(theirs, their_cost, k, scale))
        rise -= price * (lack(people[here], cost[here], k, scale) + lack(people[there], cost[there], k, scale))
        if rise > 20.0 * heat or (rise > 0.0 and generator.random() >= math.exp(-rise / heat)):
            continue
        transfer(first, following, box, item, there)
        if other >= 0:
            transfer(first, following, box, other, here)
        people[here], cost[here], people[there], cost[there] = mine, my_cost, theirs, their_cost
    return box


@jit
def lack(people, cost, k, scale):
    """Return what the people that a box lacks would cost; an empty one lacks none."""
    return (k - people) * (scale + cost / people) if 0 < people < k else 0.0


@jit
def transfer(first, following, box, item, there):
    """Take an item from the list of its box into that of another."""
    here = box[item]
    if first[here] == item:
        first[here] = following[item]
    else:
        place = first[here]
        while following[place] != item:
            place = following[place]
        following[place] = following[item]
    following[item], first[there], box[item] = first[there], item, there


@jit
def measure(low, high, size, first, following, without, added):
    """Return the people and the cost of a box without one of its items, and with another one; −1: none."""
    people, width = 0, 0.0
    for axis in range(low.shape[1]):
        least, most, people = np.inf, -np.inf, 0
        if added >= 0:
            least, most, people = low[added, axis], high[added, axis], size[added]
        item = first
        while item >= 0:
            if item != without:
                least, most = min(least, low[item, axis]), max(most, high[item, axis])
                people += size[item]
            item = following[item]
        if people > 0:
            width += most - least
    return people, people * width
