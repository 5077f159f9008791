"""Generalization trees that are computed, not read from a file, and which of them fits a column.

Numbers are grouped in steps, dates by the calendar, codes by their prefixes, and other values by their frequency.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.errors import OptionError, SchemaError
from sfumato.schema.columns import Column, Role
from sfumato.schema.hierarchies import ROOT, Tree, step_widths
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from sfumato.schema.schema import Schema


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


def suggest_widths(low: float, high: float, *, whole: bool) -> tuple[float, ...]:
    """Return four widths of steps for numbers from low to high: the first is a sixteenth of the range, rounded up.

    >>> suggest_widths(18, 85, whole=True)
    (5, 10, 20, 40)
    """
    least = max(min(high - low, sys.float_info.max) / 16.0, 1.0 if whole else 1e-12)
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


# 01067, E11.9, M54.16, S72.00XA: digits, or letters and digits, without a space
CODE = r"^(\d{3,10}|[A-Za-z]{1,3}\d{2,8}([.-][A-Za-z0-9]{1,5})?)$"
NEARLY_ALL = 0.95  # share of the values that must be codes
FEWEST = 8  # values; fewer need no groups
SHARED = 0.5  # values per prefix: some length of prefix must leave at most this share of the values distinct


def suggest_tree_kind(kind: Kind, values: pa.Array) -> str | None:
    """Return the tree that fits the distinct values of a column, as a schema file names it; None if there is none.

    >>> codes = pa.array(["01067", "01069", "01099", "04103", "04105", "04109", "10115", "10117"])
    >>> suggest_tree_kind(Kind.NOMINAL, codes)
    'prefix'
    """
    if kind is Kind.DATE:
        return "calendar"
    present = values.drop_null()
    if kind is not Kind.NOMINAL or not pa.types.is_string(present.type) or len(present) < FEWEST:
        return None
    if pc.mean(pc.match_substring_regex(present, CODE).cast(pa.float64())).as_py() < NEARLY_ALL:
        return None
    return "prefix" if _share_prefixes(present) else None


def add_suggested_trees(schema: Schema, sample: Table) -> Schema:
    """Return the schema with a tree for each quasi-identifier that has none and that one fits."""
    return type(schema)(tuple(_add_tree(column, sample) for column in schema.columns))


def _add_tree(column: Column, sample: Table) -> Column:
    if column.role is not Role.QUASI or column.tree:
        return column
    kind = column.kind or sample.kinds[column.name]
    if kind not in (Kind.DATE, Kind.NOMINAL):
        return column
    return replace(column, tree=suggest_tree_kind(kind, sample.coded(column.name).values))


def _share_prefixes(values: pa.Array) -> bool:
    """Return whether some prefixes stand for several values, but not one for all."""
    longest = int(pc.max(pc.utf8_length(values)).as_py())
    counts = [len(pc.unique(pc.utf8_slice_codeunits(values, 0, kept))) for kept in range(1, longest)]
    return any(1 < count <= SHARED * len(values) for count in counts)


TREE_KINDS = ("steps", "prefix", "calendar", "frequencies", "values")
USUAL_NUMBERS = (0.01, 0.99)  # quantiles between which numbers decide on the widths of steps, so that no outlier does
RARE = (0.01, 0.05, 0.2)  # shares of the rows below which a value is rare, on each level


@dataclass(frozen=True, repr=False)
class CountedValues:
    """The different values of a column, and how many rows have each; missing cells are left out."""

    column: str
    kind: Kind
    values: pa.Array  # sorted
    rows: NDArray[np.int64]
    table_rows: int  # with those whose cell is missing

    @property
    def usual_kind(self) -> str:
        """How values of this kind are usually grouped; codes by their prefixes, as schemas suggest."""
        fitting = suggest_tree_kind(self.kind, self.values)
        return fitting or ("steps" if self.kind.is_numeric else "frequencies")

    def usual_widths(self) -> Sequence[float]:
        """Choose the widths of steps by where most rows are."""
        numbers = Table(pa.table({self.column: self.values}), {self.column: self.kind}).numbers(self.column)
        low, high = np.quantile(numbers, USUAL_NUMBERS, weights=self.rows, method="inverted_cdf")
        return suggest_widths(float(low), float(high), whole=self.kind is Kind.WHOLE)


def build_tree(column: CountedValues, kind: str, levels: Sequence[float] = ()) -> Tree:
    """Return a tree of a column, to edit: by steps, prefix, calendar, frequencies or values.

    ``levels`` are widths of steps, or numbers of rows below which values are rare; chosen if there are none.
    """
    _require_fitting_kind(column, kind)
    if not len(column.values):
        raise OptionError(f"Column {column.column!r} must have values.", found="missing values only")
    if kind == "steps":
        _require_finite(column)
        return step_tree(column.values, levels or column.usual_widths())
    if kind == "frequencies":
        usual = sorted({max(2, round(share * column.table_rows)) for share in RARE})
        return frequency_tree(column.values, column.rows.tolist(), [int(level) for level in levels] or usual)
    if levels:
        raise OptionError(f"--levels are for steps and frequencies, not for {kind}.", fix="leave them out")
    return {"prefix": prefix_tree, "calendar": calendar_tree, "values": value_tree}[kind](column.values)


def _require_finite(column: CountedValues) -> None:
    """Raise if a number is infinite: no step contains it."""
    infinite = int(pc.sum(pc.is_inf(column.values)).as_py() or 0) if pt.is_floating(column.values.type) else 0
    if infinite:
        raise OptionError(
            f"Every number in column {column.column!r} must be finite.",
            found=f"{infinite} infinite values",
            fix="make them missing, or another way, such as --by values",
        )


def _require_fitting_kind(column: CountedValues, by: str) -> None:
    """Raise if a tree by steps or by the calendar is asked for, and the column has no numbers or dates."""
    kind, needed = column.kind, "dates" if by == "calendar" else "numbers"
    if (by == "calendar" and kind is not Kind.DATE) or (by == "steps" and kind not in (Kind.CONTINUOUS, Kind.WHOLE)):
        usual = column.usual_kind
        fix = "--by frequencies, or --by prefix for codes" if usual == "frequencies" else f"--by {usual}"
        raise OptionError(f"A tree by {by} is for {needed}.", found=f"column {column.column!r} of kind {kind}", fix=fix)
