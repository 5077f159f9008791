"""Groups of several parts of a table are those of the whole."""

from __future__ import annotations

import pickle
from collections import Counter
from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sfumato.table import groups as group_counts
from sfumato.table.group_counts import GroupCounts
from sfumato.table.groups import KeyedGroups
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

rows = st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.sampled_from(["a", "b", None])), max_size=15)


def counted(part) -> GroupCounts:
    cells = {
        "x": pa.array([row[0] for row in part], pa.int64()),
        "w": pa.array([row[1] for row in part], pa.string()),
    }
    return GroupCounts.of(KeyedGroups.of(Table(pa.table(cells), {"x": Kind.WHOLE, "w": Kind.NOMINAL}), ["x", "w"]))


@given(rows, st.integers(0, 15))
def test_counts_of_parts_add_up(cells, cut):
    whole, parts = counted(cells), counted(cells[cut:]).merge(counted(cells[:cut]))
    by_key = [dict(zip(map(tuple, found.keys.values), found.counts, strict=True)) for found in (whole, parts)]
    assert by_key[0] == by_key[1]
    assert sorted(parts.counts) == sorted(Counter(cells).values())
    assert parts.rows == len(cells)


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), max_size=12))
def test_rows_that_are_keys_are_grouped_by_them(keys):
    groups = KeyedGroups.of_keys(np.array(keys, dtype=np.uint64).reshape(-1, 3))
    assert [tuple(groups.keys.values[label]) for label in groups.labels] == keys
    assert groups.size == len(set(keys))


def test_keys_are_sent_to_other_processes_as_hashes_and_not_as_cells():
    found = counted([(1, "CANARY"), (2, None)])
    sent = pickle.dumps(found)
    assert b"CANARY" not in sent
    assert np.array_equal(pickle.loads(sent).keys.values, found.keys.values)


def test_rows_without_a_column_are_one_group():
    table = Table.from_arrow(pa.table({"x": [1, 2, 3]}))
    found = GroupCounts.of(KeyedGroups.of(table, ()))
    assert found.merge(found).counts.tolist() == [6]


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 3)), min_size=1, max_size=60), st.integers(1, 60))
def test_very_many_keys_are_grouped_in_parts_with_the_same_result(keys, cut):
    cells = np.array([*keys, *keys[:cut]], dtype=np.uint64)
    whole = KeyedGroups.of_keys(cells)
    with mock.patch.object(group_counts, "LARGE", 0):
        in_parts = KeyedGroups.of_keys(cells)
    assert in_parts.size == whole.size
    assert (in_parts.keys.values[in_parts.labels] == cells).all()
    assert (whole.keys.values[whole.labels] == cells).all()
