"""No released row is the row of somebody who is unique: copies are found, changed and counted again."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import sfumato as sf
from sfumato.errors import PromiseError
from sfumato.methods.spectral import swap as swap_method
from sfumato.methods.spectral.pica import PartitionedIca
from sfumato.methods.spectral.restore import ExchangeableCells
from sfumato.methods.spectral.svd_swap import SvdSwap
from sfumato.plan.claims.copies import NoUniqueRowCopied, find_copies
from sfumato.plan.plan import Evidence
from sfumato.table.encoder import Encoder
from sfumato.table.table import Table

CELL = st.tuples(
    st.sampled_from([None, 0.0, -0.0, 1.5, 2.0]), st.sampled_from([None, 3, 4]), st.sampled_from(["a", "b", None])
)
TYPES = {"x": pa.float64(), "n": pa.int64(), "c": pa.string()}
COLUMNS = tuple(TYPES)


def table(rows):
    cells = zip(*rows, strict=True) if rows else [[], [], []]
    return Table.from_arrow(pa.table({n: pa.array(c, TYPES[n]) for n, c in zip(TYPES, cells, strict=True)}))


@given(st.lists(CELL, min_size=1, max_size=12), st.lists(CELL, min_size=1, max_size=12))
def test_copies_are_those_of_the_slow_twin(released, original):
    people = Counter(original)
    slow = [row for row, cells in enumerate(released) if people[cells] == 1]
    evidence = Evidence(table(released), table(original), np.zeros(len(released), dtype=np.int64))
    assert find_copies(evidence.released, evidence.original).tolist() == slow
    finding = NoUniqueRowCopied(columns=COLUMNS).measure(evidence)
    assert finding.held == (not slow)
    assert finding.found.startswith("1 copy in " if len(slow) == 1 else f"{len(slow)} copies in ")


def test_numbers_that_differ_by_a_rounding_error_are_equal():
    original = Table.from_arrow(pa.table({"x": [1.0, 2.0, 1 / 3]}))
    near = Table.from_arrow(pa.table({"x": [1.0 + 1e-12, 2.001, 0.1 + 0.7 / 3]}))
    assert find_copies(near, original).tolist() == [0, 2]


draw = np.random.default_rng(6)
RARE = Table.from_arrow(
    pa.table(
        {
            "age": draw.integers(20, 80, 1500),
            "c": draw.choice(list("abcd"), 1500, p=[0.7, 0.2, 0.07, 0.03]),
            "d": draw.choice(list("uvw"), 1500, p=[0.8, 0.15, 0.05]),
            "wage": np.where(draw.random(1500) < 0.9, 0, draw.integers(1, 30, 1500) * 1000),
        }
    )
)
METHODS = [SvdSwap(), SvdSwap(repair=False, decoding="drawn"), PartitionedIca(cluster_size=200)]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.name} {method.decoding}")
def test_a_release_has_no_copies_though_the_first_draw_had_some(method, released, monkeypatch):
    for seed in range(3):
        evidence = released(method, RARE, seed)
        assert find_copies(evidence.released, RARE).size == 0
    monkeypatch.setattr(swap_method, "find_copies", lambda *tables: np.empty(0, dtype=np.int64))
    with pytest.raises(AssertionError, match="copies in 1,500 rows"):  # control: the claim counts them
        released(method, RARE)


def test_exchanges_keep_every_column_and_replacements_take_other_rows():
    code = Encoder.fit(RARE, atoms=True)
    numbers = RARE.matrix(["age", "wage"])
    cells, rows = ExchangeableCells.of(RARE, numbers, code), np.array([3, 5, 700])
    exchanged = cells.exchange_cells(rows, np.random.default_rng(1)).table
    assert not exchanged.arrow.equals(RARE.arrow)
    for name in RARE.names:
        assert Counter(exchanged.arrow.column(name).to_pylist()) == Counter(RARE.arrow.column(name).to_pylist())
    replaced = cells.replace_rows(rows, np.random.default_rng(1)).table.arrow.to_pylist()
    others = [row for place, row in enumerate(RARE.arrow.to_pylist()) if place not in rows]
    assert all(replaced[row] in others for row in rows)
    averaged = cells.average_numbers(rows, np.random.default_rng(1))
    assert np.array_equal(np.delete(averaged.numbers, rows, axis=0), np.delete(numbers, rows, axis=0))
    assert (averaged.numbers[rows, 0] != numbers[rows, 0]).any()


@pytest.mark.parametrize("method", [SvdSwap(repair=False), PartitionedIca(cluster_size=100)])
def test_columns_that_are_multiples_of_each_other_are_not_released_as_they_are(method, released):
    x = np.random.default_rng(3).normal(size=300)
    for columns in ({"x": x}, {"x": x, "y": 2 * x + 1}):
        original = Table.from_arrow(pa.table(columns))
        assert find_copies(released(method, original).released, original).size == 0


def test_a_table_in_which_every_possible_row_is_somebody_is_refused():
    with pytest.raises(PromiseError, match="unique") as refused:
        sf.SvdSwap().release({"n": np.arange(771, 800)}, schema={"n": "quasi"}, seed=1)
    assert "77" not in str(refused.value)
