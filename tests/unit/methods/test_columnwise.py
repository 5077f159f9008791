"""Methods that make each column anonymous by itself."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines.memory.engine import Memory, MemorySurvey
from sfumato.errors import CannotRelease, OptionError, SchemaError
from sfumato.methods.optimal_groups import COSTS, OptimalGroups
from sfumato.methods.quantiles import Quantiles
from sfumato.plan.answers import Extremes
from sfumato.plan.questions import Answers, ExtremesOf, MissingIn, PointsOf
from sfumato.plan.sketches import QuantileSketch
from sfumato.plan.survey import Sample
from sfumato.randomness import Randomness
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table
from sfumato.table.table import Table


def released(method, column, **other):
    """The released cells in the order of the original rows, and the plan."""
    table = as_table(pa.table({"x": column, **other}))
    plan = method.plan(MemorySurvey(table), Schema.for_table(table, dict.fromkeys(table.names, "quasi")), Randomness(7))
    outcome = plan.transform(table, 0)
    assert outcome.origin.tolist() == list(range(table.rows))
    return outcome.released, plan


@st.composite
def columns(draw):
    k = draw(st.integers(1, 6))
    cells = st.one_of(st.none(), st.integers(-5, 5), st.integers(-1000, 1000))
    return k, pa.array(draw(st.lists(cells, min_size=k, max_size=60)), pa.int64())


METHODS = [
    *({"cost": cost, "ties": ties} for cost in COSTS for ties in ("split", "together")),
    {},
    {"ties": "together"},
    {"sample": 10},
    {"epsilon": 0.1},
    {"epsilon": 0.2, "delta": 0.1},
]


def method_of(number, **options):
    options = METHODS[number] | options
    return OptimalGroups(**options) if "cost" in options else Quantiles(**options)


@pytest.mark.parametrize("number", range(len(METHODS)))
@given(columns(), st.sampled_from(["median", "mean", "range", "label"]))
def test_whatever_is_shown_is_shown_in_k_rows_ties_or_not(number, case, represent):
    k, column = case
    cells, _ = released(method_of(number, k=k, represent=represent), column)
    shown = Counter(zip(*(cells.arrow.column(name).to_pylist() for name in cells.names), strict=True))
    assert min(shown.values()) >= k


@pytest.mark.parametrize("represent", ["range", "median"])
@pytest.mark.parametrize("number", range(len(METHODS)))
@given(columns())
def test_order_is_kept_and_ranges_hold_their_values(number, represent, case):
    k, column = case
    cells, _ = released(method_of(number, k=k, represent=represent), column)
    rows = zip(column.to_pylist(), *(cells.arrow.column(name).to_pylist() for name in cells.names), strict=True)
    known = sorted(row for row in rows if row[0] is not None and row[1] is not None)
    assert all(before[1] <= after[1] for before, after in pairwise(known))
    if represent == "range" and len(cells.names) == 2:  # a column of 0 and 1 is a category, and has no range
        assert all(low <= value <= high for value, low, high in known)


@given(columns())
def test_equal_values_stay_together_when_asked(case):
    k, column = case
    cells, _ = released(OptimalGroups(k=k, ties="together"), column)
    pairs = set(zip(column.to_pylist(), cells.arrow.column("x").to_pylist(), strict=True))
    assert len(pairs) == len({before for before, _ in pairs})


def test_split_ties_cost_no_more():
    column = pa.array([0, 1, 1, 2])
    error = {}
    for ties in ("split", "together"):
        cells, _ = released(OptimalGroups(k=2, ties=ties), column)
        error[ties] = ((cells.numbers("x") - column.to_numpy()) ** 2).sum()
    assert error == {"split": 1.0, "together": 2.0}


@given(columns(), st.integers(1, 8))
def test_at_most_so_many_buckets_are_shown(case, buckets):
    cells, plan = released(Quantiles(buckets=buckets), case[1])
    assert len(set(cells.arrow.column("x").drop_null().to_pylist())) <= buckets
    note = plan.notes["columns"]["x"]
    assert "rank difference" not in note or note["rank difference"] >= 0  # a column of 0 and 1 has categories


def test_categories_are_pooled_and_orders_joined_beside_the_numbers():
    ranks = pa.array(["low", "middle", "high"])
    order = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, 2, 2], pa.int32()), ranks, ordered=True)
    cells, _ = released(Quantiles(k=2), pa.array([1, 2, 3, 4, 5]), city=pa.array(list("rrstr")), rank=order)
    assert cells.arrow.column("city").to_pylist() == ["r", "r", "other", "other", "r"]
    assert cells.arrow.column("rank").to_pylist() == ["low–middle"] * 3 + ["high"] * 2


def test_a_column_that_needs_no_change_leaves_as_it_is():
    cells, plan = released(Quantiles(k=2), pa.array([1, 2, 3, 4]), smoker=pa.array([True, True, False, False]))
    assert cells.arrow.column("smoker").type == pa.bool_()
    assert plan.notes["columns"]["smoker"] == {"how": "kept as it is"}


def test_a_sketch_read_in_parts_gives_k_without_a_second_count():
    rng = np.random.default_rng(5)
    table = as_table(pa.table({"x": rng.lognormal(size=50_000), "y": np.round(rng.normal(size=50_000), 1)}))
    sketches = {name: QuantileSketch(0.002) for name in table.names}
    parts = [table.take(part) for part in np.array_split(np.arange(50_000), 20)]
    for part in parts:
        for name, sketch in sketches.items():
            sketch.update(part.numbers(name))
    schema = Schema.for_table(table, {"x": "quasi", "y": "quasi"})
    plan = Quantiles(k=1_000, epsilon=0.004).plan(SurveyInParts(parts, sketches), schema, Randomness(1))
    out = pa.concat_tables([plan.transform(part, 0).released.arrow for part in parts])
    for name, least_groups in (("x", 35), ("y", 25)):
        counts = Counter(out.column(name).to_pylist())
        assert min(counts.values()) >= 1_000
        assert len(counts) >= least_groups


@dataclass(frozen=True)
class SurveyInParts:
    """A survey of a table that was read part by part, into sketches."""

    parts: list[Table]
    sketches: dict[str, QuantileSketch]
    block_rows: None = None

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def sample(self) -> Sample:
        return Sample(self.parts[0], self.rows)

    def ask(self, questions) -> Answers:
        whole = {name: np.concatenate([part.numbers(name) for part in self.parts]) for name in self.sketches}
        kinds = {
            PointsOf: lambda asked: self.sketches[asked.column].points(),
            MissingIn: lambda asked: self.sketches[asked.column].missing,
            ExtremesOf: lambda asked: Extremes(np.nanmin(whole[asked.column]), np.nanmax(whole[asked.column])),
        }
        return Answers({question: kinds[type(question)](question) for question in questions})


def test_names_that_are_taken_are_refused():
    with pytest.raises(SchemaError, match="x_low"):
        released(Quantiles(k=1, represent="range"), pa.array([1, 2]), x_low=pa.array(["a", "b"]))


@pytest.mark.parametrize("method", [Quantiles(k=3), OptimalGroups(k=3)])
def test_fewer_rows_than_k_cannot_be_released(method):
    with pytest.raises(CannotRelease):
        released(method, pa.array([1, 2]))


@pytest.mark.parametrize("cost", ["squared", "median", "cellular", "width", "centre"])
def test_optimal_groups_in_blocks_are_those_of_the_whole_column(cost):
    table = as_table(pa.table({"x": np.random.default_rng(1).integers(0, 400, 900)}))
    method = OptimalGroups(k=7, cost=cost, ties="together")
    whole, parts = (
        method.release(table, schema={"x": "quasi"}, engine=engine).to_pandas()
        for engine in (Memory(), Memory(block_rows=200, sample_rows=100))
    )
    names = list(whole.columns)
    assert whole.sort_values(names).reset_index(drop=True).equals(parts.sort_values(names).reset_index(drop=True))


def test_optimal_groups_of_a_sketch_have_k_rows_and_state_the_error(monkeypatch):
    monkeypatch.setattr("sfumato.methods.optimal_groups.rank_error", lambda survey: 0.002)
    numbers = np.random.default_rng(2).lognormal(0, 1, 60_000)
    table = as_table(pa.table({"x": numbers}))
    engine = Memory(block_rows=9000, batch_rows=2000)
    release = OptimalGroups(k=100).release(table, schema={"x": "quasi"}, engine=engine)
    assert all(finding.held for finding in release.findings)
    sizes = release.to_pandas()["x"].value_counts()
    error = release.manifest.notes["columns"]["x"]["largest error of the rank of a cut"]
    assert 0 < error <= 0.002 * 60_000
    assert sizes.min() >= 100
    assert len(sizes) > 100


def test_blocks_hold_whole_groups():
    table = as_table(pa.table({"x": np.arange(100), "city": list("abcd") * 25}))
    schema = Schema.for_table(table, {"x": "quasi", "city": "quasi"})
    plan = Quantiles(k=10, ties="together").plan(MemorySurvey(table, block_rows=30), schema, Randomness(1))
    assert plan.blocks == 4
    block_of = plan.route(table, np.arange(100, dtype=np.uint64))
    released = plan.transform(table, 0).released.arrow
    alike = list(zip(released.column("x").to_pylist(), released.column("city").to_pylist(), strict=True))
    assert len(set(zip(alike, block_of.tolist(), strict=True))) == len(set(alike)) > 4
    assert len(set(block_of.tolist())) > 1


@pytest.mark.parametrize(
    "make",
    [
        Quantiles,
        lambda: Quantiles(k=2, buckets=3),
        lambda: Quantiles(k=0),
        lambda: Quantiles(buckets=0),
        lambda: Quantiles(k=2, sample=0),
        lambda: Quantiles(k=2, epsilon=1.0),
        lambda: Quantiles(k=2, delta=0.1),
        lambda: Quantiles(k=2, sample=9, epsilon=0.1),
        lambda: Quantiles(k=2, epsilon=math.nan),
        lambda: Quantiles(k=2, represent="mode"),
        lambda: Quantiles(k=2, ties="apart"),
        lambda: OptimalGroups(k=0),
        lambda: OptimalGroups(k=2, cost="cheap"),
        lambda: OptimalGroups(k=2, represent="mode"),
    ],
)
def test_a_wrong_option_is_refused(make):
    with pytest.raises(OptionError):
        make()


@pytest.mark.parametrize("buckets", [1, 2, 3])
def test_a_missing_value_is_no_bucket_and_never_makes_one_more(buckets):
    cells = ["red"] * 9 + ["blue"] * 4 + ["green"] * 2 + [None] * 5
    release = sf.Quantiles(buckets=buckets).release({"x": cells, "y": range(20)}, schema={"x": "quasi", "y": "quasi"})
    shown = release.table.arrow.column("x").to_pylist()
    assert len(set(shown) - {None}) == buckets
    assert shown.count(None) == 5
