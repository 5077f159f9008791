"""The measures from either half of a pool, against the same measures of each half searched by itself."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.kernels.neighbours import nearest
from sfumato.kernels.prediction import measure_halves, prediction, squared_distances


@pytest.mark.parametrize("rows", [3, 12, 60])
def test_they_are_those_of_each_half(rows):
    draw = np.random.default_rng(rows)
    people, points = draw.normal(size=(20, 3)), draw.normal(size=(rows, 3)).round(1)
    first = draw.random(rows) < 0.5
    first[:2] = True, False
    found = nearest(people, points, rows)
    measured = measure_halves(found.distance, found.index, squared_distances(points, found.index), first, 5)
    for half, rows_of_half in enumerate((points[first], points[~first])):
        twin = prediction(people, rows_of_half, 5)
        for column, numbers in enumerate((twin.distance, twin.ambiguity, twin.uncertainty)):
            assert measured[:, half, column] == pytest.approx(numbers, abs=1e-12)


def test_an_empty_half_is_infinitely_far():
    points = np.zeros((4, 2))
    found = nearest(points, points, 4)
    measured = measure_halves(
        found.distance, found.index, squared_distances(points, found.index), np.ones(4, dtype=bool), 5
    )
    assert measured[0, 0].tolist() == [0.0, 1.0, 0.0]
    assert measured[0, 1].tolist() == [np.inf, 1.0, np.inf]
