"""The HTML report of a release: one self-contained page that loads no other file."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np
import pyarrow.compute as pc

from sfumato.report.style import INK, PAPER, SHADES, shade_of
from sfumato.report.summary import NOT_PROMISED, Summary, privacy_first, summarize, treatment
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.quantities import COUNT, DAYS, SQUARE_DAYS, quantity
from sfumato.table.intervals import high_name, low_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.release.release import Release
    from sfumato.statistics.estimate import Estimate
    from sfumato.table.table import Table

MOST_BOXES = 4000  # in the picture, so that the page stays small
WIDTH, HEIGHT = 1200, 800  # of the picture, in its own units


@dataclass(frozen=True, kw_only=True)
class Picture:
    """The boxes of two columns as SVG paths, one path per shade, the lightest first."""

    x: str
    y: str
    paths: tuple[tuple[str, str], ...]  # colour, path
    x_ends: tuple[str, str]
    y_ends: tuple[str, str]
    drawn: int
    boxes: int


@dataclass(frozen=True, kw_only=True)
class Bar:
    """Positions of the value and the first-order interval in the guaranteed interval, from 0 to 1."""

    linear_low: float
    linear_high: float
    value: float

    @classmethod
    def of(cls, estimate: Estimate) -> Bar | None:
        """Return the bar, or None if the guaranteed interval has no width or is infinite."""
        estimate = estimate.numbers
        width = estimate.high - estimate.low
        if not (math.isfinite(width) and width > 0.0 and math.isfinite(estimate.value)):
            return None
        ends = (estimate.linear_low, estimate.linear_high, estimate.value)
        low, high, value = (min(max((end - estimate.low) / width, 0.0), 1.0) for end in ends)
        return cls(linear_low=low, linear_high=high, value=value)


def render(release: Release, summary: Summary | None = None) -> str:
    """Render the page from the released rows and the manifest; ``summary`` if it has been computed already."""
    shown = summary or summarize(release)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sfumato.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(quantity=_quantity, count=lambda value: f"{value:,}", listed=listed)
    manifest = release.manifest
    return environment.get_template("release.html.j2").render(
        manifest=manifest,
        rows=release.table.rows,
        findings=privacy_first(release.findings),
        promises_privacy=any(finding.kind == "privacy" for finding in release.findings),
        not_promised=NOT_PROMISED,
        assessment=release.assessment,
        treatments=[(column, treatment(column, manifest)) for column in manifest.columns] if manifest else [],
        estimates=[(estimate, Bar.of(estimate)) for estimate in shown.estimates],
        usefulness=shown.usefulness,
        picture=draw(release.table, *shown.pictured) if shown.pictured else None,
        ink=INK,
        paper=PAPER,
        shades=SHADES,
        width=WIDTH,
        height=HEIGHT,
    )


def listed(value: object) -> str:
    """Return lists and mappings of a manifest as text, without the signs of a program."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {listed(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(listed, value)) or "none"
    return "none" if value is None else str(value)


def number(value: float) -> str:
    """Return a number with six digits, or "not defined"."""
    if math.isnan(value):
        return "not defined"
    return f"{value:.6g}".replace("inf", "∞").replace("-", "−")


def _quantity(value: Any, unit: str) -> str:
    """Return a date or a count as text, and any other number with six digits."""
    if isinstance(value, datetime.date) or (unit == COUNT and math.isfinite(value)):
        return quantity(value, unit)
    return number(value) + (f" {unit}" if unit in (DAYS, SQUARE_DAYS) else "")


def draw(table: Table, x: str, y: str) -> Picture | None:
    """Draw the boxes of two columns, denser boxes darker; return None if no row has values in both columns."""
    intervals = CountedBoxes.of(table, [x, y])
    present = ~np.isnan(intervals.low).any(axis=1)
    low, high, rows = intervals.low[present], intervals.high[present], intervals.count[present]
    if not rows.size:
        return None
    start, end = low.min(axis=0), high.max(axis=0)
    scale = np.array([WIDTH, HEIGHT]) / np.where(end > start, end - start, 1.0)
    left_top = np.rint((low - start) * scale).astype(np.int64)
    size = np.maximum(np.rint((high - low) * scale), 1).astype(np.int64)
    left_top[:, 1] = HEIGHT - left_top[:, 1] - size[:, 1]
    every = -(-rows.size // MOST_BOXES)
    shade = shade_of(rows / size.prod(axis=1))
    chosen = np.argsort(-size.prod(axis=1), kind="stable")[::every]  # large ones first, so that small ones stay visible
    return Picture(
        x=x,
        y=y,
        paths=_paths(left_top[chosen], size[chosen], shade[chosen]),
        x_ends=_ends(table, x),
        y_ends=_ends(table, y),
        drawn=int(chosen.size),
        boxes=int(rows.size),
    )


def _paths(
    left_top: NDArray[np.int64], size: NDArray[np.int64], shade: NDArray[np.int64]
) -> tuple[tuple[str, str], ...]:
    made = []
    for position, colour in enumerate(SHADES):
        mine = shade == position
        corners = np.column_stack([left_top[mine], size[mine]]).tolist()
        if corners:
            made.append((colour, "".join(f"M{x} {y}h{w}v{h}h-{w}z" for x, y, w, h in corners)))
    return tuple(made)


def _ends(table: Table, name: str) -> tuple[str, str]:
    """Return the ends of an axis as text; dates are written as dates."""
    low = pc.min(table.arrow.column(low_name(name))).as_py()
    high = pc.max(table.arrow.column(high_name(name))).as_py()
    first, last = (number(end) if isinstance(end, int | float) else str(end)[:10] for end in (low, high))
    return first, last
