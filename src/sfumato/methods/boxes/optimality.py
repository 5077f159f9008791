"""How close the boxes come to the theoretical optimum (XK §II)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.boxes.density import density
from sfumato.methods.boxes.widths import contribution, half_widths
from sfumato.methods.diagnostics import Optimality
from sfumato.table.intervals import Intervals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.methods.boxes.axes import Axes, NumberAxis
    from sfumato.methods.boxes.diversity import DiversityRule
    from sfumato.methods.boxes.sensitivities import Sensitivities
    from sfumato.methods.claims import Evidence
    from sfumato.table.table import Table

RECORDS = 10_000  # records used; evenly spaced in a larger table, so that the time does not grow with it
POINTS = 1_000  # points at which the best box is computed
DISTINCT = 0.9  # share of the sampled values that must be different for a meaningful density


def optimality(
    axes: Axes, sensitivities: Sensitivities, diversity: DiversityRule, k: int, evidence: Evidence
) -> Optimality | None:
    """Compare the width reached with the optimum for the numeric axes that matter; None if there are none.

    The optimum is asymptotic: it assumes that records have a density. If values repeat or are missing, it does not
    apply and is NaN.
    """
    numbers = axes.numbers
    if not numbers:
        return None
    evenly = np.linspace(0, evidence.released.rows - 1, min(RECORDS, evidence.released.rows)).astype(np.int64)
    chosen = np.argsort(evidence.origin, kind="stable")[evenly]  # in the order of the original: the same at each call
    rows, released = evidence.original.take(evidence.origin[chosen]), evidence.released.take(chosen)
    weights = _per_unit_of_sampling(sensitivities, rows)[:, : len(numbers)]
    places = np.column_stack([axis.coordinates(rows) for axis in numbers])
    half = np.column_stack(
        [(ends.high - ends.low) / 2.0 for ends in (Intervals.of(released, axis.name) for axis in numbers)]
    )
    achieved = float(contribution(weights, np.nan_to_num(half)).mean())
    matters = (weights.mean(axis=0) > 0.0) & (places.max(axis=0) > places.min(axis=0))
    if not matters.any():
        return Optimality(achieved=achieved, asymptotic=0.0, shrunk=0.0)
    reason = _why_no_bound([axis for axis, one in zip(numbers, matters, strict=True) if one], places[:, matters])
    if reason:
        return Optimality(achieved=achieved, asymptotic=np.nan, shrunk=np.nan, reason=reason)
    places, weights = places[:, matters], weights[:, matters]
    some = np.linspace(0, len(places) - 1, min(POINTS, len(places))).astype(np.int64)
    records_per_volume = density(places, places[some]) * (evidence.released.rows / len(places))
    high = (places.max(axis=0) - places.min(axis=0)) / 2.0
    apart = np.array([diversity.epsilon.get(axis.name, 0.0) for axis in numbers])[matters]
    widths = half_widths(weights[some], k / records_per_volume, diversity.l * apart / 2.0, high)
    asymptotic = float(contribution(weights[some], widths).mean())
    return Optimality(achieved=achieved, asymptotic=asymptotic, shrunk=asymptotic * (k - 1) / (k + 1))


def _per_unit_of_sampling(sensitivities: Sensitivities, rows: Table) -> NDArray[np.float64]:
    """Return sensitivities for sampling weights scaled to mean 1, so that their scale does not matter."""
    weights = sensitivities.of(rows).astype(np.float64)
    if sensitivities.weight is None:
        return weights
    mean = float(np.nan_to_num(rows.numbers(sensitivities.weight)).mean())
    return weights / mean if mean > 0.0 else weights


def _why_no_bound(axes: Sequence[NumberAxis], places: NDArray[np.float64]) -> str:
    """Return why no optimum is known for these columns; empty if one is known."""
    ranked = [axis.name for axis in axes if axis.nodes is not None]
    if ranked:
        return f"the tree decides where {', '.join(map(repr, ranked))} can be cut"
    missing = [axis.name for axis in axes if axis.has_missing]
    if missing:
        return f"values are missing in {', '.join(map(repr, missing))}"
    tied = [
        axis.name
        for axis, column in zip(axes, places.T, strict=True)
        if len(np.unique(column)) < DISTINCT * len(column)
    ]
    return f"values repeat in {', '.join(map(repr, tied))}, which the theory does not cover" if tied else ""
