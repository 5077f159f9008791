"""What happened to histories as curves: their mean, their covariance at two times, their roughness, and who is found.

A history is at least four columns of one quantity, whose names end with an underscore and the time. The scores are
those of the history that changed most:

- the distance of the mean curves, √(∫ (m̃ − m)²), in standard deviations √(∫ v) of a curve;
- the distance of the covariance functions, ‖C̃ − C‖/‖C‖ with ‖C‖² = ∫∫ C(s, t)²;
- the roughness, the mean of the squared second difference quotient of a curve, as a ratio: 1 if released curves are as
  rough as the original ones, below 1 if they are smoother;
- the share of people whose own released curve is the nearest to theirs, by the distance of the curves or of their
  changes from one time to the next, whichever finds more.

Cells that are missing on either side are left out; integrals are sums over the times by the trapezoidal rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.measures.confidence import share
from sfumato.measures.measured_release import midpoints
from sfumato.methods.spectral.histories import TimedColumns, find_histories
from sfumato.release.assessment import Score
from sfumato.statistics.moments import pairwise_covariance
from sfumato.table.encoded_columns import finite_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease

    Array = NDArray[np.float64]

TARGETS = 500  # largest number of people whose curves are searched for
FEWEST_CELLS = 3  # of a second difference


@dataclass(frozen=True, kw_only=True)
class CurveChanges:
    """How much the curves of one history changed."""

    mean: float  # in standard deviations of a curve
    covariance: float  # relative
    roughness: float  # ratio, released to original


def curve_changes(original: Array, released: Array, times: Array) -> CurveChanges:
    """Compare curves with the same times, one row each; NaN is missing.

    Examples
    --------
    >>> times = np.arange(4.0)
    >>> curves = np.random.default_rng(0).normal(size=(50, 4))
    >>> curve_changes(curves, curves, times)
    CurveChanges(mean=0.0, covariance=0.0, roughness=1.0)
    """
    weights = np.gradient(times) / (times[-1] - times[0])
    weights[[0, -1]] /= 2.0
    before, after = pairwise_covariance(original), pairwise_covariance(released)
    apart = np.nan_to_num(_means(released) - _means(original))
    spread = float(weights @ np.diag(before))
    squares = np.outer(weights, weights)
    size = float((squares * before**2).sum())
    rough = _roughness(original, times), _roughness(released, times)
    return CurveChanges(
        mean=float(np.sqrt(weights @ apart**2 / spread)) if spread > 0.0 else 0.0,
        covariance=float(np.sqrt((squares * (after - before) ** 2).sum() / size)) if size > 0.0 else 0.0,
        roughness=rough[1] / rough[0] if rough[0] > 0.0 else 1.0,
    )


def _means(curves: Array) -> Array:
    present = ~np.isnan(curves)
    return np.asarray(np.where(present, curves, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1))


def _roughness(curves: Array, times: Array) -> float:
    """Return the mean squared second difference quotient of neighbouring cells."""
    if len(times) < FEWEST_CELLS:
        return 0.0
    slopes = np.diff(curves, axis=1) / np.diff(times)
    second = np.diff(slopes, axis=1) / ((times[2:] - times[:-2]) / 2.0)
    present = ~np.isnan(second)
    return float((second[present] ** 2).mean()) if present.any() else 0.0


def own_curve_shares(people: Array, released: Array, origin: NDArray[np.int64], targets: NDArray[np.int64]) -> Array:
    """Return, for each target, the share of the nearest released curves that are the own one: 1, a part of equals, 0.

    The distance is the mean of the squared differences over the cells that both have.
    """
    found = np.zeros(len(targets))
    for place, target in enumerate(targets):
        squared = (released - people[target]) ** 2
        present = ~np.isnan(squared)
        count = present.sum(axis=1)
        apart = np.where(present, squared, 0.0).sum(axis=1) / np.maximum(count, 1)
        apart = np.where(count > 0, apart, np.inf)
        best = apart <= apart.min() * (1.0 + 1e-9)
        found[place] = (origin[best] == target).mean()
    return found


def curve_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield how much the curves of histories changed, and how many people are found by them."""
    kinds = subject.original.kinds
    histories = find_histories([name for name in subject.names if kinds[name].is_numeric])
    if not histories:
        return
    sides = [[_curves(subject, history, side) for side in ("original", "released")] for history in histories]
    changes = [
        curve_changes(before, after, np.array(history.times))
        for history, (before, after) in zip(histories, sides, strict=True)
    ]
    named = {
        "change in mean curves": ([one.mean for one in changes], "in standard deviations of a curve"),
        "change in covariance functions": ([one.covariance for one in changes], "relative to the original"),
        "change in roughness": (
            [abs(float(np.log(max(one.roughness, 1e-12)))) for one in changes],
            "absolute logarithm of the ratio of released to original",
        ),
    }
    for name, (values, unit) in named.items():
        worst = int(np.argmax(values))
        yield Score(
            name=name,
            family="utility",
            value=values[worst],
            better="lower",
            rows=subject.released.rows,
            note=f"{unit}; history {histories[worst].stem}, the worst of {len(histories)}",
        )
    if subject.origin is not None:
        yield _find_people(subject, sides)


def _curves(subject: MeasuredRelease, history: TimedColumns, side: str) -> Array:
    if side == "original":
        return np.column_stack([finite_numbers(subject.original, name) for name in history.columns])
    return np.column_stack([midpoints(subject.released, name) for name in history.columns])


def _find_people(subject: MeasuredRelease, sides: list[list[Array]]) -> Score:
    """Return the share of people who are nearest to their own curve, in all histories together."""
    assert subject.origin is not None
    targets = subject.generator("curves").permutation(subject.original.rows)[:TARGETS]
    scales = [float(np.nanstd(before)) or 1.0 for before, _ in sides]
    people, released = (
        np.column_stack([pair[side] / scale for pair, scale in zip(sides, scales, strict=True)]) for side in (0, 1)
    )
    changing = [
        np.column_stack([np.diff(pair[side] / scale, axis=1) for pair, scale in zip(sides, scales, strict=True)])
        for side in (0, 1)
    ]
    hits = {
        "their distance": float(own_curve_shares(people, released, subject.origin, targets).sum()),
        "their changes": float(own_curve_shares(changing[0], changing[1], subject.origin, targets).sum()),
    }
    known = max(hits, key=lambda name: hits[name])
    rate = share(round(hits[known]), len(targets))
    return Score(
        name="people nearest to their own curve",
        family="privacy",
        value=hits[known] / len(targets),
        better="lower",
        rows=len(targets),
        low=rate.low,
        high=rate.high,
        gain=rate.low,
        note=f"share of people, by {known}; {1.0 / subject.released.rows:.2g} by chance",
    )
