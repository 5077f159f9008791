"""Cells as numbers and as text, and what a released word stands for: written from the documents, not from the library.

A set of categories is written as its members with ``|`` between them; a backslash escapes, and ``(missing)`` is the
missing member. ``(any)`` is a member that stands for every value but the missing one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

MISSING = "(missing)"
POOL = re.compile(r"other|any other|all others( \d+)?")  # what rare values are pooled as
IN_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def plain(cells: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array without a dictionary."""
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks() if cells.num_chunks != 1 else cells.chunk(0)
        cells = pa.concat_arrays(cells.chunks) if isinstance(cells, pa.ChunkedArray) else cells
    return cells.dictionary_decode() if pt.is_dictionary(cells.type) else cells


def is_number(type_: pa.DataType) -> bool:
    """Whether cells of this type are numbers or dates."""
    return bool(
        pt.is_integer(type_)
        or pt.is_floating(type_)
        or pt.is_decimal(type_)
        or pt.is_date(type_)
        or pt.is_timestamp(type_)
    )


def numbers_of(cells: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    """Numbers: days of dates, microseconds of timestamps, 0 and 1 of booleans, NaN where missing."""
    array = plain(cells)
    if pt.is_timestamp(array.type):
        moments = array.cast(pa.int64()).fill_null(0).to_numpy()  # whole numbers, because floats would be rounded
        per_second = IN_A_SECOND[array.type.unit]
        numbers = moments * (10**6 // per_second) if per_second <= 10**6 else moments / (per_second // 10**6)
        return np.where(array.is_null().to_numpy(zero_copy_only=False), np.nan, numbers)
    if pt.is_date(array.type):
        array = array.cast(pa.date32()).cast(pa.int32())
    elif pt.is_decimal(array.type):
        return np.array([np.nan if cell is None else float(cell) for cell in array.to_pylist()], dtype=float)
    elif pt.is_boolean(array.type):
        array = array.cast(pa.uint8())
    return np.asarray(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=float) + 0.0  # −0 is 0


def texts_of(cells: pa.Array | pa.ChunkedArray) -> list[str | None]:
    """Cells as text; None where missing."""
    array = plain(cells)
    if pt.is_null(array.type):
        return [None] * len(array)
    if pt.is_floating(array.type):
        array = pa.array(array.to_numpy(zero_copy_only=False), from_pandas=True)
    return list(array.cast(pa.string()).to_pylist())


def holds(word: str | None, value: str | None) -> bool:
    """Whether a value belongs to a released set."""
    return value in members(word) or (value is not None and word in ("(any)", "(any)|(missing)"))


def members(word: str | None) -> frozenset[str | None]:
    """The members of a released set; ``(any)`` is read as a name."""
    if word is None:
        return frozenset([None])
    pieces = re.findall(r"((?:[^\\|]|\\.)*)(?:\||$)", word, re.DOTALL)
    pieces = pieces[: len(re.sub(r"\\.", "", word, flags=re.DOTALL).split("|"))]  # without the match at the end
    return frozenset(None if piece == MISSING else re.sub(r"\\(.)", r"\1", piece, flags=re.DOTALL) for piece in pieces)


def node_covers(node: str, value: str, tree: Any) -> bool:
    """Whether a node of a generalization tree lies above a value."""
    if node in (value, "*"):
        return True
    if isinstance(tree, tuple):
        return any(line[0] == value and node in line for line in tree)
    if tree == "prefix":
        return node.endswith("*") and value.startswith(node[:-1])
    if tree == "calendar":
        return node in _calendar_nodes(value)
    return _in_step(node, value)


def run_covers(word: str, value: str, order: Sequence[str]) -> bool:
    """Whether a run such as ``low–high`` of an ordered column contains a value."""
    for place, sign in enumerate(word):
        low, high = word[:place], word[place + 1 :]
        if sign == "–" and low in order and high in order and value in order:
            return order.index(low) <= order.index(value) <= order.index(high)
    return False


def _calendar_nodes(value: str) -> set[str]:
    year, month = int(value[:4]), int(value[5:7])
    quarter, half = (month - 1) // 3 + 1, (month - 1) // 6 + 1
    return {value[:10], value[:7], f"{year} Q{quarter}", f"{year} H{half}", f"{year}", f"{year // 10 * 10}s"}


def _in_step(node: str, value: str) -> bool:
    number = float(value)
    closed = re.fullmatch(r"(-?[\d.e+]+)–(-?[\d.e+]+)", node)
    if closed:
        return float(closed[1]) <= number <= float(closed[2])
    half_open = re.fullmatch(r"\[(\S+), (\S+)\)", node)
    # the ends are shown with 12 digits
    return half_open is not None and float(half_open[1]) * (1 - 1e-11) - 1e-11 <= number <= float(half_open[2]) + 1e-11
