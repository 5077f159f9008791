"""The table, its kinds and its codes."""

from __future__ import annotations

import copy
import pickle
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import TableError
from sfumato.sources.frames import as_table
from sfumato.table import coding
from sfumato.table.kinds import Kind, kind_of
from sfumato.table.table import Table

CANARY = "Canary77"


class Celsius(pa.ExtensionType):
    """A type of somebody else's."""

    def __init__(self):
        super().__init__(pa.float64(), "celsius")

    def __arrow_ext_serialize__(self):
        return b""


def of(column: pa.Array | list[object]) -> Table:
    return Table.from_arrow(pa.table({"x": column}))


def test_nothing_that_is_shown_holds_a_cell():
    table = as_table({"x": [CANARY, CANARY, "y"], "n": [77177, 1, 2]})
    shown = [
        repr(table),
        str(table),
        f"{table}",
        repr(table.coded("x")),
        str(table.coded("n")),
        repr([table]),
        repr({"t": table}),
    ]
    assert not any(CANARY in text or "77177" in text for text in shown)
    assert repr(table) == "Table(3 rows × 2 columns; x: nominal, n: whole)"


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([1.5]), Kind.CONTINUOUS),
        (pa.array(np.array([1.5], dtype=np.float16)), Kind.CONTINUOUS),
        (pa.array([1], pa.uint64()), Kind.WHOLE),
        (pa.array(["1.5"]).cast(pa.decimal128(5, 2)), Kind.CONTINUOUS),
        (pa.array([True]), Kind.BOOLEAN),
        (pa.array([0], pa.date64()), Kind.DATE),
        (pa.array([0], pa.timestamp("ns", "UTC")), Kind.DATE),
        (pa.array(["x"], pa.large_string()), Kind.NOMINAL),
        (pa.array(["x"], pa.string_view()), Kind.NOMINAL),
        (pa.array(["x"]).dictionary_encode(), Kind.NOMINAL),
        (pa.DictionaryArray.from_arrays([0], ["x"], ordered=True), Kind.ORDERED),
        (pa.nulls(1), Kind.NOMINAL),
        (pa.RunEndEncodedArray.from_arrays([1], pa.array([2])), Kind.WHOLE),
        (pa.array([1], pa.time32("s")), Kind.NOMINAL),
        (pa.ExtensionArray.from_storage(Celsius(), pa.array([1.5])), Kind.CONTINUOUS),
    ],
)
def test_the_type_tells_the_kind(column, kind):
    table = of(column)
    assert table.kinds == {"x": kind}
    assert table.coded("x").size == 1


def test_words_that_hardly_repeat_in_many_rows_are_text():
    assert of([f"word {number}" for number in range(200)]).kinds["x"] is Kind.TEXT
    assert of([f"word {number}" for number in range(50)]).kinds["x"] is Kind.NOMINAL  # too few to say
    assert of([f"word {number % 100}" for number in range(200)]).kinds["x"] is Kind.NOMINAL


def test_an_unknown_column_is_refused_by_name():
    with pytest.raises(TableError, match=r"no column 'b'.*'a'"):
        as_table({"a": [1]}).select(["b"])


def test_a_repeated_name_is_refused():
    with pytest.raises(TableError, match="'a' more than once"):
        Table.from_arrow(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]))


def test_no_columns_are_still_so_many_rows():
    assert as_table({"a": [1, 2]}).select([]).rows == 2


def test_nanoseconds_are_refused_unless_they_are_whole_microseconds():
    assert of(pa.array([1_234_000, None], pa.timestamp("ns"))).numbers("x")[0] == 1234.0
    with pytest.raises(TableError, match=r"'x' must be whole microseconds.*floor"):
        of(pa.array([1_234_567], pa.timestamp("ns"))).numbers("x")


@pytest.mark.parametrize(
    ("moments", "unit"),
    [([2**53 + 1], "us"), ([-(2**53) - 1], "us"), ([2**62], "s"), ([2**62], "ms"), ([-(2**63)], "us")],
)
def test_timestamps_that_would_be_rounded_are_refused_and_still_coded(moments, unit):
    table = of(pa.array([0, *moments, None], pa.timestamp(unit)))
    with pytest.raises(TableError, match="would be rounded"):
        table.numbers("x")
    assert table.coded("x").size == 3


def test_whole_seconds_are_exact_up_to_the_year_9999():
    last = datetime(9999, 12, 31, 23, 59, 59)
    assert of([last, None]).numbers("x")[0] == (last - datetime(1970, 1, 1)) / timedelta(microseconds=1)


def test_decimals_with_more_digits_than_a_float_are_refused():
    assert of([Decimal("1.500000000000000000"), Decimal("-0.1"), None]).numbers("x")[:2].tolist() == [1.5, -0.1]
    with pytest.raises(TableError, match="15 digits"):
        of([Decimal("9007199254740993.5")]).numbers("x")


