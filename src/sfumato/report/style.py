"""Colours of all pictures and reports, and figures and axes that use them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

PAPER, INK, MUTED, PALE, ACCENT = "#fbf8f2", "#2b2119", "#8a7a68", "#cbbda8", "#1f5a6b"

# from few rows in a large area to many rows in a small area
SHADES = ("#eee4d3", "#e3d2b6", "#d6bc94", "#c6a271", "#b08454", "#91653d", "#6d4829", "#48301d")


def shade_of(density: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the index in SHADES of each density (above 0): equally many boxes per shade, the densest darkest."""
    _, rank, counts = np.unique(density, return_inverse=True, return_counts=True)
    below = np.cumsum(counts) - counts
    return (below[rank] * len(SHADES) // max(density.size, 1)).astype(np.int64)


def blank_figure(width: float, height: float) -> Figure:
    """Return an empty figure with the common background; sizes in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), facecolor=PAPER)


def png(figure: Figure, *, dots_per_inch: int = 160) -> bytes:
    """Return a figure as PNG, without date and software in its metadata."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    file = io.BytesIO()
    FigureCanvasAgg(figure).print_figure(file, dpi=dots_per_inch, format="png", metadata={"Software": None})
    return file.getvalue()


def style_axes(axes: Any) -> None:
    """Draw only the left and the bottom side of the axes, pale and with small ticks."""
    axes.set_facecolor(PAPER)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(PALE)
    axes.tick_params(colors=MUTED, labelsize=9, length=3)
