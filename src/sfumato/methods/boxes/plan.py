"""The plan of Boxes: made from the survey, run block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from sfumato.errors import OptionError
from sfumato.methods.boxes.axes import Axes, SetAxis, nodes, values_by_node
from sfumato.methods.boxes.optimality import OptimalityInput
from sfumato.methods.boxes.partition import BoxWeights, SampledRows, boxes_to_keep, partition, problem_of
from sfumato.methods.boxes.rules import effects
from sfumato.methods.partition import BoxPartition, Routes, SetLabels, label_sets
from sfumato.plan.claims.containment import AtMostNames, Containment
from sfumato.plan.claims.groups import CountedGroups, KAnonymity
from sfumato.plan.claims.kept_statistics import WeightTotalsKept
from sfumato.plan.claims.rows import ColumnsAllowed, RowsAccountedFor
from sfumato.plan.plan import Claim, Diagnostics, Evidence, Finding, Outcome, Plan, RuleEffect, SearchTrace, Trace
from sfumato.table.intervals import BOX, high_name, interval_names, low_name, missing_name
from sfumato.table.kinds import Kind, number_column
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.cut_kernels import CellFaces
    from sfumato.methods.boxes.diversity import DiversityRule, Protected
    from sfumato.methods.boxes.edges import Edges, Faces
    from sfumato.methods.boxes.search import SearchedBoxes
    from sfumato.methods.boxes.sensitivities import Kept, Sensitivities
    from sfumato.methods.options import SpectralBasis
    from sfumato.methods.search_budget import SearchBudget
    from sfumato.plan.earlier_releases import EarlierReleases
    from sfumato.randomness import Randomness


ATTACK = "an attack by linear programming can narrow down overlapping boxes, arXiv 2509.03350"
OVERLAP = f"boxes may overlap: {ATTACK}; with overlap='none' they do not overlap and are a few per cent wider"
OBLIQUE = f"boxes may overlap: {ATTACK}; they are the hulls, in the columns, of what was cut along components"
BYTES_PER_CELL = 40  # coordinate, weight and two faces, these twice while the rows are shuffled
NODES = "boxes may overlap, because a node of a tree also covers what the nodes below it cover"
BOXES_PER_BLOCK = 1 << 32  # so that box numbers are unique over all blocks


class BoxOptions(Protocol):
    """The options of ``Boxes`` that the plan reads; they are explained there."""

    @property
    def k(self) -> int: ...
    @property
    def slack(self) -> int: ...
    @property
    def sequence(self) -> str: ...
    @property
    def keep(self) -> Sequence[Any] | None: ...
    @property
    def edges(self) -> str: ...
    @property
    def suppress(self) -> float: ...
    @property
    def cut(self) -> str: ...
    @property
    def categories(self) -> str: ...
    @property
    def set_names(self) -> int | None: ...
    @property
    def search(self) -> SearchBudget | float | None: ...
    @property
    def overlap(self) -> str: ...
    @property
    def basis(self) -> SpectralBasis: ...


@dataclass(frozen=True, repr=False)
class BoxesPlan(Plan):
    """Axes, weights and rules, which are the same for every block."""

    options: BoxOptions
    axes: Axes
    kept: tuple[Kept, ...]
    sensitivities: Sensitivities
    diversity: DiversityRule
    edges: Edges
    routes: Routes
    passed: tuple[str, ...]  # columns that are released as they are
    pooled: str | None  # column of sampling weights that is released as the mean and the range of each box
    types: Mapping[str, pa.DataType]  # of the numeric quasi-identifiers
    randomness: Randomness
    earlier: EarlierReleases | None = None  # people who stay together, because earlier releases had them together

    @property
    def blocks(self) -> int:
        return self.routes.blocks

    @property
    def numbered(self) -> tuple[str, ...]:
        return (BOX,)

    @property
    def bytes_per_row(self) -> int:
        return BYTES_PER_CELL * len(self.axes.all)

    def route(self, rows: Table, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        return self.routes.of(self.axes.coordinates(rows), keys)

    @cached_property
    def group(self) -> tuple[str, ...]:
        """The released columns in which the rows of a box are equal."""
        columns: list[str] = []
        for axis in self.axes.numbers:
            columns += interval_names(axis.name, counts_missing=axis.has_missing)
        weights = () if self.pooled is None else (self.pooled, *interval_names(self.pooled))
        return (*columns, *(axis.name for axis in self.axes.sets), *weights, BOX)

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        covers = {axis.name: values_by_node(axis) for axis in self.axes.sets if self._by_tree(axis)}
        return (
            (OverlappingAnonymity if self._may_overlap else KAnonymity)(k=self.options.k, columns=self.group),
            *self.diversity.claims(self.group, self.axes),
            Containment(columns=(*self.axes.names, *(() if self.pooled is None else (self.pooled,))), covers=covers),
            *self._readable,
            *(() if self.pooled is None else (WeightTotalsKept(weight=self.pooled, box=BOX),)),
            RowsAccountedFor(suppressed_at_most=self.options.suppress),
            ColumnsAllowed(names=(*self.group, *self.passed)),
        )

    @property
    def notes(self) -> Mapping[str, Any]:
        return {
            "kept": [str(one.statistic) for one in self.kept] if self.options.keep is not None else [],
            "edges": self.options.edges,
            "l": self.diversity.l,
            "protected by l": list(self.diversity.columns),
            "basis": self.options.basis,
            **({"overlap": self._overlap} if self._overlap else {}),
        }

    @property
    def keeps_only_values(self) -> bool:
        return self.options.sequence == "values"

    def keep_together(self, earlier: EarlierReleases) -> BoxesPlan:
        by_columns = self.options.edges == "hull" and self.options.basis == "columns"
        if self.blocks > 1 or self.options.search is not None or not by_columns:
            raise OptionError(
                "With a ledger the boxes are the hulls of whole units in the columns, without a search, in one block.",
                found=f"{self.blocks} blocks, edges {self.options.edges!r}, basis {self.options.basis!r}, "
                f"{'no' if self.options.search is None else 'a'} search",
                fix="search=None, edges='hull' and basis='columns', and a table that fits into memory",
            )
        return replace(self, earlier=earlier)

    def transform(self, block: Table, number: int) -> Outcome:
        if self.earlier is not None and self.earlier.are_held_back.any():
            kept = np.flatnonzero(~self.earlier.are_held_back[self.earlier.places_of(block)])
            staying = self.earlier.of(np.flatnonzero(~self.earlier.are_held_back))
            left = max(self.options.suppress * block.rows - (block.rows - len(kept)), 0.0) / len(kept)
            options: Any = self.options
            others = replace(self, earlier=staying, options=replace(options, suppress=left)).transform(
                block.take(kept), number
            )
            return replace(others, origin=kept[others.origin])
        values = self.axes.coordinates(block)
        numbers = values[:, : len(self.axes.numbers)]
        edges = replace(self.edges, block=number)
        along_axes = self.diversity.protect(block, self.axes, along_axes=True)
        cell_faces = edges.cell_faces(numbers, self.axes.numbers, along_axes.people)
        weights = self.sensitivities.of(block)
        if self.earlier is None:
            boxes = self._cut(block, along_axes, values, weights, cell_faces, number)
        else:
            boxes = self._partition_units(block, along_axes, values, weights)
        searches: tuple[SearchTrace, ...] = ()
        rules: tuple[RuleEffect, ...] = ()
        if self.options.search is not None:
            searched = self._search(block, along_axes, values, weights, boxes, cell_faces, number)
            boxes, searches = searched.boxes, (searched.trace,)
        if self.sensitivities.rules is not None:
            plain = replace(self.sensitivities, rules=None).of(block)
            without = self._cut(block, along_axes, values, plain, cell_faces, number)
            rules = effects(self.sensitivities.rules, block, self.axes, values, without, boxes)
        if self.diversity.is_joined(self.axes) and not self._is_oblique:
            boxes = self._join(block, along_axes, boxes, values, weights, number)
        faces = edges.faces(boxes, numbers, self.axes.numbers, along_axes.people)
        labels = [
            self._labels(boxes, values[:, position], axis)
            for position, axis in enumerate(self.axes.sets, start=len(self.axes.numbers))
        ]
        is_kept = np.repeat(boxes_to_keep(boxes, values, weights, self.axes, self.options.suppress), boxes.sizes)
        box_of = boxes.numbers[is_kept]
        origin = boxes.order[is_kept]
        pools = None if self.pooled is None else BoxWeights.of(block.numbers(self.pooled), boxes)
        released = self._make_table(block, faces, labels, pools, box_of, origin, number)
        return Outcome(released, origin, Trace(searches=searches, rules=rules))

    def _cut(
        self,
        block: Table,
        protected: Protected,
        values: NDArray[np.float64],
        weights: NDArray[np.float32],
        cell_faces: CellFaces | None,
        number: int,
    ) -> BoxPartition:
        """Cut along the columns or, with diverse boxes, along the components of a basis."""
        if not self._is_oblique:
            return self._partition(protected, values, weights, cell_faces)
        from sfumato.methods.boxes.oblique import cut_in_basis

        everything = SampledRows(values, weights, self.diversity.protect(block, self.axes), self.axes)

        def cut(
            rows: NDArray[np.int64], axes: Axes, places: NDArray[np.float64], cost: NDArray[np.float32]
        ) -> BoxPartition:
            some, plan = block.take(rows), replace(self, axes=axes, edges=replace(self.edges, domain={}))
            along = self.diversity.protect(some, axes, along_axes=True)
            boxes = plan._partition(along, places, cost, None)
            return plan._join(some, along, boxes, places, cost, number) if self.diversity.is_joined(axes) else boxes

        assert self.options.basis != "columns"
        return cut_in_basis(
            self.axes,
            values,
            weights,
            self.options.basis,
            self.randomness.stream(f"basis {number}"),
            least=2 * self._least,
            is_enough=lambda rows: len(rows) >= self._least and everything.of(rows).is_diverse(self._least),
            cut=cut,
        )

    def _partition(
        self,
        protected: Protected,
        values: NDArray[np.float64],
        weights: NDArray[np.float32],
        cell_faces: CellFaces | None,
        least: int | None = None,
    ) -> BoxPartition:
        is_joined = self.diversity.is_joined(self.axes) and not self.axes.have_trees
        return partition(
            values,
            weights,
            self.axes,
            k=least or self._least,
            protected=protected,
            median=self.options.cut == "median",
            note_cuts=cell_faces is not None or self.options.search is not None or is_joined,
            faces=cell_faces,
        )

    def _partition_units(
        self, block: Table, protected: Protected, values: NDArray[np.float64], weights: NDArray[np.float32]
    ) -> BoxPartition:
        """Make boxes that contain those whole who were together in earlier releases."""
        from sfumato.methods.boxes.together import Hulls, choose_units, partition_units

        assert self.earlier is not None

        def split(
            points: NDArray[np.float64], cost: NDArray[np.float32], least: int, protected: Protected
        ) -> BoxPartition:
            return self._partition(protected, points, cost, None, least)

        _, rows, person_of = np.unique(self.earlier.places_of(block), return_index=True, return_inverse=True)
        everybody = Hulls(values, values, np.ones(len(values), dtype=np.int64), self.axes).joined(person_of)
        people = replace(everybody, sizes=np.ones(len(rows), dtype=np.int64))
        heavy = np.column_stack([np.bincount(person_of, column) for column in weights.T]).astype(np.float64)
        units = choose_units(self.earlier.of(self.earlier.places_of(block.take(rows))), people)
        each = replace(protected.of(rows), people=np.zeros(0, dtype=np.int64))
        chance = self.randomness.stream("exchanges of units")
        boxes = partition_units(people, heavy, units, k=self._least, protected=each, split=split, generator=chance)
        box_of = boxes[person_of]
        order = np.argsort(box_of, kind="stable")
        return BoxPartition(order, np.append(0, np.cumsum(np.bincount(box_of))), np.empty((0, 4)))

    def _join(
        self,
        block: Table,
        along_axes: Protected,
        boxes: BoxPartition,
        values: NDArray[np.float64],
        weights: NDArray[np.float32],
        number: int,
    ) -> BoxPartition:
        """Join boxes until all are diverse in the columns that are no axes, which had no say in the cuts."""
        from sfumato.methods.boxes.diversity import Demand, join_nearest, join_until_diverse

        sensitive = self.diversity.protect(block, self.axes, along_axes=False)
        chance = self.randomness.stream(f"joined boxes {number}")
        demand = Demand(sensitive, self._least, chance, Demand(along_axes, self._least, chance))
        if not len(boxes.cuts):
            return join_nearest(boxes, values, demand)
        numbers, edges = len(self.axes.numbers), replace(self.edges, block=number)

        def cut(rows: NDArray[np.int64]) -> BoxPartition:
            people = along_axes.of(rows).people
            faces = edges.cell_faces(values[rows, :numbers], self.axes.numbers, people)
            return self._partition(along_axes.of(rows), values[rows], weights[rows], faces)

        return join_until_diverse(boxes, values, demand, cut)

    def _search(
        self,
        block: Table,
        protected: Protected,
        values: NDArray[np.float64],
        weights: NDArray[np.float32],
        boxes: BoxPartition,
        cell_faces: CellFaces | None,
        number: int,
    ) -> SearchedBoxes:
        """Search for better boxes than the greedy ones, within the block's part of the budget.

        The exact widths of the kept statistics refer to the whole table and do not include expert rules. With several
        blocks or with rules, the search therefore minimises the first-order widths.
        """
        from sfumato.methods.boxes.search import ISLANDS, search
        from sfumato.methods.boxes.search_objective import judge_of
        from sfumato.methods.search_budget import SearchBudget

        assert isinstance(self.options.search, SearchBudget)
        problem = problem_of(values, weights, self.axes, k=self._least, protected=protected, faces=cell_faces)
        exact = self.blocks == 1 and self.sensitivities.rules is None
        weight = self.sensitivities.weight
        return search(
            boxes,
            problem,
            judge_of(
                problem,
                replace(self.edges, block=number),
                self.axes,
                self.kept if exact else (),
                None if weight is None else block.numbers(weight),
            ),
            overlap=self.options.overlap,
            budget=self.options.search.split(self.blocks),
            generators=[self.randomness.stream(f"search {number} {island}") for island in range(ISLANDS)],
        )

    def show_in_cells(self, rows: Table, released: Table) -> Table | None:
        if self.pooled is not None or self.axes.have_trees or self._is_oblique:
            return None
        from sfumato.methods.boxes.together import find_boxes

        found = released.take(find_boxes(self.axes, rows, released)).arrow.select(list(self.group))
        for name in self.passed:
            found = found.append_column(name, rows.arrow.column(name))
        return Table(found, released.kinds)

    def diagnostics(self, trace: Trace, evidence: Evidence) -> Diagnostics:
        compare = OptimalityInput.of(self.axes, self.sensitivities, self.diversity, self._least, evidence)
        return Diagnostics(searches=trace.searches, rules=trace.rules, compare_with_optimum=compare)

    @property
    def _least(self) -> int:
        """The people that each box is made of, of whom some may leave."""
        return self.options.k + self.options.slack

    @property
    def _is_oblique(self) -> bool:
        """Whether boxes are cut along components; without numbers there are none."""
        return self.options.basis != "columns" and bool(self.axes.numbers)

    @property
    def _may_overlap(self) -> bool:
        return self._is_oblique or (self.options.search is not None and self.options.overlap == "allowed")

    @property
    def _overlap(self) -> str:
        """The warning that boxes may overlap, or nothing."""
        if self._may_overlap:
            return OBLIQUE if self._is_oblique else OVERLAP
        return NODES if self.axes.have_trees else ""

    @property
    def _readable(self) -> tuple[AtMostNames, ...]:
        """The promise about the columns whose sets could have too many names."""
        most, columns = self.options.set_names, tuple(axis.name for axis in self.axes.sets if self._is_limited(axis))
        return (AtMostNames(most=most, columns=columns),) if most is not None and columns else ()

    def _is_limited(self, axis: SetAxis) -> bool:
        """Whether a set may have too many names; two names stay, so that 0 and 1 are read as an interval."""
        most = self.options.set_names
        return most is not None and axis.names > max(most, 2) and not self._by_tree(axis)

    def _by_tree(self, axis: SetAxis) -> bool:
        return self.options.categories == "tree" and axis.tree is not None

    def _labels(self, boxes: BoxPartition, ranks: NDArray[np.float64], axis: SetAxis) -> SetLabels:
        if self._by_tree(axis):
            return nodes(boxes, ranks, axis)
        return label_sets(boxes, ranks, axis.values, self.options.set_names if self._is_limited(axis) else None)

    def _make_table(
        self,
        block: Table,
        faces: Faces,
        labels: list[SetLabels],
        pools: BoxWeights | None,
        box_of: NDArray[np.int64],
        origin: NDArray[np.int64],
        number: int,
    ) -> Table:
        columns: dict[str, pa.Array] = {}
        kinds: dict[str, Kind] = {}
        rows = pa.array(box_of)
        for position, axis in enumerate(self.axes.numbers):
            for name, face in ((low_name(axis.name), faces.low), (high_name(axis.name), faces.high)):
                columns[name] = number_column(face[:, position], axis.kind, self.types[axis.name]).take(rows)
                kinds[name] = axis.kind
            if axis.has_missing:
                columns[missing_name(axis.name)] = pa.array(faces.missing[:, position]).take(rows)
                kinds[missing_name(axis.name)] = Kind.WHOLE
        for category, set_labels in zip(self.axes.sets, labels, strict=True):
            columns[category.name] = set_labels.labels.take(pa.array(set_labels.label_of[box_of]))
            kinds[category.name] = Kind.NOMINAL
        if self.pooled is not None and pools is not None:
            names = (self.pooled, *interval_names(self.pooled))
            for name, weights in zip(names, (pools.mean, pools.low, pools.high), strict=True):
                columns[name], kinds[name] = pa.array(weights).take(rows), Kind.CONTINUOUS
        columns[BOX], kinds[BOX] = pa.array(number * BOXES_PER_BLOCK + box_of), Kind.WHOLE
        rest = block.select(self.passed).take(origin)
        for name in self.passed:
            columns[name], kinds[name] = rest.arrow.column(name), rest.kinds[name]
        return Table(pa.table(columns), kinds)


@dataclass(frozen=True, kw_only=True)
class OverlappingAnonymity(KAnonymity):
    """k-anonymity of boxes that may overlap: the same count, with a warning."""

    def finding(self, tally: CountedGroups) -> Finding:
        finding = super().finding(tally)
        return replace(finding, claim=f"{finding.claim}, in boxes that may overlap ({ATTACK})")