def test_days_count_in_days():
    assert of([date(1970, 1, 2), None]).numbers("x").tolist() == pytest.approx([1.0, np.nan], nan_ok=True)


def test_whole_numbers_too_long_for_floats_are_refused_and_still_coded():
    table = of([2**53, 2**53 + 1, None])
    with pytest.raises(TableError, match="below 2⁵³"):
        table.numbers("x")
    assert table.coded("x").codes.tolist() == [0, 1, 2]
    assert of([2**53 - 1, -(2**53) + 1]).numbers("x").tolist() == [2**53 - 1, -(2**53) + 1]


def test_words_are_no_numbers():
    with pytest.raises(TableError, match=r"must be numeric.*nominal"):
        of(["x"]).numbers("x")


def test_a_kind_that_is_said_holds_whatever_the_type():
    table = Table.from_arrow(pa.table({"x": [1, 2]}), {"x": Kind.NOMINAL})
    with pytest.raises(TableError, match="must be numeric"):
        table.numbers("x")


def test_ordered_values_are_coded_in_their_order_without_those_that_do_not_occur():
    ordered = pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 2]), ["low", "mid", "high"], ordered=True)
    coded = of(ordered).coded("x")
    assert coded.values.to_pylist() == ["low", "high", None]
    assert coded.codes.tolist() == [1, 0, 2, 1]


def test_equal_tables_have_equal_codes_however_they_are_stored():
    words = ["b", None, "a", "b"]
    stored = [
        pa.chunked_array([pa.array(words)]),
        pa.chunked_array([pa.array(words[:1]), pa.array(words[1:])]),
        pa.chunked_array([pa.array(words[:3]).dictionary_encode(), pa.array(words[3:]).dictionary_encode()]),
        pa.chunked_array([pa.DictionaryArray.from_arrays([0, 1, 2, 3], ["b", None, "a", "b"])]),
        pa.chunked_array([pa.array(words, pa.large_string())]),
    ]
    for column in stored:
        coded = of(column).coded("x")
        assert coded.values.to_pylist() == ["a", "b", None]
        assert coded.codes.tolist() == [1, 2, 0, 1]


def test_a_column_is_coded_once_and_shared_with_selections(monkeypatch):
    calls = []
    code = coding.code_column
    monkeypatch.setattr(
        coding, "code_column", lambda column, *, ordered: calls.append(1) or code(column, ordered=ordered)
    )
    table = as_table({"x": ["b", "a", "b"], "y": [1, 2, 3]})
    shown = table.select(["x"]).coded("x")
    assert table.coded("x") is shown and table.select(["y", "x"]).coded("x") is shown
    assert len(calls) == 1
    other = pickle.loads(pickle.dumps(table))  # without the codes
    assert other.coded("x").codes.tolist() == [1, 0, 1] and len(calls) == 2
    assert table.take(np.array([0, 2])).coded("x").size == 1  # control: other rows have other codes


def test_minus_zero_is_zero_and_not_a_number_is_missing():
    coded = of([0.0, -0.0, float("nan"), None]).coded("x")
    assert coded.codes.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("repeats", [1, 4], ids=["distinct", "repeated"])
def test_codes_of_many_numbers_are_those_of_few(repeats):
    numbers = np.random.default_rng(3).permutation(np.repeat(np.arange(6000) / 7 - 400, repeats))
    numbers[:3] = [np.nan, -0.0, 0.0]
    coded = of(numbers).coded("x")
    expected = sorted(set(numbers[1:].tolist()))
    assert coded.values.to_pylist() == [*expected, None]
    assert np.array_equal(np.array([*expected, np.nan])[coded.codes], numbers, equal_nan=True)


def test_a_table_can_be_copied():
    table = as_table({"a": [1, 2]})
    assert copy.deepcopy(table).arrow.equals(table.arrow)


@pytest.mark.parametrize("type_", [pa.float64(), pa.float32()])
def test_negative_zero_is_zero_so_that_equal_rows_look_equal(type_):
    table = Table.from_arrow(
        pa.table({"x": pa.chunked_array([pa.array([1.0], type_), pa.array([-0.0, 0.0, None], type_)])})
    )
    assert [str(cell) for cell in table.arrow.column("x").to_pylist()] == ["1.0", "0.0", "0.0", "None"]


@pytest.mark.parametrize("repeats", [0, 99, 100, 101, 900])
@pytest.mark.parametrize("first", [True, False])
def test_strings_are_text_from_nine_distinct_cells_in_ten_on(repeats, first):
    distinct = [f"cell {place}" for place in range(1000 - repeats)]
    again = ["cell 0"] * repeats
    column = pa.chunked_array([again + distinct if first else distinct + again])
    assert kind_of(column) is (Kind.TEXT if repeats <= 100 else Kind.NOMINAL)
