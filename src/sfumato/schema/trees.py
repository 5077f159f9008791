"""Generalization trees that are computed, not read from a file, and which of them fits a column.

Numbers are grouped in steps, dates by the calendar, codes by their prefixes, and other values by their frequency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.errors import SchemaError
from sfumato.schema.columns import Column
from sfumato.schema.hierarchy import ROOT, Tree
from sfumato.schema.tree_ends import step_widths

if TYPE_CHECKING:
    from numpy.typing import NDArray


def tree_for(column: Column, values: pa.Array) -> Tree | None:
    """Return the tree that a column declares, over its distinct values; None if it declares none.

    ``column.tree`` is the path of a file, "calendar" for dates, "prefix" for postal codes and similar codes, or
    "steps:" and widths for numbers, such as "steps:5,10,50".
    """
    method = (column.tree or "").partition(":")[0]
    if not method:
        return None
    present = values.drop_null()
    if method == "calendar":
        return calendar_tree(present)
    if method == "prefix":
        return prefix_tree(present)
    if method == "steps":
        return step_tree(present, step_widths(column))
    return Tree.read(column.tree or "")


def step_tree(values: pa.Array, widths: Sequence[float]) -> Tree:
    """Group numbers into steps that begin at multiples of their width; each width is a multiple of the previous one."""
    if not widths or not widths[0] > 0 or any(not _divides(a, b) for a, b in pairwise(widths)):
        raise SchemaError(
            "The widths of steps must increase, each a multiple of the one before it.",
            found=f"{len(widths)} widths that do not",
            fix="widths such as 5,10,50",
        )
    if not (pt.is_integer(values.type) or pt.is_floating(values.type) or pt.is_decimal(values.type)):
        raise SchemaError("A tree of steps is for numbers.", found=f"type {values.type}")
    numbers: NDArray[np.float64] = values.cast(pa.float64()).to_numpy()
    whole = pt.is_integer(values.type) and all(float(width).is_integer() for width in widths)
    order = np.argsort(numbers, kind="stable")
    steps = np.floor(numbers[order] / widths[0])
    levels = []
    for number, width in enumerate(widths):
        if number:  # from the step below, not from the number, so that rounding never gives a step two parents
            steps = np.floor(steps / round(width / widths[number - 1]))
        levels.append(_step_names(steps, width, whole=whole))
    return _with_root([values.take(pa.array(order)).cast(pa.string()).to_pylist(), *levels])


def calendar_tree(values: pa.Array) -> Tree:
    """Group dates by day (for timestamps), month, quarter, half-year, year and decade."""
    if not (pt.is_date(values.type) or pt.is_timestamp(values.type)):
        raise SchemaError("A calendar tree is for dates.", found=f"type {values.type}")
    values = values.sort()
    days = values.cast(pa.timestamp("us"), safe=False).to_numpy().astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    years = days.astype("datetime64[Y]").astype(np.int64) + 1970
    month = months.astype(np.int64) % 12
    dates = [days.astype(str).tolist()] if pt.is_timestamp(values.type) else []
    return _with_root(
        [
            values.cast(pa.string()).to_pylist(),
            *dates,
            months.astype(str).tolist(),
            [f"{year} Q{quarter}" for year, quarter in zip(years, month // 3 + 1, strict=True)],
            [f"{year} H{half}" for year, half in zip(years, month // 6 + 1, strict=True)],
            [str(year) for year in years],
            [f"{decade}s" for decade in years // 10 * 10],
        ]
    )


def prefix_tree(values: pa.Array) -> Tree:
    """Group codes by ever shorter prefixes; codes that were read as numbers are padded with leading zeros."""
    texts = values.cast(pa.string()).to_pylist()
    longest = max(map(len, texts), default=0)
    codes = [text.zfill(longest) for text in texts] if pt.is_integer(values.type) else texts
    order = sorted(range(len(texts)), key=lambda position: codes[position])
    prefixes = [[codes[position][:kept] + ROOT for position in order] for kept in range(longest - 1, 0, -1)]
    return _with_root([[texts[position] for position in order], *prefixes])


def frequency_tree(values: pa.Array, rows: Sequence[int], thresholds: Sequence[int]) -> Tree:
    """Merge rare values: level by level, all values that fewer rows have than the next threshold become one node.

    ``rows`` are the rows that have each value. Values are ordered by their frequency, the most frequent first.
    """
    if not thresholds or thresholds[0] < 1 or any(a >= b for a, b in pairwise(thresholds)):
        raise SchemaError("The thresholds of frequencies must increase.", found=f"{len(thresholds)} thresholds")
    texts = values.cast(pa.string()).to_pylist()
    order = sorted(range(len(texts)), key=lambda position: -rows[position])
    levels = [
        [texts[position] if rows[position] >= least else f"(fewer than {least:,} rows)" for position in order]
        for least in thresholds
    ]
    return _with_root([[texts[position] for position in order], *levels])


def value_tree(values: pa.Array) -> Tree:
    """Put every value into a group of its own, to be edited: the second column of the file is the group."""
    texts = values.sort().cast(pa.string()).to_pylist()
    return _with_root([texts, texts])


def suggested_widths(low: float, high: float, *, whole: bool) -> tuple[float, ...]:
    """Return four widths of steps for numbers from low to high: the first is a sixteenth of the range, rounded up.

    >>> suggested_widths(18, 85, whole=True)
    (5, 10, 20, 40)
    """
    least = max((high - low) / 16.0, 1.0 if whole else 1e-12)
    power = 10.0 ** math.floor(math.log10(least))
    first = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= least * (1.0 - 1e-9))
    return tuple(int(first * factor) if whole else first * factor for factor in (1, 2, 4, 8))


def _with_root(levels: list[list[str]]) -> Tree:
    return Tree.of([(*line, ROOT) for line in zip(*levels, strict=True)])


def _divides(step: float, wider: float) -> bool:
    ratio = wider / step
    return ratio > 1 and math.isclose(ratio, round(ratio), rel_tol=1e-9)


def _step_names(steps: NDArray[np.float64], width: float, *, whole: bool) -> list[str]:
    """Name steps: first and last number for whole numbers, half-open intervals for others."""
    if whole:
        return [f"{int(step * width)}–{int((step + 1) * width) - 1}" for step in steps]
    return [f"[{step * width:.12g}, {(step + 1) * width:.12g})" for step in steps]
