"""Boxes that are diverse in sensitive columns: the rule, and how it is kept without letting values say where to cut.

A cut that is refused because one side would lack values tells who has which value: whoever knows the quasi-identifiers
can repeat the partition (minimality attack, Wong, Fu, Wang and Pei 2007). The space is therefore cut by the
quasi-identifiers alone, and what lacks values is joined afterwards, from the smallest cells up:

- two boxes that one cut made become one box again;
- a box beside a cell of several boxes takes the nearest k records of that cell along the axis of their cut, and more
  until it is diverse; what is left of the cell is cut anew.

A joined cell alone would still tell that one of its parts lacked values. So every cut is also undone at random, with
the probability that its sides would lack values if the values of the table were dealt to its records at random, but at
most ``MOST``. This probability is the same for every assignment of the values, and where joined cells are rare about
half of them are joined for no reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import OptionError
from sfumato.methods.boxes.axes import Axes, NumberAxis, SetAxis
from sfumato.methods.partition import BoxPartition
from sfumato.plan.claims.groups import Diversity, values_apart
from sfumato.schema.columns import Role
from sfumato.schema.schema import Schema
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table

# ℓ-diversity: which columns must be diverse within a box, and which values count as different (XK §IV).
#
# ℓ protects the sensitive columns. In a table without a sensitive column, which is the case of the papers, it
# protects every quasi-identifier. A column for which ε is given is always protected; with diverse="all", each quasi-
# identifier is, beside the sensitive columns.


@dataclass(frozen=True, repr=False)
class Protected:
    """The protected columns of some rows as numbers (categories as codes), and the smallest distance that counts."""

    l: int
    values: NDArray[np.float64]
    separation: NDArray[np.float64]
    apart: NDArray[np.float64]  # least distance of different values along each axis; 0: the axis is not protected
    people: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(0, np.int64)
    )  # person of each row, if told apart

    def of(self, rows: NDArray[np.int64]) -> Protected:
        """Return some of the rows."""
        return replace(self, values=self.values[rows], people=self.people[rows] if len(self.people) else self.people)

    @property
    def is_needed(self) -> bool:
        """Whether boxes must be diverse in some column."""
        return self.l > 1 and self.values.shape[1] > 0


@dataclass(frozen=True)
class DiversityRule:
    """At least ℓ values of each of these columns in every box, ε apart."""

    l: int
    columns: tuple[str, ...]
    epsilon: Mapping[str, float]
    person: str | None = None  # column that tells people apart: boxes are then those of k people

    @classmethod
    def of(
        cls,
        l: int,
        epsilon: float | Mapping[str, float] | None,
        schema: Schema,
        kinds: Mapping[str, Kind],
        *,
        every: bool = False,
    ) -> DiversityRule:
        """Return the rule that ℓ and ε give for a table; with ``every`` it also protects each quasi-identifier."""
        if l < 2:
            return cls(l, (), {}, schema.person)
        columns = schema.names(Role.SENSITIVE) or schema.names(Role.QUASI)
        if every:
            columns = (*columns, *schema.names(Role.QUASI))
        given = dict(epsilon) if isinstance(epsilon, Mapping) else {}
        absent = [name for name in given if name not in schema]
        if absent:
            raise OptionError("epsilon must name columns of the table.", found=", ".join(map(repr, absent)))
        non_numeric = [name for name in given if not kinds[name].is_numeric]
        if non_numeric:
            raise OptionError(
                "epsilon is a distance between numbers, so it must name numeric columns.",
                found=", ".join(map(repr, non_numeric)),
                fix="leave it out: two different categories always count as different",
            )
        columns = tuple(dict.fromkeys([*columns, *given]))
        everywhere = float(epsilon) if isinstance(epsilon, int | float) else 0.0
        apart = {name: given.get(name, everywhere) for name in columns if kinds[name].is_numeric}
        return cls(l, columns, apart, schema.person)

    def is_joined(self, axes: Axes) -> bool:
        """Whether a protected column is no axis, so that boxes are joined for it after the cuts."""
        return self.l > 1 and any(name not in axes.names for name in self.columns)

    def protect(self, rows: Table, axes: Axes, *, along_axes: bool | None = None) -> Protected:
        """Return the protected columns of these rows: all, only those that are axes, or only the others.

        Cuts see those that are axes only: a cut that depends on other values would tell them.
        """
        hidden = {axis.name: axis for axis in axes.all}
        columns = [name for name in self.columns if along_axes is None or (name in hidden) == along_axes]
        values = np.empty((rows.rows, len(columns)))
        for position, name in enumerate(columns):
            if name in hidden:
                values[:, position] = hidden[name].coordinates(rows)
            elif rows.kinds[name].is_numeric:
                numbers = rows.numbers(name)
                least = np.nanmin(numbers) if not np.isnan(numbers).all() else 0.0
                apart = 1.0 + self.epsilon.get(name, 0.0) + abs(least)
                values[:, position] = np.where(np.isnan(numbers), least - apart, numbers)
            else:
                values[:, position] = rows.coded(name).codes
        return Protected(
            self.l,
            values,
            np.array([self.epsilon.get(name, 0.0) for name in columns]),
            np.array([self._apart(axis) for axis in axes.all]),
            np.zeros(0, np.int64) if self.person is None else rows.coded(self.person).codes.astype(np.int64),
        )

    def _apart(self, axis: NumberAxis | SetAxis) -> float:
        """Return the least distance of different values along an axis; 0 if any will do."""
        if axis.name not in self.columns:
            return 0.0
        if isinstance(axis, NumberAxis) and axis.kind is Kind.CONTINUOUS:
            return self.epsilon.get(axis.name, 0.0)
        return max(self.epsilon.get(axis.name, 0.0), 1.0)

    def claims(self, group: tuple[str, ...], axes: Axes) -> tuple[Diversity, ...]:
        """Return the promises about these columns."""
        cut = frozenset(axes.names)
        return tuple(
            Diversity(l=self.l, columns=group, column=name, epsilon=self.epsilon.get(name) or None, hidden=name in cut)
            for name in self.columns
        )


MOST = 0.1  # probability by which a cut is undone without need: where many must be undone, that one is tells little
DEALT = 2000  # random groups by which the probability that a group lacks values is estimated

Cut = Callable[["NDArray[np.int64]"], BoxPartition]  # cuts some of the records by their quasi-identifiers


@dataclass(frozen=True, repr=False)
class Demand:
    """What each box must have: values of the sensitive columns, of different people, of at least k people."""

    protected: Protected  # of the sensitive columns
    k: int
    generator: np.random.Generator
    along: Demand | None = None  # of the protected columns that are axes, which a cut keeps and a remainder may lack
    _chances: dict[int, float] = field(default_factory=dict)

    def lacking(self, rows: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark the groups of these rows, given their dense labels, that have too few values."""
        lacks = np.zeros(int(labels.max(initial=-1)) + 1, dtype=bool)
        for witnesses, distance in self._witnesses:
            column = witnesses[rows]
            valid = ~np.isnan(column)
            counts = np.zeros(len(lacks), dtype=np.int64)
            some, own = np.unique(labels[valid], return_inverse=True)
            counts[some] = values_apart(own, column[valid], epsilon=distance, at_most=self.protected.l)
            lacks |= counts < self.protected.l
            if lacks.all():
                break
        return lacks

    def is_met(self, rows: NDArray[np.int64]) -> bool:
        """Return whether these rows have enough values."""
        return not self.lacking(rows, np.zeros(len(rows), dtype=np.int64)).any()

    def can_stand(self, rows: NDArray[np.int64]) -> bool:
        """Return whether these rows can be boxes: k records of k people, with enough values as a whole."""
        if self.along is not None and not self.along.is_met(rows):
            return False
        people = self.protected.people
        enough = len(rows) if not len(people) else len(np.unique(people[rows]))
        return enough >= self.k and self.is_met(rows)

    def chance(self, size: int) -> float:
        """Return the probability that this many records lack values, if the values are dealt at random; above 0."""
        if size not in self._chances:
            rows = self.generator.integers(0, len(self.protected.values), DEALT * size)
            lacks = self.lacking(rows, np.repeat(np.arange(DEALT), size))
            self._chances[size] = min((int(lacks.sum()) + 1) / (DEALT + 1), MOST)
        return self._chances[size]

    @cached_property
    def _witnesses(self) -> tuple[tuple[NDArray[np.float64], float], ...]:
        """The values of each column that count, and how far apart they must be; columns that tell the same once.

        Without a distance it only counts which rows are equal: all columns of different numbers tell the same, and in a
        wide table most columns are so.
        """
        found = {}
        for column, distance in zip(self._of_people().T, self.protected.separation.tolist(), strict=True):
            counted = column.copy()
            if distance == 0.0:
                present = ~np.isnan(column)
                _, first, code = np.unique(column[present], return_index=True, return_inverse=True)
                counted[present] = first[code]
            found[counted.tobytes(), distance] = counted
        return tuple((counted, distance) for (_, distance), counted in found.items())

    def _of_people(self) -> NDArray[np.float64]:
        """Return the values that count: one of each person in each column, so that those of two people differ.

        It is the rarest of hers, and her other values are NaN. Two values are in any box of two people; so there all of
        them count.
        """
        values, people = self.protected.values, self.protected.people
        if self.protected.l < 3 or not len(people):
            return values
        kept = np.full(values.shape, np.nan)
        for column in range(values.shape[1]):
            _, code, counts = np.unique(values[:, column], return_inverse=True, return_counts=True)
            order = np.lexsort((code, counts[code], people))
            hers = order[np.flatnonzero(np.diff(people[order], prepend=-1))]  # a row with it, of each person
            chosen = np.empty(int(people.max(initial=-1)) + 1, dtype=np.int64)
            chosen[people[hers]] = code[hers]
            is_chosen = chosen[people] == code
            kept[is_chosen, column] = values[is_chosen, column]
        return kept


