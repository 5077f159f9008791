"""A mixed table with structure, and a way to run a method without the pipeline, so that origins are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.memory.engine import MemorySurvey, run
from sfumato.methods.matrix import MatrixMethod
from sfumato.plan.plan import Evidence
from sfumato.randomness import Randomness
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.table import Table

Releasing = Callable[..., Evidence]


@pytest.fixture(scope="session")
def people() -> Table:
    """Two kinds of people, related columns, a skewed one, whole numbers, rare and missing categories."""
    draw = np.random.default_rng(5)
    rows = 600
    kind = draw.integers(2, size=rows)
    height = draw.normal(160 + 15 * kind, 6)
    weight = 0.9 * (height - 100) + draw.normal(0, 5, rows)
    income = np.exp(draw.normal(9 + kind, 0.6))
    savings = income * draw.uniform(0, 3, rows)
    savings[:40] = np.nan
    city = draw.choice(["Ulm", "Rom", "Oslo"], rows, p=[0.6, 0.3, 0.1]).tolist()
    city[3], city[7] = "Bern", None  # one person alone, and one of unknown place
    return Table.from_arrow(
        pa.table(
            {
                "height": height,
                "weight": weight,
                "income": income,
                "savings": pa.array(savings, from_pandas=True),
                "age": draw.integers(18, 80, rows),
                "city": city,
                "smokes": draw.random(rows) < 0.3 + 0.3 * kind,
            }
        )
    )


@pytest.fixture(scope="session")
def released() -> Releasing:
    """Plan and transform; the evidence knows where every row came from."""

    def release(
        method: MatrixMethod, table: Table, seed: int = 1, block_rows: int | None = None, **domains
    ) -> Evidence:
        columns = (Column(name=name, role=Role.QUASI, domain=domains.get(name)) for name in table.names)
        plan = method.plan(MemorySurvey(table, block_rows), Schema(tuple(columns)), Randomness(seed))
        outcome = run(plan, table)
        evidence = Evidence(outcome.released, table, outcome.origin)
        for claim in plan.claims:
            finding = claim.measure(evidence)
            assert finding.held, finding
        return evidence

    return release
