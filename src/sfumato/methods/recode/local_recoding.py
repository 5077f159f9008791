"""Local recoding: each group of rows is released as the lowest nodes that cover its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.methods.recode.global_recoding import Loss
from sfumato.methods.recodings.buckets import Buckets
from sfumato.methods.recodings.groupings import Groupings
from sfumato.methods.recodings.recoding import (
    Recoded,
    ValueMap,
    covered_values,
    released_columns,
    require_unused,
    texts,
)
from sfumato.plan.claims.containment import Containment
from sfumato.plan.claims.risk import rows_for_risk
from sfumato.plan.claims.rows import ColumnsAllowed, RowsAccountedFor
from sfumato.plan.plan import Claim, Outcome, Plan
from sfumato.schema.hierarchies import ROOT
from sfumato.schema.suggested_hierarchies import tree_for
from sfumato.table.intervals import interval_names
from sfumato.table.kinds import Kind, number_column
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.recodings.group_rules import GroupRules
    from sfumato.methods.recodings.quasi_columns import QuasiColumns
    from sfumato.plan.sketches import WeightedPoints
    from sfumato.randomness import Randomness


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LocalColumn:
    """A quasi-identifier and its nested groups of values."""

    name: str
    kind: Kind  # of the original column
    type: pa.DataType
    values: pa.Array  # with the missing one last, if there is one
    levels: tuple[NDArray[np.int32], ...]  # node of each value, from the values themselves to one node
    costs: tuple[NDArray[np.float64], ...]  # cost of that node
    words: tuple[tuple[str | None, ...], ...]  # word of each value's node on each level; empty for ranges
    ends: tuple[tuple[NDArray[np.float64], ...], ...] | None  # lowest and highest of the nodes, for numbers
    how: str

    @property
    def released_names(self) -> tuple[str, ...]:
        """Names of the columns that are released for it."""
        return (self.name,) if self.ends is None else tuple(interval_names(self.name))

    @property
    def covers(self) -> Mapping[str | None, frozenset[str | None]]:
        """The original values of each released word, all as text; None for a missing one."""
        return covered_values(self.words, self.values)

    @classmethod
    def of(cls, columns: QuasiColumns, grouped: Groupings, loss: Loss) -> LocalColumn:
        """Return a quasi-identifier with the nodes of its tree or, without one, of its nested groups of values."""
        name, table, levels = grouped.name, columns.sample.table, grouped.levels
        is_range = name in columns.points
        values = table.coded(name).values if is_range else columns.distinct[name].values
        tree = None if is_range else tree_for(columns.schema[name], values)
        root = (tree.names[-1][0] if tree else ROOT) if values.null_count else None
        how = "nodes of its tree" if tree else "ranges" if is_range else "runs of neighbouring values"
        if not is_range and tree is None and table.kinds[name] is not Kind.ORDERED:
            root, how = ROOT, f"kept, or {ROOT}"
            levels = (levels[0], levels[-1])[: len(levels)]
        return cls(
            name=name,
            kind=table.kinds[name],
            type=table.arrow.column(name).type,
            values=values,
            levels=levels,
            costs=_costs(grouped, levels, loss),
            words=() if is_range else tuple(_words(grouped, level, values, root) for level in levels),
            ends=tuple(_ranges(grouped, level, columns.points[name]) for level in levels) if is_range else None,
            how=how,
        )

    def positions(self, rows: Table) -> NDArray[np.int32]:
        """Return the position of each row's value."""
        coded = rows.coded(self.name)
        place = pc.index_in(coded.values, value_set=self.values).to_numpy(zero_copy_only=False)
        return np.asarray(place.astype(np.int32)[coded.codes])

    def groupings(self, positions: NDArray[np.int32]) -> Groupings:
        """Return the nested groupings for some rows; they are not recoded by them."""
        return Groupings(self.name, positions, self.levels)

    def show(self, positions: NDArray[np.int32], levels: NDArray[np.int64]) -> tuple[Recoded, ...]:
        """Return the released columns of rows with these values, each on its level."""
        place = pa.array(levels * len(self.values) + positions)
        if self.ends is None:
            cells = pa.array([word for words in self.words for word in words], pa.string())
            return (Recoded(self.name, cells.take(place), Kind.NOMINAL),)
        faces = (np.concatenate([ends[side] for ends in self.ends]) for side in (0, 1))
        return tuple(
            Recoded(name, number_column(face, self.kind, self.type).take(place), self.kind)
            for name, face in zip(self.released_names, faces, strict=True)
        )


def _costs(column: Groupings, levels: Sequence[NDArray[np.int32]], loss: Loss) -> tuple[NDArray[np.float64], ...]:
    """Return the cost of each value's node: values left open, or the logarithm of the rows of the node."""
    if loss == "granularity":
        return tuple(column.losses(np.bincount(level)[level]) for level in levels)
    rows = np.bincount(column.value_of_row, minlength=column.size).astype(np.float64)
    return tuple(column.weight * np.log2(np.maximum(np.bincount(level, weights=rows)[level], 1.0)) for level in levels)


def _words(column: Groupings, level: NDArray[np.int32], values: pa.Array, root: str | None) -> tuple[str | None, ...]:
    """Return the word of each value's node; the root's if nothing is told, not even whether there is a value."""
    if len(level) > 1 and root is not None and not level.any():
        return (root,) * len(level)
    recoding = column.recode(level)
    return tuple(texts(recoding.cells if isinstance(recoding, ValueMap) else values))