@dataclass(repr=False)
class CellTree:
    """Boxes as runs of ``order``, with the cut that each begins at, which are joined in place."""

    order: NDArray[np.int64]
    cuts: NDArray[np.float64]  # (records, 4): axis, value, first and last place of the cut where a box starts
    end_of: dict[int, int]  # first place of each box → its end

    @classmethod
    def of(cls, boxes: BoxPartition) -> CellTree:
        starts = boxes.starts.tolist()
        return cls(boxes.order.copy(), boxes.cuts.copy(), dict(pairwise(starts)))

    @property
    def boxes(self) -> BoxPartition:
        starts = np.array([*sorted(self.end_of), len(self.order)], dtype=np.int64)
        return BoxPartition(self.order, starts, self.cuts)

    def is_box(self, first: int, last: int) -> bool:
        return self.end_of.get(first) == last

    def join(self, first: int, last: int) -> None:
        """Make the cell one box."""
        start = first
        while start < last:
            start = self.end_of.pop(start)
        self.end_of[first] = last

    def put(self, first: int, boxes: BoxPartition) -> None:
        """Put boxes in a place that has none."""
        last = first + len(boxes.order)
        self.order[first:last] = boxes.order
        self.cuts[first:last] = boxes.cuts
        self.cuts[first:last, 2:] += first
        starts = (boxes.starts + first).tolist()
        self.end_of |= dict(pairwise(starts))


