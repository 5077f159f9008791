"""How near the boxes come to what theory allows (XK §II)."""

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

RECORDS = 10_000  # drawn evenly from a larger table, so that time does not grow with it
POINTS = 1_000  # at which the best box is computed


def optimality(
    axes: Axes, sensitivities: Sensitivities, diversity: DiversityRule, k: int, evidence: Evidence
) -> Optimality | None:
    """The limit for the numeric axes that matter; None where there is none, or where values are missing."""
    numbers = axes.numbers
    if not numbers or any(axis.has_missing for axis in numbers):
        return None
    drawn = np.linspace(0, evidence.released.rows - 1, min(RECORDS, evidence.released.rows)).astype(np.int64)
    rows, released = evidence.original.take(evidence.origin[drawn]), evidence.released.take(drawn)
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
