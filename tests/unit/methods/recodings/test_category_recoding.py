"""Categories made coarser until they reach a goal."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.engines.memory.engine import MemorySurvey
from sfumato.errors import SchemaError
from sfumato.methods.recodings.categories import coarsen_to_at_least, coarsen_to_at_most
from sfumato.plan.questions import DistinctIn
from sfumato.schema.columns import Column, Role
from sfumato.sources.frames import as_table
from sfumato.table.kinds import Kind

values = st.lists(st.one_of(st.none(), st.sampled_from("abcdefg")), min_size=1, max_size=60)
TREE = "a;vowel;*\ne;vowel;*\nb;early;*\nc;early;*\nd;early;*\nf;late;*\ng;late;*\n"


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    file = tmp_path_factory.mktemp("trees") / "letters.csv"
    file.write_text(TREE)
    return str(file)


def column_of(cells, *, ordered=False, tree=None):
    if ordered:
        present = pa.array([None if cell is None else "abcdefg".index(cell) for cell in cells], pa.int32())
        arrow = pa.DictionaryArray.from_arrays(present, pa.array(list("abcdefg")), ordered=True)
    else:
        arrow = pa.array(cells, pa.string())
    table = as_table(pa.table({"x": arrow}))
    asked = DistinctIn("x")
    return table, Column(name="x", role=Role.QUASI, tree=tree), MemorySurvey(table).ask([asked])[asked]


def shown_for(cells, goal, number, **form):
    """The pairs of cell and shown word, after a goal was reached."""
    table, column, distinct = column_of(cells, **form)
    found = goal(number, column, table.kinds["x"], distinct)
    shown = found.show(found.codes(table))[0].cells.to_pylist()
    for cell, word in zip(cells, shown, strict=True):  # what is shown covers what was there
        assert cell in found.covers[word]
    assert len(set(shown)) == found.values
    return shown


@given(values, st.integers(1, 9), st.booleans())
def test_at_most_so_many_words_are_shown(cells, most, ordered):
    assert len(set(shown_for(cells, coarsen_to_at_most, most, ordered=ordered))) <= most


@given(values, st.integers(1, 9))
def test_at_most_so_many_words_of_a_tree_are_shown(tree, cells, most):
    assert len(set(shown_for(cells, coarsen_to_at_most, most, tree=tree))) <= most


@given(values, st.integers(1, 12), st.booleans())
def test_every_word_stands_in_k_rows_unless_there_are_fewer_in_all(cells, k, ordered):
    counts = Counter(shown_for(cells, coarsen_to_at_least, k, ordered=ordered))
    assert min(counts.values()) >= k or len(counts) == 1


@given(values, st.integers(1, 12))
def test_every_word_of_a_tree_stands_in_k_rows_unless_there_are_fewer_in_all(tree, cells, k):
    counts = Counter(shown_for(cells, coarsen_to_at_least, k, tree=tree))
    assert min(counts.values()) >= k or len(counts) == 1


def test_the_rarest_are_pooled_and_no_more_than_needed():
    assert Counter(shown_for("aaaabbbccd", coarsen_to_at_least, 3)) == {"a": 4, "b": 3, "other": 3}
    assert Counter(shown_for("aaaabbbccd", coarsen_to_at_most, 3)) == {"a": 4, "b": 3, "other": 3}


def test_a_pool_has_a_word_of_its_own():
    assert set(shown_for(["other", "other", "x", "y"], coarsen_to_at_least, 2)) == {"other", "any other"}


def test_neighbours_in_order_are_joined():
    assert shown_for("aabcddd", coarsen_to_at_least, 2, ordered=True) == ["a", "a", "b–c", "b–c", "d", "d", "d"]


def test_what_needs_no_change_is_told_apart():
    table, column, distinct = column_of("aabb")
    assert coarsen_to_at_least(2, column, Kind.NOMINAL, distinct).is_unchanged
    assert not coarsen_to_at_least(3, column, Kind.NOMINAL, distinct).is_unchanged
    assert table.rows == 4


def test_a_value_missing_from_the_tree_is_named_by_count_and_column(tree):
    table, column, distinct = column_of(["a", "zebra"], tree=tree)
    with pytest.raises(SchemaError, match="'x'") as caught:
        coarsen_to_at_least(1, column, table.kinds["x"], distinct)
    assert "zebra" not in str(caught.value)


@pytest.mark.parametrize("goal", [coarsen_to_at_least, coarsen_to_at_most])
def test_a_pool_gets_a_name_that_is_not_a_value_of_the_column(goal):
    taken = ["other", "any other", "all others", "all others 2"]
    shown = shown_for([*taken * 5, "rare", "rarer"], goal, 3)
    assert "all others 3" in shown


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("goal", [coarsen_to_at_least, coarsen_to_at_most])
def test_a_category_that_is_written_like_a_missing_value_is_not_one(goal, ordered):
    order = ["low", "(missing)", "high"]
    cells = ["(missing)"] * 9 + ["low"] * 9 + ["high"] * 9 + [None] * 9
    codes = pa.array([None if cell is None else order.index(cell) for cell in cells], pa.int32())
    arrow = pa.DictionaryArray.from_arrays(codes, pa.array(order), ordered=ordered)
    table = as_table(pa.table({"x": arrow}))
    asked = DistinctIn("x")
    found = goal(4, Column(name="x", role=Role.QUASI), table.kinds["x"], MemorySurvey(table).ask([asked])[asked])
    assert found.show(found.codes(table))[0].cells.to_pylist() == cells
