"""The DuckDB engine against memory, the reference: the same answers, the same promises, nothing left behind."""

from __future__ import annotations

import datetime
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.finish_rows import RandomNumbering
from sfumato.engines.memory.engine import Memory
from sfumato.errors import CannotRelease, OptionError, ReadError, RequestError, TableError
from sfumato.methods.base import METHODS, make_method, method_class
from sfumato.plan.questions import (
    DistinctIn,
    ExtremesOf,
    FactsOf,
    GroupSizesOf,
    MissingIn,
    MomentsOf,
    PointsOf,
    QuantilesOf,
)
from sfumato.randomness import Randomness
from sfumato.release import bundle_check, verify
from sfumato.release.read import verify_bundle
from sfumato.report.distributions import groups
from sfumato.report.usefulness import column_spreads
from sfumato.sources.frames import LazySource
from tests.same_rows import same_rows

ROLES = {"age": "quasi", "income": "quasi", "town": "quasi", "name": "identifier", "ill": "other"}


def people(rows: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    income = rng.lognormal(10, 1, rows).round(2)
    return pa.table(
        {
            "age": rng.integers(18, 90, rows),
            "income": pa.array(income, mask=rng.random(rows) < 0.02),
            "town": rng.choice(["Arles", "Brig", "Cham", "Davos"], rows, p=[0.5, 0.3, 0.15, 0.05]),
            "name": [f"person {number}" for number in range(rows)],
            "ill": rng.random(rows) < 0.3,
        }
    )


@pytest.fixture
def files(tmp_path):
    table = people(6000)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        pq.write_table(table.slice(number * 2000, 2000), folder / f"part{number}.parquet")
    return folder


def said_of_duckdb(name: str) -> str:
    """Return what the reference page says about a method and this engine."""
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "engines.md"
    row = next(line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith(f"| `{name}` |"))
    return row.split("|")[3].strip()


def surveys(files, **options):
    """Return the survey of both engines of the same rows."""
    memory, engine = Memory(), sf.DuckDB(memory="1GB", **options)
    source = str(files / "*.parquet")
    randomness = Randomness(1)
    yield memory.survey(memory.open(source, ROLES), randomness)
    with engine.session(None) as running:
        yield running.survey(running.open(source, ROLES), randomness)


class TestSurvey:
    QUESTIONS = (
        FactsOf("age", count_distinct=True),
        FactsOf("town", count_distinct=True),
        FactsOf("ill"),
        ExtremesOf("income"),
        MissingIn("income"),
        MissingIn("town"),
        GroupSizesOf(("age", "town")),
        DistinctIn("town"),
        DistinctIn("town", at_most=2),
        DistinctIn("ill"),
        MomentsOf(("age", "income")),
        PointsOf("income"),
        PointsOf("age", epsilon=0.01),
        QuantilesOf("income", (0.1, 0.5, 0.9)),
        PointsOf("age"),
    )

    @pytest.fixture
    def answers(self, files):
        return [survey.ask(self.QUESTIONS) for survey in surveys(files)]

    @pytest.mark.parametrize("question", QUESTIONS[:6], ids=repr)
    def test_counts_are_equal(self, answers, question):
        expected, found = (one[question] for one in answers)
        assert found == expected

    def test_groups_are_equal(self, answers):
        expected, found = (one[GroupSizesOf(("age", "town"))] for one in answers)
        assert np.array_equal(found.sizes, expected.sizes)
        assert np.array_equal(found.groups, expected.groups)

    @pytest.mark.parametrize("question", QUESTIONS[7:10], ids=repr)
    def test_values_and_their_numbers_are_equal(self, answers, question):
        expected, found = (one[question] for one in answers)
        assert found.values.equals(expected.values)
        assert np.array_equal(found.counts, expected.counts)
        assert found.is_complete == expected.is_complete

    def test_moments_are_equal(self, answers):
        expected, found = (one[MomentsOf(("age", "income"))] for one in answers)
        assert found.records == expected.records
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-9)
        np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-9)

    def test_all_values_are_equal_and_sketches_are_within_their_error(self, answers):
        expected, found = (one[PointsOf("income")] for one in answers)
        assert np.array_equal(found.values, expected.values)
        assert np.array_equal(found.weights, expected.weights)
        sketch, exact = answers[1][PointsOf("age", epsilon=0.01)], answers[0][PointsOf("age")]
        assert sketch.rows == 6000
        assert sketch.error <= 60
        ends = np.concatenate([[0.0], np.cumsum(exact.weights)])
        lowest, highest = (ends[np.searchsorted(exact.values, sketch.values, side)] for side in ("left", "right"))
        ranks = np.cumsum(sketch.weights)
        assert np.all(ranks >= lowest - sketch.error)
        assert np.all(ranks - sketch.weights <= highest + sketch.error)

    def test_quantiles_are_near(self, answers):
        question = QuantilesOf("income", (0.1, 0.5, 0.9))
        np.testing.assert_allclose(answers[1][question], answers[0][question], rtol=0.01)

    def test_a_sample_is_the_one_that_memory_draws(self, files):
        memory = Memory(sample_rows=20_000, block_rows=500)
        source = str(files / "*.parquet")
        expected = memory.survey(memory.open(source, ROLES), Randomness(1)).sample
        with sf.DuckDB(memory="1GB", block_rows=500).session(None) as running:
            found = running.survey(running.open(source, ROLES), Randomness(1)).sample
        assert found.table.arrow.equals(expected.table.arrow)


