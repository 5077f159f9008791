"""Released rows as data frames: with the ends of intervals, or with their midpoints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.errors import OptionError, RequestError
from sfumato.params import Flag
from sfumato.table.intervals import Intervals, high_name, interval_names, is_interval, low_name
from sfumato.table.table import Table


def released_columns(
    released: Table, names: Sequence[str], *, midpoints: bool = False, ends: bool | None = None
) -> pa.Table:
    """Return the released columns, each interval as its two ends, as its midpoint ``x``, or as both.

    ``names`` are the columns of the original that the release shows.
    ``ends`` is the opposite of ``midpoints`` by default. All other columns are as they were released.
    """
    with_ends = not midpoints if ends is None else ends
    for name, value in (("midpoints", midpoints), ("ends", with_ends)):
        Flag().check(value, name)
    if not (midpoints or with_ends):
        raise OptionError("Intervals need midpoints, ends or both.", found="neither", fix="midpoints=True")
    if not midpoints:
        return released.arrow
    boxed = [name for name in names if is_interval(name, released.kinds)]
    taken = [name for name in boxed if name in released.kinds]
    if taken:
        raise RequestError(
            f"A midpoint needs the name of its column, but there is a column {taken[0]!r} already.",
            fix="midpoints=False",
        )
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    first = {low_name(name): name for name in boxed}
    hidden = {end for name in boxed for end in interval_names(name)} if not with_ends else set()
    for name in released.names:
        if name in first:
            columns[first[name]] = _midpoints(released, first[name])
        if name not in hidden:
            columns[name] = released.arrow.column(name)
    return pa.table(columns)


def _midpoints(released: Table, name: str) -> pa.Array:
    """Return the centres of intervals: numbers, or dates and times of the type of the ends; missing without an end."""
    middle = Intervals.of(released, name).midpoints
    kind = released.arrow.schema.field(high_name(name)).type
    is_missing = np.isnan(middle)
    if not (pt.is_date(kind) or pt.is_timestamp(kind)):
        return pa.array(middle, mask=is_missing)
    whole = pa.array(np.floor(np.where(is_missing, 0.0, middle)).astype(np.int64), mask=is_missing)
    if pt.is_date(kind):
        return whole.cast(pa.int32()).cast(pa.date32())
    return whole.cast(pa.timestamp("us", tz=kind.tz))
