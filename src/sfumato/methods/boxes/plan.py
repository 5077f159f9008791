"""The plan of boxes: decided from the survey, carried out block by block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.methods.base import Outcome, Plan
from sfumato.methods.boxes.categories import Words, covered, nodes, sets
from sfumato.methods.boxes.limit import Limit, limit
from sfumato.methods.boxes.partition import Leaves, partition
from sfumato.methods.claims import ColumnsAllowed, Containment, KAnonymity, RowsAccountedFor
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.axes import Axes, NumberAxis, SetAxis
    from sfumato.methods.boxes.diversity import DiversityRule
    from sfumato.methods.boxes.edges import Edges, Faces
    from sfumato.methods.boxes.method import Boxes
    from sfumato.methods.boxes.routing import Routes
    from sfumato.methods.boxes.sensitivities import Kept, Sensitivities
    from sfumato.methods.claims import Claim, Evidence

BOXES_A_BLOCK = 1 << 32  # numbers of boxes are unique over blocks


@dataclass(frozen=True, repr=False)
class BoxesPlan(Plan):
    """Axes, weights and rules; every block is cut by the same ones."""

    options: Boxes
    axes: Axes
    kept: tuple[Kept, ...]
    sensitivities: Sensitivities
    diversity: DiversityRule
    edges: Edges
    routes: Routes
    passed: tuple[str, ...]  # columns that leave as they are
    types: Mapping[str, pa.DataType]  # of the numeric quasi-identifiers

    @property
    def blocks(self) -> int:
        return self.routes.blocks

    def route(self, rows: Table) -> NDArray[np.int64]:
        return self.routes.of(self.axes.coordinates(rows))

    @cached_property
    def group(self) -> tuple[str, ...]:
        """The released columns in which the rows of a box are equal."""
        columns = []
        for axis in self.axes.numbers:
            columns += [f"{axis.name}_low", f"{axis.name}_high"]
            columns += [f"{axis.name}_missing"] if axis.has_missing else []
        return (*columns, *(axis.name for axis in self.axes.sets), "box")

    @property
    def claims(self) -> tuple[Claim, ...]:
        covers = {axis.name: covered(axis) for axis in self.axes.sets if self._by_tree(axis)}
        return (
            KAnonymity(k=self.options.k, columns=self.group),
            *self.diversity.claims(self.group, self.axes),
            Containment(columns=self.axes.names, covers=covers),
            RowsAccountedFor(suppressed_at_most=self.options.suppress),
            ColumnsAllowed(names=(*self.group, *self.passed)),
        )

    @property
    def notes(self) -> Mapping[str, Any]:
        return {
            "kept": [str(one.statistic) for one in self.kept] if self.options.keep is not None else [],
            "edges": self.options.edges,
        }

    def transform(self, block: Table, number: int) -> Outcome:
        values = self.axes.coordinates(block)
        weights = self.sensitivities.of(block)
        leaves = partition(
            values,
            weights,
            self.axes,
            k=self.options.k,
            protected=self.diversity.protected(block, self.axes),
            median=self.options.cut == "median",
            note_cuts=self.options.edges == "cells",
        )
        faces = self.edges.faces(leaves, values[:, : len(self.axes.numbers)], self.axes.numbers)
        words = [
            self._words(leaves, values[:, position], axis)
            for position, axis in enumerate(self.axes.sets, start=len(self.axes.numbers))
        ]
        leaving = np.repeat(leaves_to_keep(leaves, values, weights, self.options.suppress), leaves.sizes)
        box_of = np.repeat(np.arange(leaves.count), leaves.sizes)[leaving]
        origin = leaves.order[leaving]
        return Outcome(self._released(block, faces, words, box_of, origin, number), origin)

    def limit(self, evidence: Evidence) -> Limit | None:
        return limit(self.axes, self.sensitivities, self.diversity, self.options.k, evidence)

    def _by_tree(self, axis: SetAxis) -> bool:
        return self.options.categories == "tree" and axis.tree is not None

    def _words(self, leaves: Leaves, ranks: NDArray[np.float64], axis: SetAxis) -> Words:
        return nodes(leaves, ranks, axis) if self._by_tree(axis) else sets(leaves, ranks, axis)

    def _released(
        self,
        block: Table,
        faces: Faces,
        words: list[Words],
        box_of: NDArray[np.int64],
        origin: NDArray[np.int64],
        number: int,
    ) -> Table:
        columns: dict[str, pa.Array] = {}
        kinds: dict[str, Kind] = {}
        rows = pa.array(box_of)
        for position, axis in enumerate(self.axes.numbers):
            for side, face in (("low", faces.low), ("high", faces.high)):
                columns[f"{axis.name}_{side}"] = _typed(face[:, position], self.types[axis.name], axis).take(rows)
                kinds[f"{axis.name}_{side}"] = axis.kind
            if axis.has_missing:
                columns[f"{axis.name}_missing"] = pa.array(faces.missing[:, position]).take(rows)
                kinds[f"{axis.name}_missing"] = Kind.WHOLE
        for category, said in zip(self.axes.sets, words, strict=True):
            columns[category.name] = said.words.take(pa.array(said.word_of[box_of]))
            kinds[category.name] = Kind.NOMINAL
        columns["box"], kinds["box"] = pa.array(number * BOXES_A_BLOCK + box_of), Kind.WHOLE
        rest = block.select(self.passed).take(origin)
        for name in self.passed:
            columns[name], kinds[name] = rest.arrow.column(name), rest.kinds[name]
        return Table(pa.table(columns), kinds)


def leaves_to_keep(
    leaves: Leaves, values: NDArray[np.float64], weights: NDArray[np.float32], suppress: float
) -> NDArray[np.bool_]:
    """Which boxes leave: all, less the widest ones that hold at most the share ``suppress`` of the rows.

    Only a box that costs more than twice the average for each of its records goes: suppression is there for records
    that no box fits, not to be used up.
    """
    leaving = np.ones(leaves.count, dtype=bool)
    if suppress:
        from sfumato.kernels import faces as kernel

        low, high = kernel.hulls(values, leaves.order, leaves.starts)
        heft = np.add.reduceat(weights[leaves.order].astype(np.float64), leaves.starts[:-1], axis=0)
        cost = (heft * (high - low)).sum(axis=1) / leaves.sizes
        dear = np.flatnonzero(cost > 2.0 * np.average(cost, weights=leaves.sizes))
        dear = dear[np.argsort(-cost[dear], kind="stable")]
        leaving[dear[np.cumsum(leaves.sizes[dear]) <= suppress * leaves.order.size]] = False
    return leaving


def _typed(face: NDArray[np.float64], kind: pa.DataType, axis: NumberAxis) -> pa.Array:
    """A face in the type of its column, missing where the box holds no value."""
    empty = np.isnan(face)
    if axis.kind is Kind.CONTINUOUS:
        return pa.array(face, mask=empty)
    whole = pa.array(np.where(empty, 0.0, face).astype(np.int64), mask=empty)
    if axis.kind is Kind.WHOLE:
        return whole
    if pa.types.is_date(kind):
        return whole.cast(pa.int32()).cast(pa.date32())
    return whole.cast(pa.timestamp("us", tz=kind.tz))
