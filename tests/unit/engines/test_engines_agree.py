"""What all engines do alike: the types of released columns, samples of pairs, and the comparison of all rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.same_rows import same_rows

import sfumato as sf
from sfumato.engines.memory.engine import Memory
from sfumato.measures.assess import ComparisonOptions, pair_release
from sfumato.measures.privacy.copies import CellKeys
from sfumato.plan.plan import Outcome, RowwisePlan
from sfumato.randomness import Randomness
from sfumato.release.release import Release
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

ROWS = 2400
GRADES = ("low", "middle", "high")
SCHEMA = {
    "age": "quasi",
    "ill": "quasi",
    "smokes": "quasi",
    "grade": {"role": "other", "kind": "ordered", "order": list(GRADES)},
}


def people() -> pa.Table:
    """Return a table with few combinations of values."""
    rng = np.random.default_rng(4)
    age = rng.choice([20.0, 35.0, 50.0, 65.0], ROWS)
    return pa.table(
        {
            "age": age,
            "ill": rng.random(ROWS) < 0.5,
            "smokes": rng.integers(0, 2, ROWS),
            "grade": np.where(age < 50, "middle", rng.choice(GRADES, ROWS)),  # some blocks have fewer categories
        }
    )


@pytest.mark.parametrize("block_rows", [None, 600])
def test_truth_values_and_orders_keep_their_types(block_rows, tmp_path):
    method = sf.Boxes(k=5)
    wanted = method.release(people(), schema=SCHEMA, seed=1, engine="memory")
    engine = sf.DuckDB(memory="1GB", block_rows=block_rows)
    released = method.release(people(), schema=SCHEMA, seed=1, engine=engine, into=tmp_path / "out")
    assert [wanted.table.arrow.schema.field(name).type for name in ("ill", "smokes")] == [pa.bool_(), pa.int64()]
    assert released.table.kinds == wanted.table.kinds
    assert released.table.arrow.schema.types == wanted.table.arrow.schema.types
    for part in released.table.parts():
        assert part.arrow.column("grade").chunk(0).dictionary.to_pylist() == list(GRADES)
    columns = [name for name in wanted.table.names if name != "box"]
    assert same_rows(released.table.arrow.select(columns), wanted.table.arrow.select(columns))


class SetsInOneBlock(RowwisePlan):
    """Releases truth values as text: single values in one block, sets in the other."""

    claims = ()
    parts = 2

    def transform(self, block, number):
        text = block.arrow.column("ill").cast(pa.string())
        ill = pa.array(["false|true"] * block.rows) if number else text
        arrow = block.select(["ill", "grade"]).arrow.set_column(0, "ill", ill)
        return Outcome(Table(arrow, {"ill": Kind.NOMINAL, "grade": block.kinds["grade"]}), np.arange(block.rows))


def test_a_column_with_sets_in_one_block_is_text_in_all():
    with sf.DuckDB(memory="1GB").session(None) as running:
        work = running.run(SetsInOneBlock(), running.open(people(), SCHEMA))
        assert work.released.kinds == {"ill": Kind.NOMINAL, "grade": Kind.ORDERED}
        parts = list(work.released.parts())
    assert [part.arrow.schema.field("ill").type for part in parts] == [pa.string()] * 2
    assert sorted(set(pa.concat_tables(part.arrow for part in parts).column("ill").to_pylist())) == [
        "false",
        "false|true",
        "true",
    ]


@dataclass(frozen=True)
class Running:
    """A release that an engine has just made, before its rows are removed."""

    draws: int | None
    rows: int
    compared: object


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    """Return the sample of pairs and the comparison of all rows, by each engine."""
    path = tmp_path_factory.mktemp("in") / "in.parquet"
    pq.write_table(people(), path)
    results = {}
    for engine in (Memory(), sf.DuckDB(memory="1GB", block_rows=600)):
        with engine.session(None) as running:
            opened = running.open(path, SCHEMA)
            randomness = Randomness(1)
            plan = sf.Boxes(k=5).plan(running.survey(opened, randomness), opened.schema, randomness)
            work = running.run(plan, opened)
            sample = running.sample(work, 500, ["ill"], randomness.stream("sampled"))
            pairs = sample.pairs
            subject = pair_release(
                pairs.original, Release(pairs.released), None, ComparisonOptions(), origin=pairs.origin
            )
            keys = CellKeys.of(subject)
            counted = running.compare(opened, work.released, keys)
            assert (pairs.original.take(pairs.origin).arrow.column("grade").to_pylist()) == (
                pairs.released.arrow.column("grade").to_pylist()
            )
            results[engine.name] = Running(sample.draws, pairs.released.rows, counted)
    return results


def test_memory_samples_all_pairs_and_duckdb_some(engines):
    assert (engines["memory"].draws, engines["memory"].rows) == (None, ROWS)
    assert 300 <= engines["duckdb"].rows <= 700
    assert engines["duckdb"].draws


def test_all_rows_are_compared_alike(engines):
    memory, duckdb = (engines[name].compared for name in ("memory", "duckdb"))
    assert (memory.original_rows, memory.released_rows) == (duckdb.original_rows, duckdb.released_rows) == (ROWS, ROWS)
    assert (memory.whole, memory.known) == (duckdb.whole, duckdb.known)
    assert memory.groups.sizes.tolist() == duckdb.groups.sizes.tolist()
    assert memory.groups.groups.tolist() == duckdb.groups.groups.tolist()
    assert memory.known.equal
