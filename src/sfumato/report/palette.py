"""The colours of every picture: ink on paper, from mist to umber."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAPER, INK, MUTED, ACCENT = "#fbf8f2", "#2b2119", "#8a7a68", "#1f5a6b"

# few rows on much room … many rows on little room
SHADES = ("#eee4d3", "#e3d2b6", "#d6bc94", "#c6a271", "#b08454", "#91653d", "#6d4829", "#48301d")


def shade_of(density: NDArray[np.float64]) -> NDArray[np.int64]:
    """The position in SHADES of each density (above 0): equal shares of boxes a shade, the densest the darkest."""
    _, rank, counts = np.unique(density, return_inverse=True, return_counts=True)
    below = np.cumsum(counts) - counts
    return (below[rank] * len(SHADES) // max(density.size, 1)).astype(np.int64)
