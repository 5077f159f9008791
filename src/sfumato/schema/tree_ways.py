"""Suggest a generalization tree for a column: which way fits its kind, and how wide its steps are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import OptionError
from sfumato.schema import suggested_trees, trees
from sfumato.schema.trees import suggested_widths
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from sfumato.schema.hierarchy import Tree
    from sfumato.table.table import Table

WAYS = ("steps", "prefix", "calendar", "frequencies", "values")
USUAL = (0.01, 0.99)  # quantiles between which numbers decide on the widths of steps, so that no outlier does
RARE = (0.01, 0.05, 0.2)  # shares of the rows below which a value is rare, on each level


def usual_way(table: Table, column: str) -> str:
    """Return how values of this kind are usually grouped; codes by their prefixes, as schemas suggest."""
    kind = table.kinds[column]
    fitting = suggested_trees.suggested_tree(kind, table.coded(column).values)
    return fitting or ("steps" if kind.is_numeric else "frequencies")


def suggested_tree(table: Table, column: str, way: str, levels: Sequence[float] = ()) -> Tree:
    """Return a tree of a column, to edit: by steps, prefix, calendar, frequencies or values.

    ``levels`` are widths of steps, or numbers of rows below which values are rare; chosen if there are none.
    """
    _require_fit(table, column, way)
    coded = table.coded(column)
    values = coded.values.drop_null()
    if not len(values):
        raise OptionError(f"Column {column!r} must have values.", found="missing values only")
    if way == "steps":
        _require_finite(column, values)
        given = levels or _widths(table.numbers(column), table.kinds[column] is Kind.WHOLE)
        return trees.step_tree(values, given)
    if way == "frequencies":
        rows = np.bincount(coded.codes)[: len(values)]  # the missing value comes last
        usual = sorted({max(2, round(share * table.rows)) for share in RARE})
        return trees.frequency_tree(values, rows.tolist(), [int(level) for level in levels] or usual)
    if levels:
        raise OptionError(f"--levels are for steps and frequencies, not for {way}.", fix="leave them out")
    return {"prefix": trees.prefix_tree, "calendar": trees.calendar_tree, "values": trees.value_tree}[way](values)


def _require_finite(column: str, values: pa.Array) -> None:
    """Raise if a number is infinite: no step contains it."""
    infinite = int(pc.sum(pc.is_inf(values)).as_py() or 0) if pt.is_floating(values.type) else 0
    if infinite:
        raise OptionError(
            f"Every number in column {column!r} must be finite.",
            found=f"{infinite} infinite values",
            fix="make them missing, or another way, such as --by values",
        )


def _require_fit(table: Table, column: str, way: str) -> None:
    """Raise if the way is for numbers or dates, and the column has none."""
    kind = table.kinds[column]
    needed = "dates" if way == "calendar" else "numbers"
    if (way == "calendar" and kind is not Kind.DATE) or (way == "steps" and kind not in (Kind.CONTINUOUS, Kind.WHOLE)):
        usual = usual_way(table, column)
        fix = "--by frequencies, or --by prefix for codes" if usual == "frequencies" else f"--by {usual}"
        raise OptionError(f"A tree by {way} is for {needed}.", found=f"column {column!r} of kind {kind}", fix=fix)


def _widths(numbers: object, whole: bool) -> Sequence[float]:
    known = np.asarray(numbers, dtype=float)
    known = known[~np.isnan(known)]
    if not known.size:
        return ()
    low, high = np.quantile(known, USUAL)
    return suggested_widths(float(low), float(high), whole=whole)
