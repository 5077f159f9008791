"""Partitions of rows, against counting by hand."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfumato.risk.refinement_kernels import count_alone, split_groups


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


@given(coded_tables())
def test_refining_column_by_column_finds_the_groups_of_all_columns(case):
    columns, wanted = case
    mask = np.array(wanted)
    rows, starts, alone = np.arange(len(mask), dtype=np.int32), np.array([0, len(mask)]), 0
    for number, column in enumerate(columns, start=1):
        codes = np.array(column, dtype=np.int32)
        ahead = count_alone(rows, starts, codes, 4, mask)
        rows, starts, more = split_groups(rows, starts, codes, 4, mask)
        assert ahead == more
        alone += more
        groups = {frozenset(rows[first:last].tolist()) for first, last in pairwise(starts)}
        assert (groups, alone) == slow_groups(columns[:number], wanted)