def _ranges(column: Groupings, level: NDArray[np.int32], points: WeightedPoints) -> tuple[NDArray[np.float64], ...]:
    """Return the lowest and the highest number of each value's node; NaN if a value is missing."""
    buckets = column.recode(level)
    if not isinstance(buckets, Buckets):
        ends = points.values, points.values
    elif buckets.hidden >= 0:
        ends = (np.full(len(points.values), np.nan),) * 2
    else:
        nodes = level[: len(points.values)]
        node = np.cumsum(np.diff(nodes, prepend=nodes[0]) != 0)
        ends = buckets.low[node], buckets.high[node]
    return tuple(np.append(one, np.full(len(level) - len(one), np.nan)) for one in ends)


USUAL_SIZE = 0.75  # smallest group, as a share of the mean one, in most tables
TRIALS = 4  # k that are tried for an average risk, about


OVERLAP = (
    "nodes of different groups may contain each other: an attack by linear programming can narrow down sensitive "
    "values, arXiv 2509.03350; kind='global' has no such groups"
)


@dataclass(frozen=True, kw_only=True, repr=False)
class LocalPlan(Plan):
    """Group all rows, and release each group as nodes."""

    names: tuple[str, ...]  # of all columns that are released, before recoding
    columns: tuple[LocalColumn, ...]
    rules: GroupRules
    seconds: float  # longest time of the search
    randomness: Randomness

    def __post_init__(self) -> None:
        require_unused(released_columns(self.names, self.columns))

    @property
    def needs_whole_table(self) -> bool:
        return True

    @property
    def released_names(self) -> tuple[str, ...]:
        return tuple(chain.from_iterable(released_columns(self.names, self.columns).values()))

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        quasi = tuple(name for column in self.columns for name in column.released_names)
        covers = {column.name: column.covers for column in self.columns if column.ends is None}
        names = tuple(column.name for column in self.columns)
        return (
            *self.rules.claims(quasi),
            *((Containment(columns=names, covers=covers, empty_is_unknown=True),) if names else ()),
            RowsAccountedFor(),
            ColumnsAllowed(names=self.released_names),
        )

    @property
    def notes(self) -> Mapping[str, Any]:
        return {"overlap": OVERLAP, "columns": {column.name: {"how": column.how} for column in self.columns}}

    def transform(self, block: Table, number: int) -> Outcome:
        if not self.columns:
            return Outcome(block.select(self.names), np.arange(block.rows))
        levels = self._levels(block, number)
        cells: dict[str, Any] = {}
        kinds = {}
        recoded = {column.name: place for place, column in enumerate(self.columns)}
        for name in self.names:
            if name not in recoded:
                cells[name], kinds[name] = block.arrow.column(name), block.kinds[name]
                continue
            column = self.columns[recoded[name]]
            for shown in column.show(column.positions(block), levels[:, recoded[name]]):
                cells[shown.name], kinds[shown.name] = shown.cells, shown.kind
        return Outcome(Table(pa.table(cells), kinds), np.arange(block.rows))

    def _levels(self, block: Table, number: int) -> NDArray[np.int64]:
        """Return the level of each row in each column.

        An average risk is one of all groups together: small groups are allowed if others are larger. The smallest k
        with which the groups have it is looked for between that of the rules and the one with which they must have it.
        """
        if self.rules.average_risk is None:
            return self._grouped(block, number, self.rules.k, self.seconds)
        least, enough = self.rules.k, max(self.rules.k, rows_for_risk(self.rules.average_risk))
        tried = max(least, round(enough * USUAL_SIZE))
        best = None
        while least < enough:
            levels = self._grouped(block, number, tried, self.seconds / TRIALS)
            if self._has_average_risk(block, levels):
                best, enough = levels, tried
            else:
                least = tried + 1
            tried = (least + enough) // 2
        return self._grouped(block, number, enough, self.seconds) if best is None else best

    def _has_average_risk(self, block: Table, levels: NDArray[np.int64]) -> bool:
        """Return whether the groups of rows that are released alike are large enough on average."""
        nodes = [
            level * (len(column.values) + 1) + np.array(column.levels)[level, column.positions(block)]
            for column, level in zip(self.columns, levels.T, strict=True)
        ]
        labels = np.unique(np.column_stack(nodes), axis=0, return_inverse=True)[1].ravel()
        people = self.rules.people_of(block)
        if people is not None:
            labels = np.unique(np.stack([labels, people]), axis=1)[0]
        return self.rules.are_enough(np.bincount(labels))

    def _grouped(self, block: Table, number: int, k: int, seconds: float) -> NDArray[np.int64]:
        """Return the levels with which every group has at least k rows."""
        from sfumato.methods.recodings.local_groups import local_groups

        grouped = [column.groupings(column.positions(block)) for column in self.columns]
        return local_groups(
            grouped,
            [column.costs for column in self.columns],
            replace(self.rules, k=k),
            self.rules.sensitive_of(block),
            self.rules.people_of(block),
            self.randomness.stream(f"local recoding {number}"),
            seconds,
        )


def local_plan(
    columns: QuasiColumns, rules: GroupRules, randomness: Randomness, *, loss: Loss, seconds: float
) -> LocalPlan:
    """Return the plan; the groups are found when it is run."""
    return LocalPlan(
        names=tuple(column.name for column in columns.schema.columns),
        columns=tuple(LocalColumn.of(columns, grouped, loss) for grouped in columns.groupings),
        rules=rules,
        seconds=seconds,
        randomness=randomness,
    )