class TestRelease:
    def test_one_block_gives_the_boxes_of_memory(self, files, tmp_path):
        source = str(files / "*.parquet")
        method = sf.Boxes(k=5, keep=["mean(income)"])
        expected = method.release(source, schema=ROLES, seed=1, engine="memory")
        found = method.release(source, schema=ROLES, seed=1, engine=sf.DuckDB(memory="4GB"), into=tmp_path / "out")
        assert same_rows(found.table.arrow, expected.table.arrow)
        assert [one.claim for one in found.findings] == [one.claim for one in expected.findings]

    @pytest.mark.parametrize("name", sorted(METHODS))
    def test_every_method_works_in_blocks_or_says_that_it_cannot(self, name, files, tmp_path):
        options = {"generalize": {"k": 2, "population": 10**6, "budget": "exact"}, "quantiles": {"k": 20}}
        wanted = options.get(name, {"k": 5} if "k" in method_class(name).__dataclass_fields__ else {})
        engine = sf.DuckDB(memory="1GB", block_rows=1500)
        into = tmp_path / "out"
        try:
            method = make_method(name, **wanted)
            released = method.release(str(files / "*.parquet"), schema=ROLES, engine=engine, into=into)
        except (CannotRelease, OptionError) as refusal:
            assert "block" in str(refusal) or "memory" in str(refusal) or "must" in str(refusal)
            assert not into.exists()
            assert isinstance(refusal, OptionError) or said_of_duckdb(name) == "no"
            return
        assert said_of_duckdb(name) != "no"
        assert released.table.rows == released.manifest.rows_out
        assert "name" not in released.table.names
        assert verify_bundle(into).holds

    @pytest.mark.parametrize("basis", ["svd", "clusters"])
    @pytest.mark.parametrize("method", [sf.Noise, sf.Swap, sf.Microaggregate, sf.Boxes], ids=lambda one: one.__name__)
    def test_a_spectral_basis_is_that_of_each_block(self, method, basis, files, tmp_path):
        options = {"k": 5} if method in (sf.Microaggregate, sf.Boxes) else {}
        engine = sf.DuckDB(memory="1GB", block_rows=1500)
        released = method(basis=basis, **options).release(
            str(files / "*.parquet"), schema=ROLES, engine=engine, into=tmp_path / "out"
        )
        assert released.manifest.rows_out == 6000
        assert released.manifest.notes["basis"] == basis
        assert verify_bundle(tmp_path / "out").holds

    def test_many_blocks_keep_the_promise_and_nearly_the_width(self, files, tmp_path):
        source = str(files / "*.parquet")
        method = sf.Boxes(k=5, keep=["mean(age)"])
        memory = method.release(source, schema=ROLES, engine="memory").estimate("mean(age)")
        engine = sf.DuckDB(memory="1GB", block_rows=1000)
        released = method.release(source, schema=ROLES, engine=engine, into=tmp_path / "out")
        found = released.estimate("mean(age)")
        assert len(released.table.files) > 3
        assert found.low <= memory.value <= found.high
        assert found.high - found.low <= 1.6 * (memory.high - memory.low)
        sizes = released.table.counted(released.manifest.claims[0].parameters["columns"]).count
        assert sizes.min() >= 5
        assert sizes.sum() == 6000

    def test_an_estimate_reads_groups_and_agrees_with_one_from_all_rows(self, files, tmp_path):
        engine = sf.DuckDB(memory="1GB", block_rows=1000)
        sf.Boxes(k=5).release(str(files / "*.parquet"), schema=ROLES, engine=engine, into=tmp_path / "out")
        stored = sf.read_release(tmp_path / "out")
        whole = sf.Release(stored.table.select(stored.table.names), stored.manifest)
        for statistic in ("mean(income)", "corr(age, income)", "count(town = Arles)", "mean(age | ill = true)"):
            one, other = stored.estimate(statistic), whole.estimate(statistic)
            assert (one.records, one.low, one.high) == pytest.approx((other.records, other.low, other.high))
        assert "arrow" not in stored.table.__dict__

    def test_rows_and_boxes_have_no_order(self, tmp_path):
        table = pa.table({"x": np.arange(4000.0)})
        engine = sf.DuckDB(memory="1GB", block_rows=500)
        released = sf.Boxes(k=5).release(table, schema={"x": "quasi"}, engine=engine, into=tmp_path / "out", seed=1)
        rows = released.table.to_pandas()
        assert abs(np.corrcoef(rows["x_low"].rank(), rows["box"])[0, 1]) < 0.1
        within = [part.numbers("x_low") for part in released.table.parts()]
        assert all(abs(np.corrcoef(np.arange(len(one)), one)[0, 1]) < 0.3 for one in within)

    def test_without_a_target_the_rows_are_returned(self, files):
        released = sf.Boxes(k=5).release(str(files / "*.parquet"), schema=ROLES, engine="duckdb")
        assert released.table.to_arrow().num_rows == 6000

    def test_declared_orders_kinds_and_dates(self, tmp_path):
        rng = np.random.default_rng(0)
        days = [(datetime.date(1950, 1, 1) + datetime.timedelta(days=int(day))) for day in rng.integers(0, 9000, 900)]
        table = pa.table(
            {
                "grade": rng.choice(["low", "middle", "high"], 900),
                "born": [day.strftime("%d/%m/%Y") for day in days],
                "code": rng.integers(0, 5, 900),
            }
        )
        pq.write_table(table, tmp_path / "in.parquet")
        schema = {
            "grade": {"role": "quasi", "kind": "ordered", "order": ["low", "middle", "high"]},
            "born": {"role": "quasi", "kind": "date"},
            "code": {"role": "quasi", "kind": "nominal"},
        }
        engine = sf.DuckDB(memory="1GB")
        expected = sf.Boxes(k=5).release(tmp_path / "in.parquet", schema=schema, seed=1, engine="memory")
        found = sf.Boxes(k=5).release(
            tmp_path / "in.parquet", schema=schema, seed=1, engine=engine, into=tmp_path / "out"
        )
        assert found.estimate("mean(born)").low == expected.estimate("mean(born)").low
        assert found.manifest.columns == expected.manifest.columns


