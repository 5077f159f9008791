"""Write weights.md and its figure: dismissal and fuzzy weights on tables with planted outliers.

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
from sfumato.report.picture import ACCENT, INK, MUTED, SHADES, blank_figure, png, style_axes
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import Estimate, Reweighting
from sfumato.statistics.language import parse
from sfumato.statistics.moments import Moments, sampling_constant, sensitivities
from sfumato.statistics.wide_boxes import reweight

PAGE = Path(__file__).with_suffix(".md")
FIGURE = Path(__file__).with_name("figures") / "weights.png"
PEOPLE, OUTLIERS, K, TABLES = 1000, 30, 5, 50
CORRELATION = 0.5
SHAPES = ("none", "on both sides", "on one side")
WEIGHTINGS = ("all records", "dismissal, first objective", "dismissal, normalised", "fuzzy weights")
KEPT = ["mean(x)", "corr(x, y)"]
POPULATION = {"mean(x)": 0.0, "corr(x, y)": CORRELATION, "cov(x, y)": CORRELATION}  # of the people without outliers
TRUE: dict[str, Callable[[np.ndarray], float]] = {
    "mean(x)": lambda rows: float(rows[:, 0].mean()),
    "corr(x, y)": lambda rows: float(np.corrcoef(rows.T)[0, 1]),
    "cov(x, y)": lambda rows: float(np.cov(rows.T, bias=True)[0, 1]),
}


def people(shape: str, seed: int) -> np.ndarray:
    """Return correlated Gaussian people, the last of them outliers 5 to 40 standard deviations from the centre."""
    numbers = np.random.default_rng(seed)
    rows = numbers.multivariate_normal([0.0, 0.0], [[1.0, CORRELATION], [CORRELATION, 1.0]], size=PEOPLE)
    if shape != "none":
        far = numbers.uniform(5.0, 40.0, size=(OUTLIERS, 2))
        rows[-OUTLIERS:] = far if shape == "on one side" else far * numbers.choice([-1.0, 1.0], size=(OUTLIERS, 2))
    return rows


def released(rows: np.ndarray, seed: int) -> Release:
    table = pa.table({"x": rows[:, 0], "y": rows[:, 1]})
    return sf.Boxes(k=K, keep=KEPT).release(table, schema={"x": "quasi", "y": "quasi"}, seed=seed)


@dataclass(frozen=True)
class Tried:
    """One statistic of one table: true value, estimate from all records, and effect of each weighting."""

    truth: float
    whole: Estimate
    effects: Sequence[Reweighting]  # in the order of WEIGHTINGS


def tried(name: str, release: Release, truth: float) -> Tried:
    intervals = CountedBoxes.of(release.table, parse(name).columns)
    weightings = (("keep", "normalised"), ("dismiss", "first"), ("dismiss", "normalised"), ("fuzzy", "normalised"))
    effects = [reweight(parse(name), intervals, wide, objective=objective).effect for wide, objective in weightings]
    whole = release.estimate(name)
    assert isinstance(whole, Estimate)
    for effect, wide in zip(effects[2:], ("dismiss", "fuzzy"), strict=True):
        assert release.estimate(name, wide_boxes=wide).reweighting == effect  # the same for an analyst
    return Tried(truth, whole, effects)


def rows_of(name: str, shape: str, all_tried: Sequence[Tried]) -> list[str]:
    """Return one line of the page per weighting."""
    lines = []
    for place, weighting in enumerate(WEIGHTINGS):
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
        lines.append(f"| {name} | {shape} | {weighting} | {' | '.join(cells)} |")
    return lines


@dataclass(frozen=True, kw_only=True)
class Dismissed:
    """A statistic of the records that are kept; those in the widest boxes are left out first."""

    kept: float  # share of the records, from 0 to 1
    uncertainty: float  # of the boxes, in the unit of the statistic
    sampling: float
    shift: float  # relative to all records


def curve(name: str, release: Release) -> list[Dismissed]:
    """Compute errors and shift for every possible share of kept records, from a tenth to all."""
    statistic = parse(name)
    boxes = statistic.records_in(CountedBoxes.of(release.table, statistic.columns))
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
    """Draw both errors, their sum and the shift by the share of kept records; ``best`` is the choice of the papers."""
    figure = blank_figure(8.0, 4.4)
    axes = figure.add_axes((0.08, 0.14, 0.60, 0.74))
    kept = [100.0 * one.kept for one in curve]
    lines = [
        ("uncertainty of the boxes", [one.uncertainty for one in curve], SHADES[4], 1.4),
        ("sampling error", [one.sampling for one in curve], MUTED, 1.4),
        ("sum of both: minimised", [one.uncertainty + one.sampling for one in curve], INK, 2.2),
        ("shift: not minimised", [abs(one.shift) for one in curve], ACCENT, 2.2),
    ]
    highest = max(max(values) for _, values, _, _ in lines[2:])
    for place, (label, values, colour, width) in enumerate(lines):
        axes.plot(kept, values, color=colour, linewidth=width)
        figure.text(0.70, 0.80 - 0.085 * place, label, color=colour, fontsize=9.5, va="center")
    axes.axvline(100.0 * best, color=MUTED, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.text(100.0 * best - 1.0, highest * 1.06, "kept by dismissal", color=MUTED, fontsize=9, ha="right")
    axes.set_ylim(0.0, highest * 1.12)
    axes.set_xlim(min(kept), 100.4)
    style_axes(axes)
    axes.set_xlabel("records kept, narrowest boxes first (%)", color=INK, fontsize=10)
    axes.set_title(name, loc="left", color=MUTED, fontsize=10, pad=10)
    return figure


def page() -> str:
    """Return the page as Markdown, and draw the figure."""
    lines, worse, held, ordered, certain, count = [], [], 0, 0, 0, 0
    for shape in SHAPES:
        tables = [(people(shape, seed), seed) for seed in range(TABLES)]
        releases = [(rows, released(rows, seed)) for rows, seed in tables]
        for name, true in TRUE.items():
            all_tried = [tried(name, release, true(rows)) for rows, release in releases]
            lines += rows_of(name, shape, all_tried)
            held += sum(one.whole.low <= one.truth <= one.whole.high for one in all_tried)
            for one in all_tried:
                none, _, dismissed, fuzzy = (effect.minimised for effect in one.effects)
                ordered += fuzzy <= dismissed * (1 + 1e-9) <= none * (1 + 2e-9)
                certain += one.effects[2].low <= one.effects[2].value <= one.effects[2].high
            worse.append((name, shape, sum(one.effects[2].error > one.effects[0].error for one in all_tried)))
            count += TABLES
    one_sided = released(people("on one side", 0), 0)
    points = curve("mean(x)", one_sided)
    effect = one_sided.estimate("mean(x)", wide_boxes="dismiss").reweighting
    title = f"mean(x), {PEOPLE:,} records, {OUTLIERS} outliers on one side, k = {K}"
    FIGURE.write_bytes(png(picture(points, name=title, best=effect.records / PEOPLE)))
    return TEXT.format(
        people=PEOPLE,
        outliers=OUTLIERS,
        k=K,
        tables=TABLES,
        rows="\n".join(lines),
        held=f"{held} of {count}",
        ordered=f"{ordered} of {count}",
        certain=f"{certain} of {count}",
        worse="; ".join(f"{name}, outliers {shape}: {times} of {TABLES}" for name, shape, times in worse if times),
    )


TEXT = """# Dismissing and reweighting records, and the bias it causes

