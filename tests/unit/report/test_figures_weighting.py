"""The picture of dismissal: both errors, their sum and the shift."""

from __future__ import annotations

from sfumato.report.figures import png
from sfumato.report.figures_weighting import Dismissed, dismissal

CURVE = [
    Dismissed(kept=share, uncertainty=share**2, sampling=0.1 / share, shift=share - 1.0) for share in (0.2, 0.6, 1.0)
]


def test_draws_four_lines_and_where_dismissal_stops():
    figure = dismissal(CURVE, name="mean(x)", best=0.6)
    (axes,) = figure.axes
    heights = [list(line.get_ydata()) for line in axes.lines[:4]]
    assert heights[2] == [one.uncertainty + one.sampling for one in CURVE]
    assert heights[3] == [abs(one.shift) for one in CURVE]
    assert list(axes.lines[4].get_xdata()) == [60.0, 60.0]
    assert axes.get_ylim()[1] > max(heights[2] + heights[3])
    assert png(figure).startswith(b"\x89PNG")