def typed_people(rows: int) -> pa.Table:
    """People with truth values, bits, ordered categories and dates as text."""
    rng = np.random.default_rng(3)
    grades = pa.DictionaryArray.from_arrays(
        pa.array(rng.integers(0, 3, rows), pa.int8(), mask=rng.random(rows) < 0.1),
        ["low", "middle", "high", "never"],
        ordered=True,
    )
    return pa.table(
        {
            "smoker": pa.array(rng.random(rows) < 0.3, mask=rng.random(rows) < 0.1),
            "bit": pa.array(rng.integers(0, 2, rows), pa.int8()),
            "grade": grades,
            "day": np.datetime_as_string(np.datetime64("2020-01-01") + rng.integers(0, 900, rows)),
        }
    )


def released_types(source, into, engine):
    """Return the types of released columns, and the order of the grades."""
    schema = {"smoker": "quasi", "bit": "other", "grade": "other", "day": {"role": "quasi", "kind": "date"}}
    arrow = sf.Boxes(k=5).release(source, schema=schema, engine=engine, into=into, seed=1).to_arrow()
    grades = arrow.column("grade").unify_dictionaries().chunk(0)
    return {one.name: one.type for one in arrow.schema}, grades.dictionary.to_pylist()


class TestTypes:
    def test_they_are_those_of_memory(self, tmp_path):
        pq.write_table(typed_people(600), tmp_path / "in.parquet", row_group_size=100)
        expected, found = (
            released_types(tmp_path / "in.parquet", tmp_path / engine, engine) for engine in ("memory", "duckdb")
        )
        assert found == expected
        assert found[1] == ["low", "middle", "high"]