def join_until_diverse(boxes: BoxPartition, values: NDArray[np.float64], demand: Demand, cut: Cut) -> BoxPartition:
    """Return boxes that meet the demand; ``values`` are the coordinates, by which ``cut`` cuts some of the records."""
    lacking = demand.lacking(boxes.order, boxes.numbers)
    tree, lacks = CellTree.of(boxes), dict(zip(boxes.starts[:-1].tolist(), lacking.tolist(), strict=True))
    places = boxes.starts[1:-1]
    sizes = boxes.cuts[places, 3] - boxes.cuts[places, 2]
    for place in places[np.argsort(sizes, kind="stable")].tolist():
        first, last = int(tree.cuts[place, 2]), int(tree.cuts[place, 3])
        parts = [(start, end) for start, end in ((first, place), (place, last)) if tree.is_box(start, end)]
        chance = sum(demand.chance(end - start) for start, end in parts)
        is_joined = any(lacks[start] for start, _ in parts) or demand.generator.random() < chance
        if not parts or not is_joined:
            continue
        if len(parts) == 1:
            _take_from_neighbour(tree, lacks, parts[0], (first, place, last), values, demand, cut)
        else:
            tree.join(first, last)
            lacks[first] = not demand.is_met(tree.order[first:last])
    return tree.boxes


