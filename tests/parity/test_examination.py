"""Uniqueness, quasi-identifiers and inspection of stored tables: what memory finds, without loading all rows."""

from __future__ import annotations

import json
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.engines.memory.engine import Memory
from sfumato.errors import OptionError, TableError
from sfumato.job.inspect import open_for_inspection
from sfumato.job.job import Job
from sfumato.risk.inspection import inspect
from sfumato.risk.uniqueness import Uniqueness
from sfumato.schema.columns import Column, Role

ROLES = {"age": "quasi", "town": "quasi", "income": "quasi", "name": "identifier"}


def people(rows: int = 9000) -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "age": pa.array(rng.integers(18, 90, rows), mask=rng.random(rows) < 0.02),
            "town": rng.choice([f"town {number}" for number in range(40)], rows),
            "income": rng.lognormal(10, 1, rows).round(-2),
            "name": [f"person {number}" for number in range(rows)],
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("in")
    for number in range(3):
        pq.write_table(people().slice(number * 3000, 3000), folder / f"part{number}.parquet")
    return str(folder / "*.parquet")


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("db") / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", people())
        connection.execute("CREATE TABLE people AS SELECT * FROM rows")
    return sf.Database(f"duckdb:///{path}", table="people")


@pytest.fixture(autouse=True)
def no_rows_in_memory(monkeypatch):
    """Fail if a table is read as a whole by the DuckDB engine."""
    from sfumato.engines.out_of_core.scan import OutOfCoreSurvey

    def sample(self):
        raise AssertionError("a sample was drawn")

    monkeypatch.setattr(OutOfCoreSurvey, "sample", property(sample))


def same(found: Uniqueness, wanted: Uniqueness) -> bool:
    expected = pytest.approx(wanted.expected_observed, rel=1e-9)
    return found.expected_observed == expected and replace(found, expected_observed=wanted.expected_observed) == wanted


@pytest.mark.parametrize("columns", [["age"], ["age", "town"], ["age", "town", "income"], ["name"]], ids="+".join)
def test_uniqueness_is_counted_on_all_rows(columns, files, database):
    options = {"population": 10**6, "domain_sizes": {"age": 100}}
    wanted = sf.uniqueness(people(), columns, **options)
    for source in (files, database):
        assert same(sf.uniqueness(source, columns, **options, engine="duckdb"), wanted)


def test_declared_domains_count_as_in_memory(files):
    schema = sf.Schema((Column(name="age", role=Role.QUASI, domain=(0, 120)), Column(name="town", role=Role.QUASI)))
    wanted = sf.uniqueness(people(), ["age", "town"], schema=schema)
    assert wanted.domain == 121 * 40
    assert same(sf.uniqueness(files, ["age", "town"], schema=schema, engine="duckdb"), wanted)


def test_what_is_wrong_is_said_as_in_memory(files):
    for engine in ("memory", "duckdb"):
        with pytest.raises(TableError, match="no column 'nowhere'"):
            sf.uniqueness(files, ["nowhere"], engine=engine)
        with pytest.raises(OptionError, match="population must include"):
            sf.uniqueness(files, ["age"], 10, engine=engine)


@pytest.mark.parametrize("population", [None, 10**5])
def test_the_search_finds_the_same_sets_within_the_stated_error(population, files, database):
    by = "rows" if population is None else "population"
    names = ["age", "town", "income"]
    wanted = sf.quasi_identifiers(people(), population, 0.3, by=by, columns=names)
    assert len(wanted)
    for source in (files, database):
        found = sf.quasi_identifiers(source, population, 0.3, by=by, columns=names, engine="duckdb", seed=1)
        assert [one.columns for one in found] == [one.columns for one in wanted]
        assert found.complete
        for one, exact in zip(found, wanted, strict=True):
            assert abs(one.unique_fraction - exact.unique_fraction) <= one.error
            assert one.error < 0.05


def test_a_smaller_sample_has_a_larger_error(files):
    large, small = (
        sf.quasi_identifiers(files, alpha=0.3, columns=["age", "town", "income"], sample=sample, engine="duckdb")[0]
        for sample in (4096, 64)
    )
    assert 0 < large.error < small.error


def test_a_search_without_time_says_what_is_left(files):
    found = sf.quasi_identifiers(files, alpha=0.9, columns=["age", "town", "income"], seconds=1e-9, engine="duckdb")
    assert not found.complete
    assert (found.visited, found.sets_left) == (0, 7)
    assert "0 sets" in found.coverage


def test_many_columns_are_searched_only_where_a_smaller_set_does_not_identify():
    rng = np.random.default_rng(1)
    table = pa.table(
        {f"x{number}": rng.integers(0, 90, 2000) for number in range(30)} | {"sex": rng.integers(0, 2, 2000)}
    )
    found = sf.quasi_identifiers(table, alpha=0.5, engine="duckdb")  # of up to 31 columns
    wanted = sf.quasi_identifiers(table, alpha=0.5, max_size=3)
    assert {one.columns for one in found} == {one.columns for one in wanted}
    assert found.complete
    assert found.visited == 31 + 31 * 30 // 2


def test_an_inspection_counts_what_memory_counts(files):
    jobs = [Job.of(files, schema=ROLES, engine=engine) for engine in (Memory(), sf.DuckDB(memory="1GB"))]
    with open_for_inspection(jobs[0]) as memory, open_for_inspection(jobs[1]) as stored:
        wanted, found = (inspect(one.survey, one.schema) for one in (memory, stored))
    assert found == wanted
    assert {column.name for column in found.columns} == set(people().column_names)


def test_the_command_inspects_files_and_databases(files, database, capsys):
    shown = []
    roles = [f"--role={name}={role}" for name, role in ROLES.items()]
    for source in ([files], [files, "--engine", "duckdb"], [database.url, "--table", "people", "--memory", "1GB"]):
        assert run(["inspect", *source, *roles, "--alpha", "0.3", "--seconds", "0", "--json"]) == 0
        shown.append(json.loads(capsys.readouterr().out))
    memory, *others = shown
    for other in others:
        assert other["columns"] == memory["columns"]
        assert (other["groups"], other["unique_rows"]) == (memory["groups"], memory["unique_rows"])
        sets = [[one["columns"] for one in each["identifying"]["found"]] for each in (other, memory)]
        assert sets[0] == sets[1]