class TestPartitions:
    """Columns in the names of folders, as Hive and Spark store them."""

    @pytest.mark.parametrize("ending", ["parquet", "csv"])
    def test_they_are_columns(self, ending, tmp_path, monkeypatch):
        table = people(600).drop_columns(["name", "ill"])
        years = np.random.default_rng(2).integers(2020, 2022, 600)
        for year in (2020, 2021):
            for town, name in (("Arles", "Arles"), ("Brig", "Brig"), ("Cham", "Ch%61m"), ("Davos", "Davos")):
                folder = tmp_path / f"year={year}" / f"town={name}"
                folder.mkdir(parents=True)
                rows = table.filter(pa.array((years == year) & (np.array(table.column("town")) == town)))
                write = pq.write_table if ending == "parquet" else pa_csv.write_csv
                write(rows.drop_columns(["town"]), folder / f"part.{ending}")
        (tmp_path / "year=2020" / "_SUCCESS").write_text("")
        assert same_rows(sf.read(tmp_path).arrow.select(table.column_names), table)
        pattern = str(tmp_path / "*" / "*" / f"*.{ending}")
        assert same_rows(sf.read(pattern).arrow.select(table.column_names), table)
        monkeypatch.setattr("sfumato.engines.duckdb.source.EXPANSION", 10**12)  # text files are streamed
        roles = {"age": "quasi", "income": "quasi", "town": "other", "year": "other"}
        for engine, source in (("memory", pattern), ("duckdb", pattern), ("duckdb", str(tmp_path))):
            found = sf.Boxes(k=5).release(source, schema=roles, engine=engine).to_arrow()
            assert sorted(found.column("year").to_pylist()) == sorted(years.tolist())
            assert sorted(found.column("town").to_pylist()) == sorted(table.column("town").to_pylist())

    def test_a_file_that_is_given_by_its_path_has_none(self, tmp_path):
        (tmp_path / "k=5").mkdir()
        pq.write_table(people(20), tmp_path / "k=5" / "people.parquet")
        assert "k" not in sf.read(tmp_path / "k=5" / "people.parquet").names


class TestColumnOrder:
    """Columns of several files are matched by name."""

    def test_columns_in_another_order_are_matched(self, tmp_path):
        table = people(900).drop_columns(["name"])
        for number, names in enumerate(
            (table.column_names, table.column_names[::-1], [*table.column_names[1:], "age"])
        ):
            pq.write_table(table.slice(300 * number, 300).select(names), tmp_path / f"part{number}.parquet")
        assert sf.read(tmp_path / "*.parquet").arrow.equals(sf.Table.from_arrow(table).arrow)
        roles, pattern = {name: ROLES[name] for name in table.column_names}, str(tmp_path / "*.parquet")
        found = [sf.Boxes(k=5).release(pattern, schema=roles, engine=one, seed=1) for one in ("memory", "duckdb")]
        assert same_rows(found[0].table.arrow, found[1].table.arrow)

    def test_other_columns_are_refused(self, tmp_path):
        pq.write_table(pa.table({"x": [1], "y": [2]}), tmp_path / "a.parquet")
        pq.write_table(pa.table({"x": [1], "z": [2]}), tmp_path / "b.parquet")
        for engine in ("memory", "duckdb"):
            with pytest.raises(TableError, match="the same columns"):
                sf.Boxes(k=2).release(str(tmp_path / "*.parquet"), engine=engine)


