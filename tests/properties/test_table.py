"""What must hold of every table: it comes back from every format and frame, codes decode, groups are the groups."""

from __future__ import annotations

import math
import string
import tempfile
import traceback
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.formats.exports import write
from sfumato.sources.files import read
from sfumato.sources.frames import as_table
from sfumato.table.groups import group_labels, group_sizes, labels_of
from sfumato.table.kinds import MARKS, Kind
from sfumato.table.table import Table

WORDS = st.text(string.ascii_letters + "äßжñ ,;\t|'\"\n.-", min_size=1, max_size=8)
CELLS = {
    pa.float64(): st.floats(allow_nan=True, width=64),
    pa.float32(): st.floats(allow_nan=True, width=32),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.bool_(): st.booleans(),
    pa.string(): WORDS,
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", tz="UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.decimal128(12, 3): st.decimals(-1000, 1000, places=3),
}


@st.composite
def columns(draw: st.DrawFn, rows: int, types: tuple[pa.DataType, ...] = tuple(CELLS)) -> pa.ChunkedArray:
    """A column of one type, with ties and missing cells, in one chunk or two."""
    kind = draw(st.sampled_from(types))
    few = draw(st.lists(CELLS[kind], min_size=1, max_size=5))
    cells = draw(st.lists(st.sampled_from(few) | st.none(), min_size=rows, max_size=rows))
    array = pa.array(cells, kind)
    if draw(st.booleans()) and pa.types.is_string(kind):
        array = array.dictionary_encode()
    cut = draw(st.integers(0, rows))
    return pa.chunked_array([array[:cut], array[cut:]], array.type)


@st.composite
def tables(draw: st.DrawFn, types: tuple[pa.DataType, ...] = tuple(CELLS)) -> Table:
    rows = draw(st.integers(0, 12))
    width = draw(st.integers(1, 4))
    return Table.from_arrow(pa.table({f"c {number}": draw(columns(rows, types)) for number in range(width)}))


def slow_key(cell: object) -> object:
    """What two cells have in common when they are equal: NaN is missing, and −0 is 0."""
    if isinstance(cell, float):
        return None if math.isnan(cell) else cell + 0.0
    return cell


def slow_rows(table: Table) -> list[tuple[object, ...]]:
    return [tuple(map(slow_key, row.values())) for row in table.arrow.to_pylist()]


def same_partition(left: list[object], right: list[object]) -> bool:
    pairs = set(zip(left, right, strict=True))
    return len(pairs) == len(set(left)) == len(set(right))


@given(tables())
def test_codes_decode_to_the_cells(table):
    for name in table.names:
        coded = table.coded(name)
        decoded = coded.values.take(pa.array(coded.codes)).to_pylist()
        assert list(map(slow_key, decoded)) == [row[0] for row in slow_rows(table.select([name]))]


@given(tables())
def test_code_values_are_sorted_and_distinct_and_occur_with_the_missing_one_last(table):
    for name in table.names:
        coded = table.coded(name)
        values = coded.values.to_pylist()
        present = [value for value in values if value is not None]
        assert values == present + [None] * (len(values) - len(present))
        assert len(values) - len(present) <= 1
        key = (lambda value: value.encode()) if pa.types.is_string(coded.values.type) else None
        assert present == sorted(set(present), key=key)
        assert set(coded.codes.tolist()) == set(range(coded.size))


@given(tables())
def test_groups_are_the_equal_rows(table):
    labels = group_labels(table, table.names)
    assert same_partition(labels.tolist(), slow_rows(table))
    assert set(labels.tolist()) == set(range(int(labels.max(initial=-1)) + 1))
    assert group_sizes(table, table.names).sum() == table.rows


@given(tables())
def test_groups_of_codes_are_the_groups_of_cells(table):
    by_codes = labels_of((table.coded(name) for name in table.names), table.rows)
    assert same_partition(by_codes.tolist(), group_labels(table, table.names).tolist())


@given(
    tables(
        types=(pa.float64(), pa.float32(), pa.int8(), pa.bool_(), pa.date32(), pa.timestamp("us"), pa.decimal128(12, 3))
    )
)
def test_numbers_are_the_cells_and_the_matrix_holds_them(table):
    names = [name for name in table.names if table.kinds[name] not in (Kind.NOMINAL, Kind.ORDERED)]
    cells = [cell for name in names for cell in table.arrow[name].to_pylist()]
    assume(all(1686 <= cell.year <= 2254 for cell in cells if isinstance(cell, datetime)))  # exact as floats
    matrix = table.matrix(names)
    for place, name in enumerate(names):
        expected = [slow_number(cell) for cell in table.arrow[name].to_pylist()]
        assert np.array_equal(table.numbers(name), expected, equal_nan=True)
        assert np.array_equal(matrix[:, place], expected, equal_nan=True)


