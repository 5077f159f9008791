"""A statistic of the user's own: certain where it is monotone as declared, refused where it is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import StatisticError
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.custom import DECLARED, Custom
from sfumato.statistics.statistic import estimate


def variation(mean, covariance):
    return math.sqrt(covariance[0, 0]) / mean[0]


def proportion(mean, covariance):
    return mean[0] / (mean[0] + mean[1])


def slope(mean, covariance):
    return covariance[0, 1] / covariance[1, 1]


CV = Custom("cv", ["x"], variation, increasing=["var(x)"], decreasing=["mean(x)"])
PART = Custom("part", ["x", "y"], proportion, increasing=["mean(x)"], decreasing=["mean(y)"])


def boxes_of(low, high, names=("x", "y")):
    width = len(names)
    return CountedBoxes.make(list(names), np.asarray(low)[:, :width].tolist(), np.asarray(high)[:, :width].tolist())


@pytest.mark.parametrize("statistic", [CV, PART], ids=str)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), records=st.integers(2, 8), wide=st.floats(0.01, 3.0))
def test_no_table_in_the_boxes_is_outside_of_the_interval(statistic, seed, records, wide):
    generator = np.random.default_rng(seed)
    low = generator.uniform(1.0, 10.0, (records, 2))
    high = low + generator.uniform(0.0, wide, (records, 2))
    found = estimate(statistic, boxes_of(low, high, statistic.names))[0]
    assert math.isfinite(found.low) and math.isfinite(found.high)
    for _ in range(50):
        points = low + (high - low) * generator.choice([0.0, 1.0, generator.random()], (records, 2))
        chosen = points[:, : len(statistic.names)]
        covariance = np.atleast_2d(np.cov(chosen.T, bias=True))
        truth = statistic.function(chosen.mean(axis=0), covariance)
        assert found.low <= truth <= found.high
    assert found.low <= found.inner_low <= found.inner_high <= found.high


def test_the_interval_of_a_function_of_one_moment_is_that_of_the_moment():
    boxes = boxes_of([[1.0], [4.0]], [[2.0], [6.0]], ("x",))
    double = Custom("double", ["x"], lambda mean, covariance: 2.0 * mean[0], increasing=["mean(x)"])
    found = estimate(double, boxes)[0]
    assert (found.low, found.high) == pytest.approx((5.0, 8.0))
    assert (found.inner_low, found.inner_high) == pytest.approx((5.0, 8.0))
    assert found.notes == (DECLARED,)


def test_without_directions_nothing_is_certain_and_nothing_is_assumed():
    found = estimate(Custom("cv", ["x"], variation), boxes_of([[1.0], [4.0]], [[2.0], [6.0]], ("x",)))[0]
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert found.notes == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"increasing": ["mean(x)", "var(x)"]}, "increasing in mean"),
        ({"increasing": ["var(x)"]}, "mean\\(x\\) is not"),
        ({"decreasing": ["mean(x)"]}, "var\\(x\\) is not"),
    ],
)
def test_a_wrong_declaration_is_refused(options, said):
    wrong = Custom("cv", ["x"], variation, **options)
    with pytest.raises(StatisticError, match=said):
        estimate(wrong, boxes_of([[1.0], [4.0]], [[2.0], [6.0]], ("x",)))


def test_a_pole_between_the_ends_of_a_moment_is_seen():
    """On both sides of 0 the function falls with the mean, but not across it."""
    with pytest.raises(StatisticError, match="as it is declared"):
        estimate(CV, boxes_of([[-3.0], [-1.0]], [[4.0], [6.0]], ("x",)))


def test_an_end_at_which_the_function_is_not_defined_is_infinite():
    root = Custom("root", ["x"], lambda mean, covariance: math.sqrt(mean[0]), increasing=["mean(x)"])
    found = estimate(root, boxes_of([[-1.0], [-1.0]], [[4.0], [6.0]], ("x",)))[0]
    assert found.low == -math.inf
    assert found.high == pytest.approx(math.sqrt(5.0))


def test_covariances_have_directions_too():
    own = Custom("slope", ["y", "x"], slope, increasing=["cov(y, x)"], decreasing=["var(x)"])
    low = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [5.0, 4.0]])
    boxes = boxes_of(low, low + 0.1, ("y", "x"))
    found, known = estimate(own, boxes)[0], sf.Regression("y", ("x",)).parts()[1]
    tight = estimate(known, boxes)[0]
    assert found.low <= tight.low <= tight.high <= found.high
    assert found.high - found.low < 3.0 * (tight.high - tight.low)


@pytest.mark.parametrize(
    "options",
    [
        {"name": "mean"},
        {"name": "my share"},
        {"names": []},
        {"names": ["x", "x"]},
        {"names": "x"},
        {"increasing": "mean(x)"},
        {"increasing": ["sd(x)"]},
        {"increasing": ["var(x, unbiased)"]},
        {"increasing": ["mean(z)"]},
        {"increasing": ["mean(x)"], "decreasing": ["mean(x)"]},
        {"names": ["x", "y"], "increasing": ["cov(x, y)", "cov(y, x)"]},
    ],
)
def test_what_cannot_be_is_refused(options):
    with pytest.raises(StatisticError):
        Custom(**{"name": "own", "names": ["x"], "function": variation, **options})


def test_boxes_keep_it_narrower_and_the_interval_holds_the_truth():
    generator = np.random.default_rng(1)
    people = {"x": generator.lognormal(3.0, 0.4, 400), "y": generator.normal(50.0, 10.0, 400)}
    truth = float(np.std(people["x"]) / np.mean(people["x"]))
    widths = []
    for keep in ([CV], ["mean(y)"]):
        release = sf.Boxes(k=5, keep=keep).release(people, schema=dict.fromkeys(people, "quasi"), seed=1)
        found = release.estimate(CV)
        assert found.low <= truth <= found.high
        widths.append(found.high - found.low)
    assert widths[0] < 0.5 * widths[1]


@pytest.mark.parametrize("value", [None, "x", [1.0], np.ones(2), 1j])
def test_a_function_that_returns_no_number_is_refused(value):
    boxes = sf.read_release({"a_low": [1.0, 2.0, 4.0], "a_high": [1.5, 3.0, 5.0]})
    with pytest.raises(StatisticError, match="must return one number"):
        boxes.estimate(sf.Custom("mine", ["a"], lambda mean, covariance: value))
