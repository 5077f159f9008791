"""Roles: given, suggested, held against the table."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest

from sfumato.errors import SchemaError
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table
from sfumato.table.kinds import Kind

CANARY = "Canary77"


@pytest.fixture
def table():
    return as_table(
        {
            "age": [30, 41, 52],
            "sex": ["m", "f", "f"],
            "size": ["S", "L", None],
            "income": [1.5, 2.5, None],
            "code": ["7", "8", "9"],
        }
    )


def test_columns_that_are_not_named_get_a_suggestion(table):
    schema = Schema.for_table(table, {"income": "sensitive"})
    assert [column.name for column in schema.columns] == list(table.names)
    assert schema.names(Role.SENSITIVE) == ("income",)
    assert schema.names(Role.QUASI) == ("age", "sex", "size", "code")
    assert schema["income"].reason == ""
    assert schema["age"].reason


def test_a_schema_a_mapping_and_a_file_say_the_same(table, tmp_path):
    (tmp_path / "schema.toml").write_text('[columns]\nincome = "sensitive"\n[columns.age]\nrole = "other"\n')
    column = Column(name="income", role=Role.SENSITIVE)
    given = [
        {"income": "sensitive", "age": "other"},
        {"income": {"role": "sensitive"}, "age": Role.OTHER},
        {"income": column, "age": Column(name="age", role=Role.OTHER)},
        Schema((column, Column(name="age", role=Role.OTHER))),
        tmp_path / "schema.toml",
        str(tmp_path / "schema.toml"),
    ]
    schemas = [Schema.for_table(table, one) for one in given]
    assert all(schema == schemas[0] for schema in schemas)
    assert schemas[0].names(Role.OTHER, Role.SENSITIVE) == ("age", "income")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"incom": "quasi"}, "nearest 'income'"),
        ({"zzz": "quasi"}, "none similar"),
        ({"age": "quasy"}, "role of column 'age' must be one of identifier, quasi"),
        ({"age": 7}, "must be a role or a table"),
        ({"age": {"kind": "whole"}}, "must have a role"),
        ({"age": {"role": "quasi", "knd": "whole"}}, "nearest 'kind'"),
        ({"age": {"role": "quasi", "kind": "number"}}, "kind of column 'age' must be one of continuous"),
        ({"age": {"role": "quasi", "domain": [90, 10]}}, "the lower first"),
        ({"age": {"role": "quasi", "domain": [0]}}, "two finite numbers"),
        ({"age": {"role": "quasi", "domain": [0, float("inf")]}}, "two finite numbers"),
        ({"age": {"role": "quasi", "domain": [0, 40]}}, "a largest value above 40"),
        ({"sex": {"role": "quasi", "domain": [0, 40]}}, "must be numeric"),
        ({"age": {"role": "quasi", "words": ["young"]}}, "table that maps each word"),
        ({"age": {"role": "quasi", "words": {"young": [20, 10, 30]}}}, "in ascending order"),
        ({"age": {"role": "quasi", "words": {"young": [1, float("nan"), 30]}}}, "three or four numbers"),
        ({"age": {"role": "quasi", "words": {"young": [1, 2]}}}, "three or four numbers"),
        ({"age": {"role": "quasi", "words": {"young": "18"}}}, "three or four numbers"),
        ({"age": {"role": "quasi", "words": {"young": [float("-inf"), 2, 3]}}}, "both corners of a side"),
        ({"sex": {"role": "quasi", "words": {"young": [1, 2, 3]}}}, "must be numeric"),
        ({"size": {"role": "quasi", "order": ["S", "M"]}}, r"1 of \d+ cells with values that are not in the order"),
        ({"size": {"role": "quasi", "order": ["S", "S", "L"]}}, "each value once"),
        ({"size": {"role": "quasi", "order": "SML"}}, "list of strings"),
        ({"size": {"role": "quasi", "order": [1, 2]}}, "list of strings"),
        ({"size": {"role": "quasi", "order": ["S", "L"], "kind": "whole"}}, "must be ordered"),
        ({"size": {"role": "quasi", "kind": "ordered"}}, "order must be declared"),
        ({"sex": {"role": "quasi", "kind": "whole"}}, "cannot be read as whole"),
        ({"income": {"role": "quasi", "kind": "whole"}}, "cannot be read as whole"),
        ({"sex": {"role": "quasi", "kind": "date"}}, "cannot be read as date"),
        ({"age": {"role": "quasi", "kind": "boolean"}}, "cannot be read as boolean"),
        ({"sex": {"role": "quasi", "tree": 7}}, "path of a file"),
        ({"sex": "weight"}, "must be numbers"),
        ({"income": "weight"}, "1 missing"),
        ({"age": "weight", "income": "weight"}, "At most one column may have the role weight"),
        (["age"], "must be a Schema, a mapping"),
        ("no such file.toml", "No such file"),
    ],
)
def test_what_does_not_fit_is_refused(table, given, words):
    with pytest.raises(SchemaError, match=words) as refusal:
        Schema.for_table(table, given)
    assert refusal.value.exit_code == 2
    assert refusal.value.__context__ is None


def test_a_schema_names_a_column_once():
    column = Column(name="a", role=Role.QUASI)
    with pytest.raises(SchemaError, match="'a' more than once"):
        Schema((column, column))


def test_an_unknown_column_is_refused_with_the_nearest_name(table):
    with pytest.raises(SchemaError, match="nearest 'income'"):
        Schema.for_table(table)["incone"]


def test_declared_kinds_are_applied(table):
    given = {
        "age": {"role": "quasi", "kind": "nominal"},
        "size": {"role": "quasi", "order": ["S", "M", "L"]},
        "code": {"role": "quasi", "kind": "whole"},
    }
    applied = Schema.for_table(table, given).apply(table)
    assert applied.kinds == {
        "age": Kind.NOMINAL,
        "sex": Kind.NOMINAL,
        "size": Kind.ORDERED,
        "income": Kind.CONTINUOUS,
        "code": Kind.WHOLE,
    }
    assert applied.coded("size").values.to_pylist() == ["S", "L", None]
    assert applied.numbers("code").tolist() == [7.0, 8.0, 9.0]
    assert applied.arrow["age"].to_pylist() == [30, 41, 52]


@pytest.mark.parametrize(
    ("cells", "kind", "found"),
    [
        (["2020-01-01", None], "date", [date(2020, 1, 1), None]),
        (["007", "8"], "whole", [7, 8]),
        ([1.0, 2.0], "whole", [1, 2]),
        ([1, None], "continuous", [1.0, None]),
        ([0, 1, None], "boolean", [False, True, None]),
        (["true", "false"], "boolean", [True, False]),
        ([None, None], "continuous", [None, None]),
        ([3, 1], "ordered", [3, 1]),
        (pa.array(["5", "6"]).dictionary_encode(), "whole", [5, 6]),
    ],
)
def test_a_kind_turns_cells_into_what_it_needs(cells, kind, found):
    table = as_table({"x": cells})
    applied = Schema.for_table(table, {"x": {"role": "quasi", "kind": kind}}).apply(table)
    assert applied.arrow["x"].to_pylist() == found
    assert applied.kinds["x"] == kind


def test_whole_numbers_may_have_an_order_of_their_own():
    table = as_table({"x": [1, 3, 2]})
    applied = Schema.for_table(table, {"x": {"role": "quasi", "order": ["3", "1", "2"]}}).apply(table)
    assert applied.coded("x").codes.tolist() == [1, 0, 2]


def test_a_schema_shows_no_value():
    schema = Schema((Column(name="a", role=Role.QUASI, order=(CANARY, "x")),))
    assert CANARY not in repr(schema)
    with pytest.raises(SchemaError) as refusal:
        Schema.for_table(as_table({"a": [CANARY, "y"]}), {"a": {"role": "quasi", "order": ["x"]}})
    assert CANARY not in str(refusal.value)


def test_roles_can_be_changed(table):
    schema = Schema.for_table(table).with_roles({"income": Role.SENSITIVE})
    assert schema.names(Role.SENSITIVE) == ("income",)
