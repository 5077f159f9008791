"""Groups of equal rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import TableError
from sfumato.sources.files import read
from sfumato.sources.frames import as_table
from sfumato.table import coding, groups
from sfumato.table.groups import KeyedGroups, group_labels, group_sizes, labels_of, refine, rows_by_label
from sfumato.table.table import Table


def test_a_missing_value_is_a_group_of_its_own():
    table = as_table({"zip": ["10", "10", None], "age": [1.0, 1.0, None]})
    assert sorted(group_sizes(table, ["zip", "age"])) == [1, 2]


def test_a_missing_number_is_not_zero():
    assert sorted(group_sizes(as_table({"n": [0, None, 0]}), ["n"])) == [1, 2]


def test_no_column_makes_one_group_and_no_row_makes_none():
    table = as_table({"a": [1, 2]})
    assert group_sizes(table, []).tolist() == [2]
    assert group_sizes(table.take(np.zeros(0, dtype=np.int64)), ["a"]).tolist() == []


def test_an_unknown_column_is_refused():
    with pytest.raises(TableError, match="no column 'b'"):
        group_labels(as_table({"a": [1]}), ["b"])


def test_groups_are_exact_even_where_every_hash_collides(monkeypatch):
    table = as_table({"a": [1.5, 2.5, 1.5, 3.5], "b": ["x", "x", "x", "y"]})
    monkeypatch.setattr(groups, "ODD", np.uint64(0))  # every row gets the same hash
    assert sorted(group_sizes(table, ["a", "b"])) == [1, 1, 2]


@given(st.lists(st.tuples(st.sampled_from([0.5, 1.5, None]), st.sampled_from("xy"), st.integers(0, 3)), min_size=1))
def test_numbers_of_groups_change_no_group_whether_or_not_they_are_those_of_equal_rows(rows):
    table = as_table(dict(zip(("a", "b", "box"), map(list, zip(*rows, strict=True)), strict=True)))
    plain, numbered = KeyedGroups.of(table, ("a", "b")), KeyedGroups.of(table, ("a", "b"), "box")
    assert (plain.keys.values[plain.labels] == numbered.keys.values[numbered.labels]).all()
    assert plain.size == numbered.size


@pytest.mark.parametrize("largest", [groups.LARGEST, 200])  # the second makes labels dense after every column
@pytest.mark.parametrize("threaded", [0, 10**9])
def test_labels_by_digits_are_those_of_hashes(monkeypatch, largest, threaded):
    rng = np.random.default_rng(3)
    columns = {
        "small": pa.array(rng.integers(-128, 128, 500), pa.int8()),
        "missing": pa.array([None if one == 0 else int(one) for one in rng.integers(0, 4, 500)], pa.int64()),
        "text": pa.array(["abc"[one] if one < 3 else None for one in rng.integers(0, 4, 500)]),
        "coded": pa.array(["x" if one else None for one in rng.integers(0, 2, 500)]).dictionary_encode(),
        "flag": pa.array(rng.random(500) < 0.5),
        "high": pa.array(rng.integers(2**61, 2**61 + 3, 500), pa.uint64()),
    }
    table = as_table(pa.table(columns))
    monkeypatch.setattr(groups, "LARGEST", largest)
    monkeypatch.setattr(groups, "THREADED", threaded)
    found = [group_labels(table, names).tolist() for names in (list(columns), ["missing", "coded"], ["high"])]
    monkeypatch.setattr(groups, "have_few_values", lambda _: False)
    assert found == [group_labels(table, names).tolist() for names in (list(columns), ["missing", "coded"], ["high"])]


def test_refining_by_many_values_keeps_labels_dense():
    rng = np.random.default_rng(7)
    labels, codes = rng.integers(0, 500, 1000), rng.integers(0, 10**6, 1000).astype(np.int32)
    refined = refine(labels, codes, 10**6)
    assert (
        len(set(zip(labels.tolist(), codes.tolist(), strict=True))) == refined.max() + 1 == len(set(refined.tolist()))
    )


def test_labels_of_no_columns_are_one_group():
    assert labels_of([], 3).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("columns", "unique"),  # published counts of people who are alone in Adult on these columns
    [
        ([1], 2),
        ([1, 13], 986),
        ([1, 9, 10], 65),
        ([1, 2, 4, 7], 5056),
        ([1, 2, 4, 6, 7, 8, 9, 10, 13, 14], 24802),
    ],
)
def test_people_who_are_alone_in_adult(data_folder, columns, unique):
    table = read(data_folder / "adult" / "adult.data")
    assert np.count_nonzero(group_sizes(table, [f"column_{number}" for number in columns]) == 1) == unique


def test_a_day_is_not_the_number_of_its_days():
    table = as_table(pa.table({"d": pa.array([0, 1, None], pa.date32()), "m": pa.array([0, 0, 5], pa.timestamp("ns"))}))
    assert sorted(group_sizes(table, ["d"])) == [1, 1, 1]
    assert sorted(group_sizes(table, ["m"])) == [1, 2]


@pytest.mark.parametrize("values", [3, 200, 400])
def test_long_columns_of_strings_have_the_groups_of_their_cells(values, monkeypatch):
    monkeypatch.setattr(coding, "MANY_CELLS", 100)
    random = np.random.default_rng(values)
    cells = np.array([f"{'same beginning ' * (n % 3)}{n:03}" for n in range(values)] + [None], dtype=object)
    texts = [cells[random.integers(0, values + 1, size)].tolist() for size in (700, 1, 900)]
    column = pa.chunked_array([pa.array(part, pa.string()) for part in texts]).slice(5)
    numbers = random.integers(0, 4, len(column))
    table = Table.from_arrow(pa.table({"text": column, "number": numbers}))
    rows = list(zip(column.to_pylist(), numbers.tolist(), strict=True))
    wanted = Counter(rows)
    assert (group_sizes(table, ["text", "number"])[group_labels(table, ["text", "number"])]).tolist() == [
        wanted[row] for row in rows
    ]
    assert len(group_sizes(table, ["text", "number"])) == len(wanted)


@given(st.lists(st.integers(0, 5), max_size=20), st.integers(0, 8))
def test_rows_by_label_are_the_rows_that_have_it(labels, size):
    parts = rows_by_label(np.array(labels, dtype=np.int64), size)
    wanted = [
        [row for row, own in enumerate(labels) if own == label] for label in range(max([*labels, size - 1, 0]) + 1)
    ]
    assert [part.tolist() for part in parts] == wanted
