"""What a release will cost, found by a release of some of the rows.

Groups of k of n rows cover as much of a table as groups of k m / n of m sampled rows. The widths of intervals grow as
(k / n)^(1/d) with d protected columns, which corrects for the rounding of k m / n; time grows as n log n.
"""

from __future__ import annotations

import datetime
import logging
import math
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sfumato.assessment import draw_rows
from sfumato.engines.stored.memory import CELL, COPIES, OWN
from sfumato.errors import SfumatoError
from sfumato.methods.registry import make_method
from sfumato.randomness import Randomness
from sfumato.recommendation.records import Cost, ExpectedWidth
from sfumato.report.summary import shown_estimates
from sfumato.report.widths import shown_statistics
from sfumato.schema.columns import Role
from sfumato.schema.schema import FittedTable, Schema
from sfumato.statistics.dates import MICROSECONDS_PER_DAY

if TYPE_CHECKING:
    from sfumato.release.release import Release
    from sfumato.table.table import Table

TRIED, WARM = 4000, 200  # rows of the trial, and of a first one that compiles kernels
LEAST_K = 2


def expected_cost(method: str, options: Mapping[str, Any], sample: Table, schema: Schema, rows: int) -> Cost:
    """Release a random part of a sample of the table, and scale what it takes to all rows."""
    memory = OWN + rows * len(schema.columns) * CELL * COPIES
    tried = draw_rows(sample, TRIED, Randomness().stream("cost"))
    k = max(LEAST_K, round(options["k"] * tried.rows / rows))
    smaller = dict(options) | {"k": k} | ({"l": min(options["l"], k)} if "l" in options else {})
    try:
        _try_release(method, smaller, draw_rows(tried, WARM, Randomness().stream("warm")), schema)
        start = time.perf_counter()
        release = _try_release(method, smaller, tried, schema)
        seconds = time.perf_counter() - start
    except SfumatoError as error:
        if tried.rows == rows:
            raise
        note = f"widths and time are not known: {error.message}"
        return Cost(seconds=math.nan, memory=memory, widths=(), tried_rows=0, note=note)
    growth = rows * math.log(rows + 1.0) / (tried.rows * math.log(tried.rows + 1.0))
    scale = (options["k"] / rows * tried.rows / k) ** (1.0 / max(len(schema.names(Role.QUASI)), 1))
    whole = tried.rows == rows
    note = "from a release of all rows" if whole else f"from a release of {tried.rows:,} rows"
    return Cost(
        seconds=round(seconds * growth, 3),
        memory=memory,
        widths=_widths(release, scale),
        tried_rows=tried.rows,
        note=note,
    )


def _try_release(method: str, options: Mapping[str, Any], table: Table, schema: Schema) -> Release:
    log = logging.getLogger("sfumato")
    level = log.level
    log.setLevel(logging.WARNING)  # the trial is not the release that was asked for, so its steps are not shown
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make_method(method, **options).release(FittedTable(table, schema), engine="memory")
    finally:
        log.setLevel(level)


def _widths(release: Release, scale: float) -> tuple[ExpectedWidth, ...]:
    """Return the widths of the intervals of kept statistics, or else of means."""
    widths = []
    for one in shown_statistics(release, shown_estimates(release)):
        estimate, share = one.estimate, None if one.width is None else one.width * scale
        width = (estimate.numbers.high - estimate.numbers.low) * scale
        if not math.isfinite(width):
            continue
        if isinstance(estimate.high, datetime.datetime):  # whose numbers are microseconds
            width /= MICROSECONDS_PER_DAY
        unit = "days" if estimate.unit == "date" else ""
        widths.append(ExpectedWidth(statistic=estimate.name, width=width, share=share, unit=unit))
    return tuple(widths)
