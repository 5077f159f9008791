"""What all engines do alike: the types of released columns, samples of pairs, and the comparison of all rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.memory.engine import Memory
from sfumato.measures.assess import ComparisonOptions, compared
from sfumato.measures.privacy.equal_rows import CellKeys
from sfumato.randomness import Randomness
from sfumato.release.release import Release

ROWS = 2400
GRADES = ("low", "middle", "high")
SCHEMA = {
    "age": "quasi",
    "ill": "quasi",
    "smokes": "quasi",
    "grade": {"role": "other", "kind": "ordered", "order": list(GRADES)},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    rng = np.random.default_rng(4)
    age = rng.integers(18, 90, ROWS)
    table = pa.table(
        {
            "age": age,
            "ill": rng.random(ROWS) < 0.5,
            "smokes": rng.integers(0, 2, ROWS),
            "grade": np.where(age < 40, "low", rng.choice(GRADES, ROWS)),  # blocks of the young have one grade
        }
    )
    path = tmp_path_factory.mktemp("in") / "in.parquet"
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize("block_rows", [None, 300])
def test_truth_values_and_orders_keep_their_types(block_rows, source, tmp_path):
    method = sf.Recode(k=2, suppressed=0.5) if False else sf.Pram(retain=0.9)
    wanted = method.release(source, schema=SCHEMA, seed=1, engine="memory")
    engine = sf.DuckDB(memory="1GB", block_rows=block_rows)
    released = method.release(source, schema=SCHEMA, seed=1, engine=engine, into=tmp_path / "out")
    assert released.table.kinds == wanted.table.kinds
    assert released.table.arrow.schema.types == wanted.table.arrow.schema.types
    for part in released.table.parts():
        assert part.arrow.column("grade").chunk(0).dictionary.to_pylist() == list(GRADES)
