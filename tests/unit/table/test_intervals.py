"""Sets of categories as text can always be read back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sfumato.table.intervals import format_set, parse_set

values = st.one_of(
    st.none(), st.text(), st.sampled_from(["a", "a|b", "\\", "\\|", "(missing)", "\\(missing)", "", "|"])
)


@given(st.lists(values, min_size=1, max_size=5, unique=True))
def test_a_set_is_read_back_as_it_was_written(members):
    assert parse_set(format_set(members)) == tuple(members)


def test_one_value_is_written_as_itself_and_several_are_joined():
    assert format_set(["Ulm"]) == "Ulm"
    assert format_set(["Ulm", "Rom", None]) == "Ulm|Rom|(missing)"


def test_a_set_of_the_missing_value_alone_is_missing():
    assert format_set([None]) is None
    assert parse_set(None) == (None,)
