"""What every picture is drawn on: warm paper, and axes that do not speak."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from sfumato.report.palette import MUTED, PAPER


def paper(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    return Figure(figsize=(width, height), facecolor=PAPER)


def quiet(axes: Any) -> None:
    """Axes with two pale sides and small ticks."""
    axes.set_facecolor(PAPER)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#cbbda8")
    axes.tick_params(colors=MUTED, labelsize=9, length=3)
