"""The interval of each node of a tree over numbers or dates: the smallest and the largest number that it stands for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import SchemaError
from sfumato.table.exact_numbers import write_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.schema.columns import Column
    from sfumato.schema.hierarchy import Tree

PERIODS = (1, 3, 6, 12, 120)  # months of the levels of a calendar tree: month, quarter, half-year, year, decade
DAY = 86_400_000_000  # in microseconds

Ends = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


def node_ends(column: Column, tree: Tree, values: pa.Array) -> list[Ends]:
    """Return the lower and upper ends of the nodes of each level, in the unit of ``Table.numbers``.

    A step or a calendar period has the ends of its definition; any other node has those of the numbers below it.
    ``values`` are the values of the column. Other leaves of the tree count if they can be read as such a value.
    """
    leaves = _leaf_numbers(column.name, tree, values)
    ends: list[Ends] = [(leaves, leaves)]
    defined = [*_defined_ends(column, tree, leaves, values.type)]
    for level in range(1, tree.levels):
        first_child = np.searchsorted(tree.starts[level - 1][:-1], tree.starts[level][:-1])
        low, high = np.fmin.reduceat(ends[-1][0], first_child), np.fmax.reduceat(ends[-1][1], first_child)
        if level <= len(defined):
            low, high = np.fmin(low, defined[level - 1][0]), np.fmax(high, defined[level - 1][1])
        ends.append((low, high))
    if column.domain is not None:  # every value lies in it, so nothing is lost
        ends[1:] = [(np.maximum(low, column.domain[0]), np.minimum(high, column.domain[1])) for low, high in ends[1:]]
    return ends


def step_widths(column: Column) -> list[float]:
    """Return the widths that a column declares by "steps:" and numbers."""
    try:
        return [float(width) for width in (column.tree or "").partition(":")[2].split(",")]
    except ValueError:
        pass
    raise SchemaError(f"The steps of column {column.name!r} must be numbers.", fix='tree = "steps:5,10,50"')


def _leaf_numbers(name: str, tree: Tree, values: pa.Array) -> NDArray[np.float64]:
    """Return the number of each leaf, NaN if it cannot be read."""
    present = values.drop_null()
    places = pc.index_in(pa.array(tree.leaves, pa.string()), value_set=present.cast(pa.string()))
    numbers = np.full(tree.size, np.nan)
    known = np.flatnonzero(places.is_valid())
    numbers[known] = _as_floats(name, present.take(places.drop_null()))
    for leaf in np.flatnonzero(np.isnan(numbers)):
        try:
            numbers[leaf] = _as_floats(name, pa.array([tree.leaves[leaf]]).cast(values.type))[0]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue  # no cell of the table has this value, so it cannot lie outside the ends of its node
    return numbers


def _as_floats(name: str, values: pa.Array) -> NDArray[np.float64]:
    numbers = np.empty(len(values))
    write_numbers(pa.chunked_array([values]), numbers, name=name)
    return numbers


def _defined_ends(column: Column, tree: Tree, leaves: NDArray[np.float64], kind: pa.DataType) -> Iterator[Ends]:
    """Return the ends of the levels above the leaves that are defined as steps or as calendar periods."""
    method = (column.tree or "").partition(":")[0]
    if method == "steps":
        widths = step_widths(column)
        whole = pt.is_integer(kind) and all(width.is_integer() for width in widths)
        for level, width in enumerate(widths, start=1):
            begin = np.floor(leaves[tree.starts[level][:-1]] / width) * width
            yield begin, begin + width - (1.0 if whole else 0.0)
    elif method == "calendar" and getattr(kind, "tz", None) is None:
        unit, by_day = (DAY, 1) if pt.is_timestamp(kind) else (1, 0)
        if by_day:
            begin = np.floor(leaves[tree.starts[1][:-1]] / unit) * unit
            yield begin, begin + unit - 1.0
        for level, months in enumerate(PERIODS, start=1 + by_day):
            days = np.floor(leaves[tree.starts[level][:-1]] / unit).astype("datetime64[D]")
            yield _period(days, months, unit)


def _period(days: NDArray[np.datetime64], months: int, unit: int) -> Ends:
    """Return the first and the last moment of the periods of so many months that contain these days."""
    since_year_0 = days.astype("datetime64[M]").astype(np.int64) + 1970 * 12
    begin = since_year_0 // months * months - 1970 * 12
    first, after = (month.astype("datetime64[M]").astype("datetime64[D]") for month in (begin, begin + months))
    return first.astype(np.float64) * unit, after.astype(np.float64) * unit - 1.0
