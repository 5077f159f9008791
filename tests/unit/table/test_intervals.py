"""Sets of categories as text can always be read back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sfumato.table.intervals import ANY, format_set, is_member, parse_set, shorten_set

NAMES = ["a", "a|b", "\\", "\\|", "(missing)", "\\(missing)", "", "|", "(any)", "\\(any)", "(any)|(missing)"]
values = st.one_of(st.none(), st.text(), st.sampled_from(NAMES))


@given(st.lists(values, min_size=1, max_size=5, unique=True))
def test_a_set_is_read_back_as_it_was_written(members):
    assert parse_set(format_set(members)) == tuple(members)


def test_one_value_is_written_as_itself_and_several_are_joined():
    assert format_set(["Ulm"]) == "Ulm"
    assert format_set(["Ulm", "Rom", None]) == "Ulm|Rom|(missing)"


def test_a_set_of_the_missing_value_alone_is_missing():
    assert format_set([None]) is None
    assert parse_set(None) == (None,)


@given(st.lists(values, min_size=1, max_size=8, unique=True), st.sampled_from([None, 1, 2, 5]))
def test_a_long_set_is_any_value_and_says_whether_one_is_missing(members, names_at_most):
    read = parse_set(format_set(shorten_set(members, names_at_most)))
    names = [member for member in members if member is not None]
    is_long = names_at_most is not None and len(names) > names_at_most
    assert read == ((ANY, *[None] * (None in members)) if is_long else tuple(members))
    assert all(is_member(member, read) for member in members)
    assert is_member(None, read) == (None in members)
    assert is_member("a value of another box", read) == is_long


def test_any_value_has_a_name_that_no_category_takes():
    assert format_set([ANY]) == "(any)"
    assert format_set([ANY, None]) == "(any)|(missing)"
    assert format_set(["(any)"]) == "\\(any)"
    assert parse_set("(any)") == (ANY,)
    assert parse_set("\\(any)") == ("(any)",)
