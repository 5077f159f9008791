"""What the worker finds about single records: who is at risk and why, which columns tell which, and levels of recoding.

Records are numbered by their rows, from 1 as in a file. Numbers and reasons are shown to the visitor and kept nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from sfumato.app.tasks import TableCache, Task
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.schema.columns import Column
    from sfumato.schema.schema import FittedTable, Schema
    from sfumato.table.table import Table

LARGEST_SET, MOST_SETS = 3, 500  # columns of a set that may single out a row, and sets that are tried
MOST_RECORDS, MOST_REASONS, MOST_GROUPS, MOST_ROWS = 30, 4, 30, 12  # that are listed
MOST_MAPPED, MAPPED_ROWS, BINS = 30, 20_000, 8  # columns of the map, rows that it counts, and parts of a number's range
SMALLEST_K = 5  # if no k was chosen


@dataclass(frozen=True, kw_only=True)
class RiskyRecord:
    """A row that few columns single out."""

    row: int
    alike: int  # rows that are equal in all quasi-identifiers, this one included
    reasons: tuple[tuple[str, ...], ...]  # smallest sets of columns in which nobody else is like it


@dataclass(frozen=True, kw_only=True)
class ViolatingGroup:
    """Rows that are equal in all quasi-identifiers, and too few or too alike for a promise."""

    size: int
    rows: tuple[int, ...]  # the first of them
    uniform: tuple[str, ...]  # sensitive columns with fewer values than promised


@dataclass(frozen=True, kw_only=True)
class RecordsAtRisk:
    """The riskiest records, and the groups that would break a promise if nothing were done."""

    k: int
    l: int
    quasi: tuple[str, ...]
    records: tuple[RiskyRecord, ...]
    singled_out: int  # rows with a reason
    is_complete: bool  # whether all sets of columns of this size were tried
    groups: tuple[ViolatingGroup, ...]  # of several people
    alone: int  # groups of one person
    violating: int  # groups in all
    people: int  # in them


@dataclass(frozen=True, kw_only=True)
class FindRecords(Task):
    """Find the riskiest records, with reasons, and the groups that violate a promise."""

    schema: Schema
    k: int
    l: int

    def perform(self, held: TableCache) -> RecordsAtRisk:
        import numpy as np

        from sfumato.schema.columns import Role
        from sfumato.table.groups import group_labels

        fitted = held.fit(self.source, self.schema)
        quasi, sensitive = fitted.schema.names(Role.QUASI), fitted.schema.names(Role.SENSITIVE)
        if not quasi:
            raise SchemaError("Risks need at least one quasi-identifier.", found="none", fix="give columns this role")
        labels = group_labels(fitted.table, list(quasi))
        sizes = np.bincount(labels)
        reasons, is_complete = _reasons(fitted.table, quasi, held)
        ranked = sorted(reasons, key=lambda row: (len(reasons[row][0]), -_score(reasons[row], len(quasi)), row))
        groups = list(_violating(fitted.table, labels, sizes, sensitive, self.k, self.l))
        return RecordsAtRisk(
            k=self.k,
            l=self.l,
            quasi=quasi,
            records=tuple(
                RiskyRecord(row=row + 1, alike=int(sizes[labels[row]]), reasons=tuple(reasons[row][:MOST_REASONS]))
                for row in ranked[:MOST_RECORDS]
            ),
            singled_out=len(reasons),
            is_complete=is_complete,
            groups=tuple([group for group in groups if group.size > 1][:MOST_GROUPS]),
            alone=sum(group.size == 1 for group in groups),
            violating=len(groups),
            people=sum(group.size for group in groups),
        )


def _reasons(table: Table, quasi: Sequence[str], held: TableCache) -> tuple[dict[int, list[tuple[str, ...]]], bool]:
    """Return the smallest sets of columns that single out each row, and whether all sets of this size were tried."""
    import numpy as np

    from sfumato.table.groups import group_labels

    largest = min(LARGEST_SET, len(quasi))
    sets = [one for size in range(1, largest + 1) for one in combinations(quasi, size)]
    found: dict[int, list[tuple[str, ...]]] = {}
    for number, names in enumerate(sets[:MOST_SETS]):
        held.report(number / min(len(sets), MOST_SETS))
        labels = group_labels(table, list(names))
        alone = np.flatnonzero(np.bincount(labels)[labels] == 1)
        for row in alone.tolist():
            known = found.setdefault(row, [])
            if not any(set(one) < set(names) for one in known):
                known.append(names)
    return found, len(sets) <= MOST_SETS


def _score(sets: Sequence[tuple[str, ...]], columns: int) -> int:
    """Return how exposed a row is: the number of larger sets that each of its smallest ones is part of.

    >>> _score([("age",)], 3), _score([("age", "sex")], 3)
    (4, 2)
    """
    return sum(2 ** (columns - len(one)) for one in sets)


def _violating(
    table: Table, labels: NDArray[np.int64], sizes: NDArray[np.int64], sensitive: Sequence[str], k: int, l: int
) -> Iterator[ViolatingGroup]:
    """Yield the groups that are smaller than k, or have fewer than l values of a sensitive column, smallest first."""
    import numpy as np

    few = {}
    for name in sensitive:
        codes = table.coded(name).codes.astype(np.int64)
        pairs = np.unique(np.column_stack([labels, codes]), axis=0)
        few[name] = np.bincount(pairs[:, 0], minlength=len(sizes)) < l
    wrong = sizes < k
    for is_uniform in few.values():
        wrong = wrong | is_uniform
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for group in sorted(np.flatnonzero(wrong).tolist(), key=lambda one: int(sizes[one])):
        rows = order[starts[group] : starts[group + 1]][:MOST_ROWS]
        yield ViolatingGroup(
            size=int(sizes[group]),
            rows=tuple(int(row) + 1 for row in rows),
            uniform=tuple(name for name, is_uniform in few.items() if is_uniform[group]),
        )


# Which column tells which.


@dataclass(frozen=True, kw_only=True)
class AssociatedPair:
    """What two columns tell of each other, in percent."""

    known: Column
    place: str  # of the known one among all columns
    share: int  # of the other column, by the known one
    back: int  # of the known one, by the other column
    is_copy: bool  # whether one determines the other


@dataclass(frozen=True, kw_only=True)
class AssociationMap:
    """How much of each column is known to somebody who knows another one."""

    columns: tuple[str, ...]
    shares: tuple[tuple[float, ...], ...]  # by the known column, then by the one that it tells; 0 nothing, 1 all
    copies: Mapping[str, tuple[str, ...]]  # columns that determine others, or are determined by them, exactly
    more: int  # columns that are not shown

    def pair(self, known: Column, told: str, *, place: str) -> AssociatedPair | None:
        """Return what a column tells of another one, and the other way round; None if one is not on the map."""
        if known.name not in self.columns or told not in self.columns:
            return None
        one, other = self.columns.index(known.name), self.columns.index(told)
        return AssociatedPair(
            known=known,
            place=place,
            share=round(100 * self.shares[one][other]),
            back=round(100 * self.shares[other][one]),
            is_copy=told in self.copies.get(known.name, ()) or known.name in self.copies.get(told, ()),
        )


@dataclass(frozen=True, kw_only=True)
class MapAssociations(Task):
    """Measure what each column tells about each other one."""

    schema: Schema

    def perform(self, held: TableCache) -> AssociationMap:
        import numpy as np

        from sfumato.risk.functional_copies import find_copies
        from sfumato.schema.columns import NAMING

        fitted = held.fit(self.source, self.schema)
        names = [column.name for column in fitted.schema.columns if column.role not in NAMING]
        shown = names[:MOST_MAPPED]
        chosen = np.random.default_rng(0).permutation(fitted.table.rows)[:MAPPED_ROWS]
        codes = [_coarse_codes(fitted, name)[chosen] for name in shown]
        shares = []
        for number, known in enumerate(codes):
            held.report(number / max(1, len(codes)))
            shares.append(tuple(1.0 if known is told else tells(known, told) for told in codes))
        copies = find_copies(fitted.table, shown, shown)
        others = {name: tuple(one for one in told if one != name) for name, told in copies.items()}
        return AssociationMap(
            columns=tuple(shown),
            shares=tuple(shares),
            copies={name: told for name, told in others.items() if told},
            more=len(names) - len(shown),
        )


def _coarse_codes(fitted: FittedTable, name: str) -> NDArray[np.int64]:
    """Return a column as few codes: numbers in parts of equal size, and rare categories together."""
    import numpy as np

    coded = fitted.table.coded(name)
    codes = coded.codes.astype(np.int64)
    if coded.size <= BINS:
        return codes
    if fitted.table.kinds[name].is_numeric:  # codes are in the order of the values
        place = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=coded.size))[:-1]])
        return place[codes] * BINS // max(1, len(codes))
    rank = np.empty(coded.size, dtype=np.int64)
    rank[np.argsort(-np.bincount(codes, minlength=coded.size), kind="stable")] = np.arange(coded.size)
    return np.minimum(rank[codes], BINS - 1)


def tells(known: NDArray[np.int64], told: NDArray[np.int64]) -> float:
    """Return the share of a column's entropy that another one removes, less what chance would (Theil's U).

    >>> import numpy as np
    >>> x = np.arange(8000) % 4
    >>> tells(x, x // 2), tells(x // 2, x), round(tells(x, np.random.default_rng(0).integers(0, 2, 8000)), 2)
    (1.0, 0.5, 0.0)
    """
    import numpy as np

    joint = np.zeros((int(known.max(initial=0)) + 1, int(told.max(initial=0)) + 1))
    np.add.at(joint, (known, told), 1.0)
    joint = joint[joint.sum(axis=1) > 0][:, joint.sum(axis=0) > 0]
    total = _entropy(joint.sum(axis=0))
    if total == 0.0:
        return 0.0
    gained = total + _entropy(joint.sum(axis=1)) - _entropy(joint.ravel())
    if total - gained < 1e-9:
        return 1.0
    chance = (joint.shape[0] - 1) * (joint.shape[1] - 1) / (2.0 * len(known))  # mean of the gain if neither tells
    return float(round(min(1.0, max(0.0, (gained - chance) / total)), 6))


def _entropy(counts: NDArray[np.float64]) -> float:
    import numpy as np

    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


# A lattice of recodings: one level per column, from its values to nothing at all.


@dataclass(frozen=True, kw_only=True)
class LatticeNode:
    """One combination of levels, and what it would release."""

    levels: tuple[int, ...]
    suppressed: float  # share of the rows in groups of fewer than k
    smallest: int  # rows of the smallest group
    groups: int
    loss: float  # share of the detail that is lost, suppressed rows included

    @property
    def holds(self) -> bool:
        """Whether every group has k rows without any being left out."""
        return self.suppressed == 0.0


@dataclass(frozen=True, kw_only=True)
class LatticeColumn:
    """A column of the lattice: its levels, and how many values each has; before and after, with shares of rows."""

    name: str
    values: tuple[int, ...]  # of each level
    before: tuple[float, ...]  # shares of the largest values
    after: tuple[float, ...]  # shares of the largest groups of values


@dataclass(frozen=True, kw_only=True)
class LatticeView:
    """A node, the nodes one step away from it, and the best one that was found."""

    k: int
    rows: int
    columns: tuple[LatticeColumn, ...]
    node: LatticeNode
    original: LatticeNode
    finer: tuple[LatticeNode | None, ...]  # by column
    coarser: tuple[LatticeNode | None, ...]


@dataclass(frozen=True, kw_only=True)
class WalkLattice(Task):
    """Look at one combination of levels, and at its neighbours."""

    schema: Schema
    k: int
    levels: tuple[int, ...]  # of the quasi-identifiers in order; empty: a start

    def perform(self, held: TableCache) -> LatticeView:
        lattice = _Lattice.of(held.fit(self.source, self.schema), self.k)
        highest = [len(column.levels) - 1 for column in lattice.columns]
        given = self.levels or tuple(0 for _ in highest)
        at = tuple(min(max(level, 0), top) for level, top in zip((*given, *[0] * len(highest)), highest, strict=False))
        at = lattice.start() if not self.levels else at
        return LatticeView(
            k=self.k,
            rows=lattice.rows,
            columns=tuple(lattice.column(place, level) for place, level in enumerate(at)),
            node=lattice.node(at),
            original=lattice.node(tuple(0 for _ in at)),
            finer=tuple(lattice.node(_step(at, place, -1)) if at[place] else None for place in range(len(at))),
            coarser=tuple(
                lattice.node(_step(at, place, 1)) if at[place] < highest[place] else None for place in range(len(at))
            ),
        )


def _step(levels: tuple[int, ...], place: int, by: int) -> tuple[int, ...]:
    return (*levels[:place], levels[place] + by, *levels[place + 1 :])


@dataclass(frozen=True, repr=False)
class _Lattice:
    """The levels that the method ``recode`` searches, and how to count a combination of them."""

    columns: Sequence[Any]  # groupings of values
    k: int

    @classmethod
    def of(cls, fitted: FittedTable, k: int) -> _Lattice:
        from sfumato.engines.memory.engine import MemorySurvey
        from sfumato.methods.recodings.quasi_columns import QuasiColumns
        from sfumato.randomness import Randomness
        from sfumato.schema.columns import Role

        if not fitted.schema.names(Role.QUASI):
            raise SchemaError("Risks need at least one quasi-identifier.", found="none", fix="give columns this role")
        columns = QuasiColumns.of(MemorySurvey(fitted.table), fitted.schema, Randomness(0))
        return cls(columns.groupings, k)

    @property
    def rows(self) -> int:
        return len(self.columns[0].value_of_row)

    def start(self) -> tuple[int, ...]:
        """Return a combination in which all groups have k rows: from the top, ever finer where that still holds."""
        at = tuple(len(column.levels) - 1 for column in self.columns)
        while True:
            finer = [_step(at, place, -1) for place, level in enumerate(at) if level]
            holding = [node for one in finer if (node := self.node(one)).holds]
            if not holding:
                return at
            at = min(holding, key=lambda node: node.loss).levels

    def node(self, levels: tuple[int, ...]) -> LatticeNode:
        import numpy as np

        from sfumato.table.groups import refine

        labels, lost = np.zeros(self.rows, dtype=np.int64), np.zeros(self.rows)
        for column, level in zip(self.columns, levels, strict=True):
            groups = column.levels[level]
            labels = refine(labels, groups[column.value_of_row], int(groups.max(initial=0)) + 1)
            covered = np.bincount(groups)[groups]
            lost += ((covered - 1.0) / max(1, column.size - 1))[column.value_of_row] / len(self.columns)
        sizes = np.bincount(labels)
        small = sizes[labels] < self.k
        return LatticeNode(
            levels=levels,
            suppressed=float(small.mean()),
            smallest=int(sizes.min(initial=self.rows)),
            groups=len(sizes),
            loss=float(np.where(small, 1.0, lost).mean()),
        )

    def column(self, place: int, level: int) -> LatticeColumn:
        import numpy as np

        column = self.columns[place]

        def shares(groups: NDArray[np.int32]) -> tuple[float, ...]:
            counts = np.sort(np.bincount(groups[column.value_of_row]))[::-1][:BINS]
            return tuple(round(float(count), 2) for count in counts / self.rows)

        return LatticeColumn(
            name=column.name,
            values=tuple(int(groups.max(initial=0)) + 1 for groups in column.levels),
            before=shares(column.levels[0]),
            after=shares(column.levels[level]),
        )
