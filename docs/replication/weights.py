"""Regenerates weights.md and its figure: dismissal and fuzzy weights on tables with planted outliers.

python docs/replication/weights.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

import sfumato as sf
from sfumato.release.release import Release
from sfumato.report.figures import png
from sfumato.report.style import ACCENT, INK, MUTED, SHADES, blank_figure, style_axes
from sfumato.statistics.bounds.estimates import boxes_for
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import Estimate, Reweighting
from sfumato.statistics.influence import sampling_constant, sensitivities
from sfumato.statistics.language import parse
from sfumato.statistics.moments import Moments
from sfumato.statistics.wide_boxes import reweight

PAGE = Path(__file__).with_suffix(".md")
FIGURE = Path(__file__).with_name("figures") / "weights.png"
PEOPLE, OUTLIERS, K, TABLES = 1000, 30, 5, 50
CORRELATION = 0.5
SHAPES = ("none", "on both sides", "on one side")
WAYS = ("all records", "dismissal, first objective", "dismissal, normalised", "fuzzy weights")
POPULATION = {"mean(x)": 0.0, "corr(x, y)": CORRELATION}  # of the people, the outliers aside
TRUE: dict[str, Callable[[np.ndarray], float]] = {
    "mean(x)": lambda rows: float(rows[:, 0].mean()),
    "corr(x, y)": lambda rows: float(np.corrcoef(rows.T)[0, 1]),
}


def people(shape: str, seed: int) -> np.ndarray:
    """Correlated Gaussian people, the last of whom are planted 5 to 40 deviations away from the middle."""
    numbers = np.random.default_rng(seed)
    rows = numbers.multivariate_normal([0.0, 0.0], [[1.0, CORRELATION], [CORRELATION, 1.0]], size=PEOPLE)
    if shape != "none":
        far = numbers.uniform(5.0, 40.0, size=(OUTLIERS, 2))
        rows[-OUTLIERS:] = far if shape == "on one side" else far * numbers.choice([-1.0, 1.0], size=(OUTLIERS, 2))
    return rows


def released(rows: np.ndarray, seed: int) -> Release:
    table = pa.table({"x": rows[:, 0], "y": rows[:, 1]})
    return sf.Boxes(k=K, keep=list(TRUE)).release(table, schema={"x": "quasi", "y": "quasi"}, seed=seed)


@dataclass(frozen=True)
class Tried:
    """One statistic of one table: its truth, what all records say, and what each way says."""

    truth: float
    whole: Estimate
    effects: Sequence[Reweighting]  # in the order of WAYS


def tried(name: str, release: Release, truth: float) -> Tried:
    intervals = CountedBoxes.of(release.table, parse(name).columns)
    ways = (("keep", "normalised"), ("dismiss", "first"), ("dismiss", "normalised"), ("fuzzy", "normalised"))
    effects = [reweight(parse(name), intervals, wide, objective=objective).effect for wide, objective in ways]
    whole = release.estimate(name)
    assert isinstance(whole, Estimate)
    for effect, wide in zip(effects[2:], ("dismiss", "fuzzy"), strict=True):
        assert release.estimate(name, wide_boxes=wide).reweighting == effect  # what an analyst gets
    return Tried(truth, whole, effects)


def rows_of(name: str, shape: str, all_tried: Sequence[Tried]) -> list[str]:
    """A line of the page for each way."""
    lines = []
    for place, way in enumerate(WAYS):
        effects = [one.effects[place] for one in all_tried]
        truths = [one.truth for one in all_tried]
        values = np.array([effect.value for effect in effects])
        inside = [
            abs(effect.value - truth) <= effect.uncertainty for effect, truth in zip(effects, truths, strict=True)
        ]
        cells = [
            f"{np.mean([effect.records for effect in effects]) / PEOPLE:.0%}",
            _mean(effect.uncertainty for effect in effects),
            _mean(effect.sampling for effect in effects),
            f"**{_mean(effect.error for effect in effects)}**",
            f"{np.mean([effect.shift for effect in effects]):+.3f}",
            f"{_root_mean_square(values - truths):.3f}",
            f"{_root_mean_square(values - POPULATION[name]):.3f}",
            f"{np.mean(inside):.0%}",
        ]
        lines.append(f"| {name} | {shape} | {way} | {' | '.join(cells)} |")
    return lines


@dataclass(frozen=True, kw_only=True)
class Dismissed:
    """A statistic of the records that are kept, those in wide boxes being left out first."""

    kept: float  # share of the records, from 0 to 1
    uncertainty: float  # of the boxes, in the unit of the statistic
    sampling: float
    shift: float  # against all records


def curve(name: str, release: Release) -> list[Dismissed]:
    """Every share of records that could be kept, from a tenth to all."""
    statistic, boxes = boxes_for(parse(name), CountedBoxes.of(release.table, parse(name).columns))
    points, weight = boxes.midpoints, boxes.likely_weight
    moments = Moments.of(points, weight)
    contribution = (sensitivities(statistic, moments, points) * boxes.half_widths).sum(axis=1)
    constant = sampling_constant(statistic, points, weight)
    order = np.argsort(contribution, kind="stable")
    found = []
    for last in range(len(order) // 10, len(order) + 1):
        kept = order[:last]
        records = weight[kept].sum()
        found.append(
            Dismissed(
                kept=float(records / weight.sum()),
                uncertainty=float(contribution[kept] @ weight[kept] / records),
                sampling=constant / math.sqrt(records),
                shift=statistic.value(Moments.of(points[kept], weight[kept])) - statistic.value(moments),
            )
        )
    return found


def picture(curve: Sequence[Dismissed], *, name: str, best: float) -> Figure:
    """Both errors, their sum and the shift against the share of records kept; ``best`` is the papers' choice."""
    figure = blank_figure(8.0, 4.4)
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
    style_axes(axes)
    axes.set_xlabel("records kept, narrowest boxes first (%)", color=INK, fontsize=10)
    axes.set_title(name, loc="left", color=MUTED, fontsize=10, pad=10)
    return figure


