"""The look of every picture and report: colours, and figures and axes that use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

PAPER, INK, MUTED, PALE, ACCENT = "#fbf8f2", "#2b2119", "#8a7a68", "#cbbda8", "#1f5a6b"

# few rows on much room … many rows on little room
SHADES = ("#eee4d3", "#e3d2b6", "#d6bc94", "#c6a271", "#b08454", "#91653d", "#6d4829", "#48301d")


def shade_of(density: NDArray[np.float64]) -> NDArray[np.int64]:
    """The position in SHADES of each density (above 0): each shade for an equal share of boxes, the densest darkest."""
    _, rank, counts = np.unique(density, return_inverse=True, return_counts=True)
    below = np.cumsum(counts) - counts
    return (below[rank] * len(SHADES) // max(density.size, 1)).astype(np.int64)


def blank_figure(width: float, height: float) -> Figure:
    """An empty figure with the background of all pictures; sizes in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), facecolor=PAPER)


def style_axes(axes: Any) -> None:
    """Give axes two pale sides and small ticks."""
    axes.set_facecolor(PAPER)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(PALE)
    axes.tick_params(colors=MUTED, labelsize=9, length=3)