class TestLazyTables:
    """Tables of other libraries that are not read yet reach the engine in batches."""

    @pytest.fixture
    def file(self, tmp_path):
        pq.write_table(people(900).drop_columns(["name"]), tmp_path / "rows.parquet", row_group_size=200)
        return tmp_path / "rows.parquet"

    def sources(self, file):
        import duckdb
        import polars
        from pyarrow import dataset

        return {
            "polars": lambda: polars.scan_parquet(file),
            "duckdb": lambda: duckdb.sql(f"SELECT * FROM '{file}'"),
            "arrow": lambda: dataset.dataset(file),
            "stream": lambda: dataset.dataset(file).scanner().to_reader(),
        }

    @pytest.mark.parametrize("library", ["polars", "duckdb", "arrow", "stream"])
    def test_they_give_the_release_of_their_file(self, library, file, monkeypatch):
        make = self.sources(file)[library]
        roles = {name: ROLES[name] for name in pq.read_schema(file).names}
        expected = sf.Boxes(k=5).release(file, schema=roles, engine="memory", seed=1)
        in_memory = sf.Boxes(k=5).release(make(), schema=roles, engine="memory", seed=1)
        assert same_rows(in_memory.table.arrow, expected.table.arrow)
        monkeypatch.setattr(LazySource, "read", lambda source: pytest.fail("the table was read as a whole"))
        found = sf.Boxes(k=5).release(make(), schema=roles, engine="duckdb", seed=1)
        assert same_rows(found.table.arrow, expected.table.arrow)

    def test_the_engine_that_is_chosen_depends_on_their_size(self, file, monkeypatch):
        from sfumato.engines import base

        for library, make in self.sources(file).items():
            monkeypatch.setattr(base, "available_memory", lambda: 10**9)
            assert base.engine_for("auto", LazySource(make())).name == "memory"
            monkeypatch.setattr(base, "available_memory", lambda: 10**4)
            expected = "memory" if library == "stream" else "duckdb"  # a stream cannot be counted
            assert base.engine_for("auto", LazySource(make())).name == expected

    def test_an_error_of_the_library_quotes_no_cell(self, tmp_path):
        import duckdb

        (tmp_path / "rows.csv").write_text("age,town\n" + "30,Arles\n" * 30 + "secret,Brig\n")
        broken = duckdb.sql(f"SELECT CAST(age AS INTEGER) AS age, town FROM '{tmp_path / 'rows.csv'}'")
        with pytest.raises(ReadError, match="lazy table") as caught:
            sf.Boxes(k=5).release(broken, schema={"age": "quasi", "town": "other"}, engine="duckdb")
        assert "secret" not in str(caught.value) and caught.value.__cause__ is None


class TestTextFiles:
    def test_a_large_text_file_is_read_as_a_small_one(self, tmp_path, monkeypatch):
        from sfumato.engines.duckdb import source
        from sfumato.engines.duckdb import source as text_files

        table = people(3000).append_column("zip", pa.array([f"{number % 300:05d}" for number in range(3000)]))
        for number in range(2):
            pa_csv.write_csv(table.slice(number * 1500, 1500), tmp_path / f"in{number}.csv")
        monkeypatch.setattr(source, "EXPANSION", 10**9)  # every text file counts as larger than memory
        expected = sf.read(tmp_path / "in*.csv")
        for most in (10**6, 100):  # values held in memory, and values that are too many for that
            monkeypatch.setattr(text_files, "MOST_TEXTS", most)
            with sf.DuckDB(memory="1GB").session(None) as running:
                opened = running.open(str(tmp_path / "in*.csv"), None)
                found = pa.concat_tables([batch.arrow for _, batch in opened.stored.tables(500)])
                assert opened.kinds == expected.kinds
            assert found.combine_chunks().equals(expected.arrow.combine_chunks())

    def test_a_broken_line_is_named(self, tmp_path, monkeypatch):
        from sfumato.engines.duckdb import source

        (tmp_path / "in.csv").write_text("a,b\n" + "1,2\n" * 9 + "secret\n")
        monkeypatch.setattr(source, "EXPANSION", 10**9)
        with sf.DuckDB().session(None) as running, pytest.raises(ReadError) as error:
            running.open(str(tmp_path / "in.csv"), None)
        assert "secret" not in str(error.value)


