"""The smallest private cluster size (TL §5.2.3): people are as well hidden as people who are not in the table.

The reference for each person is the table without that person. It is a sample of the same population that does not
contain the person, so it shows what can be learnt about people who did not take part. No holdout is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.prediction import Prediction, downward_shift, prediction, prediction_from_others

if TYPE_CHECKING:
    from sfumato.methods.matrix import MatrixPlan, MatrixSetup
    from sfumato.table.table import Table

NEIGHBOURS = 5  # the k of ambiguity and uncertainty (TL §4.2.1)
ROWS = 4000  # people that are examined
STEP = 2**0.25  # ratio of successive sizes
LEVEL = 0.5  # a size is private if a shift of this size occurs by chance at least half of the time
# Rows of the test, as in TL §5.2.1, so that it detects a shift of 5 % in distance and of 10 % in the other measures
TEST_ROWS = {"distance": 1296, "ambiguity": 324, "uncertainty": 324}


@dataclass(frozen=True, kw_only=True)
class SizeChoice:
    """The chosen cluster size, and why it was chosen."""

    size: int
    examined: int  # people whose privacy was measured
    largest_rejected: int | None  # largest size that was tried and is not private; None if the first one is
    below: tuple[str, ...]  # measures that were below the reference at that size
    whole: bool  # whether the whole table is one cluster, because no smaller size is private

    @property
    def reason(self) -> str:
        """Why this size was chosen, in a sentence for the manifest: counts and names of measures."""
        people = f"measured on {self.examined:,} people"
        if self.largest_rejected is None:
            return f"the smallest size that is allowed is private, {people}"
        rejected = f"at {self.largest_rejected:,} rows {' and '.join(self.below)} below the reference"
        if self.whole:
            return f"no smaller size is private, so the whole table is one cluster: {rejected}, {people}"
        return f"the smallest private size: {rejected}, {people}"


def smallest_private_size(
    plan_of: Callable[[int], MatrixPlan], table: Table, setup: MatrixSetup, floor: int
) -> SizeChoice:
    """Return the smallest size, at least ``floor``, at which no measure falls below the reference.

    If no smaller size is private enough, it is the size of the whole sample.
    """
    generator = setup.randomness.stream("cluster size")
    people = table if table.rows <= ROWS else table.take(generator.choice(table.rows, ROWS, replace=False))
    points = setup.encoder.encode(people) / np.sqrt(setup.encoder.width)
    reference = prediction_from_others(points, NEIGHBOURS)
    size, rejected, below = float(floor), None, tuple[str, ...]()
    while size < people.rows / 2:
        released = plan_of(round(size)).transform(people, 0).released
        rows = setup.encoder.encode(released) / np.sqrt(setup.encoder.width)
        now_below = measures_below(prediction(points, rows, NEIGHBOURS), reference)
        if not now_below:
            break
        rejected, below, size = round(size), now_below, size * STEP
    whole = size >= people.rows / 2
    return SizeChoice(
        size=table.rows if whole else round(size),
        examined=people.rows,
        largest_rejected=rejected,
        below=below,
        whole=whole,
    )


def measures_below(measured: Prediction, reference: Prediction) -> tuple[str, ...]:
    """Return the measures that fail the one-sided Kolmogorov–Smirnov test of TL §5.2.1.

    The shift is estimated from all people and tested as if the planned number n had been drawn (P[D > d] ≈ exp(−n d²)
    for two samples of n), so that the result does not depend on a random choice of people.
    """
    return tuple(
        name
        for name, rows in TEST_ROWS.items()
        if np.exp(-rows * downward_shift(getattr(measured, name), getattr(reference, name)) ** 2) <= LEVEL
    )
