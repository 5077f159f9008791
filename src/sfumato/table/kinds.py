"""Kinds of columns, the few Arrow types that they are stored as, and exact conversion of cells to and from numbers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.errors import TableError

TEXT_ROWS = 100  # with fewer cells, the number of distinct values is not informative
TEXT_SHARE = 0.9  # share of distinct cells from which a string column counts as free text

# A cell with one of these texts is missing, in every column; users can add others.
MARKS = frozenset(
    ["", *"NA N/A n/a NaN nan NAN -nan -NaN null NULL Null ? . <NA> #N/A #NA NaT".split()]  # noqa: SIM905
)


class Kind(StrEnum):
    """The kind of a column, which determines how it can be cut, generalized, averaged and released."""

    CONTINUOUS = "continuous"  # a measured number
    WHOLE = "whole"  # a whole number
    ORDERED = "ordered"  # categories with an order
    NOMINAL = "nominal"  # categories without an order
    DATE = "date"  # a date or a timestamp
    TEXT = "text"  # free text; nearly all cells are distinct
    BOOLEAN = "boolean"  # true and false, or whole numbers that are 0 and 1

    @property
    def is_numeric(self) -> bool:
        """Whether the column is released as an interval (numbers and dates) and not as a set (categories)."""
        return self in (Kind.CONTINUOUS, Kind.WHOLE, Kind.DATE)


def to_plain_type(column: pa.ChunkedArray, *, name: str) -> pa.ChunkedArray:
    """Convert the column to one of the supported Arrow types.

    These are boolean, number, decimal, date, timestamp, string, dictionary of strings and null. Strings of any width
    become ``string``. Times of day and categories of any type become strings. Extension types are replaced by their
    storage, NaN becomes null, and −0 becomes 0, because rows that are equal must not look different. Types without a
    kind (durations, lists, structs, binary) raise an error.
    """
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return to_plain_type(pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type), name=name)
    if pt.is_run_end_encoded(kind):
        decoded = [pc.run_end_decode(chunk) for chunk in column.chunks]
        return to_plain_type(pa.chunked_array(decoded, kind.value_type), name=name)
    if pt.is_dictionary(kind):
        return _plain_dictionary(column, name=name)
    if pt.is_string_view(kind) or pt.is_large_string(kind):
        return _narrow(column)
    if pt.is_time(kind):
        return column.cast(pa.string())
    if pt.is_float16(kind):
        column = column.cast(pa.float32())
    if pt.is_floating(kind):
        unknown = pc.is_nan(column)
        if pc.any(unknown).as_py():
            column = pc.if_else(unknown, pa.scalar(None, column.type), column)
        return _without_negative_zero(column)
    if not _has_kind(kind):
        raise TableError(
            f"Column {name!r} has a type that is not supported.",
            found=f"Arrow type {_outline(kind)}",
            fix="convert it to numbers, text, dates or booleans, or remove it",
        )
    return column


def kind_of(column: pa.ChunkedArray) -> Kind:
    """Return the kind of a column in a supported type.

    Strings are free text if nearly all of them are distinct, and whole numbers are boolean if they are 0 and 1.
    """
    kind = column.type
    if pt.is_boolean(kind):
        return Kind.BOOLEAN
    if pt.is_integer(kind):
        return Kind.BOOLEAN if pc.min_max(column).as_py() == {"min": 0, "max": 1} else Kind.WHOLE
    if pt.is_floating(kind) or pt.is_decimal(kind):
        return Kind.CONTINUOUS
    if pt.is_date(kind) or pt.is_timestamp(kind):
        return Kind.DATE
    if pt.is_dictionary(kind):
        return Kind.ORDERED if kind.ordered else Kind.NOMINAL
    present = len(column) - column.null_count
    if present < TEXT_ROWS or pt.is_null(kind):
        return Kind.NOMINAL
    return Kind.TEXT if _mostly_distinct(column, present) else Kind.NOMINAL


def _mostly_distinct(column: pa.ChunkedArray, present: int) -> bool:
    """Return whether at least a share TEXT_SHARE of the cells are distinct; the first cells are often enough to know.

    Cells that repeat among the first ones are not distinct in the whole column either.
    """
    enough = TEXT_SHARE * present
    first = column.slice(0, int(1.5 * (present - enough)) + TEXT_ROWS)
    repeated = len(first) - first.null_count - pc.count_distinct(first).as_py()
    return bool(present - repeated >= enough and pc.count_distinct(column).as_py() >= enough)


def _has_kind(kind: pa.DataType) -> bool:
    tests = (pt.is_boolean, pt.is_integer, pt.is_floating, pt.is_decimal, pt.is_date, pt.is_timestamp, pt.is_string)
    return pt.is_null(kind) or any(test(kind) for test in tests)


def _plain_dictionary(column: pa.ChunkedArray, *, name: str) -> pa.ChunkedArray:
    """Unify the dictionaries of all chunks: strings, each once, none of them null."""
    kind = pa.dictionary(pa.int32(), pa.string(), ordered=column.type.ordered)
    dictionaries = [to_plain_type(pa.chunked_array([chunk.dictionary]), name=name) for chunk in column.chunks]
    texts = [values.cast(pa.string()) for values in dictionaries]
    unique = pa.chunked_array([chunk for values in texts for chunk in values.chunks], pa.string()).unique().drop_null()
    codes = []
    for values, chunk in zip(texts, column.chunks, strict=True):
        new_codes = pc.index_in(values, value_set=unique)  # null for a null value, so such cells become missing
        codes.append(new_codes.take(chunk.indices).combine_chunks())
    parts = [pa.DictionaryArray.from_arrays(part, unique, ordered=kind.ordered) for part in codes]
    return pa.chunked_array(parts, kind)


def order_categories(column: pa.ChunkedArray, order: Sequence[str]) -> pa.ChunkedArray:
    """Return a column of text as categories in this order; text that is not among them becomes missing."""
    words = pa.array(order, pa.string())
    codes = pc.index_in(column, value_set=words)
    parts = [pa.DictionaryArray.from_arrays(chunk, words, ordered=True) for chunk in codes.chunks]
    return pa.chunked_array(parts, pa.dictionary(pa.int32(), pa.string(), ordered=True))


def _without_negative_zero(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the column with 0 for −0, which is equal to it but written differently."""
    for chunk in column.chunks:
        numbers = chunk.to_numpy(zero_copy_only=False)
        if (np.signbit(numbers) & (numbers == 0.0)).any():
            return pc.add(column, pa.scalar(0.0, column.type))  # −0 + 0 is 0
    return column