def slow_number(cell: object) -> float:
    if cell is None:
        return math.nan
    if isinstance(cell, datetime):
        passed = cell - datetime(1970, 1, 1)
        return float((passed.days * 86400 + passed.seconds) * 10**6 + passed.microseconds)
    if isinstance(cell, date):
        return float((cell - date(1970, 1, 1)).days)
    assert isinstance(cell, bool | int | float | Decimal)
    return float(cell)


def assert_same(found: Table, table: Table) -> None:
    assert found.names == table.names
    assert dict(found.kinds) == dict(table.kinds)
    assert slow_rows(found) == slow_rows(table)


@given(extension=st.sampled_from(["parquet", "arrow", "feather"]), table=tables())
def test_a_table_comes_back_from_columnar_files(extension, table):
    assume(table.rows)
    with tempfile.TemporaryDirectory() as folder:
        write(table.arrow, Path(folder) / f"t.{extension}")
        assert_same(read(Path(folder) / f"t.{extension}"), table)


@given(tables())
def test_a_table_comes_back_from_arrow_and_pandas(table):
    assert_same(as_table(table.to_arrow()), table)
    frame = table.to_pandas()
    assert list(frame.index) == list(range(table.rows))
    # a column of objects that are all missing has forgotten what it was to hold
    full = table.select([name for name in table.names if table.arrow[name].null_count < table.rows])
    if full.names:
        assert_same(as_table(frame[list(full.names)].set_axis(range(7, 7 + table.rows), axis="index")), full)


@given(tables())
def test_a_table_comes_back_from_polars(table):
    assert_same(as_table(table.to_polars()), table)
    assert_same(as_table(table.to_polars().lazy()), table)


IN_TEXT = (pa.float64(), pa.int64(), pa.bool_(), pa.date32(), pa.string())


@pytest.mark.parametrize("extension", ["csv", "tsv"])
@given(table=tables(types=IN_TEXT))
def test_a_table_comes_back_from_text(extension, table):
    assume(table.rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"t.{extension}"
        write(table.arrow, path, formulas="keep")
        found = read(path, header=True, separator="\t" if extension == "tsv" else ",")
    assert found.names == table.names
    for name in table.names:
        cells, back = (part.arrow[name].to_pylist() for part in (table, found))
        cells = [None if cell in MARKS else cell for cell in cells]  # a word such as "." stands for a missing cell
        if any(cell is not None for cell in cells) and found.kinds[name] is table.kinds[name]:
            assert list(map(slow_key, back)) == list(map(slow_key, cells))
        else:  # all missing, or words that look like something else
            assert [cell is None for cell in back] == [slow_key(cell) is None for cell in cells]


@given(tables(), st.data())
def test_taking_rows_takes_their_cells(table, data):
    assume(table.rows)
    positions = data.draw(st.lists(st.integers(0, table.rows - 1), max_size=20))
    taken = table.take(np.array(positions, dtype=np.int64))
    assert slow_rows(taken) == [slow_rows(table)[position] for position in positions]
    assert taken.kinds == table.kinds


@given(st.binary(max_size=200) | st.text(string.printable, max_size=200).map(str.encode))
def test_any_bytes_are_read_or_refused_and_never_shown(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.csv"
        path.write_bytes(content)
        try:
            table = read(path)
        except InputError as error:
            assert error.__cause__ is None
            assert error.__context__ is None
        else:
            assert table.rows
            assert table.names


@given(st.sampled_from([",", ";", "\t", "|"]), st.data())
def test_any_grid_of_numbers_is_read_as_it_was_written(separator, data):
    width, rows = data.draw(st.integers(2, 5)), data.draw(st.integers(2, 8))
    grid = [data.draw(st.lists(st.integers(-999, 999), min_size=width, max_size=width)) for _ in range(rows)]
    names = [f"x{number}" for number in range(width)]
    text = "\n".join(separator.join(map(str, line)) for line in [names, *grid])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grid.txt"
        path.write_text(text)
        table = read(path)
    assert table.names == tuple(names)
    assert np.array_equal(table.matrix(names), np.array(grid, dtype=float))


CANARY = "Canary77"


@given(
    st.lists(
        st.sampled_from([CANARY, f'"{CANARY}', f"{CANARY},{CANARY}", "\n", ",", '"', "1", ";", "\x00", "é"]),
        max_size=30,
    )
)
def test_a_failing_read_shows_no_cell(pieces):
    content = ("a,b\n1,2\n" + "".join(pieces)).encode("latin-1")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_bytes(content)
        shown = ""
        try:
            shown = repr(read(path, header=True))
        except InputError as error:
            shown = "".join(traceback.format_exception(error))
    assert CANARY not in shown
