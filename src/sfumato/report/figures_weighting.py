"""The price of leaving records out: what the papers' error gains, and how far the statistic moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.report.palette import ACCENT, INK, MUTED, SHADES
from sfumato.report.paper import paper, quiet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Dismissed:
    """A statistic of the records that are kept, those in wide boxes being left out first."""

    kept: float  # share of the records, from 0 to 1
    uncertainty: float  # of the boxes, in the unit of the statistic
    sampling: float
    shift: float  # against all records


def dismissal(curve: Sequence[Dismissed], *, name: str, best: float) -> Figure:
    """Both errors, their sum and the shift against the share of records kept; ``best`` is the papers' choice."""
    figure = paper(8.0, 4.4)
    axes = figure.add_axes((0.08, 0.14, 0.60, 0.74))
    kept = [100.0 * one.kept for one in curve]
    lines = [
        ("uncertainty of the boxes", [one.uncertainty for one in curve], SHADES[4], 1.4),
        ("sampling error", [one.sampling for one in curve], MUTED, 1.4),
        ("their sum: what is minimised", [one.uncertainty + one.sampling for one in curve], INK, 2.2),
        ("shift: what nobody minimises", [abs(one.shift) for one in curve], ACCENT, 2.2),
    ]
    highest = max(max(values) for _, values, _, _ in lines[2:])
    for place, (word, values, colour, width) in enumerate(lines):
        axes.plot(kept, values, color=colour, linewidth=width)
        figure.text(0.70, 0.80 - 0.085 * place, word, color=colour, fontsize=9.5, va="center")
    axes.axvline(100.0 * best, color=MUTED, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.text(100.0 * best - 1.0, highest * 1.06, "kept by dismissal", color=MUTED, fontsize=9, ha="right")
    axes.set_ylim(0.0, highest * 1.12)
    axes.set_xlim(min(kept), 100.4)
    quiet(axes)
    axes.set_xlabel("records kept, narrowest boxes first (%)", color=INK, fontsize=10)
    axes.set_title(name, loc="left", color=MUTED, fontsize=10, pad=10)
    return figure