def _narrow(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:  # more than 2 GB of text
        return column.cast(pa.large_string())
    except pa.ArrowNotImplementedError:  # views, before Arrow 18
        return pa.chunked_array([pa.array(chunk.to_pylist(), pa.string()) for chunk in column.chunks], pa.string())


def _outline(kind: pa.DataType) -> str:
    """Return the type without the names inside it, which may be values (the fields of a struct)."""
    return str(kind).split("<", maxsplit=1)[0].split("[", maxsplit=1)[0]


# Cells as floats, exactly. Columns with cells that would be rounded are refused: they could lie outside their box.


LARGEST_EXACT = 2**53  # not all whole numbers from here on are exact as floats
DIGITS = 15  # decimals with so many digits are different as floats
MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}  # in a unit of a timestamp


def write_numbers(column: pa.ChunkedArray, out: NDArray[np.float64], *, name: str) -> None:
    """Write the numbers of a column into ``out``: dates in days, timestamps in microseconds, NaN for missing cells."""
    if pt.is_int64(column.type) or pt.is_uint64(column.type):
        _require_exact(column, name)
    start = 0
    for chunk in column.chunks:
        out[start : start + len(chunk)] = _numeric(chunk, name).to_numpy(zero_copy_only=False)
        start += len(chunk)


def microseconds(moment: int, unit: str) -> float:
    """Return a timestamp of this unit in microseconds, rounded to a float."""
    return moment / 1000.0 if unit == "ns" else float(moment * MICROSECONDS[unit])


def _require_exact(column: pa.ChunkedArray, name: str) -> None:
    ends = pc.min_max(column).as_py()
    if ends["min"] is not None and max(-ends["min"], ends["max"]) >= LARGEST_EXACT:
        raise TableError(
            f"The whole numbers of column {name!r} must be below 2⁵³ to be exact as floats.",
            fix="declare the kind nominal or the role identifier, or express the column in a larger unit",
        )


