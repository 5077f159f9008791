"""Groups of rows for local recoding: small groups are merged, and then improved by local search.

Groups that are incomplete (smaller than k, or not diverse enough) are joined with similar ones, the most similar
first. Then rows move and exchange places, whole groups are dissolved, and large ones split. At first a move may add
some loss, and ever less with each round (threshold accepting; Dueck and Scheuer 1990), so that the search leaves poor
optima. Similar rows are found by sorting: each round sorts the rows by all columns in a random order, each on a
random level, and compares neighbours only. So the work of a round grows with the rows, not with their square.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import CannotRelease
from sfumato.methods.recodings.groupings import Groupings, JointCounts
from sfumato.methods.recodings.level_search import Clock
from sfumato.table.groups import refine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.recodings.group_rules import GroupRules, SensitiveColumn
    from sfumato.methods.recodings.row_group_kernels import LinkedGroups, RecodedRows

MERGING = 24  # rounds in which the cost that a merge may add grows up to the largest
WINDOW = 10  # rows on each side with whose groups a row is compared
ROUNDS, COLD = 80, 4  # rounds in which a move may add ever less cost, and rounds in which it may add none
HOT_TIME = 0.8  # share of the time after which a move may add none, either
HEAT = 1.5  # cost that a move may add in the first round, as a multiple of the mean cost of a row
LOWEST = 0.7  # probability that a round compares a column on its lowest level
DISORDER = 0.5  # how much the order of the columns varies between rounds
L_KINDS = {"distinct": 0.0, "entropy": 1.0, "recursive": 2.0}


def local_groups(
    columns: Sequence[Groupings],
    costs: Sequence[Sequence[NDArray[np.float64]]],
    rules: GroupRules,
    sensitive: Sequence[SensitiveColumn],
    people: NDArray[np.int32] | None,
    generator: np.random.Generator,
    seconds: float,
) -> NDArray[np.int64]:
    """Return the level of each row in each column; ``costs[j][level]`` is the cost of the node of each value.

    ``people`` is the person of each row; None if each is another one.

    Rows of the same group have the same node in every column. The search ends after this many seconds; they begin after
    its first round, in which kernels may have to be compiled.
    """
    from sfumato.methods.recodings import local_kernels as kernel
    from sfumato.methods.recodings.local_python import MOST_ROWS, LocalSteps

    rows = _rows(columns, costs, rules, sensitive, people)
    improve_once = kernel.improve_once
    if len(rows.values) <= MOST_ROWS:
        improve_once = improve_once.or_plain(LocalSteps(rows).improve_once)
    kernel.improve_once.expect(kernel.ROW_TIME * (MERGING + ROUNDS + COLD) * len(rows.values))
    groups, is_complete = _start(columns, rows)
    if sensitive or people is not None:
        is_complete[:] = False
        improve_once(rows, groups, is_complete, np.zeros(0, np.int64), WINDOW, 0.0, True)
    steps = np.array([of[min(1, len(of) - 1)][one.value_of_row].mean() for of, one in zip(costs, columns, strict=True)])
    _merge(improve_once, rows, groups, is_complete, columns, steps, generator)
    heat = HEAT * float(groups.size @ groups.cost) / len(rows.values)
    improve_once(rows, groups, is_complete, _order(columns, steps, generator), WINDOW, heat, False)
    clock, number, cold = Clock(seconds), 1, 0
    while cold < COLD and not clock.is_over:
        is_cold = number >= ROUNDS or clock.share > HOT_TIME
        allowed = 0.0 if is_cold else heat * (1.0 - number / ROUNDS) ** 2
        improve_once(rows, groups, is_complete, _order(columns, steps, generator), WINDOW, allowed, False)
        number, cold = number + 1, cold + is_cold
    return np.asarray(groups.level[groups.of])


def _rows(
    columns: Sequence[Groupings],
    costs: Sequence[Sequence[NDArray[np.float64]]],
    rules: GroupRules,
    sensitive: Sequence[SensitiveColumn],
    people: NDArray[np.int32] | None,
) -> RecodedRows:
    from sfumato.methods.recodings.row_group_kernels import SHARES, RecodedRows

    start = np.zeros((len(columns), max(len(column.levels) for column in columns)), dtype=np.int64)
    place = 0
    for number, column in enumerate(columns):
        for level in range(len(column.levels)):
            start[number, level] = place
            place += column.size
    values = max((len(one.values) for one in sensitive), default=0)
    model = np.zeros((len(sensitive), SHARES + values))
    trees = [_levels(one) for one in sensitive]
    above = np.zeros((len(sensitive), max(map(len, trees), default=0), values), dtype=np.int32)
    for number, one in enumerate(sensitive):
        rule = one.rule
        limit = 1.0 if rule.t is None else rule.t
        kind, ordered = L_KINDS[rule.l_kind], float(rule.distance == "ordered")
        model[number, :SHARES] = (rule.l, kind, rule.c, limit, ordered, len(trees[number]))
        shares = np.bincount(one.codes, minlength=len(one.values)) / len(one.codes)
        model[number, SHARES : SHARES + len(shares)] = shares
        for level, nodes in enumerate(trees[number]):
            above[number, level, : len(one.values)] = nodes
    known = (
        [column.value_of_row for column in columns],
        [one.codes for one in sensitive],
        [] if people is None else [people],
    )
    return RecodedRows(
        cells=np.column_stack([*chain.from_iterable(known)]).astype(np.int32),
        start=start,
        node=np.concatenate([level for column in columns for level in column.levels]).astype(np.int32),
        cost=np.concatenate([level for column in costs for level in column]),
        k=rules.k,
        model=model,
        above=above,
    )


def _levels(column: SensitiveColumn) -> list[NDArray[np.int64]]:
    """Return the node of each sensitive value on each level of its tree; without a tree, the value and one root."""
    tree, size = column.rule.tree, len(column.values)
    if tree is None:
        return [np.arange(size), np.zeros(size, dtype=np.int64)]
    places = tree.positions(column.values, column=column.rule.column)
    nodes_by_level = []
    for level in range(tree.levels):
        nodes = np.searchsorted(tree.starts[level], places, side="right") - 1
        nodes[places < 0] = 0 if level == tree.levels - 1 else len(tree.names[level])
        nodes_by_level.append(np.unique(nodes, return_inverse=True)[1])
    return nodes_by_level


def _start(columns: Sequence[Groupings], rows: RecodedRows) -> tuple[LinkedGroups, NDArray[np.bool_]]:
    """Return the groups of equal rows, and which of them are complete."""
    from sfumato.methods.recodings.row_group_kernels import LinkedGroups

    of = JointCounts.of(columns).of_row
    count = int(of.max()) + 1
    order = np.argsort(of, kind="stable")
    same = of[order][1:] == of[order][:-1]
    after, before = np.full(len(of), -1), np.full(len(of), -1)
    after[order[:-1][same]], before[order[1:][same]] = order[1:][same], order[:-1][same]
    first = np.full(count, -1)
    first[of[order[::-1]]] = order[::-1]
    groups = LinkedGroups(
        row=np.stack([of, after, before]).astype(np.int64),
        slot=np.stack([first, np.bincount(of)]).astype(np.int64),
        level=np.zeros((count, len(columns)), dtype=np.int64),
        cost=np.zeros(count),
    )
    for column, start in enumerate(rows.start[:, 0]):  # equal rows are on the lowest level
        groups.cost[:] += rows.cost[start + rows.values[first, column]]
    is_complete = groups.size >= rows.k
    return groups, is_complete


def _merge(
    improve_once: Callable[..., int],
    rows: RecodedRows,
    groups: LinkedGroups,
    is_complete: NDArray[np.bool_],
    columns: Sequence[Groupings],
    steps: NDArray[np.float64],
    generator: np.random.Generator,
) -> None:
    """Join incomplete groups until there are none."""
    most = max(rows.cost.max() * rows.values.shape[1], 1e-9)
    window, number = WINDOW, 0
    while bool(((groups.size > 0) & ~is_complete).any()):
        if int((groups.size > 0).sum()) == 1:
            raise CannotRelease(
                "The rows that are grouped together must keep the promises about people and sensitive columns.",
                found="they do not, even as one group",
                fix="weaker promises, such as a smaller k or l, or a larger t",
            )
        limit = most * 2.0 ** (0.4 * (number - MERGING)) if number < MERGING else np.inf
        order = _order(columns, steps, generator)
        joined = improve_once(rows, groups, is_complete, order, window, limit, True)
        window = window if joined or number < MERGING else 2 * window
        number += 1


def _order(
    columns: Sequence[Groupings], steps: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.int64]:
    """Sort the rows by all columns, some of them one level up; columns that are costly to generalize mostly come first.

    ``steps`` are the costs of the first level of each column.
    """
    rows = len(columns[0].value_of_row)
    labels = np.zeros(rows, dtype=np.int64)
    eager = np.log(steps + 1e-9) + generator.gumbel(size=len(columns)) * DISORDER
    for place in np.argsort(-eager):
        column = columns[place]
        level = 0 if generator.random() < LOWEST else min(1, len(column.levels) - 1)
        groups = column.levels[level]
        labels = refine(labels, groups[column.value_of_row], int(groups.max()) + 1)
    return np.argsort(labels + generator.random(rows) * 0.5, kind="stable")
