"""Draw ``boxes.png``, the picture of the README: what two 5-anonymous releases of the same patients let one conclude.

The patients are those of ``sfumato demo``. Each person is a line: the released range of the body mass index, at the
progression of the disease, which is released as it is.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from sfumato.job.demo_table import ROLES, diabetes_patients
from sfumato.report.picture import ACCENT, INK, MUTED, PALE, PAPER, blank_figure, style_axes

STATISTIC = "corr(bmi, progression)"
PANELS = {
    "Mondrian": sf.Boxes(k=5, l=2, cut="median", keep=[STATISTIC]),
    f'sfumato, keep "{STATISTIC}"': sf.Boxes(k=5, l=2, keep=[STATISTIC]),
}
LINE = "#91653d"


def draw(path: Path) -> dict[str, sf.Estimate]:
    """Draw the picture and return the estimate of each release."""
    table = diabetes_patients()
    truth = float(np.corrcoef(table.numbers("bmi"), table.numbers("progression"))[0, 1])
    figure = blank_figure(11, 6.1)
    grid = figure.add_gridspec(2, 2, height_ratios=[4, 1], hspace=0.42, wspace=0.16, left=0.07, right=0.98, bottom=0.1)
    estimates = {}
    for place, (name, method) in enumerate(PANELS.items()):
        release = method.release(table, schema=ROLES, seed=1)
        estimates[name] = release.estimate(STATISTIC)
        _people(figure.add_subplot(grid[0, place]), name, release, place)
        _interval(figure.add_subplot(grid[1, place]), estimates[name], truth, place)
    title = "The same 442 patients, 5-anonymous and 2-diverse both times"
    figure.text(0.07, 0.965, title, color=INK, fontsize=14, va="center")
    figure.savefig(path, dpi=110, facecolor=PAPER)
    return estimates


def _people(axes: Any, name: str, release: Any, place: int) -> None:
    style_axes(axes)
    rows = release.table
    low, high, height = rows.numbers("bmi_low"), rows.numbers("bmi_high"), rows.numbers("progression")
    axes.hlines(height, low, high, color=LINE, linewidth=1.4, alpha=0.6)
    axes.plot(low[low == high], height[low == high], ".", color=LINE, markersize=3, alpha=0.7)
    axes.set(xlim=(17, 43), ylim=(15, 355), xlabel="body mass index")
    axes.set_title(name, loc="left", color=INK, fontsize=11.5, pad=6)
    axes.xaxis.label.set(color=MUTED, fontsize=9.5)
    if not place:
        axes.set_ylabel("progression of the disease", color=MUTED, fontsize=9.5)


def _interval(axes: Any, estimate: Any, truth: float, place: int) -> None:
    style_axes(axes)
    axes.spines["left"].set_visible(False)
    axes.set(xlim=(-0.05, 1), ylim=(0, 1), yticks=[])
    axes.hlines(0.35, estimate.low, estimate.high, color=ACCENT, linewidth=9)
    axes.plot([truth], [0.35], "|", color=PAPER, markersize=9, markeredgewidth=2)
    low, high = math.floor(100 * estimate.low) / 100, math.ceil(100 * estimate.high) / 100  # outward: still guaranteed
    words = f"guaranteed {low:.2f} … {high:.2f}"
    axes.text((estimate.low + estimate.high) / 2, 0.72, words, ha="center", color=ACCENT, fontsize=11.5)
    axes.set_xlabel("correlation; the white mark is the true value" if not place else "correlation")
    axes.xaxis.label.set(color=MUTED, fontsize=9.5)
    axes.hlines(0.35, -0.05, 1, color=PALE, linewidth=0.6, zorder=0)


if __name__ == "__main__":
    for panel, found in draw(Path(__file__).parent / "boxes.png").items():
        print(f"{panel}: {found}")
