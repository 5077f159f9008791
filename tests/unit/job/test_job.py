"""A job turns what users pass into objects once, and refuses what cannot be done before any work."""

from __future__ import annotations

import pandas as pd
import pytest

import sfumato as sf
from sfumato.errors import OptionError
from sfumato.job.job import AssessmentWishes, Job
from sfumato.release.destination import Folder
from sfumato.schema.schema import FittedTable, Schema
from sfumato.sources.files import FileSource
from sfumato.table.table import Table

PEOPLE = {"age": [20, 21, 40, 41], "income": [1.0, 2.0, 3.0, 4.0]}


def test_raw_values_become_objects(tmp_path):
    job = Job.of("people.csv", schema={"age": "quasi"}, into=tmp_path / "out", engine="memory")
    assert job.source == FileSource("people.csv")  # not read yet
    assert job.schema == Schema.of({"age": "quasi"})
    assert job.destination == Folder(tmp_path / "out")
    assert job.engine.in_memory
    assert not Job.of(PEOPLE, engine="duckdb").engine.in_memory


@pytest.mark.parametrize("table", [PEOPLE, pd.DataFrame(PEOPLE)], ids=["mapping", "pandas"])
def test_frames_become_tables(table):
    assert isinstance(Job.of(table).source, Table)


def test_a_table_that_has_its_roles_is_left_as_it_is():
    fitted = Job.of(PEOPLE, schema={"age": "sensitive"}).fitted
    job = Job.of(fitted).read()
    assert job.source is fitted
    assert job.schema is None


def test_only_engines_in_memory_read_the_table():
    assert isinstance(Job.of(PEOPLE, engine="memory").read().source, FittedTable)
    stored = Job.of(PEOPLE, engine="duckdb")
    assert stored.read() is stored


def test_what_cannot_be_done_is_refused_before_any_work():
    table = Table.from_arrow(Job.of(PEOPLE).source.arrow)
    with pytest.raises(OptionError, match="not both"):
        AssessmentWishes(reference=table, holdout=0.5)
    job = Job.of("absent.csv", engine="duckdb", method=sf.Noise(), assessment=AssessmentWishes(holdout=0.5))
    with pytest.raises(OptionError, match="holdout"):
        job.require_no_holdout()
