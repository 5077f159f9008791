"""Distinct combinations and rows alone, from a sketch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import OptionError, TableError
from sfumato.job.inspect import quasi_identifiers
from sfumato.plan.sketches import CombinationSketch
from sfumato.risk.from_survey import estimate_uniqueness, sketched_quasi_identifiers
from sfumato.risk.uniqueness import uniqueness
from sfumato.sources.frames import as_table


def large_table(rows=40_000):
    rng = np.random.default_rng(4)
    return pa.table(
        {
            "number": rng.integers(0, 300, rows),
            "measure": np.round(rng.normal(size=rows), 1),
            "word": rng.choice([f"w{number}" for number in range(60)], rows),
            "sex": rng.choice(["f", "m"], rows),
        }
    )


@given(
    st.lists(
        st.tuples(st.one_of(st.none(), st.integers(-2, 2)), st.sampled_from(["a", "b", None])), min_size=1, max_size=15
    ),
    st.integers(1, 4),
)
def test_few_combinations_are_counted_exactly_in_any_parts(rows, parts):
    table = pa.table(
        {"x": pa.array([row[0] for row in rows], pa.int64()), "y": pa.array([row[1] for row in rows], pa.string())}
    )
    sketch = CombinationSketch(["x", "y"], size=16)
    for part in np.array_split(np.arange(len(rows)), parts):
        sketch.update(as_table(table.take(pa.array(part))))
    found, wanted = estimate_uniqueness(sketch), uniqueness(table, ["x", "y"])
    assert sketch.is_exact and found.error == 0.0
    assert (found.unique_rows, found.distinct, found.rows) == (wanted.unique_rows, wanted.distinct, wanted.rows)
    assert found.expected_observed == pytest.approx(wanted.expected_observed)


def test_many_combinations_are_estimated_within_the_stated_error():
    table, columns = as_table(large_table()), ["number", "measure", "word"]
    wanted = uniqueness(table, columns)
    found = estimate_uniqueness(CombinationSketch(columns, size=2048, salt=b"one").update(table))
    assert 0 < found.error < 0.06
    assert abs(found.unique_fraction - wanted.unique_fraction) < found.error
    assert found.distinct == pytest.approx(wanted.distinct, rel=3 / np.sqrt(2048))
    assert found.expected_observed == pytest.approx(wanted.expected_observed, abs=found.error)


def test_merged_sketches_equal_one_sketch_of_all():
    table, columns = as_table(large_table()), ["number", "word"]
    whole = CombinationSketch(columns, size=512, salt=b"one").update(table)
    merged = CombinationSketch(columns, size=512, salt=b"one")
    for part in np.array_split(np.arange(table.rows), 5):
        merged.merge(CombinationSketch(columns, size=512, salt=b"one").update(table.take(part)))
    assert estimate_uniqueness(merged) == estimate_uniqueness(whole)


def test_sketches_of_another_salt_cannot_be_merged():
    with pytest.raises(OptionError):
        CombinationSketch(["x"], salt=b"one").merge(CombinationSketch(["x"], salt=b"two"))


@pytest.mark.parametrize("by", ["rows", "population"])
def test_the_search_in_parts_finds_what_the_exact_search_finds(by):
    table = large_table()
    exact = quasi_identifiers(table, 10**6, alpha=0.2, by=by)
    found = sketched_quasi_identifiers(
        lambda: table.to_batches(max_chunksize=9_000), table.column_names, 10**6, alpha=0.2, by=by, max_size=4
    )
    assert {one.columns for one in found} == {one.columns for one in exact}
    assert len(exact) > 0


def test_an_empty_table_is_refused():
    empty = large_table(10).slice(0, 0)
    with pytest.raises(TableError):
        sketched_quasi_identifiers(lambda: [empty], empty.column_names)
