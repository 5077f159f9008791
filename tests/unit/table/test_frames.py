"""Data frames at the door."""

from __future__ import annotations

import traceback
from datetime import UTC, date, datetime, time, timedelta

import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.errors import TableError
from sfumato.sources.frames import as_table
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

CANARY = "Canary77"


def cells(table: Table) -> dict[str, list[object]]:
    return table.arrow.to_pydict()


def test_a_table_stays_itself():
    table = as_table({"a": [1, 2]})
    assert as_table(table) is table


def test_a_path_is_read(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    assert as_table(str(tmp_path / "t.csv")).names == ("a", "b")


@pytest.mark.parametrize(
    "source",
    [
        pa.table({"a": [1, 2], "b": ["x", None]}),
        pa.record_batch({"a": [1, 2], "b": ["x", None]}),
        pd.DataFrame({"a": [1, 2], "b": ["x", None]}),
        pl.DataFrame({"a": [1, 2], "b": ["x", None]}),
        pl.LazyFrame({"a": [1, 2], "b": ["x", None]}),
        narwhals.from_native(pl.DataFrame({"a": [1, 2], "b": ["x", None]})),
        {"a": np.array([1, 2]), "b": ["x", None]},
        {"a": pl.Series([1, 2]), "b": pd.Series(["x", None])},
    ],
    ids=["arrow", "batch", "pandas", "polars", "lazy", "narwhals", "mapping", "series"],
)
def test_every_kind_of_frame_gives_the_same_table(source):
    table = as_table(source)
    assert cells(table) == {"a": [1, 2], "b": ["x", None]}
    assert table.kinds == {"a": Kind.WHOLE, "b": Kind.NOMINAL}
    assert table.arrow.schema.types == [pa.int64(), pa.string()]


@pytest.mark.parametrize("index", [["u", "v", "v"], [7, 3, 3], pd.date_range("2020", periods=3)])
def test_the_index_of_a_frame_ends_at_the_door(index):
    table = as_table(pd.DataFrame({"a": [1, 2, 3]}, index=index))
    assert cells(table) == {"a": [1, 2, 3]}
    assert list(table.to_pandas().index) == [0, 1, 2]


def test_pandas_types_become_kinds():
    frame = pd.DataFrame(
        {
            "nullable": pd.array([1, None], dtype="Int64"),
            "flag": pd.array([True, None], dtype="boolean"),
            "word": pd.array(["x", None], dtype="string"),
            "nominal": pd.Categorical(["b", "a"]),
            "ordered": pd.Categorical(["low", "high"], ["low", "high"], ordered=True),
            "coded": pd.Categorical([3, 1]),
            "moment": pd.date_range("2020", periods=2, tz="Europe/Berlin"),
            "month": pd.period_range("2020-01", periods=2, freq="M"),
            "band": pd.cut([1, 20], [0, 10, 30]),
            "interval": pd.interval_range(0, 2),
            "object date": pd.Series([date(2020, 1, 1), None], dtype=object),
            "nan": [1.5, np.nan],
            "sparse": pd.arrays.SparseArray([0, 1]),
        }
    )
    table = as_table(frame)
    assert table.kinds == {
        "nullable": Kind.WHOLE,
        "flag": Kind.BOOLEAN,
        "word": Kind.NOMINAL,
        "nominal": Kind.NOMINAL,
        "ordered": Kind.ORDERED,
        "coded": Kind.NOMINAL,
        "moment": Kind.DATE,
        "month": Kind.DATE,
        "band": Kind.ORDERED,
        "interval": Kind.NOMINAL,
        "object date": Kind.DATE,
        "nan": Kind.CONTINUOUS,
        "sparse": Kind.BOOLEAN,
    }
    assert cells(table)["nan"] == [1.5, None]
    assert cells(table)["coded"] == ["3", "1"]
    assert cells(table)["band"] == ["(0, 10]", "(10, 30]"]


def test_polars_types_become_kinds():
    frame = pl.DataFrame({"c": ["x", "y"], "e": ["high", "low"], "f": [1.0, float("nan")]}).with_columns(
        c=pl.col("c").cast(pl.Categorical), e=pl.col("e").cast(pl.Enum(["low", "high"])), t=pl.lit(time(1, 2))
    )
    table = as_table(frame)
    assert table.kinds | {"e": None} == {"c": Kind.NOMINAL, "e": None, "f": Kind.CONTINUOUS, "t": Kind.NOMINAL}
    assert cells(table)["f"] == [1.0, None]
    if not frame.to_arrow().field("e").type.ordered:
        pytest.skip("this polars does not tell that an Enum is ordered")
    assert table.kinds["e"] is Kind.ORDERED
    assert table.coded("e").codes.tolist() == [1, 0]
    assert table.to_polars()["e"].dtype == pl.Enum(["low", "high"])


def test_column_names_become_words_unless_two_become_one():
    assert as_table(pd.DataFrame([[1, 2]])).names == ("0", "1")
    with pytest.raises(TableError, match="'1' more than once"):
        as_table(pd.DataFrame([[1, 2]], columns=[1, "1"]))
    with pytest.raises(TableError, match="'a' more than once"):
        as_table(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(TableError, match="several levels"):
        as_table(pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])))
    with pytest.raises(TableError, match="1 of 2"):
        as_table(pd.DataFrame([[1, 2]], columns=["a", None]))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([1, CANARY], "1 int, 1 str"),
        ([CANARY, {1, 2}], "1 str, 1 set"),
        ([2**70, 1], "2 int"),
        ([1j, 2j], "complex"),
    ],
)
def test_mixed_and_unknown_cells_are_refused_by_their_types(column, words):
    with pytest.raises(TableError, match="must be of one type") as refusal:
        as_table(pd.DataFrame({"x": pd.Series(column, dtype=object if words != "complex" else None)}))
    shown = "".join(traceback.format_exception(refusal.value))
    assert words in shown
    assert f"'{CANARY}' " not in shown  # nor what Arrow says of it
    assert refusal.value.__context__ is None


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ([timedelta(1)], "duration"),
        ([[1, 2]], "list"),
        ([{CANARY: 1}], "struct"),
        ([b"x"], "binary"),
    ],
)
def test_types_without_a_kind_are_refused(column, kind):
    with pytest.raises(TableError, match=f"'x' has a type that is not supported. Found: Arrow type {kind}") as refusal:
        as_table(pa.table({"x": column}))
    assert CANARY not in str(refusal.value)


