"""Suggest generalization trees: which kind of tree fits a column, and how wide its steps are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import OptionError
from sfumato.schema.suggested_trees import suggest_tree_kind
from sfumato.schema.trees import calendar_tree, frequency_tree, prefix_tree, step_tree, suggested_widths, value_tree
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from sfumato.schema.hierarchy import Tree
    from sfumato.table.table import Table

WAYS = ("steps", "prefix", "calendar", "frequencies", "values")
USUAL_NUMBERS = (0.01, 0.99)  # quantiles between which numbers decide on the widths of steps, so that no outlier does
RARE = (0.01, 0.05, 0.2)  # shares of the rows below which a value is rare, on each level


def usual_way(table: Table, column: str) -> str:
    """Return how values of this kind are usually grouped; codes by their prefixes, as schemas suggest."""
    kind = table.kinds[column]
    fitting = suggest_tree_kind(kind, table.coded(column).values)
    return fitting or ("steps" if kind.is_numeric else "frequencies")


def suggested_tree(table: Table, column: str, kind: str, levels: Sequence[float] = ()) -> Tree:
    """Return a tree of a column, to edit: by steps, prefix, calendar, frequencies or values.

    ``levels`` are widths of steps, or numbers of rows below which values are rare; chosen if there are none.
    """
    _require_fitting_kind(table, column, kind)
    coded = table.coded(column)
    values = coded.values.drop_null()
    if not len(values):
        raise OptionError(f"Column {column!r} must have values.", found="missing values only")
    if kind == "steps":
        _require_finite(column, values)
        given = levels or _choose_widths(table.numbers(column), table.kinds[column] is Kind.WHOLE)
        return step_tree(values, given)
    if kind == "frequencies":
        rows = np.bincount(coded.codes)[: len(values)]  # the missing value comes last
        usual = sorted({max(2, round(share * table.rows)) for share in RARE})
        return frequency_tree(values, rows.tolist(), [int(level) for level in levels] or usual)
    if levels:
        raise OptionError(f"--levels are for steps and frequencies, not for {kind}.", fix="leave them out")
    return {"prefix": prefix_tree, "calendar": calendar_tree, "values": value_tree}[kind](values)


def _require_finite(column: str, values: pa.Array) -> None:
    """Raise if a number is infinite: no step contains it."""
    infinite = int(pc.sum(pc.is_inf(values)).as_py() or 0) if pt.is_floating(values.type) else 0
    if infinite:
        raise OptionError(
            f"Every number in column {column!r} must be finite.",
            found=f"{infinite} infinite values",
            fix="make them missing, or another way, such as --by values",
        )


def _require_fitting_kind(table: Table, column: str, by: str) -> None:
    """Raise if a tree by steps or by the calendar is asked for, and the column has no numbers or dates."""
    kind = table.kinds[column]
    needed = "dates" if by == "calendar" else "numbers"
    if (by == "calendar" and kind is not Kind.DATE) or (by == "steps" and kind not in (Kind.CONTINUOUS, Kind.WHOLE)):
        usual = usual_way(table, column)
        fix = "--by frequencies, or --by prefix for codes" if usual == "frequencies" else f"--by {usual}"
        raise OptionError(f"A tree by {by} is for {needed}.", found=f"column {column!r} of kind {kind}", fix=fix)


def _choose_widths(numbers: object, whole: bool) -> Sequence[float]:
    known = np.asarray(numbers, dtype=float)
    known = known[~np.isnan(known)]
    if not known.size:
        return ()
    low, high = np.quantile(known, USUAL_NUMBERS)
    return suggested_widths(float(low), float(high), whole=whole)