def _numeric(chunk: pa.Array, name: str) -> pa.Array:
    """Convert a chunk to a type that NumPy reads as numbers."""
    kind = chunk.type
    if pt.is_date(kind):
        return chunk.cast(pa.date32()).cast(pa.int32())
    if pt.is_timestamp(kind):
        return _in_microseconds(chunk, name)
    if pt.is_boolean(kind):
        return chunk.cast(pa.uint8())
    if pt.is_decimal(kind):  # through text, because Arrow's own cast does not always give the nearest float
        texts = chunk.cast(pa.string())
        _require_few_digits(texts, name)
        return texts.cast(pa.float64())
    return chunk.cast(pa.float64()) if pt.is_null(kind) else chunk


def _in_microseconds(chunk: pa.Array, name: str) -> pa.Array:
    moments = pc.fill_null(chunk.cast(pa.int64()), 0).to_numpy()
    unit = chunk.type.unit
    if unit == "ns":
        if (moments % 1000).any():
            raise TableError(
                f"The timestamps of column {name!r} must be whole microseconds.",
                found="nanoseconds",
                fix=f"round them, for example with frame[{name!r}].dt.floor('us'), or declare the kind nominal",
            )
        whole = moments // 1000
    else:
        whole = moments * MICROSECONDS[unit]
    rounded = whole.astype(np.float64)
    # whole seconds are multiples of 2⁶ microseconds, so they are exact up to the year 9999 and beyond
    overflows = unit != "ns" and (whole // MICROSECONDS[unit] != moments).any()
    if overflows or (np.abs(rounded) >= 2.0**62).any() or (rounded.astype(np.int64) != whole).any():
        raise TableError(
            f"The timestamps of column {name!r} must be exact as floats: fractions of seconds between the years 1685 "
            "and 2255, and whole seconds in others.",
            found="timestamps that would be rounded",
            fix="round them to whole seconds, or make timestamps that stand for no date missing",
        )
    return pa.array(rounded, mask=chunk.is_null().to_numpy(zero_copy_only=False))


def _require_few_digits(texts: pa.Array, name: str) -> None:
    """Raise if some decimal has more digits than a float tells apart; zeros at its ends do not count."""
    digits = pc.replace_substring_regex(texts, r"^-|[eE].*$", "")
    digits = pc.replace_substring_regex(digits, r"(\.\d*?)0+$", r"\1")
    digits = pc.utf8_ltrim(pc.replace_substring(digits, ".", ""), "0")
    longest = pc.max(pc.utf8_length(digits)).as_py()
    if longest is not None and longest > DIGITS:
        raise TableError(
            f"The decimals of column {name!r} must have at most {DIGITS} digits to be exact as floats.",
            found=f"{longest} digits",
            fix="round them, declare the kind nominal or the role identifier, or express them in a larger unit",
        )


def number_column(numbers: NDArray[np.float64], kind: Kind, type: pa.DataType) -> pa.Array:
    """Return numbers as a column of this kind, dates in this type; NaN becomes missing.

    Unless the kind is continuous, the numbers must be whole.

    Examples
    --------
    >>> number_column(np.array([1.0, np.nan]), Kind.WHOLE, pa.int64()).to_pylist()
    [1, None]
    """
    empty = np.isnan(numbers)
    if kind is Kind.CONTINUOUS:
        return pa.array(numbers, mask=empty)
    whole = pa.array(np.where(empty, 0.0, numbers).astype(np.int64), mask=empty)
    if kind is Kind.WHOLE:
        return whole
    if pa.types.is_date(type):
        return whole.cast(pa.int32()).cast(pa.date32())
    return whole.cast(pa.timestamp("us", tz=type.tz))


def invalid_columns(table: pa.Table) -> list[str]:
    """Return the names of columns with cells that are not valid, such as text that is not UTF-8."""
    names = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except (pa.ArrowException, ValueError):  # the error quotes the cell
            names.append(name)
    return names


def is_text(kind: pa.DataType) -> bool:
    """Return whether cells of this type are text."""
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))
