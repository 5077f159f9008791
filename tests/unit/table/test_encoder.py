"""Mixed columns ↔ matrix: what was not changed comes back, and what was changed comes back valid."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from sfumato.errors import OptionError, TableError
from sfumato.table.encoded_columns import class_probabilities, shares_of, skewness
from sfumato.table.encoder import Encoder
from sfumato.table.facts import facts_of
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

CELLS = {
    "income": st.one_of(st.none(), st.floats(-1e6, 1e6)),
    "age": st.one_of(st.none(), st.integers(-1000, 1000)),
    "city": st.one_of(st.none(), st.sampled_from(["Ulm", "Rom", "Oslo", ""])),
    "member": st.one_of(st.none(), st.booleans()),
    "born": st.one_of(st.none(), st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))),
    "seen": st.one_of(st.none(), st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2100, 1, 1))),
}
TYPES = {
    "income": pa.float64(),
    "age": pa.int16(),
    "city": pa.string(),
    "member": pa.bool_(),
    "born": pa.date32(),
    "seen": pa.timestamp("us"),
}


@st.composite
def tables(draw):
    rows = draw(st.integers(1, 12))
    return Table.from_arrow(
        pa.table({n: pa.array(draw(st.lists(c, min_size=rows, max_size=rows)), TYPES[n]) for n, c in CELLS.items()})
    )


def table(**columns) -> Table:
    return Table.from_arrow(pa.table(columns))


@given(tables())
def test_what_was_not_changed_comes_back(original):
    code = Encoder.fit(original)
    again = code.decode(code.encode(original))
    assert again.names == original.names
    assert again.kinds == original.kinds
    for name in ("age", "city", "member", "born"):
        assert again.arrow.column(name).equals(original.arrow.column(name)), name
    for name in ("income", "seen"):
        before, after = original.numbers(name), again.numbers(name)
        assert np.array_equal(np.isnan(before), np.isnan(after))
        # rounding of a standardised number is one of the column's spread, and of a moment one of half a microsecond
        spread = np.nan_to_num(np.nanmax(np.abs(before), initial=1.0))
        assert np.allclose(before, after, rtol=1e-12, atol=1e-12 * spread + (name == "seen"), equal_nan=True)


@given(tables(), st.integers(0, 2**32 - 1))
def test_any_matrix_comes_back_as_a_valid_table(original, seed):
    code = Encoder.fit(original)
    changed = np.random.default_rng(seed).normal(0, 3, (20, code.width))
    for draw in (None, np.random.default_rng(1)):
        again = code.decode(changed, generator=draw)
        assert again.rows == 20
        assert again.arrow.schema.types == original.arrow.schema.types
        for name in ("city", "member"):
            assert set(again.arrow.column(name).to_pylist()) <= set(original.arrow.column(name).to_pylist())


@given(tables())
def test_every_row_has_one_indicator_a_category_column(original):
    code = Encoder.fit(original)
    matrix = code.encode(original)
    for category in code.categories:
        assert ((matrix[:, category.columns] == 1.0).sum(axis=1) == 1).all()
        assert set(np.unique(matrix[:, category.columns])) <= {-1.0, 1.0}


def test_numbers_are_standardised():
    numbers = np.random.default_rng(0).normal(50, 9, 400)
    code = Encoder.fit(table(x=numbers))
    matrix = code.encode(table(x=numbers))
    assert matrix.mean() == pytest.approx(0.0, abs=1e-12)
    assert matrix.std() == pytest.approx(1.0)


class TestLogarithms:
    draw = np.random.default_rng(1)
    skewed = draw.lognormal(0, 1, 500)
    normal = draw.normal(100, 5, 500)

    def test_are_taken_of_positive_skewed_columns_only(self):
        with_zero = np.append(self.skewed[1:], 0.0)
        code = Encoder.fit(table(skewed=self.skewed, normal=self.normal, zero=with_zero, left=100 - self.skewed))
        assert code.logged == ("skewed",)

    def test_make_the_column_less_skewed(self):
        matrix = Encoder.fit(table(x=self.skewed)).encode(table(x=self.skewed))
        assert skewness(self.skewed) > 1.0
        assert abs(skewness(matrix[:, 0])) < 0.5

    def test_can_be_switched_off_or_asked_for(self):
        both = table(skewed=self.skewed, normal=self.normal)
        assert Encoder.fit(both, logs="never").logged == ()
        assert Encoder.fit(both, logs=("normal",)).logged == ("normal",)

    def test_cannot_be_asked_for_where_there_are_none(self):
        with pytest.raises(TableError, match="'x'") as refused:
            Encoder.fit(table(x=[-12345.0, 1.0, 2.0]), logs=("x",))
        assert "12345" not in str(refused.value)
        with pytest.raises(TableError, match="no column 'y'"):
            Encoder.fit(table(x=[1.0, 2.0]), logs=("y",))
        with pytest.raises(OptionError, match="logs"):
            Encoder.fit(table(x=[1.0, 2.0]), logs="sometimes")

    def test_of_another_table_with_a_zero_stay_finite(self):
        code = Encoder.fit(table(x=self.skewed))
        matrix = code.encode(table(x=[0.0, -3.0, 1.0]))
        assert np.isfinite(matrix).all()
        assert matrix[0, 0] == matrix[1, 0] < matrix[2, 0]

    def test_never_come_back_infinite(self):
        assert np.isfinite(Encoder.fit(table(x=self.skewed)).natural(np.full((3, 1), 1e6))).all()


class TestMissing:
    def test_numbers_take_the_mean_and_say_so(self):
        code = Encoder.fit(table(x=[1.0, None, 3.0]))
        matrix = code.encode(table(x=[1.0, None, 3.0]))
        assert matrix[1].tolist() == [0.0, 1.0]
        assert matrix[[0, 2], 1].tolist() == [-1.0, -1.0]

    def test_categories_are_one_more_category(self):
        assert Encoder.fit(table(c=["a", None, "b"])).width == 3

    def test_nan_is_missing(self):
        code = Encoder.fit(table(x=[1.0, np.nan, 3.0]))
        assert code.decode(code.encode(table(x=[1.0, np.nan, 3.0]))).arrow.column("x").null_count == 1

    def test_a_column_of_nothing_else_comes_back_empty(self):
        nothing = table(x=pa.nulls(4, pa.float64()), n=pa.nulls(4, pa.int32()), c=pa.nulls(4, pa.string()))
        code = Encoder.fit(nothing)
        assert code.decode(code.encode(nothing)).arrow.equals(nothing.arrow)

    def test_a_sample_can_be_told_what_the_whole_holds(self):
        whole = table(x=[1.0, None, 2.0], c=["a", "b", None])
        code = Encoder.fit(
            table(x=[1.0, 2.0], c=["a", "a"]),
            categories={"c": pa.array(["a", "b", None])},
            facts=facts_of(whole, ["x"]),
        )
        assert code.decode(code.encode(whole)).arrow.equals(whole.arrow)


class TestDecoding:
    def test_takes_the_largest_indicator(self):
        code = Encoder.fit(table(c=["a", "b", "c"]))
        assert code.decode(np.array([[-0.2, 0.1, -0.9]])).arrow.column("c").to_pylist() == ["b"]

    def test_draws_in_the_shares_of_the_indicators(self):
        code = Encoder.fit(table(c=["a", "b", "c"]))
        scores = np.tile([0.0, 0.0, -1.0], (4000, 1))
        drawn = code.decode(scores, generator=np.random.default_rng(3)).arrow.column("c").to_pylist()
        assert drawn.count("c") == 0
        assert 0.45 < drawn.count("a") / 4000 < 0.55

    def test_draws_in_class_probabilities_when_asked(self):
        code = Encoder.fit(table(c=["a", "b"]))
        untouched = np.tile([1.0, -1.0], (4000, 1))
        shares = [
            code.decode(untouched, generator=np.random.default_rng(3), shares=rule)
            .arrow.column("c")
            .to_pylist()
            .count("a")
            / 4000
            for rule in (class_probabilities, shares_of)
        ]
        assert shares[0] == pytest.approx(0.731, abs=0.03)
        assert shares[1] == 1.0

    def test_shares_of_an_untouched_row_are_certain(self):
        assert shares_of(np.array([[-1.0, 1.0, -1.0], [-3.0, -2.0, -5.0]])).tolist() == [
            [0.0, 1.0, 0.0],
            pytest.approx([1 / 3] * 3),
        ]

    def test_class_probabilities_are_the_normalised_inverse_logit(self):
        found = class_probabilities(np.array([[1.0, -1.0], [800.0, -800.0]]))
        assert found[0] == pytest.approx([0.7310586, 0.2689414])
        assert found.sum(axis=1) == pytest.approx([1.0, 1.0])

    def test_whole_numbers_stay_in_their_type(self):
        code = Encoder.fit(table(x=pa.array([0, 255], pa.uint8())))
        assert code.decode(np.array([[50.0], [-50.0]])).arrow.column("x").to_pylist() == [255, 0]

    def test_other_number_types_come_back(self):
        original = table(
            money=pa.array([Decimal("1.25"), Decimal("3.50"), None], pa.decimal128(12, 2)),
            short=pa.array([1.5, 2.5, None], pa.float32()),
            day=pa.array([0, 86_400_000, None], pa.date64()),
            zone=pa.array([0, 1_000_000, None], pa.timestamp("s", tz="UTC")),
        )
        code = Encoder.fit(original)
        assert code.decode(code.encode(original)).arrow.equals(original.arrow)

    def test_numbers_declared_as_categories_are_categories(self):
        coded = Table.from_arrow(pa.table({"code": [3, 7, 3]}), {"code": Kind.NOMINAL})
        code = Encoder.fit(coded)
        assert code.width == 2
        assert code.decode(code.encode(coded)).arrow.equals(coded.arrow)


def test_a_category_that_was_not_there_has_no_indicator():
    code = Encoder.fit(table(c=["a", "b"]))
    assert code.encode(table(c=["a", "z", None])).tolist() == [[1.0, -1.0], [-1.0, -1.0], [-1.0, -1.0]]


def test_categories_of_another_type_are_matched_by_their_words():
    code = Encoder.fit(Table.from_arrow(pa.table({"c": [1, 2]}), {"c": Kind.NOMINAL}))
    assert code.encode(table(c=["2", "1"])).tolist() == [[-1.0, 1.0], [1.0, -1.0]]


def test_only_the_common_categories_get_an_indicator_when_asked():
    code = Encoder.fit(table(c=list("aaabbbcdef")), categories_at_most=2)
    assert code.width == 2
    assert code.categories[0].values.to_pylist() == ["a", "b"]


def test_each_column_knows_its_places_in_the_matrix():
    code = Encoder.fit(table(x=[1.0, None], c=["a", "b"], y=[1.0, 2.0]))
    assert [code.columns(name).tolist() for name in "xcy"] == [[0, 1], [2, 3], [4]]


def test_limits_are_nobodys_value_in_a_table_of_some_size():
    numbers = np.sort(np.random.default_rng(2).normal(size=200))
    (code,) = Encoder.fit(table(x=numbers)).numbers
    assert code.low == pytest.approx(numbers[:5].mean())
    assert code.high == pytest.approx(numbers[-5:].mean())
    assert code.low not in numbers


@pytest.mark.parametrize("extremes", [[1e7], [1e7, 9e6], [1e7, 4e6, 70.0]], ids=len)
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("rows", [30, 200])
def test_no_limit_discloses_a_dominant_value(extremes, sign, rows):
    others = np.random.default_rng(2).normal(50.0, 5.0, size=rows)
    (code,) = Encoder.fit(table(x=sign * np.append(others, extremes))).numbers
    assert max(abs(code.low), abs(code.high)) < 100.0
    high = np.append(others, [90.0, 85.0, 82.0, 80.0, 79.0])
    (code,) = Encoder.fit(table(x=sign * high)).numbers
    assert max(abs(code.low), abs(code.high)) > 75.0  # control: several high values are no dominance


def test_a_constant_column_has_no_scale_and_comes_back():
    constant = table(x=[3.25] * 5, c=["a"] * 5)
    code = Encoder.fit(constant)
    assert code.encode(constant)[:, 0].tolist() == [0.0] * 5
    assert code.decode(code.encode(constant)).arrow.equals(constant.arrow)


@pytest.mark.parametrize("numbers", [[1.0, np.inf, 2.0], [1e300, -1e300, 0.0]])
def test_numbers_without_finite_squares_are_refused_by_name(numbers):
    with pytest.raises(TableError, match="'x'"):
        Encoder.fit(table(x=numbers))


def test_free_text_is_refused_by_name():
    with pytest.raises(TableError, match="'note'"):
        Encoder.fit(Table.from_arrow(pa.table({"note": ["a", "b"]}), {"note": Kind.TEXT}))


def test_numbers_whose_squares_are_infinite_are_refused_also_where_their_logarithms_are_not():
    table = Table.from_arrow(pa.table({"x": [1e-200, 1.0, 1e200, 3.0]}))
    with pytest.raises(TableError, match="squares"):
        Encoder.fit(table, logs=("x",))
