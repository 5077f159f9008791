"""Partitions of rows, against counting by hand."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfumato.risk.refinement_kernels import count_alone, narrow, split_groups
from sfumato.risk.set_search import NarrowCodes, RowGroups


def slow_groups(columns: list[list[int]], wanted: list[bool]) -> tuple[set[frozenset[int]], int]:
    """Groups of two and more that hold a wanted row, and the number of wanted rows that are alone."""
    groups = defaultdict(set)
    for row, combination in enumerate(zip(*columns, strict=True)):
        groups[combination].add(row)
    asked = {row for row, is_wanted in enumerate(wanted) if is_wanted}
    large = {frozenset(group) for group in groups.values() if len(group) > 1 and group & asked}
    return large, sum(len(group) == 1 and bool(group & asked) for group in groups.values())


@st.composite
def coded_tables(draw):
    rows = draw(st.integers(2, 30))
    columns = draw(st.lists(st.lists(st.integers(0, 3), min_size=rows, max_size=rows), min_size=1, max_size=4))
    wanted = draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    return columns, wanted


@given(coded_tables(), st.sampled_from([4, 300]))
def test_refining_column_by_column_finds_the_groups_of_all_columns(case, size):
    columns, wanted = case
    mask = np.zeros(0, bool) if all(wanted) else np.array(wanted)
    rows, starts, alone = np.arange(len(wanted), dtype=np.int32), np.array([0, len(wanted)]), 0
    for number, column in enumerate(columns, start=1):
        codes = narrow(np.array(column, dtype=np.int32), size)
        ahead = count_alone(rows, starts, codes, size, mask)
        rows, starts, more = split_groups(rows, starts, codes, size, mask)
        assert ahead == more
        alone += more
        groups = {frozenset(rows[first:last].tolist()) for first, last in pairwise(starts)}
        assert (groups, alone) == slow_groups(columns[:number], wanted)


def test_many_rows_are_split_side_by_side_into_the_same_groups(monkeypatch):
    """In parts of whole groups: as many as processors, or fewer where one group has most of the rows."""
    generator = np.random.default_rng(0)
    columns = [NarrowCodes(np.sort(generator.integers(0, size, 500)).astype(np.uint8), size) for size in (1, 2, 9)]
    columns += [NarrowCodes(generator.integers(0, size, 500).astype(np.int32), size) for size in (20, 400)]
    with ThreadPoolExecutor(3) as pool:
        for wanted in (np.ones(500, bool), generator.random(500) < 0.1):
            one, parts = RowGroups.whole(wanted), RowGroups.whole(wanted, pool.map)
            for column in columns:
                ahead = one.alone_after(column)
                one = one.split(column)
                with monkeypatch.context() as changed:
                    changed.setattr("sfumato.risk.set_search.MANY_ROWS", 4)
                    changed.setattr("sfumato.risk.set_search.processors", lambda: 3)
                    assert parts.alone_after(column) == ahead
                    parts = parts.split(column)
                for name in ("rows", "starts", "alone", "sizes", "asked"):
                    assert np.array_equal(getattr(one, name), getattr(parts, name))
                assert one.alone == parts.alone == ahead