class TestFaults:
    def test_files_that_differ_are_refused(self, files):
        pq.write_table(pa.table({"age": [1.5]}), files / "part9.parquet")
        with pytest.raises(TableError, match="same columns"):
            sf.Boxes(k=5).release(str(files / "*.parquet"), schema=ROLES, engine="duckdb")

    @pytest.mark.parametrize("content", [b"", b"PAR1 and then nothing"])
    def test_an_empty_or_broken_file_is_named_and_nothing_is_left(self, content, files, tmp_path):
        (files / "part9.parquet").write_bytes(content)
        with pytest.raises(ReadError, match=r"part9\.parquet"):
            sf.Boxes(k=5).release(
                str(files / "*.parquet"), schema=ROLES, engine="duckdb", into=tmp_path / "new" / "out"
            )
        assert [path.name for path in tmp_path.iterdir()] == ["in"]

    def test_a_broken_promise_leaves_the_old_release(self, files, tmp_path, monkeypatch):
        source, into = str(files / "*.parquet"), tmp_path / "out"
        sf.Boxes(k=5).release(source, schema=ROLES, engine="duckdb", into=into)
        before = (into / "manifest.json").read_bytes()
        from sfumato.engines.out_of_core.blocks import PartWriter

        written = PartWriter.write

        def tampered(self, block):
            part = written(self, block)
            file = next(self.folder.glob("*.parquet"))
            pq.write_table(pq.read_table(file).slice(1), file)  # one row less than promised
            return part

        monkeypatch.setattr(PartWriter, "write", tampered)
        with pytest.raises(sf.SfumatoError):
            sf.Boxes(k=5).release(source, schema=ROLES, engine="duckdb", into=into)
        assert (into / "manifest.json").read_bytes() == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]

    @pytest.mark.parametrize("phase", ["route_rows", "PartWriter.write", "write_parts"])
    def test_a_full_disk_in_any_phase(self, phase, files, tmp_path, monkeypatch):
        from sfumato.engines.duckdb import blocks
        from sfumato.engines.out_of_core import blocks as parts
        from sfumato.engines.out_of_core import engine as released

        def full(*arguments, **options):
            raise OSError(28, "No space left on device")

        if phase == "route_rows":
            monkeypatch.setattr(blocks._BlockWriter, "_write", full)
        elif phase == "PartWriter.write":
            monkeypatch.setattr(parts, "write_whole", full)
        else:
            monkeypatch.setattr(released, "write_parts", full)
        with pytest.raises((sf.SfumatoError, OSError), match="space"):
            sf.Boxes(k=5).release(str(files / "*.parquet"), schema=ROLES, engine="duckdb", into=tmp_path / "out")
        assert [path.name for path in tmp_path.iterdir()] == ["in"]

    def test_temporary_rows_are_private_and_swept_after_a_kill(self, tmp_path):
        pq.write_table(people(200_000), tmp_path / "in.parquet")
        code = f"""
            import sfumato as sf
            engine = sf.DuckDB(memory="1GB", block_rows=20_000)
            sf.Boxes(k=5).release({str(tmp_path / "in.parquet")!r}, schema={ROLES!r}, engine=engine,
                into={str(tmp_path / "out")!r})
        """
        run = subprocess.Popen([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], env=os.environ)
        while run.poll() is None and not (left := list(tmp_path.glob(".out.*.work/blocks"))):
            time.sleep(0.01)
        run.send_signal(signal.SIGKILL)
        run.wait()
        assert left, "the run ended before it could be killed"
        assert stat.S_IMODE(left[0].parent.stat().st_mode) == 0o700
        assert not (tmp_path / "out").exists()
        sf.Boxes(k=5).release(people(2000), schema=ROLES, engine="duckdb", into=tmp_path / "out")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out"]

    def test_infinite_numbers_and_no_rows_are_refused(self, tmp_path):
        pq.write_table(pa.table({"x": [1.0, np.inf]}), tmp_path / "infinite.parquet")
        pq.write_table(pa.table({"x": pa.array([], pa.float64())}), tmp_path / "none.parquet")
        with pytest.raises(TableError, match="finite"):
            sf.Boxes(k=2).release(tmp_path / "infinite.parquet", schema={"x": "quasi"}, engine="duckdb")
        with pytest.raises(TableError, match="rows"):
            sf.Boxes(k=2).release(tmp_path / "none.parquet", schema={"x": "quasi"}, engine="duckdb")

    def test_a_target_with_other_files_is_refused_before_any_work(self, files, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "letter.txt").write_text("mine")
        with pytest.raises(RequestError, match="other files"):
            sf.Boxes(k=5).release(str(files / "*.parquet"), schema=ROLES, engine="duckdb", into=tmp_path / "out")


