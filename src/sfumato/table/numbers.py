"""Cells as floats, exactly. Columns with cells that would be rounded are refused: they could lie outside their box."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import TableError
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


# Numbers as cells of a column: floats, whole numbers, dates or times.


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
