"""Schema files."""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import SchemaError
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.kinds import Kind

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
COLUMNS = st.builds(
    Column,
    name=TEXTS,
    role=st.sampled_from(Role),
    kind=st.none() | st.sampled_from(Kind),
    reason=TEXTS,
    domain=st.none() | st.tuples(FINITE, FINITE).map(lambda ends: tuple(sorted(ends))),
    tree=st.none() | st.sampled_from(["calendar", "prefix", "steps:5,10", "a tree.csv", "trees/b\"'.csv"]),
    words=st.dictionaries(TEXTS, st.lists(FINITE, min_size=3, max_size=4).map(sorted), max_size=3),
) | st.builds(Column, name=TEXTS, role=st.sampled_from(Role), order=st.lists(TEXTS, unique=True, max_size=4).map(tuple))


def tells_people_apart_once(columns):
    return sum(column.role is Role.PERSON for column in columns) <= 1


@given(st.lists(COLUMNS, unique_by=lambda column: column.name, min_size=1, max_size=5).filter(tells_people_apart_once))
def test_a_schema_comes_back_from_its_file(columns):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schema.toml"
        found_trees = [
            replace(column, tree=str(Path(folder) / column.tree))
            if column.tree and column.tree.endswith(".csv")
            else column
            for column in columns
        ]
        Schema(tuple(found_trees)).write(path)
        assert Schema.of(path) == Schema(tuple(replace(column, reason="") for column in found_trees))


def test_reasons_are_comments(tmp_path):
    Schema((Column(name="a", role=Role.QUASI, reason="it\nis known"),)).write(tmp_path / "s.toml")
    assert 'role = "quasi"  # it is known\n' in (tmp_path / "s.toml").read_text()


def test_words_are_corners_of_triangles_or_trapezoids_and_may_lie_at_infinity(tmp_path):
    (tmp_path / "s.toml").write_text(
        '[columns.age]\nrole = "quasi"\n[columns.age.words]\nyoung = [-inf, -inf, 25, 35]\n"mid-life" = [35, 45, 60]\n'
    )
    words = Schema.of(tmp_path / "s.toml")["age"].words
    assert words == {"young": (-math.inf, -math.inf, 25.0, 35.0), "mid-life": (35.0, 45.0, 45.0, 60.0)}
    Schema.of(tmp_path / "s.toml").write(tmp_path / "again.toml")
    assert Schema.of(tmp_path / "again.toml")["age"].words == words


def test_trees_are_found_beside_the_file(tmp_path):
    (tmp_path / "s.toml").write_text('[columns.a]\nrole = "quasi"\ntree = "trees/a.csv"\n')
    assert Schema.of(tmp_path / "s.toml")["a"].tree == str(tmp_path / "trees" / "a.csv")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[columns]\na = "quasi', "at end of document"),
        ("[columns]\na = quasi", "at line 2, column 5"),
        ("", "must have a table"),
        ("columns = 3", "must have a table"),
        ('[colums]\na = "quasi"', "'colums'"),
        ('[columns]\na = "quasi"\n[other]\n', "'other'"),
        ("[columns]\na = 3", "must be a role or a table"),
    ],
)
def test_a_file_that_is_no_schema_is_refused(tmp_path, text, words):
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(SchemaError, match=words):
        Schema.of(tmp_path / "s.toml")


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "s.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SchemaError, match="not UTF-8"):
        Schema.of(tmp_path / "s.toml")
