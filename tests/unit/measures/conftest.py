"""One population, three samples of it that share nobody."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.table.table import Table


def sample(rows: int, seed: int) -> Table:
    """People of two kinds with related numbers and categories."""
    draw = np.random.default_rng(seed)
    kind = draw.integers(2, size=rows)
    shared = draw.normal(size=rows)
    return Table.from_arrow(
        pa.table(
            {
                "height": 165 + 10 * kind + 6 * draw.normal(size=rows),
                "weight": 70 + 12 * kind + 8 * shared,
                "income": np.exp(9 + 0.5 * shared + 0.4 * draw.normal(size=rows)),
                "age": draw.integers(20, 80, rows),
                "sex": np.where(draw.random(rows) < 0.1 + 0.8 * kind, "m", "f"),
                "city": draw.choice(["Ulm", "Rom", "Oslo"], rows),
            }
        )
    )


@pytest.fixture(scope="session")
def original() -> Table:
    return sample(400, 1)


@pytest.fixture(scope="session")
def reference() -> Table:
    return sample(400, 2)


@pytest.fixture(scope="session")
def independent() -> Table:
    return sample(400, 3)
