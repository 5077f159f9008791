"""Run a plan on a table in memory, in one block or in many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.engines.machine import available_memory
from sfumato.errors import OutOfMemory
from sfumato.plan.claim import Evidence
from sfumato.plan.plan import Trace
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.plan import Plan
    from sfumato.table.kinds import Kind


@dataclass(frozen=True, repr=False)
class MemoryWork:
    """Released rows with the original rows they come from, and what the blocks reported."""

    evidence: Evidence
    trace: Trace

    @property
    def released(self) -> Table:
        """The released rows."""
        return self.evidence.released

    @property
    def origin(self) -> NDArray[np.int64]:
        """Index of the original row that each released row comes from."""
        return self.evidence.origin

    @property
    def released_kinds(self) -> Mapping[str, Kind]:
        return self.evidence.released.kinds

    @property
    def released_rows(self) -> int:
        return self.evidence.released.rows

    @property
    def released_table(self) -> Table:
        return self.evidence.released


def require_memory(plan: Plan, rows: int) -> None:
    """Raise before the work if the machine does not have the memory that it will take."""
    needed, available = plan.bytes_per_row * rows, available_memory()
    if needed > available:
        raise OutOfMemory(
            "There must be enough memory to transform all rows.",
            found=f"about {needed / 1e9:.1f} GB needed for {rows:,} rows, {available / 1e9:.1f} GB available",
            fix="fewer quasi-identifiers, engine='duckdb', which works in blocks, or a machine with more memory",
        )


def run(plan: Plan, table: Table, *, batch_rows: int | None = None) -> MemoryWork:
    """Route the rows, transform each block and concatenate the blocks, in the order of the blocks."""
    block_of = _blocks_of(plan, table, batch_rows)
    order = np.argsort(block_of, kind="stable")
    starts = np.searchsorted(block_of[order], np.arange(plan.blocks + 1))
    released, origins, traces = [], [], []
    for number in range(plan.blocks):
        rows = order[starts[number] : starts[number + 1]]
        if rows.size:
            outcome = plan.transform(table if plan.blocks == 1 else table.take(rows), number)
            released.append(outcome.released)
            origins.append(rows[outcome.origin])
            traces.append(outcome.trace)
    arrow = pa.concat_tables([part.arrow for part in released])
    evidence = Evidence(Table(arrow, released[0].kinds), table, np.concatenate(origins))
    return MemoryWork(evidence, Trace.merged(traces))


def _blocks_of(plan: Plan, table: Table, batch_rows: int | None) -> NDArray[np.int64]:
    if plan.blocks == 1:
        return np.zeros(table.rows, dtype=np.int64)
    keys = np.arange(table.rows, dtype=np.uint64)
    if batch_rows is None:
        return plan.route(table, keys)
    parts = [slice(start, start + batch_rows) for start in range(0, table.rows, batch_rows)]
    return np.concatenate([plan.route(_part(table, part), keys[part]) for part in parts])


def _part(table: Table, rows: slice) -> Table:
    return Table(table.arrow.slice(rows.start, rows.stop - rows.start), table.kinds)
