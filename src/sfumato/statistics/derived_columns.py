"""Columns that are computed from others: products, ratios and increasing functions, with the intervals of the boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StatisticError
from sfumato.statistics.conditions import Derived
from sfumato.statistics.counted_boxes import CountedBoxes

Array = NDArray[np.float64]
INCREASING: dict[str, Callable[[Array], Array]] = {
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sqrt": np.sqrt,
    "exp": np.exp,
}


def add_derived(table: CountedBoxes, names: Iterable[str]) -> CountedBoxes:
    """Return the table with the derived columns among these names."""
    for name in names:
        if isinstance(name, Derived) and name not in table.names:
            table = _add(add_derived(table, name.operands), name)
    return table


def _add(table: CountedBoxes, name: Derived) -> CountedBoxes:
    operands = [table.numbers(operand) for operand in name.operands]
    if any(operand.calendar for operand in operands):
        raise StatisticError(f"{name} must be computed from numbers.", found="a column of dates")
    low, high = _ends(name, [(operand.low, operand.high) for operand in operands])
    if np.isinf(low).any() or np.isinf(high).any():
        raise StatisticError(f"{name} must be finite.", found="numbers that are too large", fix="a larger unit")
    missing = np.max([operand.missing for operand in operands], axis=0)
    most = np.minimum(np.sum([operand.missing_most for operand in operands], axis=0), table.box_rows)
    return replace(
        table,
        names=(*table.names, name),
        low=np.column_stack([table.low, low]),
        high=np.column_stack([table.high, high]),
        missing=np.column_stack([table.missing, missing]),
        missing_most=np.column_stack([table.missing_most, most]),
    )


def _ends(name: Derived, ends: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the ends of the intervals of a derived column."""
    (low, high) = ends[0]
    if name.function in INCREASING:
        if name.function != "exp" and (low < 0.0 if name.function == "sqrt" else low <= 0.0).any():
            raise StatisticError(
                f"{name} needs values above 0.",
                found="a value that is, or may be, 0 or less",
                fix="a column that is above 0 in every box",
            )
        with np.errstate(over="ignore"):
            start, end = INCREASING[name.function](low), INCREASING[name.function](high)
        return np.where(low == high, start, np.nextafter(start, -np.inf)), np.where(
            low == high, end, np.nextafter(end, np.inf)
        )
    other_low, other_high = ends[1]
    if name.function == "/" and ((other_low <= 0.0) & (other_high >= 0.0)).any():
        raise StatisticError(f"{name} needs a divisor other than 0.", found="a value that is, or may be, 0")
    if name.function == "*" and name.operands[0] == name.operands[1]:
        squares = np.sort(np.stack([low * low, high * high]), axis=0)
        return np.where((low < 0.0) & (high > 0.0), 0.0, squares[0]), squares[1]
    apply = np.multiply if name.function == "*" else np.divide
    corners = np.stack([apply(one, other) for one in (low, high) for other in (other_low, other_high)])
    return corners.min(axis=0), corners.max(axis=0)
