"""How close the boxes come to the theoretical optimum (XK §II)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.boxes.density import density
from sfumato.methods.boxes.widths import contribution, half_widths
from sfumato.methods.diagnostics import Optimality
from sfumato.table.intervals import Intervals

if TYPE_CHECKING:
    from sfumato.methods.boxes.axes import Axes
    from sfumato.methods.boxes.diversity import DiversityRule
    from sfumato.methods.boxes.sensitivities import Sensitivities
    from sfumato.methods.claims import Evidence

RECORDS = 10_000  # records used; evenly spaced in a larger table, so that the time does not grow with it
POINTS = 1_000  # points at which the best box is computed


def optimality(
    axes: Axes, sensitivities: Sensitivities, diversity: DiversityRule, k: int, evidence: Evidence
) -> Optimality | None:
    """Compare with the optimum for the numeric axes that matter; None if there is none, or if values are missing."""
    numbers = axes.numbers
    if not numbers or any(axis.has_missing for axis in numbers):
        return None
    chosen = np.linspace(0, evidence.released.rows - 1, min(RECORDS, evidence.released.rows)).astype(np.int64)
    rows, released = evidence.original.take(evidence.origin[chosen]), evidence.released.take(chosen)
    weights = sensitivities.of(rows)[:, : len(numbers)].astype(np.float64)
    places = np.column_stack([axis.coordinates(rows) for axis in numbers])
    half = np.column_stack(
        [(ends.high - ends.low) / 2.0 for ends in (Intervals.of(released, axis.name) for axis in numbers)]
    )
    achieved = float(contribution(weights, half).mean())
    matters = (weights.mean(axis=0) > 0.0) & (places.max(axis=0) > places.min(axis=0))
    if not matters.any():
        return Optimality(achieved=achieved, asymptotic=0.0, shrunk=0.0)
    places, weights = places[:, matters], weights[:, matters]
    some = np.linspace(0, len(places) - 1, min(POINTS, len(places))).astype(np.int64)
    records_per_volume = density(places, places[some]) * (evidence.released.rows / len(places))
    high = (places.max(axis=0) - places.min(axis=0)) / 2.0
    apart = np.array([diversity.epsilon.get(axis.name, 0.0) for axis in numbers])[matters]
    widths = half_widths(weights[some], k / records_per_volume, diversity.l * apart / 2.0, high)
    asymptotic = float(contribution(weights[some], widths).mean())
    return Optimality(achieved=achieved, asymptotic=asymptotic, shrunk=asymptotic * (k - 1) / (k + 1))