Xiang and Kreinovich 2013 (XK §III), Xiang, Ferson et al. 2013 (XF §II–III). Written by `docs/replication/weights.py`;
do not edit by hand.

The papers leave out records in wide boxes, or give them less weight, because each adds n·c = Σ a_i Δ_i to the
uncertainty and reduces the sampling error only a little. They minimise the sum of both. Here this is measured on
{tables} tables of {people:,} correlated Gaussian people (correlation 0.5), with {outliers} planted outliers, 5 to 40
standard deviations away: none, on both sides, or on one side. Boxes with k = {k} keep mean(x) and corr(x, y), and
the covariance is measured from the same boxes (its rule is a limit of ρ/(|x − E x|·|y − E y|), XK slide 11). All
numbers are means over the tables; deviations are root mean squares.

- *error* is first-order uncertainty plus sampling error, both at the moments of the reweighted records: the derivatives
  of a reweighted correlation are those at its own moments. The papers minimise the same sum at the moments of all
  records (`Reweighting.minimised`), and the weights here are chosen in that way, once.
- *shift* is the difference between the reweighted value and that of all records (`Estimate.shift`).
- *from table* is the deviation from the statistic of all {people:,} people, *from people* the deviation from the
  population without outliers: the right comparison if outliers are errors, and the wrong one if they are people.
- *covers* is how often the interval value ± uncertainty contains the statistic of the table.

| statistic | outliers | records | kept | uncertainty | sampling | error | shift | from table | from people | covers |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
{rows}

What the papers minimise decreases: fuzzy ≤ dismissal ≤ all records in {ordered} tables and statistics. The error of the
reweighted statistic itself decreases for means. For correlations it need not: the records that are left out are those
that hold the correlation in place. Dismissal is worse than keeping all records in these cases: {worse}. The guaranteed
interval of the reweighted statistic (`Reweighting.low`, `.high`) contains its value in {certain} cases. The two
objectives of dismissal give nearly the same result; which of them keeps more records depends on the table. If outliers
are measurement errors, reweighting brings the mean and the correlation closer to those of the people, without knowing
which records are wrong (*from people*).

What the papers do not mention: records in wide boxes differ from the rest. Outliers on one side shift the mean by
several times the error that was gained. A correlation is shifted by half its size even without outliers: its derivative
grows with the distance from the regression line (∂r/∂x ∝ y − r·x), so records far from the line are dismissed first and
the rest looks more correlated. The interval around the reweighted value then often misses the statistic of the
table (*covers*). So `release.estimate(..., wide_boxes=...)` shows the shift, and the guaranteed interval stays that of
the whole table, which contained the truth in {held} cases. Without reweighting, the midpoints are closer to the
statistic of the table than their uncertainty suggests (*from table*, all records).

![Errors and shift by the share of records kept](figures/weights.png)
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
