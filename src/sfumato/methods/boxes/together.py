"""Boxes that are unions of units: of people who stay together because earlier releases had them together.

A unit is cut by no box, so that each of its people keeps the others as candidates; see
:mod:`sfumato.plan.claims.sequence`. New people join the box that they widen least, or form boxes among themselves where
that is cheaper. Units of fewer than k people are joined, and then units and new people are exchanged between
neighbouring boxes while that makes them narrower.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import CannotRelease
from sfumato.methods.boxes.axes import Axes, box_widths
from sfumato.methods.boxes.unit_kernels import exchange
from sfumato.methods.partition import BoxPartition
from sfumato.plan.earlier_releases import (
    FREE,
    Compatible,
    EarlierReleases,
    by_pattern,
    count_different,
    label_histories,
)
from sfumato.table.intervals import BOX, Intervals, is_member, parse_set

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.diversity import Protected
    from sfumato.table.table import Table

NEIGHBOURS = 16  # boxes near a unit or a new person that are tried
SWEEPS, MOST_STEPS = 600, 2_000_000  # proposals to exchange something: for each unit and new person, and in all
A_NAME = 2.0  # cost of another name in a set, in units of what all numbers of a unit cost together
Split = Callable[["NDArray[np.float64]", "NDArray[np.float32]", int, "Protected"], BoxPartition]


@dataclass(frozen=True, repr=False)
class Hulls:
    """Boxes by their lowest and highest coordinates, and the number of people in each."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    sizes: NDArray[np.int64]
    axes: Axes

    def joined(self, labels: NDArray[np.int64]) -> Hulls:
        """Return the hulls of those with equal labels 0, 1, …"""
        order = np.argsort(labels, kind="stable")
        starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
        return Hulls(
            np.minimum.reduceat(self.low[order], starts),
            np.maximum.reduceat(self.high[order], starts),
            np.add.reduceat(self.sizes[order], starts),
            self.axes,
        )

    def of(self, places: NDArray[np.int64]) -> Hulls:
        """Return some of them."""
        return Hulls(self.low[places], self.high[places], self.sizes[places], self.axes)

    def followed_by(self, others: Hulls) -> Hulls:
        """Return these and the others."""
        return Hulls(
            np.concatenate([self.low, others.low]),
            np.concatenate([self.high, others.high]),
            np.concatenate([self.sizes, others.sizes]),
            self.axes,
        )

    @property
    def centres(self) -> NDArray[np.float64]:
        return (self.low + self.high) / 2.0

    @property
    def widths(self) -> NDArray[np.float64]:
        return box_widths(self.axes, self.low, self.high)

    def costs_to_join(self, others: Hulls, weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what joining each with the other of the same place costs: people times widths added."""
        both = box_widths(self.axes, np.minimum(self.low, others.low), np.maximum(self.high, others.high)) @ weight
        own, theirs = self.sizes * (self.widths @ weight), others.sizes * (others.widths @ weight)
        return np.asarray((self.sizes + others.sizes) * both - own - theirs)

    def cheapest(self, others: Hulls, weight: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the box here that each of the others joins at the least cost, and the cost."""
        near = find_near(self, others, weight, NEIGHBOURS)
        costs = np.column_stack([self.of(boxes).costs_to_join(others, weight) for boxes in near.T])
        best = costs.argmin(axis=1)[:, None]
        return np.take_along_axis(near, best, axis=1)[:, 0], np.take_along_axis(costs, best, axis=1)[:, 0]


def find_near(here: Hulls, others: Hulls, weight: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the boxes here whose centres are nearest to those of the others."""
    from scipy.spatial import cKDTree

    tree = cKDTree(here.centres * weight)
    near = tree.query(others.centres * weight, k=min(count, len(here.low)))[1]
    return np.asarray(near, dtype=np.int64).reshape(len(others.low), -1)


def partition_units(
    people: Hulls,
    weights: NDArray[np.float64],
    units: NDArray[np.int64],
    *,
    k: int,
    protected: Protected,
    split: Split,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Return the box of each person: at least k in each, and each unit whole; ``split`` makes boxes of points."""
    bound, new = np.flatnonzero(units != FREE), np.flatnonzero(units == FREE)
    alone = _split_points(people.of(new), weights[new], k, protected.of(new), split) if len(new) >= k else None
    if not len(bound):
        assert alone is not None
        return alone
    item_of = np.empty(len(units), dtype=np.int64)  # items are exchanged: units and new people
    item_of[bound] = _dense(units[bound])
    count = int(item_of[bound].max()) + 1
    item_of[new] = count + np.arange(len(new))
    items = people.joined(item_of)
    heavy = np.column_stack([np.bincount(item_of, column) for column in weights.T]).astype(np.float64)
    old, equal = items.of(np.arange(count)), _equal_weight(items.of(np.arange(count)))
    joined = _join_small(old, heavy[:count], k, protected, split)
    box_of = np.concatenate([joined, _place_new(old.joined(joined), people.of(new), alone, equal)])
    if not items.axes.have_trees:
        box_of = _dissolve_small(items, _exchange(items, box_of, equal, k, generator), equal, k)
    return _dense(box_of[item_of])


def _dense(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.unique(labels, return_inverse=True)[1].ravel()


def _exchange(
    items: Hulls, box_of: NDArray[np.int64], weight: NDArray[np.float64], k: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    near, boxes = find_near(items, items, weight, NEIGHBOURS), items.joined(box_of)
    scale = float((boxes.sizes * (boxes.widths @ weight)).sum() / boxes.sizes.sum())
    if not scale > 0.0:
        return box_of
    steps = int(min(SWEEPS * len(near), MOST_STEPS))
    low, high = items.low * weight, items.high * weight
    return _dense(exchange(low, high, items.sizes, near, box_of, k, scale, steps, generator))


def _dissolve_small(items: Hulls, box_of: NDArray[np.int64], weight: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Put the items of boxes of fewer than k people into the boxes that they widen least."""
    small = items.joined(box_of).sizes < k
    loose = np.flatnonzero(small[box_of])
    if not len(loose):
        return box_of
    if small.all():
        return np.zeros_like(box_of)
    firm = np.flatnonzero(~small[box_of])
    boxes, numbers = items.of(firm).joined(_dense(box_of[firm])), np.unique(box_of[firm])
    box_of = box_of.copy()
    box_of[loose] = numbers[boxes.cheapest(items.of(loose), weight)[0]]
    return _dense(box_of)


def _equal_weight(units: Hulls) -> NDArray[np.float64]:
    """Return a weight for each axis: numbers count by their standard deviation, and a name as much as ``A_NAME`` units.

    What is to be kept now does not count: people stay with those whom they join, also in releases that keep something
    else.
    """
    spread, numbers = units.centres.std(axis=0), len(units.axes.numbers)
    weight = 1.0 / np.where(spread > 0.0, spread, 1.0)
    usual = float((units.widths[:, :numbers] @ weight[:numbers]).mean()) if numbers else 0.0
    weight[numbers:] = A_NAME * usual if usual > 0.0 else 1.0
    return np.asarray(weight)


def _split_points(
    points: Hulls, weights: NDArray[np.float64], least: int, protected: Protected, split: Split
) -> NDArray[np.int64]:
    """Return the box of each of these, which are cut by their centres; at least so many in each."""
    boxes = split(points.centres, weights.astype(np.float32), least, protected)
    box_of = np.empty(len(boxes.order), dtype=np.int64)
    box_of[boxes.order] = boxes.numbers
    return box_of


def _join_small(
    units: Hulls, weights: NDArray[np.float64], k: int, protected: Protected, split: Split
) -> NDArray[np.int64]:
    """Return the box of each unit after those of fewer than k people were joined."""
    joined, small = np.arange(len(units.sizes)), np.flatnonzero(units.sizes < k)
    if not len(small):
        return joined
    least = -(-k // int(units.sizes[small].min()))
    if len(small) < least:  # too few to fill a box: all others help
        small = joined.copy()
    none = np.zeros((len(small), 0))
    free = replace(protected, l=1, values=none, separation=none[0], people=np.zeros(0, np.int64))
    least = min(least, len(small))
    joined[small] = len(joined) + _split_points(units.of(small), weights[small], least, free, split)
    return _dense(joined)


def _place_new(
    boxes: Hulls, new: Hulls, alone: NDArray[np.int64] | None, weight: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the box of each new person: the one that she widens least, or one of new people where that costs less."""
    if not len(new.sizes):
        return np.zeros(0, dtype=np.int64)
    joined, cost = boxes.cheapest(new, weight)
    if alone is None:
        return joined
    among = new.joined(alone)
    cheaper = among.sizes * (among.widths @ weight) < np.bincount(alone, cost)
    return np.where(cheaper[alone], len(boxes.sizes) + alone, joined)


def choose_units(earlier: EarlierReleases, people: Hulls) -> NDArray[np.int64]:
    """Return the unit of each person; FREE for those who are new.

    People with the same history are together. Where these are fewer than they need, they join one of the units that
    have enough of their candidates: the one that they widen least.
    """
    known = np.flatnonzero(earlier.are_known)
    some, here = earlier.of(known), people.of(known)
    needed, histories = np.minimum(some.needed, some.k), label_histories(some.groups)
    is_small = np.bincount(histories)[histories] < needed
    for column in some.values.T:
        is_small |= count_different(histories, column)[histories] < earlier.l
    units = histories.copy()
    for found in by_pattern(some.groups):
        is_wanting = np.isin(found.labels, found.labels[found.asked & is_small[found.people]])
        if is_wanting.any():
            pool = Compatible(found.people[is_wanting], found.labels[is_wanting], found.asked[is_wanting])
            units = _join_pairs(units, _find_partners(some, needed, here, units, pool))
    all_units = np.full(len(earlier.people), FREE, dtype=np.int64)
    all_units[known] = units
    return all_units


def _find_partners(
    earlier: EarlierReleases, needed: NDArray[np.int64], people: Hulls, units: NDArray[np.int64], pool: Compatible
) -> NDArray[np.int64]:
    """Return pairs of units to be joined, so that those who are asked for have enough candidates in theirs."""
    labels = _dense(pool.labels)
    asked, others = pool.people[pool.asked], pool.people[~pool.asked]
    hers, theirs = labels[pool.asked], labels[~pool.asked]
    _, first = np.unique(hers, return_index=True)  # one of those who are asked for in each label: they are one unit
    own, hulls = units[asked[first]], people.joined(units)
    pairs, pair_of, sizes = np.unique(
        np.column_stack([theirs, units[others]]), axis=0, return_inverse=True, return_counts=True
    )
    label, unit = pairs.T
    cost = hulls.of(unit).costs_to_join(hulls.of(own[label]), _equal_weight(hulls))
    enough = sizes + np.bincount(hers)[label] >= needed[asked[first]][label]
    for column in earlier.values.T:
        alone = count_different(hers, column[asked])[label]
        enough &= np.maximum(count_different(pair_of.ravel(), column[others]), alone) >= earlier.l
    order = np.lexsort((cost, ~enough, label))
    best = order[np.flatnonzero(np.diff(label[order], prepend=-1))]  # the cheapest that is enough, if there is one
    single = np.column_stack([own[label[best]], unit[best]])[enough[best]]
    is_open = ~enough[best][np.searchsorted(label[best], label)]
    return np.concatenate([single, np.column_stack([own[label], unit])[is_open]])


def _join_pairs(units: NDArray[np.int64], pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the units after these pairs of them became one."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count = int(units.max()) + 1
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    return np.asarray(connected_components(links, directed=False)[1], dtype=np.int64)[units]


COMPARED = 4_000_000  # pairs of a row and a box that are compared at once


def find_boxes(axes: Axes, rows: Table, released: Table) -> NDArray[np.int64]:
    """Return a released row whose box contains each of these rows; raise if a row is in no box."""
    _, first = np.unique(released.numbers(BOX), return_index=True)
    step, found = max(COMPARED // len(first), 1), np.empty(rows.rows, dtype=np.int64)
    ends = {axis.name: Intervals.of(released, axis.name) for axis in axes.numbers}
    for start in range(0, rows.rows, step):
        some = rows.take(np.arange(start, min(start + step, rows.rows)))
        fits = np.ones((some.rows, len(first)), dtype=bool)
        for name, faces in ends.items():
            numbers = some.numbers(name)[:, None]
            fits &= (faces.low[first] <= numbers) & (numbers <= faces.high[first])
        for axis in axes.sets:
            fits &= _are_members(some, released, axis.name, first)
        found[start : start + some.rows] = np.where(fits.any(axis=1), first[fits.argmax(axis=1)], -1)
    if (found < 0).any():
        raise CannotRelease(
            "Every new row must lie in a box of the release.",
            found=f"{int((found < 0).sum()):,} of {rows.rows:,} in none",
            fix="a release with edges='cells', whose boxes divide the whole space, or a new release of all rows",
        )
    return found


def _are_members(rows: Table, released: Table, name: str, boxes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether the value of each row is in the set of each box."""
    values, cells = rows.coded(name), released.coded(name)
    sets = [parse_set(cell) for cell in pc.cast(cells.values, pa.string()).to_pylist()]
    known = pc.cast(values.values, pa.string()).to_pylist()
    table = np.array([[is_member(value, one) for one in sets] for value in known], dtype=bool)
    return table[values.codes][:, cells.codes[boxes]]
