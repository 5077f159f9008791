"""Groups of rows with trees: their common nodes and costs, and whether they may be released.

A group costs rows × Σ_j cost of the lowest node of tree j that covers its rows. Groups are linked lists of rows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import sort

SURELY = 1.0 - 1e-9  # so much of a cost is above a limit only if it is not by rounding
GROUP, AFTER, BEFORE = 0, 1, 2  # of each row: its group, and its neighbours in the list of the group; −1 at the ends
FIRST, SIZE = 0, 1  # of each group: its first row, −1 if it is empty, and the number of its rows
HEIGHT, SHARES = 5, 6  # in a model: the levels of the tree, and where the shares of the values begin


class RecodedRows(NamedTuple):
    """Rows with trees, and what every group must hold. Nodes and costs are listed by column, level and value.

    Arrays are joined where they can be: each one that a kernel gets takes a third of a second to compile.
    """

    cells: NDArray[np.int32]  # (rows, columns + sensitive columns), and the person of each row, if k people are needed
    start: NDArray[np.int64]  # (columns, levels): place of value 0 in the following lists
    node: NDArray[np.int32]  # node of a value on a level
    cost: NDArray[np.float64]  # cost of that node, for one row
    k: int
    model: NDArray[np.float64]  # (sensitive columns, 6 + values): l, kind (0 distinct, 1 entropy, 2 recursive), c, t,
    # ordered, the levels of the tree of values, and the share of each value in the table
    above: NDArray[np.int32]  # (sensitive columns, levels, values): node of each value, for the distance of t

    @property
    def values(self) -> NDArray[np.int32]:
        return self.cells[:, : len(self.start)]

    @property
    def sensitive(self) -> NDArray[np.int32]:
        return self.cells[:, len(self.start) : len(self.start) + len(self.model)]

    @property
    def people(self) -> NDArray[np.int32] | None:
        """The person of each row; None if every row is another one."""
        place = len(self.start) + len(self.model)
        return self.cells[:, place] if place < self.cells.shape[1] else None


class LinkedGroups(NamedTuple):
    """The groups: lists of rows, the levels of the covering nodes and the cost of one row for each."""

    row: NDArray[np.int64]  # (3, rows): GROUP, AFTER, BEFORE
    slot: NDArray[np.int64]  # (2, groups): FIRST, SIZE
    level: NDArray[np.int64]  # (groups, columns)
    cost: NDArray[np.float64]  # of one row

    @property
    def of(self) -> NDArray[np.int64]:
        return np.asarray(self.row[GROUP])

    @property
    def size(self) -> NDArray[np.int64]:
        return np.asarray(self.slot[SIZE])


@jit(forceinline=True, allocates=False)
def node_cost(rows, column, level, value):
    return rows.cost[rows.start[column, level] + value]


@jit(forceinline=True, allocates=False)
def common_level(rows, column, level, one, other):
    """Return the lowest level, from ``level`` on, on which two values have the same node."""
    while True:
        at = rows.start[column, level]
        if rows.node[at + one] == rows.node[at + other]:
            return level
        level += 1


@jit(forceinline=True, allocates=False)
def joint_cost(rows, groups, group, other):
    """Return the cost of one row if two groups are joined."""
    one, two, cost = groups.slot[FIRST, group], groups.slot[FIRST, other], 0.0
    for column in range(len(rows.start)):
        level = max(groups.level[group, column], groups.level[other, column])
        value = rows.cells[one, column]
        level = common_level(rows, column, level, value, rows.cells[two, column])
        cost += node_cost(rows, column, level, value)
    return cost


@jit(forceinline=True, allocates=False)
def cost_with(rows, groups, group, row, most):
    """Return the cost of one row if a row joins a group, or any number well above ``most`` if it is above that."""
    one, cost = groups.slot[FIRST, group], 0.0
    for column in range(len(rows.start)):
        if cost * SURELY > most:  # a part of the sum that is as good as equal is not taken for the whole of it
            break
        value = rows.cells[row, column]
        level = common_level(rows, column, groups.level[group, column], value, rows.cells[one, column])
        cost += node_cost(rows, column, level, value)
    return cost


@jit(allocates=False)
def cost_of(rows, groups, group, without, extra):
    """Return the cost of one row of a group without one row and with an extra one; −1 for none."""
    first = groups.slot[FIRST, group]
    if first == without:
        first = groups.row[AFTER, first]
    if first < 0:
        first = extra
    cost = 0.0
    for column in range(len(rows.start)):
        value, level, most = rows.cells[first, column], 0, groups.level[group, column]
        row = groups.slot[FIRST, group]
        while row >= 0 and level < most:
            if row != without:
                level = common_level(rows, column, level, value, rows.cells[row, column])
            row = groups.row[AFTER, row]
        if extra >= 0:
            level = common_level(rows, column, level, value, rows.cells[extra, column])
        cost += node_cost(rows, column, level, value)
    return cost


@jit(allocates=False)
def refit(rows, groups, group):
    """Find the levels and the cost of a group again after a row has left it: no level rises."""
    first, groups.cost[group] = groups.slot[FIRST, group], 0.0
    if first < 0:
        return
    for column in range(len(rows.start)):
        value, level, row = rows.cells[first, column], 0, groups.row[AFTER, first]
        while row >= 0 and level < groups.level[group, column]:
            level = common_level(rows, column, level, value, rows.cells[row, column])
            row = groups.row[AFTER, row]
        groups.level[group, column] = level
        groups.cost[group] += node_cost(rows, column, level, value)


@jit(forceinline=True, allocates=False)
def is_generalized(groups, group):
    """Return whether any column of a group is above its lowest level; if not, all rows are equal."""
    highest = 0
    for column in range(groups.level.shape[1]):
        highest = max(highest, groups.level[group, column])
    return highest > 0


@jit(allocates=False)
def take_out(rows, groups, row):
    """Take a row out of its group."""
    group, before, after = groups.row[GROUP, row], groups.row[BEFORE, row], groups.row[AFTER, row]
    if before >= 0:
        groups.row[AFTER, before] = after
    else:
        groups.slot[FIRST, group] = after
    if after >= 0:
        groups.row[BEFORE, after] = before
    groups.slot[SIZE, group] -= 1
    if is_generalized(groups, group) or groups.slot[SIZE, group] == 0:
        refit(rows, groups, group)


@jit(allocates=False)
def put_in(rows, groups, row, group):
    """Add a row to a group; its levels rise as far as needed."""
    first = groups.slot[FIRST, group]
    groups.row[GROUP, row], groups.row[BEFORE, row], groups.row[AFTER, row] = group, -1, first
    groups.slot[FIRST, group] = row
    groups.slot[SIZE, group] += 1
    if first < 0:
        refit(rows, groups, group)
        return
    groups.row[BEFORE, first], cost = row, 0.0
    for column in range(len(rows.start)):
        value = rows.cells[row, column]
        level = common_level(rows, column, groups.level[group, column], value, rows.cells[first, column])
        groups.level[group, column] = level
        cost += node_cost(rows, column, level, value)
    groups.cost[group] = cost


@jit
def diverse(rows, column, counts, total):
    """Return whether these counts of a sensitive column are ℓ-diverse and t-close."""
    l, kind, c = rows.model[column, 0], rows.model[column, 1], rows.model[column, 2]
    t, ordered = rows.model[column, 3], rows.model[column, 4]
    distinct, entropy = 0, 0.0
    for value in range(rows.model.shape[1] - SHARES):
        if counts[value] > 0:
            distinct += 1
            entropy -= counts[value] / total * math.log(counts[value] / total)
    if l > 1.0:
        if distinct < l or (kind == 1.0 and math.exp(entropy) < l * (1.0 - 1e-12)):
            return False
        if kind == 2.0:
            ranked, places, rest = np.empty(len(counts)), np.empty(len(counts), dtype=np.int64), 0.0
            for place in range(len(counts)):  # as elsewhere, so that sort is one kernel
                ranked[place], places[place] = counts[place], place
            sort(ranked, places)
            for place in range(len(ranked) - int(l) + 1):
                rest += ranked[place]
            if not ranked[-1] < c * rest:
                return False
    return t >= 1.0 or distance(rows, column, counts, total, ordered) <= t + 1e-12


@jit
def distance(rows, column, counts, total, ordered):
    """Return the earth mover's distance between the counts and the table: by order, or by a tree."""
    values = rows.model.shape[1] - SHARES
    if ordered > 0.0:
        gap, found, seen = 0.0, 0.0, 0
        for value in range(values):
            gap += counts[value] / total - rows.model[column, SHARES + value]
            found += abs(gap)
            seen += rows.model[column, SHARES + value] > 0.0
        return found / max(1, seen - 1)
    extra, more, less = np.empty(values), np.empty(values), np.empty(values)
    below, done = np.empty(values, dtype=np.int64), np.empty(values, dtype=np.int64)
    for value in range(values):
        extra[value], below[value] = counts[value] / total - rows.model[column, SHARES + value], value
    found, top = 0.0, int(rows.model[column, HEIGHT]) - 1
    for level in range(1, top + 1):
        for node in range(values):
            more[node], less[node], done[node] = 0.0, 0.0, 0
        for value in range(values):
            if done[below[value]]:
                continue
            done[below[value]] = 1
            parent, amount = rows.above[column, level, value], extra[below[value]]
            if amount > 0.0:
                more[parent] += amount
            else:
                less[parent] -= amount
        for node in range(values):
            found += min(more[node], less[node]) * level / top
            extra[node] = more[node] - less[node]
            below[node] = rows.above[column, level, node]
    return found


