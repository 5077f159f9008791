"""Pictures of an assessment: privacy compared with the reference, correct and wrong matches, kernel components.

They show people of the original, so they are as confidential as the original and are never part of a release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.report.picture import ACCENT, INK, MUTED, PALE, PAPER, SHADES, blank_figure, style_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from sfumato.kernels.prediction import Prediction
    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.measures.privacy.linkage import Linkage
    from sfumato.measures.utility.kernel_components import ComponentTest

BRICK = "#a8402c"
LINES = (ACCENT, "#b07a3e", BRICK, "#7d8f69", "#6a4c6b")  # one per release in a picture
MEASURES = {
    "distance": "prediction distance",
    "ambiguity": "prediction ambiguity",
    "uncertainty": "prediction uncertainty",
}


@dataclass(frozen=True, repr=False)
class Pictures:
    """Pictures of a release and its original."""

    privacy: Figure
    components: Figure | None  # None if all columns of the original are constant


def pictures(subject: MeasuredRelease, *, name: str = "release") -> Pictures:
    """Compute and draw all pictures; ``name`` is the name of the release in the legends."""
    from sfumato.measures.privacy.prediction import people_of
    from sfumato.measures.privacy.reference import reference_prediction
    from sfumato.measures.utility.kernel_components import KernelComponents, component_tests

    generator = subject.generator("kernel components")
    kernel = KernelComponents.of(subject.original_matrix, generator=generator)
    tests = component_tests(kernel, subject.original_matrix, subject.released_matrix, generator)
    before, after = kernel.project(subject.original_matrix), kernel.project(subject.released_matrix)
    return Pictures(
        privacy=distributions({name: people_of(subject).released}, reference_prediction(subject)),
        components=components(before, after, tests, name=name) if tests else None,
    )


def distributions(releases: Mapping[str, Prediction], reference: Prediction) -> Figure:
    """Draw cumulative distributions of the three measures; releases to the right of the reference are more private."""
    figure = blank_figure(11.0, 4.1)
    panels = figure.subplots(1, 3, sharey=True)
    figure.subplots_adjust(left=0.065, right=0.985, bottom=0.15, top=0.8, wspace=0.08)
    for axes, (name, label) in zip(panels, MEASURES.items(), strict=True):
        theirs = np.sort(getattr(reference, name))
        shown = [getattr(one, name) for one in (*releases.values(), reference)]
        left = min(float(np.quantile(numbers, 0.002)) for numbers in shown)
        right = max(float(np.quantile(numbers, 0.99)) for numbers in shown)
        wide = max(right - left, 1e-6)  # a measure may be equal for all people
        left, right = left - 0.04 * wide, right + 0.02 * wide
        steps = np.concatenate([[left - 1.0], theirs, [right + 1.0]])
        heights = np.concatenate([[0.0], np.arange(1, len(theirs) + 1) / len(theirs), [1.0]])
        axes.fill_between(steps, heights, 1.0, step="post", color=SHADES[0], linewidth=0)
        axes.plot(steps, heights, color=INK, linewidth=2.6, drawstyle="steps-post")
        for colour, prediction in zip(LINES, releases.values(), strict=False):
            ours = np.sort(getattr(prediction, name))
            share = np.arange(1, len(ours) + 1) / len(ours)
            axes.plot(
                np.concatenate([[left - 1.0], ours, [right + 1.0]]),
                np.concatenate([[0.0], share, [1.0]]),
                color=colour,
                linewidth=1.6,
                drawstyle="steps-post",
            )
        axes.set_xlim(left, right)
        axes.set_ylim(0, 1.0)
        axes.set_xlabel(label, color=INK, fontsize=10.5)
        style_axes(axes)
    panels[0].set_ylabel("share of people below", color=INK, fontsize=10.5)
    _legend(figure, {"reference: people who are not in the table": INK} | dict(zip(releases, LINES, strict=False)))
    figure.text(0.065, 0.835, "shaded: less private than the reference", color=MUTED, fontsize=9.5)
    return figure


def matches(releases: Mapping[str, tuple[Prediction, Linkage]]) -> Figure:
    """Draw the distributions of correct and wrong matches, one panel per measure and one row per release."""
    figure = blank_figure(11.0, 1.1 + 2.5 * len(releases))
    rows = figure.subplots(len(releases), 3, squeeze=False)
    figure.subplots_adjust(left=0.065, right=0.985, bottom=0.1, top=0.83, wspace=0.12, hspace=0.62)
    for panels, (title, (prediction, linkage)) in zip(rows, releases.items(), strict=True):
        areas = (linkage.by_distance, linkage.by_ambiguity, linkage.by_uncertainty)
        for axes, (name, label), area in zip(panels, MEASURES.items(), areas, strict=True):
            numbers = getattr(prediction, name)[linkage.present]
            _two_distributions(axes, numbers[~linkage.correct], numbers[linkage.correct])
            axes.set_xlabel(label, color=INK, fontsize=10)
            axes.text(0.98, 0.92, f"AUC {area.value:.2f}", transform=axes.transAxes, ha="right", color=INK, fontsize=10)
        panels[0].set_title(
            f"{title}: {linkage.rate.value:.1%} of {len(linkage.correct):,} people matched correctly",
            loc="left",
            color=INK,
            fontsize=11,
            pad=8,
        )
    _legend(figure, {"wrong matches": SHADES[4], "correct matches": ACCENT})
    return figure


def components(
    original: NDArray[np.float64],
    other: NDArray[np.float64],
    tests: tuple[ComponentTest, ...],
    *,
    name: str = "release",
    shown: int = 5,
) -> Figure:
    """Draw the leading kernel components in pairs, original and another table called ``name`` (TL Figure 5-3).

    Distributions are on the diagonal, contours of the density above it, all rows with their tails below.
    """
    shown = min(shown, original.shape[1])
    figure = blank_figure(10.0, 10.4)
    grid = figure.subplots(shown, shown, squeeze=False)
    figure.subplots_adjust(left=0.02, right=0.98, bottom=0.02, top=0.915, wspace=0.05, hspace=0.05)
    limits = [_middle(np.concatenate([original[:, place], other[:, place]])) for place in range(shown)]
    whole = [_range(np.concatenate([original[:, place], other[:, place]])) for place in range(shown)]
    for row in range(shown):
        for column in range(shown):
            axes = grid[row, column]
            axes.set_facecolor(PAPER)
            axes.set(xticks=[], yticks=[])
            for spine in axes.spines.values():
                spine.set_color(PALE)
            if row == column:
                _on_the_diagonal(axes, original[:, row], other[:, row], tests[row], limits[row])
            elif row < column:
                _contours(axes, original[:, [column, row]], other[:, [column, row]], limits[column], limits[row])
                axes.set(xlim=limits[column], ylim=limits[row])
            else:
                _tails(axes, original[:, [column, row]], other[:, [column, row]])
                axes.set(xlim=whole[column], ylim=whole[row])
    _legend(figure, {"original": ACCENT, name: BRICK})
    figure.text(
        0.98,
        0.937,
        "diagonal: distribution, cumulative variance, p of equality   ·   above: density   ·   below: tails",
        color=MUTED,
        fontsize=9.5,
        ha="right",
    )
    return figure


def _legend(figure: Figure, colours: Mapping[str, str]) -> None:
    """Draw a legend along the top: label → colour."""
    from matplotlib.lines import Line2D

    figure.legend(
        [Line2D([], [], color=colour, linewidth=2.6) for colour in colours.values()],
        list(colours),
        loc="upper left",
        bbox_to_anchor=(0.05, 1.0 - 0.12 / figure.get_figheight()),
        ncols=len(colours),
        frameon=False,
        labelcolor=INK,
        fontsize=10.5,
        handlelength=1.3,
        handletextpad=0.6,
        columnspacing=2.2,
        borderpad=0.0,
    )


def _two_distributions(axes: Any, wrong: NDArray[np.float64], right: NDArray[np.float64]) -> None:
    both = np.concatenate([wrong, right])
    low, high = float(both.min()), float(np.quantile(both, 0.995))
    is_constant = high - low < 1e-9
    low, high = (min(low, 0.0) - 0.05, max(high, 1.0) + 0.05) if is_constant else (low, high + 0.05 * (high - low))
    bins = np.linspace(low, high, 61)
    for numbers, colour in ((wrong, SHADES[4]), (right, ACCENT)):
        if numbers.size:
            shares = np.histogram(np.clip(numbers, low, high), bins)[0] / numbers.size
            heights = shares if is_constant else _smooth(shares)
            axes.stairs(heights, bins, fill=True, color=colour, alpha=0.45, linewidth=0)
            axes.stairs(heights, bins, color=colour, linewidth=1.4)
    axes.set_xlim(low, high)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.25)
    axes.set_yticks([])
    style_axes(axes)
    axes.spines["left"].set_visible(False)


def _on_the_diagonal(
    axes: Any,
    original: NDArray[np.float64],
    other: NDArray[np.float64],
    test: ComponentTest,
    limits: tuple[float, float],
) -> None:
    bins = np.linspace(*limits, 61)
    middles = (bins[:-1] + bins[1:]) / 2.0
    for numbers, colour in ((original, ACCENT), (other, BRICK)):
        heights = _smooth(np.histogram(numbers, bins)[0].astype(float) / numbers.size)
        axes.plot(middles, heights, color=colour, linewidth=1.7)
        axes.fill_between(middles, heights, color=colour, alpha=0.10, linewidth=0)
    axes.set_xlim(*limits)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.35)
    p_value = f"{test.p_value:.2f}" if test.p_value >= 0.01 else f"{test.p_value:.0e}"
    colour = BRICK if test.differs else INK
    axes.text(0.04, 0.95, f"{test.number}", transform=axes.transAxes, va="top", color=INK, fontsize=13, weight="bold")
    axes.text(0.96, 0.95, f"p {p_value}", transform=axes.transAxes, va="top", ha="right", color=colour, fontsize=10.5)
    axes.text(
        0.96,
        0.83,
        f"cum {test.cumulative:.0%}",
        transform=axes.transAxes,
        va="top",
        ha="right",
        color=MUTED,
        fontsize=9,
    )


def _contours(
    axes: Any,
    original: NDArray[np.float64],
    other: NDArray[np.float64],
    across: tuple[float, float],
    upward: tuple[float, float],
) -> None:
    bins = [np.linspace(*across, 41), np.linspace(*upward, 41)]
    middles = [(edges[:-1] + edges[1:]) / 2.0 for edges in bins]
    for points, colour in ((original, ACCENT), (other, BRICK)):
        density = np.histogram2d(points[:, 0], points[:, 1], bins)[0] / len(points)
        density = _smooth(_smooth(density.T).T)
        ordered = np.sort(density.ravel())[::-1]
        held = np.cumsum(ordered)
        levels = sorted({float(ordered[min(np.searchsorted(held, s * held[-1]), ordered.size - 1)]) for s in HELD})
        if levels[-1] > 0.0:
            axes.contour(*middles, density.T, levels=levels, colors=[colour], linewidths=[0.7, 1.0, 1.4], alpha=0.95)


def _tails(axes: Any, original: NDArray[np.float64], other: NDArray[np.float64]) -> None:
    for points, colour in ((original, ACCENT), (other, BRICK)):
        axes.plot(*points.T, "o", color=colour, markersize=1.7, markeredgewidth=0, alpha=0.45)


HELD = (0.9, 0.6, 0.25)  # shares of the rows that lie inside the contours


def _smooth(heights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a running weighted mean along the first axis, so that shapes are visible and not single counts."""
    weights = np.exp(-0.5 * (np.arange(-4, 5) / 1.6) ** 2)
    padded = np.pad(heights, [(4, 4)] + [(0, 0)] * (heights.ndim - 1))
    return np.asarray(sum(w * padded[place : place + len(heights)] for place, w in enumerate(weights / weights.sum())))


def _middle(numbers: NDArray[np.float64]) -> tuple[float, float]:
    """Return the range of most numbers, with a margin."""
    low, high = np.quantile(numbers, [0.01, 0.99])
    room = 0.15 * (high - low) or 1.0
    return float(low - room), float(high + room)


def _range(numbers: NDArray[np.float64]) -> tuple[float, float]:
    room = 0.04 * float(np.ptp(numbers)) or 1.0
    return float(numbers.min()) - room, float(numbers.max()) + room