@pytest.mark.parametrize(
    "source", [np.zeros((2, 2)), np.zeros(2, dtype=[("a", float)]), 7, [1, 2], None, {"a": 1}, {"a": "word"}]
)
def test_what_is_no_frame_is_refused(source):
    with pytest.raises(TableError):
        as_table(source)


def test_an_array_is_refused_with_the_remedy():
    with pytest.raises(TableError, match=r"\{'age': array\[:, 0\]\}"):
        as_table(np.zeros((2, 2)))


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(TableError, match="1 and 2"):
        as_table({"a": [1], "b": [1, 2]})


@pytest.mark.parametrize("source", [{}, pd.DataFrame(), pd.DataFrame(index=[1, 2]), pl.DataFrame()])
def test_a_table_without_columns_is_refused(source):
    with pytest.raises(TableError, match="must have columns"):
        as_table(source)


def test_whole_numbers_with_missing_cells_stay_whole_in_pandas():
    frame = as_table({"a": [1, None], "b": [1, 2], "c": [True, None]}).to_pandas()
    assert list(map(str, frame.dtypes)) == ["Int64", "int64", "boolean"]


def test_moments_keep_their_time_zone():
    table = as_table(pd.DataFrame({"m": pd.to_datetime([datetime(2020, 1, 1, 12)]).tz_localize("Asia/Tokyo")}))
    assert table.arrow.schema.field("m").type.tz == "Asia/Tokyo"
    assert table.numbers("m")[0] == datetime(2020, 1, 1, 3, tzinfo=UTC).timestamp() * 1e6
