"""The smallest clusters that still hide everybody (TL §5.2.3): as private as not being in the table at all.

The reference for each person is the table without that person: a sample of the same population that does not hold them,
so it tells what could be known of somebody who did not take part. It needs no holdout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.prediction import Prediction, downward_shift, prediction, prediction_from_others

if TYPE_CHECKING:
    from sfumato.methods.matrix import MatrixPlan, MatrixSetup
    from sfumato.table.table import Table

NEIGHBOURS = 5  # the k of ambiguity and uncertainty (TL §4.2.1)
ROWS = 4000  # people that the search looks at
STEP = 2**0.25  # ratio of one size tried to the one before
LEVEL = 0.5  # a size is private when a shift as large would come by chance half of the time
# Rows of the test, chosen by TL §5.2.1 so that it sees a shift of 5 % in distance and of 10 % in the others
TEST_ROWS = {"distance": 1296, "ambiguity": 324, "uncertainty": 324}


def smallest_private_size(plan_of: Callable[[int], MatrixPlan], table: Table, setup: MatrixSetup, floor: int) -> int:
    """The smallest size, from ``floor`` upward, at which no measure falls below the reference.

    The whole sample in one cluster, where no smaller size is private enough.
    """
    draw = setup.randomness.stream("cluster size")
    people = table if table.rows <= ROWS else table.take(draw.choice(table.rows, ROWS, replace=False))
    points = setup.encoder.encode(people) / np.sqrt(setup.encoder.width)
    reference = prediction_from_others(points, NEIGHBOURS)
    size = float(floor)
    while size < people.rows / 2:
        released = plan_of(round(size)).transform(people, 0).released
        rows = setup.encoder.encode(released) / np.sqrt(setup.encoder.width)
        if not_below(prediction(points, rows, NEIGHBOURS), reference):
            return round(size)
        size *= STEP
    return table.rows


def not_below(measured: Prediction, reference: Prediction) -> bool:
    """Whether all three measures pass the one-sided Kolmogorov–Smirnov test of TL §5.2.1.

    The shift is estimated from all people and judged as if the planned number had been drawn (P[D > d] ≈ exp(−n d²) for
    two samples of n), so that the answer does not hang on who is drawn.
    """
    return all(
        np.exp(-rows * downward_shift(getattr(measured, name), getattr(reference, name)) ** 2) > LEVEL
        for name, rows in TEST_ROWS.items()
    )
