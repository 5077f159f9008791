"""Iterated local search for groups of k to 2k − 1 rows with a small sum of squared distances to their means.

One step dissolves a few neighbouring groups, groups their rows anew at random sizes, and moves and swaps rows until no
single move or swap helps. The result replaces the old groups if it is better, so the total does not increase; with
``heat`` also if it is worse by little, so that the search leaves groups that no window improves. With
P[i, g] the squared distance of row i to the mean of group g, D[i, j] that of two rows, and n_g the size of a group:

    move of i from g to h:   n_h/(n_h + 1) · P[i, h] − n_g/(n_g − 1) · P[i, g]
    swap of i in g, j in h:  P[j, g] − P[j, h] − P[i, g] + P[i, h] − (1/n_g + 1/n_h) · D[i, j]

No group needs 2k rows or more, because such a group can be divided without loss.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import argsort, copy_to

FEWEST, MOST = 2, 6  # groups that are dissolved together
TOLERANCE = 1e-12  # a gain below this share of the largest squared distance in the window is a rounding error


class Partition(NamedTuple):
    """Groups of rows; group g has the rows members[g, :sizes[g]]."""

    members: NDArray[np.int64]  # (slots, 2k − 1)
    sizes: NDArray[np.int64]  # (slots,)
    labels: NDArray[np.int64]  # group of each row
    free: NDArray[np.int64]  # (slots,): the first ``unused`` are slots without a group
    unused: NDArray[np.int64]  # (1,): number of free slots


class Window(NamedTuple):
    """The rows of the groups that are dissolved, and their new groups."""

    rows: NDArray[np.int64]
    values: NDArray[np.float64]  # (rows, axes)
    label: NDArray[np.int64]  # group of each row
    apart: NDArray[np.float64]  # D, squared distances of rows
    means: NDArray[np.float64]  # (groups, axes)
    sizes: NDArray[np.int64]
    centre: NDArray[np.float64]  # P, squared distances of rows to means


def partition_of(labels: NDArray[np.int64], k: int) -> Partition:
    """Return the groups of these labels, with empty slots for as many groups as k allows."""
    sizes = np.bincount(labels)
    slots = max(len(sizes), len(labels) // k)
    members = np.zeros((slots, max(2 * k - 1, int(sizes.max(initial=1)))), dtype=np.int64)
    order = np.argsort(labels, kind="stable")
    places = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    members[labels[order], places] = order
    free = np.roll(np.arange(slots), -len(sizes))
    unused = np.array([slots - len(sizes)])
    return Partition(members, np.append(sizes, np.zeros(unused[0], np.int64)), labels.copy(), free, unused)


@jit(allocates=False)
def _squared(one, other):
    total = 0.0
    for axis in range(len(one)):
        step = one[axis] - other[axis]
        total += step * step
    return total


@jit(allocates=False)
def _chosen(partition, near, generator, chosen):
    """Choose a random group and groups of neighbours of one of its rows; return their number."""
    labels = partition.labels
    row = int(generator.random() * len(labels))
    wanted = FEWEST + int(generator.random() * (len(chosen) - FEWEST + 1))
    chosen[0], found = labels[row], 1
    for other in near[row]:
        if found == wanted:
            break
        known = False
        for place in range(found):
            known = known or chosen[place] == labels[other]
        if not known:
            chosen[found] = labels[other]
            found += 1
    return found


@jit
def _cost(values):
    """Return the sum of squared distances of rows to their mean."""
    mean, total = np.zeros(values.shape[1]), 0.0
    for row in range(len(values)):
        mean += values[row] / len(values)
    for row in range(len(values)):
        total += _squared(values[row], mean)
    return total


@jit
def _opened(values, partition, chosen, k):
    """Return the window of these groups, without new groups, and their cost.

    Values are relative to those of one row, so that rounding errors are small compared with distances.
    """
    count = 0
    for group in chosen:
        count += partition.sizes[group]
    rows, filled = np.empty(count, np.int64), 0
    for group in chosen:
        size = partition.sizes[group]
        copy_to(rows[filled : filled + size], partition.members[group, :size])
        filled += size
    inside, apart = np.empty((count, values.shape[1])), np.zeros((count, count))
    for place in range(count):
        inside[place] = values[rows[place]] - values[rows[0]]
        for other in range(place):
            apart[place, other] = apart[other, place] = _squared(inside[place], inside[other])
    cost, filled = 0.0, 0
    for group in chosen:
        cost += _cost(inside[filled : filled + partition.sizes[group]])
        filled += partition.sizes[group]
    slots = count // k
    means, sizes = np.zeros((slots, values.shape[1])), np.zeros(slots, np.int64)
    return Window(rows, inside, np.full(count, -1), apart, means, sizes, np.empty((count, slots))), cost


@jit
def _regroup(window, k, generator):
    """Group the rows anew, each group around a seed: a random row, or the one farthest from the last seed."""
    label, apart = window.label, window.apart
    left, group, last = len(label), 0, int(generator.random() * len(label))
    order = np.empty(left, np.int64)
    from_far = generator.random() < 0.5
    while left > 0:
        count = 0
        for row in range(len(label)):
            if label[row] < 0:
                order[count] = row
                count += 1
        seed = order[int(generator.random() * count)]
        if from_far:
            for row in order[:count]:
                if apart[row, last] > apart[seed, last]:
                    seed = row
        size = left
        if left >= 2 * k:
            most = min(2 * k - 1, left - k)
            size = k if generator.random() < 0.5 else k + int(generator.random() * (most - k + 1))
        nearest = argsort(apart[seed, order[:count]])
        for place in range(size):
            label[order[nearest[place]]] = group
        left -= size
        group, last = group + 1, seed
    return group


@jit(allocates=False)
def _centre(window, group):
    """Compute the mean of a group and the squared distances of all rows to it."""
    mean, size = window.means[group], 0
    mean[:] = 0.0
    for row in range(len(window.label)):
        if window.label[row] == group:
            mean += window.values[row]
            size += 1
    mean /= size
    window.sizes[group] = size
    for row in range(len(window.label)):
        window.centre[row, group] = _squared(window.values[row], mean)


@jit(allocates=False)
def _improve(window, groups, k, least):
    """Move and swap rows, each time the best for one row, until no row can gain more than ``least``."""
    label, apart, sizes, centre = window.label, window.apart, window.sizes, window.centre
    still, row, count = 0, 0, len(label)
    while still < count:
        own = label[row]
        best, target, partner = -least, -1, -1
        own_share = 1.0 / sizes[own]
        for group in range(groups):
            if group == own:
                continue
            if sizes[own] > k and sizes[group] < 2 * k - 1:
                gain = sizes[group] / (sizes[group] + 1.0) * centre[row, group]
                gain -= sizes[own] / (sizes[own] - 1.0) * centre[row, own]
                if gain < best:
                    best, target, partner = gain, group, -1
        for other in range(count):
            group = label[other]
            if group != own:
                gain = centre[other, own] - centre[other, group] - centre[row, own] + centre[row, group]
                gain -= (own_share + 1.0 / sizes[group]) * apart[row, other]
                if gain < best:
                    best, target, partner = gain, group, other
        if target >= 0:
            label[row] = target
            if partner >= 0:
                label[partner] = own
            _centre(window, own)
            _centre(window, target)
            still = 0
        still += 1
        row = (row + 1) % count


@jit
def _replace(partition, window, chosen, groups):
    """Put the new groups in the place of the dissolved ones."""
    members, sizes, labels, free, unused = partition
    for group in chosen:
        sizes[group] = 0
        free[unused[0]] = group
        unused[0] += 1
    slot = np.empty(groups, np.int64)
    for group in range(groups):
        unused[0] -= 1
        slot[group] = free[unused[0]]
    for place in range(len(window.rows)):
        group = slot[window.label[place]]
        members[group, sizes[group]] = window.rows[place]
        sizes[group] += 1
        labels[window.rows[place]] = group


@jit(work=lambda *_: np.inf)
def search_groups(values, partition, near, k, steps, heat, generator):
    """Try this many steps; return by how much the sum of squares has decreased. ``near`` are neighbours of each row.

    A step may add an exponential number with the mean ``heat`` to the sum.
    """
    saved, buffer = 0.0, np.empty(MOST, np.int64)
    for _ in range(steps):
        chosen = buffer[: _chosen(partition, near, generator, buffer)]
        window, before = _opened(values, partition, chosen, k)
        least = TOLERANCE * window.apart.max()
        if before <= least:
            continue
        groups = _regroup(window, k, generator)
        for group in range(groups):
            _centre(window, group)
        _improve(window, groups, k, least)
        after = 0.0
        for place in range(len(window.rows)):
            after += window.centre[place, window.label[place]]
        added = -heat * np.log(1.0 - generator.random()) if heat > 0.0 else -least
        if after < before + added:
            _replace(partition, window, chosen, groups)
            saved += before - after
    return saved


@jit
def squared_errors(values, partition):
    """Return the sum of squared distances of all rows to the means of their groups."""
    total = 0.0
    for group in range(len(partition.sizes)):
        if partition.sizes[group] > 0:
            rows = partition.members[group, : partition.sizes[group]]
            total += _cost(values[rows] - values[rows[0]])
    return total


STEPS = 500  # windows of one round, which takes well below a second
HEAT = 0.2  # cost that a step may add at the start of a cycle, as a share of the mean cost of a group
STALLED = 2e-5  # share of the cost: a cold round that gains less ends a cycle
FIRST_CYCLE, LONGER = 10, 1.5  # rounds of the first cycle, and how much longer each one is than the last
# both for tables of up to STEPS groups; with more groups a round is a smaller part of a pass over the table


class Annealing:
    """Cycles of ever less heat, each from the best groups so far: without them a search stops where no window helps."""

    def __init__(self, partition: Partition, cost: float, groups: float) -> None:
        self.partition, self.cost, self.groups = partition, cost, groups
        self.best, self.least = _copy(partition), cost
        self.length = FIRST_CYCLE * self._rounds_per_pass
        self.rounds = int(np.ceil(self.length))  # the first cycle is cold

    @property
    def _rounds_per_pass(self) -> float:
        return max(1.0, self.groups / STEPS)

    @property
    def heat(self) -> float:
        """Mean cost that a step may add in this round."""
        return HEAT * max(0.0, 1.0 - self.rounds / self.length) * self.cost / self.groups

    def take(self, saved: float) -> None:
        """Take in a round; a cycle ends with cold rounds, up to the first that gains little."""
        was_hot = self.heat > 0.0
        self.cost -= saved
        self.rounds += 1
        if self.cost < self.least:
            self.best, self.least = _copy(self.partition), self.cost
        if not was_hot and saved <= STALLED * self.cost / self._rounds_per_pass:
            self.partition, self.cost = _copy(self.best), self.least
            self.rounds, self.length = 0, self.length * LONGER


def _copy(partition: Partition) -> Partition:
    return type(partition)(*(part.copy() for part in partition))
