"""The sets of values in boxes, against a slow twin."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.methods.partition import BoxPartition, label_sets
from sfumato.table.intervals import ANY, parse_set


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    values=st.sampled_from([1, 5, 63, 64, 65, 300]),
    seed=st.integers(0, 1000),
    most=st.sampled_from([None, 1, 2, 5]),
)
def test_sets_equal_the_slow_twin(sizes, values, seed, most):
    draw = np.random.default_rng(seed)
    rows = sum(sizes)
    ranks, order = draw.integers(0, values, rows), draw.permutation(rows)
    leaves = BoxPartition(order, np.concatenate([[0], np.cumsum(sizes)]), np.empty((0, 4)))
    names = [None if rank == values - 1 else f"v{rank}|" for rank in range(values)]
    found = label_sets(leaves, ranks.astype(float), pa.array(names, pa.string()), most)
    labels = found.labels.to_pylist()
    assert len(set(labels)) == len(labels)
    for box in range(leaves.count):
        inside = {names[ranks[row]] for row in order[leaves.starts[box] : leaves.starts[box + 1]]}
        if most is not None and len(inside - {None}) > most:
            inside = {ANY} | (inside & {None})
        assert set(parse_set(labels[found.label_of[box]])) == inside


@pytest.mark.parametrize("values", [40, 20_000])
def test_many_categories_take_seconds(values):
    draw = np.random.default_rng(0)
    data = pd.DataFrame(
        {"c": [f"s{code:06d}" for code in draw.integers(0, values, 30_000)], "a": draw.normal(size=30_000)}
    )
    roles = dict.fromkeys(data, "quasi")
    sf.Boxes(k=5, l=1).release(data[:500], schema=roles, seed=1)
    start = time.process_time()
    sf.Boxes(k=5, l=1).release(data, schema=roles, seed=1)
    assert time.process_time() - start < 6.0  # sorting a bit matrix took 25 s for 100,000 rows
