"""Pictures of a release, drawn from the released rows only."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from sfumato.report.style import ACCENT, INK, MUTED, PAPER, SHADES, blank_figure, shade_of, style_axes
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.quantities import quantity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.statistics.estimate import Estimate
    from sfumato.table.table import Table


def boxes(table: Table, x: str, y: str) -> Figure:
    """Draw the boxes of two columns; boxes with more rows per area are darker."""
    intervals = CountedBoxes.of(table, [x, y])
    present = ~np.isnan(intervals.low).any(axis=1)
    low, high, rows = intervals.low[present], intervals.high[present], intervals.count[present]
    span = np.ptp(np.vstack([low, high]), axis=0) if rows.size else np.ones(2)
    area = np.maximum(high - low, np.where(span > 0.0, span, 1.0) / 500.0).prod(axis=1)
    largest_first = np.argsort(-area, kind="stable")
    figure = blank_figure(7.2, 5.0)
    axes = figure.add_axes((0.09, 0.12, 0.87, 0.78))
    collection = PolyCollection(
        list(_corners(low, high)[largest_first]),
        facecolors=ListedColormap(SHADES)(shade_of(rows / area)[largest_first]),
        edgecolors=PAPER,
        linewidths=0.6,
        alpha=0.85,
    )
    axes.add_collection(collection)
    axes.margins(0.03)
    axes.autoscale_view()
    style_axes(axes)
    axes.set_xlabel(x, color=INK, fontsize=11)
    axes.set_ylabel(y, color=INK, fontsize=11)
    axes.set_title(
        f"{int(rows.sum()):,} people in {len(rows):,} boxes; darker boxes hold more people per area",
        loc="left",
        color=MUTED,
        fontsize=10,
        pad=10,
    )
    return figure


def statistics(estimates: Sequence[Estimate], truths: Mapping[str, float] | None = None) -> Figure:
    """Draw each statistic on its own axis: guaranteed and first-order interval, value and, if known, true value."""
    shown = [estimate for estimate in estimates if math.isfinite(estimate.numbers.high - estimate.numbers.low)]
    figure = blank_figure(7.2, 0.9 + 0.62 * max(len(shown), 1))
    top = 1.0 - 0.55 / figure.get_figheight()
    step = (top - 0.25 / figure.get_figheight()) / max(len(shown), 1)
    for position, estimate in enumerate(shown):
        axes = figure.add_axes((0.40, top - (position + 0.72) * step, 0.55, 0.44 * step))
        _interval(axes, estimate, (truths or {}).get(estimate.name))
        name = textwrap.fill(estimate.name, width=34)
        figure.text(0.03, top - (position + 0.5) * step, name, color=INK, fontsize=10, va="center", linespacing=1.25)
    legend = [("guaranteed", SHADES[3], 0.40), ("first order", SHADES[6], 0.54), ("value at midpoints", INK, 0.665)]
    for label, colour, left in legend + ([("true value", ACCENT, 0.865)] if truths else []):
        figure.text(left, 1.0 - 0.3 / figure.get_figheight(), f"● {label}", color=colour, fontsize=9)
    return figure


def png(figure: Figure, *, dots_per_inch: int = 160) -> bytes:
    """Return a figure as PNG, without date and software in its metadata."""
    file = io.BytesIO()
    FigureCanvasAgg(figure).print_figure(file, dpi=dots_per_inch, format="png", metadata={"Software": None})
    return file.getvalue()


def svg(figure: Figure) -> bytes:
    """Return a figure as SVG, without date and creator in its metadata."""
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def _interval(axes: Any, shown: Estimate, truth: float | None) -> None:
    estimate = shown.numbers
    axes.barh(0, estimate.high - estimate.low, left=estimate.low, height=0.62, color=SHADES[2])
    linear = estimate.linear_high - estimate.linear_low
    if math.isfinite(linear):
        axes.barh(0, linear, left=estimate.linear_low, height=0.26, color=SHADES[6])
    axes.plot([estimate.value], [0], "o", color=PAPER, markeredgecolor=INK, markersize=6, markeredgewidth=1.2, zorder=3)
    if isinstance(truth, int | float):
        axes.plot([truth, truth], [-0.62, 0.62], color=ACCENT, linewidth=2.0, zorder=4)
    room = 0.12 * (estimate.high - estimate.low) or 1.0
    axes.set_xlim(estimate.low - room, estimate.high + room)
    axes.set_ylim(-0.7, 0.7)
    axes.set_yticks([])
    axes.set_xticks([estimate.low, estimate.high], [_label(end) for end in (shown.low, shown.high)])
    style_axes(axes)
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_visible(False)


def _label(end: Any) -> str:
    return f"{end:.4g}".replace("-", "−") if isinstance(end, int | float) else quantity(end)


def _corners(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the corners of boxes, shape (boxes, 4, 2)."""
    left, bottom, right, top = low[:, 0], low[:, 1], high[:, 0], high[:, 1]
    around = [[left, bottom], [right, bottom], [right, top], [left, top]]
    return np.array(around).transpose(2, 0, 1).reshape(-1, 4, 2)
