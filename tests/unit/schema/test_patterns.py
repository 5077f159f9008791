"""Names with wildcards stand for columns, and never release what looks like an identifier."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import SchemaError
from sfumato.schema.columns import Role, matches

PEOPLE = {
    "patient_id": [f"p{i}" for i in range(30)],
    "age": [row % 9 for row in range(30)],
    "lab_a": [row % 7 for row in range(30)],
    "lab_b": [row % 5 for row in range(30)],
    "x": [row % 4 for row in range(30)],
}


@given(pattern=st.text("ab*?", max_size=6), name=st.text("ab", max_size=6))
def test_wildcards_are_those_of_a_shell(pattern, name):
    assert matches(pattern, name) == fnmatchcase(name, pattern)


def test_other_characters_have_no_meaning():
    assert matches("a[1]*", "a[1] b")
    assert not matches("a[1]*", "a1")


def test_a_pattern_stands_for_the_columns_that_are_not_named():
    schema = sf.Schema.for_table(PEOPLE, {"lab_*": "other", "lab_b": "sensitive", "age": "quasi"})
    assert schema.names(Role.OTHER) == ("lab_a",)
    assert schema.names(Role.SENSITIVE) == ("lab_b",)
    assert schema["x"].reason, "not named, so suggested"


def test_the_first_pattern_counts():
    schema = sf.Schema.for_table(PEOPLE, {"lab_*": "sensitive", "*": "other"})
    assert schema.names(Role.SENSITIVE) == ("lab_a", "lab_b")
    assert schema.names(Role.OTHER) == ("age", "x")


def test_a_pattern_does_not_release_an_identifier_but_its_name_does():
    schema = sf.Schema.for_table(PEOPLE, {"*": "other"})
    assert schema.names(Role.IDENTIFIER) == ("patient_id",)
    assert "a pattern does not release it" in schema["patient_id"].reason
    assert sf.Schema.for_table(PEOPLE, {"*": "other", "patient_id": "other"})["patient_id"].role is Role.OTHER
    assert not sf.Schema.for_table(PEOPLE, {"*": "identifier"})["patient_id"].reason


def test_a_pattern_that_matches_nothing_is_an_error():
    with pytest.raises(SchemaError, match="not in the table"):
        sf.Schema.for_table(PEOPLE, {"blood_*": "other"})


def test_a_column_whose_name_has_a_star_is_found_by_its_name():
    schema = sf.Schema.for_table({"a*": [1, 2], "ab": [1, 2]}, {"a*": "other", "ab": "quasi"})
    assert (schema["a*"].role, schema["ab"].role) == (Role.OTHER, Role.QUASI)


def test_roles_of_the_command_line_change_named_columns_by_pattern():
    schema = sf.Schema.of({"lab_a": "quasi", "age": "quasi"}).with_roles({"lab_*": Role.OTHER})
    assert schema["lab_a"].role is Role.OTHER
    assert schema["age"].role is Role.QUASI