@jit(allocates=False)
def is_checked(rows):
    """Return whether a group needs more than k rows: k people, or diversity."""
    return rows.cells.shape[1] > len(rows.start)


@jit
def enough_people(rows, groups, group, without, extra):
    """Return whether a group without one row and with an extra one (−1: none) is that of at least k people."""
    found, count, row = np.empty(rows.k, dtype=np.int64), 0, groups.slot[FIRST, group] if extra < 0 else extra
    while row >= 0:
        if row != without:
            person, place = rows.cells[row, -1], 0
            while place < count and found[place] != person:
                place += 1
            if place == count:
                found[count] = person
                count += 1
                if count == rows.k:
                    return True
        row = groups.slot[FIRST, group] if row == extra else groups.row[AFTER, row]
    return False


@jit
def complete(rows, groups, group, without, extra):
    """Return whether a group without one row and with an extra one (−1: none) may be released."""
    if groups.slot[SIZE, group] - (without >= 0) + (extra >= 0) < rows.k:
        return False
    if rows.cells.shape[1] > len(rows.start) + len(rows.model) and not enough_people(
        rows, groups, group, without, extra
    ):
        return False
    for column in range(len(rows.model)):
        counts, total, row = np.empty(rows.model.shape[1] - SHARES, dtype=np.int64), 0, groups.slot[FIRST, group]
        for value in range(len(counts)):
            counts[value] = 0
        while row >= 0:
            if row != without:
                counts[rows.cells[row, len(rows.start) + column]] += 1
                total += 1
            row = groups.row[AFTER, row]
        if extra >= 0:
            counts[rows.cells[extra, len(rows.start) + column]] += 1
            total += 1
        if not diverse(rows, column, counts, total):
            return False
    return True


