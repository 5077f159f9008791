"""Every method on every engine, in several blocks, with a driver of Spark that may receive next to nothing."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.memory.engine import Memory
from sfumato.errors import CannotRelease, OptionError
from sfumato.release.read import verify_bundle
from tests.conformance.control import CASES
from tests.conformance.test_blocks import BLOCK, ROWS, made, people, roles_of, table_for

__all__ = ["people"]  # a fixture

ROLES = {"x": "quasi", "y": "quasi", "town": "other", "s": "sensitive"}
RESULTS = "300k"  # of all tasks of a job together: less than a column of the large table


@pytest.fixture(scope="module")
def spark():
    """A session whose driver may receive little."""
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed: pip install 'sfumato[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed: apt-get install openjdk-17-jre-headless")
    settings = {
        "spark.driver.maxResultSize": RESULTS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": 3,
    }
    session = sql.SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_method_in_blocks_promises_and_keeps_what_it_does_in_memory(engine, case, people, request, tmp_path):
    table, method = table_for(CASES[case][0], people), made(case)
    pq.write_table(table.arrow, tmp_path / "rows.parquet")
    chosen = sf.DuckDB(block_rows=BLOCK) if engine == "duckdb" else None
    if chosen is None:
        chosen = sf.Spark(request.getfixturevalue("spark"), block_rows=BLOCK)
    given = {"schema": roles_of(table), "seed": 5}
    try:
        expected = method.release(table, engine=Memory(block_rows=BLOCK), **given)
    except (CannotRelease, OptionError) as refusal:
        with pytest.raises(type(refusal)):
            method.release(tmp_path / "rows.parquet", engine=chosen, into=tmp_path / "out", **given)
        return
    found = method.release(tmp_path / "rows.parquet", engine=chosen, into=tmp_path / "out", **given)
    assert [one.claim for one in found.findings] == [one.claim for one in expected.findings]
    assert found.table.kinds == expected.table.kinds and found.manifest.guarantee == expected.manifest.guarantee
    assert found.manifest.covers_every_output or found.manifest.rows_out + found.manifest.suppressed == ROWS
    assert verify_bundle(tmp_path / "out").holds


LARGE = 60_000


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A file with numbers that are all different, and a few categories."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=LARGE)
    columns = {"x": x, "y": x + rng.normal(size=LARGE)}
    columns |= {"town": rng.choice([f"t{number}" for number in range(30)], LARGE), "s": rng.integers(0, 40, LARGE)}
    file = tmp_path_factory.mktemp("large") / "rows.parquet"
    pq.write_table(pa.table(columns), file)
    return file


class TestResults:
    """Answers that were as long as the table: each is a sketch, or comes through a file, or is merged by the tasks."""

    def release(self, method, rows, spark, into):
        engine = sf.Spark(spark, block_rows=15_000)
        made = method.release(rows, schema=ROLES, engine=engine, into=into)
        assert made.table.rows == LARGE and verify_bundle(into).holds
        return made

    def test_the_limit_is_one(self, spark, rows):
        """The control: a column that is collected exceeds it."""
        with pytest.raises(Exception, match="maxResultSize"):
            spark.read.parquet(f"file://{rows}").select("x").toArrow()

    def test_all_values_of_a_column(self, spark, rows, tmp_path):
        made = self.release(sf.Quantiles(k=50, l=1), rows, spark, tmp_path / "out")
        sizes = pc.value_counts(made.to_arrow().column("x")).field("counts").to_numpy()
        assert sizes.min() >= 50 and len(sizes) == LARGE // 50
        assert "largest error" not in str(made.manifest.notes)

    def test_a_large_table_is_sketched_and_the_error_is_stated(self, spark, rows, tmp_path, monkeypatch):
        monkeypatch.setattr("sfumato.plan.survey.EXACT_ROWS", 1000)
        made = self.release(sf.Quantiles(k=50, l=1), rows, spark, tmp_path / "out")
        sizes = pc.value_counts(made.to_arrow().column("x")).field("counts").to_numpy()
        error = made.manifest.notes["columns"]["x"]["largest error of the rank of a cut"]
        assert 0 < error <= 1e-4 * LARGE and sizes.min() >= 50
        assert sizes.max() <= 2 * (50 + 4 * error)

    def test_limits_of_a_large_table_are_those_that_enough_rows_reach(self, spark, rows, tmp_path, monkeypatch):
        monkeypatch.setattr("sfumato.plan.survey.EXACT_ROWS", 1000)
        method = sf.TopBottom(k=10, top=0.02, bottom=0.01)
        made = self.release(method, rows, spark, tmp_path / "out")
        x = np.sort(made.to_arrow().column("x").to_numpy())
        for same, share in ((x == x[-1], 0.02), (x == x[0], 0.01)):
            assert share * LARGE <= same.sum() <= (share + 2e-4) * LARGE + 1
        assert made.manifest.notes["largest error of the shares"] == 1e-4

    def test_rules_of_experts(self, spark, rows, tmp_path):
        rule = "x matters most when town is t3"
        made = self.release(sf.Boxes(k=5, l=1, rules=[rule]), rows, spark, tmp_path / "out")
        assert made.diagnostics.rules
        with pytest.raises(OptionError, match="must be a value of 'town'"):
            self.release(sf.Boxes(k=5, l=1, rules=[rule.replace("t3", "village")]), rows, spark, tmp_path / "other")

    def test_an_assessment_counts_all_rows_on_the_executors(self, spark, rows, tmp_path):
        engine = sf.Spark(spark, block_rows=15_000)
        made = sf.release_and_assess(
            sf.Boxes(k=5, l=1), rows, schema=ROLES, engine=engine, into=tmp_path / "out", seed=1
        )
        assert made.assessment.released_rows == LARGE
        assert verify_bundle(tmp_path / "out").holds
