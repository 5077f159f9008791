"""Local recoding: each group of rows is released as the lowest nodes that cover its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.methods.base import Outcome, Plan
from sfumato.methods.claims import ColumnsAllowed, Containment, RowsAccountedFor, rows_for_risk
from sfumato.methods.classical.local_columns import LocalColumn
from sfumato.methods.recodings.recoding import released_columns, require_unused
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.claims import Claim
    from sfumato.methods.classical.group_rules import GroupRules
    from sfumato.methods.classical.level_judge import Loss
    from sfumato.methods.recodings.quasi_columns import QuasiColumns
    from sfumato.randomness import Randomness

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
        require_unused(self.released_names)

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
        """Return the level of each row in each column."""
        from sfumato.methods.classical.local_groups import local_groups

        grouped = [column.groupings(column.positions(block)) for column in self.columns]
        return local_groups(
            grouped,
            [column.costs for column in self.columns],
            self.rules,
            self.rules.columns_of(block),
            self.randomness.stream(f"local recoding {number}"),
            self.seconds,
        )


def local_plan(
    columns: QuasiColumns, rules: GroupRules, randomness: Randomness, *, loss: Loss, seconds: float
) -> LocalPlan:
    """Return the plan; the groups are found when it is run."""
    if rules.average_risk is not None:  # groups of at least 1 ÷ risk rows have this average risk, too
        rules = replace(rules, k=max(rules.k, rows_for_risk(rules.average_risk)))
    return LocalPlan(
        names=tuple(column.name for column in columns.schema.columns),
        columns=tuple(LocalColumn.of(columns, grouped, loss) for grouped in columns.groupings),
        rules=rules,
        seconds=seconds,
        randomness=randomness,
    )