def page() -> str:
    """The page, as Markdown; draws the figure on the way."""
    lines, held, ordered, count = [], 0, 0, 0
    for shape in SHAPES:
        tables = [(people(shape, seed), seed) for seed in range(TABLES)]
        releases = [(rows, released(rows, seed)) for rows, seed in tables]
        for name, true in TRUE.items():
            all_tried = [tried(name, release, true(rows)) for rows, release in releases]
            lines += rows_of(name, shape, all_tried)
            held += sum(one.whole.low <= one.truth <= one.whole.high for one in all_tried)
            for one in all_tried:
                none, _, dismissed, fuzzy = (effect.error for effect in one.effects)
                ordered += fuzzy <= dismissed * (1 + 1e-9) <= none * (1 + 2e-9)
            count += TABLES
    one_sided = released(people("on one side", 0), 0)
    drawn = curve("mean(x)", one_sided)
    effect = one_sided.estimate("mean(x)", wide_boxes="dismiss").reweighting
    title = f"mean(x), {PEOPLE:,} records, {OUTLIERS} of them far out on one side, k = {K}"
    FIGURE.write_bytes(png(picture(drawn, name=title, best=effect.records / PEOPLE)))
    return TEXT.format(
        people=PEOPLE,
        outliers=OUTLIERS,
        k=K,
        tables=TABLES,
        rows="\n".join(lines),
        held=f"{held} of {count}",
        ordered=f"{ordered} of {count}",
    )


TEXT = """# Dismissal and weights, with the bias that they bring

Xiang and Kreinovich 2013 (XK §III), Xiang, Ferson et al. 2013 (XF §II–III). Written by `docs/replication/weights.py`;
do not edit by hand.

The papers leave out records in wide boxes, or give them less weight, because each adds n·c = Σ a_i Δ_i to the
uncertainty while it reduces the sampling error only a little. What they minimise is the sum of both. Here it is tried
on {tables} tables of {people:,} correlated Gaussian people (correlation 0.5), with {outliers} outliers
planted 5 to 40 deviations away: none, on both sides, or on one side. Boxes with k = {k} keep mean(x) and
corr(x, y). All figures are means over the tables; deviations are root mean squares.

- *error* is what the papers minimise: linear uncertainty plus sampling error.
- *shift* is how far the reweighted value lies from that of all records, as `Estimate.shift` shows it.
- *from table* is the deviation from the statistic of all {people:,} people, *from people* the one from the population
  without its outliers: the right yardstick if outliers are mistakes, and the wrong one if they are people.
- *holds* is how often value ± uncertainty, taken for an interval, holds the table's own statistic.

| statistic | outliers | way | kept | uncertainty | sampling | error | shift | from table | from people | holds |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
{rows}

As the papers say, the error falls: fuzzy ≤ dismissal ≤ all records in {ordered} tables and statistics, and far where
there are outliers. The two objectives of dismissal come to nearly the same; which of them keeps more depends on the
table. If outliers are mistakes of measurement, weights bring the mean and the correlation nearer to those of the people
without anybody telling which records are wrong (*from people*).

What the papers do not say: records in wide boxes are not like the rest. Outliers on one side shift the mean by several
times the error that was gained. A correlation is shifted by half its size even where there is no outlier: its
derivative grows with the distance from the regression line (∂r/∂x ∝ y − r·x), so the records off the line go first and
the rest looks more correlated. The interval about the weighted value then hardly ever holds the table's statistic. So
`release.estimate(..., wide_boxes=...)` shows the shift, and keeps as guaranteed the interval of the whole table, which
held the truth in {held} cases. Without weights the midpoints alone are nearer to the table's statistic than their
uncertainty suggests (*from table*, all records).

![Errors and shift against the share of records kept](figures/weights.png)
"""


def _mean(numbers: Iterable[float]) -> str:
    return f"{np.mean(list(numbers)):.3f}"


def _root_mean_square(deviations: np.ndarray) -> float:
    return float(np.sqrt(np.mean(deviations**2)))


def main() -> None:
    PAGE.write_text(page())
    print(f"wrote {PAGE.name} and {FIGURE.name}")


if __name__ == "__main__":
    main()