def _take_from_neighbour(
    tree: CellTree,
    lacks: dict[int, bool],
    box: tuple[int, int],
    cell: tuple[int, int, int],
    values: NDArray[np.float64],
    demand: Demand,
    cut: Cut,
) -> None:
    """Let a box take the nearest records from the cell beside it, and cut the rest of that cell anew."""
    first, place, last = cell
    is_below, axis = box[0] == first, int(tree.cuts[place, 0])
    own, others = tree.order[box[0] : box[1]].copy(), tree.order[place:last] if is_below else tree.order[first:place]
    others = others[np.argsort(values[others, axis] if is_below else -values[others, axis], kind="stable")]
    taken = demand.k
    while taken < len(others) and not demand.is_met(np.append(own, others[:taken])):
        taken += demand.k
    taker, rest = np.append(own, others[:taken]), others[taken:]
    if not demand.can_stand(rest):
        tree.join(first, last)
        lacks[first] = not demand.is_met(tree.order[first:last])
        return
    at = first + (len(taker) if is_below else len(rest))
    ends = values[taker, axis], values[rest, axis]
    low, high = ends if is_below else ends[::-1]
    parts = [_one_box(taker), join_until_diverse(_of_rows(cut(rest), rest), values, demand, cut)]
    tree.join(first, last)
    del tree.end_of[first]
    begin = tree.cuts[first].copy()  # the cut that the whole cell begins at, which stays
    for part, start in zip(parts if is_below else parts[::-1], (first, at), strict=True):
        tree.put(start, part)
        lacks |= dict.fromkeys((part.starts[:-1] + start).tolist(), False)
    tree.cuts[first] = begin
    tree.cuts[at] = axis, 0.5 * (low.max() + high.min()), first, last


def _one_box(rows: NDArray[np.int64]) -> BoxPartition:
    return BoxPartition(rows, np.array([0, len(rows)]), np.zeros((len(rows), 4)))


def _of_rows(boxes: BoxPartition, rows: NDArray[np.int64]) -> BoxPartition:
    """Return a partition of some records, with their numbers among all."""
    return BoxPartition(rows[boxes.order], boxes.starts, boxes.cuts)


def join_nearest(boxes: BoxPartition, values: NDArray[np.float64], demand: Demand) -> BoxPartition:
    """Join boxes that lack values, and others at random, with the nearest ones; for boxes that no cuts divide."""
    from sfumato.kernels.neighbours import nearest

    numbers = boxes.numbers
    scaled = values[boxes.order] / (values.std(axis=0) + 1e-12)
    by_chance = demand.generator.random(boxes.count) < [demand.chance(size) for size in boxes.sizes.tolist()]
    chosen = by_chance | demand.lacking(boxes.order, numbers)
    while chosen.any() and len(chosen) > 1:
        sizes = np.bincount(numbers)
        centres = np.column_stack([np.bincount(numbers, weights=column) / sizes for column in scaled.T])
        joined = np.arange(len(sizes))
        found = nearest(centres[chosen], centres, 2).index
        for box, near in zip(np.flatnonzero(chosen), found, strict=True):
            partner = near[0] if near[0] != box else near[1]
            joined[joined == joined[box]] = joined[partner]
        numbers = np.unique(joined, return_inverse=True)[1][numbers]
        chosen = demand.lacking(boxes.order, numbers)
    order = np.argsort(numbers, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(numbers))])
    return BoxPartition(boxes.order[order], starts, np.empty((0, 4)))
