"""How many rows find k people alike: exact where the table is the population."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.methods.generalize.population import Combinations, RecodedCodes, expected_matches


def shown(columns):
    return [RecodedCodes(np.array(column, dtype=np.int32), 4) for column in columns]


tables = st.integers(1, 40).flatmap(
    lambda rows: st.lists(st.lists(st.integers(0, 3), min_size=rows, max_size=rows), min_size=1, max_size=3)
)


@given(tables, st.integers(1, 8))
def test_a_table_that_is_the_population_is_counted(columns, k):
    rows = list(zip(*columns, strict=True))
    counts = Counter(rows)
    found = expected_matches(Combinations.of(shown(columns), len(rows)), len(rows), k)
    assert found.share == pytest.approx(sum(counts[row] >= k for row in rows) / len(rows))
    assert (found.smallest_group, found.groups) == (min(counts.values()), len(counts))


@given(tables, st.integers(1, 8), st.integers(1, 50))
def test_a_larger_population_never_hides_fewer(columns, k, times):
    rows = len(columns[0])
    counted = expected_matches(Combinations.of(shown(columns), rows), rows, k).share
    assert (
        counted - 1e-9 <= expected_matches(Combinations.of(shown(columns), rows), times * rows, k).share <= 1.0 + 1e-9
    )


def test_more_people_to_hide_among_are_found_less_often():
    rng = np.random.default_rng(1)
    columns = [RecodedCodes(rng.integers(0, 30, 2_000).astype(np.int32), 30) for _ in range(3)]
    shares = [expected_matches(Combinations.of(columns, 2_000), 1_000_000, k).share for k in (5, 20, 40, 80)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.95
    assert shares[-1] < 0.05
