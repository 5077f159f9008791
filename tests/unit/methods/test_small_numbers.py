"""Numbers at the precision of the data, and the smallest numbers that there are."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.plan.claims.groups import values_apart


@pytest.mark.parametrize("digits", [1, 2, 3])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_epsilon_may_be_the_precision_of_the_data(digits: int, offset: float) -> None:
    numbers = offset + np.round(np.random.default_rng(digits).normal(size=200), digits)
    release = sf.Boxes(k=5, l=2, epsilon=10.0**-digits).release({"x": numbers}, schema={"x": "quasi"}, seed=1)
    assert release.table.rows == 200


def test_values_that_are_closer_than_epsilon_still_count_once() -> None:
    numbers = np.array([0.2, 0.3, 0.35, 0.399999, 0.4])
    assert values_apart(np.zeros(5, np.int64), numbers, epsilon=0.1, at_most=5).tolist() == [3]
    assert values_apart(np.zeros(3, np.int64), numbers[1:4], epsilon=0.1, at_most=5).tolist() == [1]


@pytest.mark.filterwarnings("ignore::sfumato.SfumatoWarning")
@pytest.mark.parametrize("smallest", [5e-324, 1e-320, 1e-310])
@pytest.mark.parametrize("method", [sf.Boxes(k=5, l=1), sf.Boxes(k=5, l=1, edges="cells"), sf.Microaggregate(k=5)])
def test_ranges_of_the_smallest_numbers_are_written(tmp_path, method, smallest: float) -> None:
    draw = np.random.default_rng(1)
    table = {"x": draw.choice([0.0, 1.0, 2.0], 40) * smallest, "y": draw.normal(size=40) * smallest}
    release = method.release(table, schema={"x": "quasi", "y": "quasi"}, seed=1)
    assert (release.write(tmp_path / "out") / "manifest.json").exists()
