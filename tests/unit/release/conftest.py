"""A small real method: people in order of one column, k at a time, each group released as its range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from sfumato.methods.base import Method
from sfumato.params import Checked, Share, Whole, option
from sfumato.plan.claims.containment import Containment
from sfumato.plan.claims.groups import KAnonymity
from sfumato.plan.claims.rows import RowsAccountedFor
from sfumato.plan.plan import Outcome, Plan
from sfumato.schema.columns import Role
from sfumato.table.table import Table


@dataclass(frozen=True, kw_only=True)
class Ranks(Method):
    """Groups of k in the order of the first quasi-identifier; ``forget`` rows are taken from the last group."""

    name: ClassVar[str] = "ranks"
    manifest_notes: ClassVar[dict[str, str]] = {"groups of": "rows of a group"}

    k: int = option(Whole(at_least=1), "Rows of a group.", default=2, unit="rows", reported=True)
    promised: int | None = None  # if it differs from k, the method breaks its promise
    suppress: float = option(Share(), "Share of rows left out.", default=0.0, unit="rows", reported=True)
    keep: tuple[str, ...] = option(Checked("statistics"), "Statistics to keep.", default=(), reported=True)
    domain: tuple[float, float] | None = option(Checked("two numbers"), "Never reported.", default=None)
    blocks: int = 1

    def plan(self, survey, schema, randomness):
        return RanksPlan(self, schema)


class RanksPlan(Plan):
    def __init__(self, options: Ranks, schema) -> None:
        self.options = options
        self.column = schema.names(Role.QUASI)[0]
        self.kept = [column.name for column in schema.columns if column.role is not Role.QUASI]

    @property
    def blocks(self) -> int:
        return self.options.blocks

    @property
    def numbered(self):
        return ("box",)

    def route(self, rows: Table, keys):
        return (keys % np.uint64(self.blocks)).astype(np.int64)

    @property
    def claims(self):
        columns = (f"{self.column}_low", f"{self.column}_high")
        return (
            KAnonymity(k=self.options.promised or self.options.k, columns=columns),
            Containment(columns=(self.column, *self.kept)),
            RowsAccountedFor(suppressed_at_most=self.options.suppress),
        )

    @property
    def notes(self):
        return {"groups of": self.options.k, "not declared": "CANARY"}

    def transform(self, block: Table, number: int) -> Outcome:
        numbers = block.numbers(self.column)
        order = np.argsort(numbers, kind="stable")[int(self.options.suppress * block.rows) :]
        box = np.minimum(np.arange(order.size) // self.options.k, max(order.size // self.options.k - 1, 0))
        low, high = (np.full(int(box.max(initial=0)) + 1, start) for start in (np.inf, -np.inf))
        np.minimum.at(low, box, numbers[order])
        np.maximum.at(high, box, numbers[order])
        kept = {name: block.take(order).arrow.column(name) for name in self.kept}
        arrow = pa.table(
            {f"{self.column}_low": low[box], f"{self.column}_high": high[box], "box": box + 1000 * number, **kept}
        )
        kinds = {name: block.kinds[name] for name in self.kept}
        return Outcome(Table.from_arrow(arrow, kinds), order)


@pytest.fixture
def ranks():
    return Ranks


@pytest.fixture
def people() -> Table:
    numbers = np.random.default_rng(3)
    return Table.from_arrow(
        pa.table(
            {
                "name": [f"person {row}" for row in range(60)],
                "age": numbers.integers(18, 90, 60),
                "income": numbers.lognormal(10, 1, 60),
                "illness": pa.array(["flu", "cold", "none"] * 20).dictionary_encode(),
            }
        )
    )


ROLES = {"name": "identifier", "age": "quasi", "income": "sensitive", "illness": "other"}


@pytest.fixture
def roles():
    return ROLES


@pytest.fixture
def released(ranks, people, roles):
    return ranks(k=5, keep=("mean(age)",), domain=(0.0, 777.0)).release(people, schema=roles, seed=774411)
