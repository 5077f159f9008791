"""Uniqueness of a set of columns, counted and bounded."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import OptionError, SfumatoError, TableError
from sfumato.risk.uniqueness import domain_for, unique_bound, uniqueness
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema

cells = st.one_of(st.none(), st.integers(0, 4))
tables = st.integers(1, 40).flatmap(
    lambda rows: st.fixed_dictionaries({name: st.lists(cells, min_size=rows, max_size=rows) for name in "abc"})
)


@given(tables)
def test_counts_are_those_of_counting_by_hand(columns):
    counts = Counter(zip(columns["a"], columns["b"], strict=True))
    found = uniqueness(pa.table(columns), ["a", "b"])
    alone = sum(count == 1 for count in counts.values())
    assert (found.unique_rows, found.distinct, found.rows) == (alone, len(counts), len(columns["a"]))
    assert found.unique_fraction == alone / found.rows
    assert found.domain == len(set(columns["a"])) * len(set(columns["b"]))
    shares = np.array(list(counts.values())) / found.rows
    assert found.expected_observed == pytest.approx((shares * (1 - shares) ** (found.rows - 1)).sum())


@given(tables)
def test_one_more_column_never_hides_anyone(columns):
    table = pa.table(columns)
    assert uniqueness(table, ["a"]).unique_rows <= uniqueness(table, ["a", "c"]).unique_rows


def test_a_missing_value_is_a_value_of_its_own():
    table = pa.table({"a": pa.array([None, 1, 1]), "b": pa.array([float("nan"), 2.0, 2.0])})
    assert uniqueness(table, ["a"]).unique_rows == 1
    assert uniqueness(table, ["b"]).unique_rows == 1


@given(st.integers(1, 60), st.integers(2, 60), st.integers(0, 2**32 - 1))
def test_no_distribution_makes_more_people_expectedly_alone_than_the_bound(domain, population, seed):
    rng = np.random.default_rng(seed)
    for shape in (0.1, 1.0, 10.0):
        x = population * rng.dirichlet(np.full(domain, shape))
        assert (x * np.exp(-x)).sum() / population <= unique_bound(domain, population) + 1e-12


@given(st.floats(0.01, 0.99), st.integers(1, 10**9))
def test_the_least_domain_for_alpha_is_where_the_bound_reaches_alpha(alpha, population):
    assert unique_bound(domain_for(alpha, population), population) == pytest.approx(alpha)


@given(st.integers(2, 10**6), st.integers(2, 10**6))
def test_exact_expectation_and_its_limit_agree(domain, population):
    table = pa.table({"a": [1, 2]})
    found = uniqueness(table, ["a"], population, domain_sizes={"a": domain})
    assert found.expected_uniform == pytest.approx((1 - 1 / domain) ** (population - 1))
    assert found.expected_poisson == pytest.approx(math.exp(-population / domain))
    assert found.anonymity == max(1.0, population / domain)


def test_domains_beyond_any_float_are_counted_with():
    table = pa.table({f"c{number}": [1, 2, 2] for number in range(40)})
    found = uniqueness(table, table.column_names, 1000, domain_sizes=dict.fromkeys(table.column_names, 10**9))
    assert found.domain == 10**360
    assert (found.bound, found.anonymity, found.expected_uniform) == (1.0, 1.0, 1.0)


def test_domain_sizes_come_from_the_call_then_the_schema_then_the_data():
    table = pa.table({"age": [20, 30, 30], "rank": ["low", "low", "high"], "city": ["x", "y", "z"]})
    schema = Schema(
        (
            Column(name="age", role=Role.QUASI, domain=(0, 99)),
            Column(name="rank", role=Role.QUASI, order=("low", "middle", "high", "top")),
        )
    )
    sizes = {name: uniqueness(table, [name], schema=schema).domain for name in ("age", "rank", "city")}
    assert sizes == {"age": 100, "rank": 4, "city": 3}
    assert uniqueness(table, ["age"], schema=schema, domain_sizes={"age": 60}).domain == 60


def test_the_verdict_is_said_in_words_and_figures():
    found = uniqueness(pa.table({"age": [1, 2, 3, 3]}), ["age"], population=1000)
    assert found.identifies(0.5) and not found.identifies(0.5, by="population")
    assert found.reason(0.5).startswith("age identifies people at α = 0.5: 2 of 4 rows (50.0%)")
    assert found.reason(0.6).startswith("age does not identify people at α = 0.6")
    assert "3 possible combinations for 1,000 people" in found.reason(0.5, by="population")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: uniqueness(pa.table({"a": [1, 2]}), []), OptionError),
        (lambda: uniqueness(pa.table({"a": [1, 2]}), ["a", "a"]), OptionError),
        (lambda: uniqueness(pa.table({"a": [1, 2]}), ["b"]), SfumatoError),
        (lambda: uniqueness(pa.table({"a": pa.array([], pa.int64())}), ["a"]), TableError),
        (lambda: uniqueness(pa.table({"a": [1, 2]}), ["a"], population=1), OptionError),
        (lambda: uniqueness(pa.table({"a": [1, 2]}), ["a"], domain_sizes={"a": -3}), OptionError),
        (lambda: uniqueness(pa.table({"a": [1, 2]}), ["a"], knows=["a"]), OptionError),
        (lambda: uniqueness(pa.table({"a": [1, 2]}), ["a"], knows="year"), OptionError),
    ],
)
def test_a_wrong_request_is_refused(call, error):
    with pytest.raises(error):
        call()


class TestLargestShare:
    """The number of unique people is seldom far above its expectation."""

    def test_is_seldom_exceeded_and_the_expectation_often(self):
        people, domain, draw = 400, 400, np.random.default_rng(1)
        found = uniqueness({"x": np.arange(people) % 5}, ["x"], people, domain_sizes={"x": domain})
        shares = np.array(
            [
                np.mean(np.bincount(values := draw.integers(domain, size=people), minlength=domain)[values] == 1)
                for _ in range(1000)
            ]
        )
        assert np.mean(shares > found.largest_share(0.9)) <= 0.1
        assert np.mean(shares > found.bound) > 0.3  # control: the expectation alone is no such share

    def test_is_the_bound_and_a_margin_that_vanishes(self):
        few, many = (uniqueness({"x": [1, 2]}, ["x"], people, domain_sizes={"x": 100}) for people in (10**3, 10**8))
        assert few.largest_share(0.99) == pytest.approx(few.bound + math.sqrt(2 * math.log(100) / 1000))
        assert many.largest_share(0.99) == pytest.approx(many.bound, abs=1e-3)
        assert uniqueness({"x": [1, 2]}, ["x"]).largest_share() == 1.0
        with pytest.raises(OptionError, match="probability"):
            few.largest_share(1.0)


class TestWhatAnIntruderKnows:
    days = np.datetime64("1950-01-01") + np.random.default_rng(1).integers(0, 9_000, 600)
    people = pa.table({"born": days, "zip": [f"{place:05d}" for place in range(600)], "income": np.arange(600) * 10.0})

    @pytest.mark.parametrize(
        ("column", "precision", "coarser"),
        [
            ("born", "month", lambda column: [str(day)[:7] for day in column]),
            ("born", "year", lambda column: [str(day)[:4] for day in column]),
            ("born", "decade", lambda column: [str(day)[:3] for day in column]),
            ("zip", 3, lambda column: [text[:3] for text in column]),
            (
                "zip",
                {"00007": "x", "00008": "x"},
                lambda column: ["x" if t in ("00007", "00008") else t for t in column],
            ),
            ("income", 250, lambda column: [number // 250 for number in column]),
        ],
    )
    def test_is_counted_as_in_a_table_with_coarser_cells(self, column, precision, coarser):
        cells = coarser(self.people[column].to_pylist())
        found = uniqueness(self.people, [column], knows={column: precision})
        counts = Counter(cells)
        assert (found.unique_rows, found.distinct, found.domain) == (
            sum(count == 1 for count in counts.values()),
            len(counts),
            len(counts),
        )

    def test_is_said_where_columns_do_not_identify(self):
        found = uniqueness(self.people, ["born", "income"], knows={"born": "year", "income": 1e4})
        assert "do not identify people at α = 0.2 to an intruder who knows born by the year, income to 10000" in (
            found.reason(0.2)
        )

    def test_is_the_knowledge_of_every_risk(self):
        knows, columns = {"born": "year", "zip": 1, "income": 2000}, ["born", "zip", "income"]
        coarse = pa.table(
            {
                "born": [str(day)[:4] for day in self.people["born"].to_pylist()],
                "zip": [text[:1] for text in self.people["zip"].to_pylist()],
                "income": [number // 2000 for number in self.people["income"].to_pylist()],
            }
        )
        risk, same = sf.individual_risk(self.people, columns, knows=knows), sf.individual_risk(coarse, columns)
        assert risk.risks.tolist() == same.risks.tolist() and risk.largest < 1
        scores, same = sf.special_uniques(self.people, columns, knows=knows), sf.special_uniques(coarse, columns)
        assert scores.scores.tolist() == same.scores.tolist()
        risk, same = (
            sf.population_uniqueness(one, columns, 10**5, knows=known)
            for one, known in ((self.people, knows), (coarse, None))
        )
        assert (risk.unique_rows, risk.pitman) == (same.unique_rows, same.pitman)
        found = sf.quasi_identifiers(self.people, alpha=0.01, knows=knows)
        assert [one.columns for one in found] == [one.columns for one in sf.quasi_identifiers(coarse, alpha=0.01)]
        assert {one.columns for one in sf.quasi_identifiers(self.people, alpha=0.01)} == {(name,) for name in columns}

    @pytest.mark.parametrize(
        "knows",
        [
            {"born": 3},
            {"born": "fortnight"},
            {"zip": 0},
            {"zip": 2.5},
            {"zip": "year"},
            {"income": -1},
            {"income": True},
            {"income": float("nan")},
            {"nobody": 1},
            {"income": {"1": "2"}},
        ],
    )
    def test_that_makes_no_sense_is_refused_without_a_cell(self, knows):
        with pytest.raises(SfumatoError) as refused:
            uniqueness(self.people, ["born"], knows=knows)
        assert not any(text in str(refused.value) for text in self.people["zip"].to_pylist())

    def test_of_a_person_with_several_rows_is_counted_once(self):
        stays = pa.table({"who": [1, 1, 2, 3], "day": np.arange("2020-01-01", "2020-01-05", dtype="datetime64[D]")})
        roles = {"who": "person", "day": "quasi"}
        assert sf.uniqueness(stays, ["day"], schema=roles, knows={"day": "year"}).rows == 3

    def test_is_refused_for_a_table_that_is_not_in_memory(self, tmp_path):
        from pyarrow import parquet

        parquet.write_table(self.people, tmp_path / "people.parquet")
        with pytest.raises(OptionError, match="in memory only"):
            sf.uniqueness(tmp_path / "people.parquet", ["born"], knows={"born": "year"}, engine="duckdb")