class TestMemory:
    @pytest.mark.parametrize("memory", ["", "much", "-1GB", "0", "1XB", True])
    def test_amounts_that_are_none(self, memory):
        with pytest.raises(OptionError, match="memory"):
            sf.DuckDB(memory=memory)

    def test_auto_takes_duckdb_where_the_memory_does_not_suffice(self, files, monkeypatch, caplog):
        from sfumato.engines import base as registry

        source = str(files / "*.parquet")
        assert registry.engine_for("auto", source).name == "memory"
        monkeypatch.setattr(registry, "available_memory", lambda: 1000)
        with caplog.at_level("INFO", logger="sfumato"):
            assert registry.engine_for("auto", source).name == "duckdb"
        assert "engine duckdb: the table needs about" in caplog.text

    def test_memory_cannot_be_limited_in_the_memory_engine(self):
        from sfumato.engines.base import engine_for

        with pytest.raises(OptionError, match="limit"):
            engine_for("memory", "table.csv", memory="1GB")


class TestNumbering:
    @pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000, 65_537])
    def test_it_is_a_permutation(self, size):
        numbers = RandomNumbering(size).of(np.arange(size))
        assert np.array_equal(np.sort(numbers), np.arange(size))

    def test_it_has_no_order(self):
        numbers = RandomNumbering(10_000).of(np.arange(10_000))
        assert abs(np.corrcoef(numbers, np.arange(10_000))[0, 1]) < 0.05
        assert not np.array_equal(numbers, RandomNumbering(10_000).of(np.arange(10_000)))


class TestShares:
    """Groups are merged in shares: the same findings and answers, however many shares there are."""

    @pytest.fixture
    def bundle(self, tmp_path):
        method, engine = sf.Boxes(k=3, l=2), sf.DuckDB(memory="1GB", block_rows=700)
        roles = ROLES | {"ill": "sensitive"}
        return method.release(
            people(3000), schema=roles, engine=engine, into=tmp_path / "out", seed=1
        ), tmp_path / "out"

    def test_a_bundle_is_recounted_in_shares_as_at_once(self, bundle, monkeypatch):
        _, folder = bundle
        expected = verify_bundle(folder)
        monkeypatch.setattr(bundle_check, "SHARE_ROWS", 100)
        monkeypatch.setattr(verify, "SHARE_ROWS", 400)
        assert verify_bundle(folder) == expected and expected.holds

    def test_a_group_that_is_too_small_is_found_in_its_share(self, bundle, monkeypatch):
        released, folder = bundle
        file = released.table.files[0]
        rows = pq.read_table(file)
        low = rows.column("age_low").to_pylist()
        pq.write_table(
            rows.set_column(rows.column_names.index("age_low"), "age_low", pa.array([low[0] - 1, *low[1:]])), file
        )
        for share_rows in (10**6, 100):
            monkeypatch.setattr(bundle_check, "SHARE_ROWS", share_rows)
            monkeypatch.setattr(verify, "SHARE_ROWS", share_rows)
            assert not verify_bundle(folder).recounted[0].held

    def test_the_report_says_of_parts_what_it_says_of_the_whole(self, bundle, monkeypatch):
        released, _ = bundle
        whole = replace(released, table=released.table.select(released.table.names))
        monkeypatch.setattr(verify, "SHARE_ROWS", 250)
        parts = replace(released, _ask=None)
        assert groups(parts) == groups(whole)
        spreads = column_spreads(parts), column_spreads(whole)
        assert spreads[0] == pytest.approx(spreads[1]) and set(spreads[0]) == {"age", "income", "town"}
        assert groups(whole).groups == len(np.unique(whole.table.numbers("box")))