@jit(allocates=False)
def join(rows, groups, group, other):
    """Move all rows of a group to another one."""
    while groups.slot[FIRST, group] >= 0:
        row = groups.slot[FIRST, group]
        groups.slot[FIRST, group] = groups.row[AFTER, row]
        if groups.slot[FIRST, group] >= 0:
            groups.row[BEFORE, groups.slot[FIRST, group]] = -1
        groups.slot[SIZE, group] -= 1
        put_in(rows, groups, row, other)
    groups.cost[group] = 0.0


# What these kernels find, remembered: for tables that are too small to compile them.

KEPT = 500_000  # results of one kind that are remembered before they are forgotten
EMPTY = 0  # the state of a group without rows

Node = tuple[int, int]  # level, and the first value of the node


class States:
    """The lowest nodes that cover rows of a table, numbered as they are found; equal rows have the same *profile*."""

    def __init__(self, rows: RecodedRows) -> None:
        distinct, profiles = np.unique(rows.values, axis=0, return_inverse=True)
        self.profile_of: list[int] = profiles.ravel().tolist()
        coded: list[Any] = [np.unique(column, return_inverse=True) for column in distinct.T]
        self._values = [places.ravel() for _, places in coded]
        self._profiles: list[list[int]] = np.column_stack(self._values).tolist()
        trees = [_nodes_and_costs(rows, column, values) for column, (values, _) in enumerate(coded)]
        self._node_places, self._node_costs = [nodes for nodes, _ in trees], [costs for _, costs in trees]
        self._nodes = [nodes.tolist() for nodes in self._node_places]
        self._names: list[tuple[Node, ...]] = [()]
        self._numbers: dict[tuple[Node, ...], int] = {(): EMPTY}
        self._found: dict[tuple[int, tuple[int, ...]], int] = {}
        self.known_costs: list[list[float] | None] = [None]  # of each state, what costs_with returned
        self._joint: dict[tuple[int, int], float] = {}
        self._remembered = self._remembered_costs = 0
        self.next: list[dict[int, int]] = [{}]  # state after a row with a profile has joined, where it was looked up
        self.cost, self.is_generalized = [0.0], [False]
        self.levels: list[tuple[int, ...]] = [(0,) * len(coded)]
        self.single = [self.add(EMPTY, profile) for profile in range(len(distinct))]  # state of one row

    def add(self, state: int, profile: int) -> int:
        """Return the state after a row has joined, and remember it."""
        if self._remembered >= KEPT:
            for known in self.next:
                known.clear()
            self._remembered = 0
        self._remembered += 1
        values = self._profiles[profile]
        name = []
        for column, (level, value) in enumerate(self._names[state] or ((0, one) for one in values)):
            higher = self._meeting_level(column, level, value, values[column])
            name.append((higher, self._nodes[column][higher][value]))
        found = self.next[state][profile] = self._number(tuple(name))
        return found

    def _meeting_level(self, column: int, level: int, one: int, other: int) -> int:
        nodes = self._nodes[column]
        while nodes[level][one] != nodes[level][other]:
            level += 1
        return level

    def of(self, profile: int, levels: tuple[int, ...]) -> int:
        """Return the state whose nodes are on these levels and cover a row."""
        state = self._found.get((profile, levels))
        if state is None:
            values = self._profiles[profile]
            nodes = ((level, self._nodes[column][level][values[column]]) for column, level in enumerate(levels))
            state = self._found[profile, levels] = self._number(tuple(nodes))
        return state

    def _number(self, name: tuple[Node, ...]) -> int:
        state = self._numbers.setdefault(name, len(self._names))
        if state == len(self._names):
            cost = 0.0
            for costs, (level, node) in zip(self._node_costs, name, strict=True):
                cost += float(costs[level, node])
            self._names.append(name)
            self.next.append({})
            self.known_costs.append(None)
            self.cost.append(cost)
            self.levels.append(tuple(level for level, _ in name))
            self.is_generalized.append(max(self.levels[-1]) > 0)
        return state

    def costs_with(self, state: int) -> list[float]:
        """Return the cost of the state after a row of each profile has joined, and remember it."""
        known = self.known_costs[state]
        if known is not None:
            return known
        if self._remembered_costs > KEPT:
            self.known_costs[:] = [None] * len(self.known_costs)
            self._remembered_costs = 0
        self._remembered_costs += len(self.single)
        costs = np.zeros(len(self.single))
        for column, (level, value) in enumerate(self._names[state]):
            nodes = self._node_places[column]
            meeting = np.sum(nodes != nodes[:, [value]], axis=0)[self._values[column]]
            costs += self._node_costs[column][np.maximum(meeting, level), self._values[column]]
        found = costs.tolist() if state != EMPTY else [self.cost[one] for one in self.single]
        self.known_costs[state] = found
        return found

    def joint_cost(self, one: int, other: int) -> float:
        """Return the cost of two groups that are joined."""
        cost = self._joint.get((one, other))
        if cost is None:
            if len(self._joint) > KEPT:
                self._joint.clear()
            cost = 0.0
            nodes = zip(self._names[one], self._names[other], strict=True)
            for column, ((level, value), (higher, node)) in enumerate(nodes):
                both = self._meeting_level(column, max(level, higher), value, node)
                cost += float(self._node_costs[column][both, value])
            self._joint[one, other] = cost
        return cost


def _nodes_and_costs(
    rows: RecodedRows, column: int, values: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the first value of the node of each value, and its cost, up to the level on which all are in one node."""
    nodes, costs = [], []
    for start in rows.start[column]:
        _, first, node = np.unique(rows.node[start + values], return_index=True, return_inverse=True)
        nodes.append(first[node.ravel()])
        costs.append(rows.cost[start + values])
        if len(first) == 1:
            break
    return np.array(nodes), np.array(costs)
