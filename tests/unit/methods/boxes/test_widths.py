"""The best box around a point, against XK's own loop and a convex solver."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from sfumato.methods.boxes.optimality import contribution, half_widths, log_density

positive = st.floats(0.01, 100.0)


def loop_of_the_paper(a, volume, smallest):
    """XK §IV, the resulting algorithm, with t = 0 for the unpinned case; ``smallest`` is ℓε/2 for each axis."""
    order = np.argsort(-a * smallest)
    a, smallest = a[order], smallest[order]
    n, best, widths = len(a), np.inf, None
    for t in range(n):
        c = 0.5 * (volume * np.prod(a[t:]) / np.prod(2 * smallest[:t])) ** (1 / (n - t))
        if c < a[t] * smallest[t] * (1 - 1e-12):
            continue
        total = (a[:t] * smallest[:t]).sum() + (n - t) * c
        if total < best:
            best, widths = total, np.concatenate([smallest[:t], c / a[t:]])
    if widths is None:  # t = n: all widths pinned, possible only if they hold the volume
        widths = smallest
    found = np.empty(n)
    found[order] = widths
    return found


@given(a=st.lists(positive, min_size=1, max_size=5), volume=positive, epsilon=st.floats(0.001, 3.0))
def test_equals_the_loop_of_the_paper(a, volume, epsilon):
    a = np.array(a)
    low, high = np.full(len(a), epsilon / 2), np.full(len(a), 1e9)
    found = half_widths(a[None], np.log([volume]), low, high)[0]
    assert contribution(a[None], found[None])[0] == pytest.approx(
        float(a @ loop_of_the_paper(a, volume, low)), rel=1e-9
    )


@given(
    a=st.lists(st.one_of(st.just(0.0), positive), min_size=1, max_size=4),
    volume=st.floats(0.05, 50.0),
    bounds=st.lists(st.tuples(st.floats(0.0, 0.5), st.floats(0.6, 3.0)), min_size=4, max_size=4),
)
def test_equals_a_convex_solver(a, volume, bounds):
    a = np.array(a)
    low, high = np.array(bounds[: len(a)]).T
    if np.prod(2 * high) < 1.01 * volume:
        return
    found = half_widths(a[None], np.log([volume]), low, high)[0]
    assert (found >= low).all()
    assert (found <= high).all()
    assert np.prod(2 * found) >= volume * (1 - 1e-9)
    solved = minimize(
        lambda u: float(a @ np.exp(u)),
        np.log(high),
        jac=lambda u: a * np.exp(u),
        bounds=[(np.log(max(one, 1e-9)), np.log(other)) for one, other in zip(low, high, strict=True)],
        constraints={
            "type": "ineq",
            "fun": lambda u: (u + np.log(2)).sum() - np.log(volume),
            "jac": lambda u: np.ones(len(a)),
        },
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    if solved.success:
        assert float(a @ found) <= solved.fun * (1 + 1e-5) + 1e-9


def test_an_axis_that_does_not_matter_takes_its_whole_range():
    found = half_widths(np.array([[1.0, 0.0]]), np.log([0.4]), np.zeros(2), np.array([5.0, 2.0]))
    assert found.tolist() == [[pytest.approx(0.05), 2.0]]


def test_where_nothing_matters_every_axis_takes_its_whole_range():
    found = half_widths(np.zeros((1, 2)), np.log([0.4]), np.zeros(2), np.array([5.0, 2.0]))
    assert found.tolist() == [[5.0, 2.0]]


def test_the_unbounded_case_is_the_formula_of_the_paper():
    a, volume = np.array([[0.5, 2.0, 8.0]]), np.array([3.0])
    c = 0.5 * (3.0 * a.prod()) ** (1 / 3)
    assert half_widths(a, np.log(volume), np.zeros(3), np.full(3, 1e9))[0] == pytest.approx(c / a[0])


def test_too_little_room_gives_the_whole_ranges_and_pinned_widths_stay_pinned():
    a = np.array([[1.0, 2.0]])
    assert half_widths(a, np.log([100.0]), np.zeros(2), np.ones(2)).tolist() == [[1.0, 1.0]]
    assert half_widths(a, np.log([0.1]), np.full(2, 0.5), np.ones(2)).tolist() == [[0.5, 0.5]]


def test_the_density_of_a_uniform_table_is_its_number_of_records_per_area():
    numbers = np.random.default_rng(5)
    records = numbers.random((20_000, 2)) * [2.0, 5.0]
    inside = np.array([[1.0, 2.5], [0.7, 1.0], [1.4, 4.0]])
    assert np.exp(log_density(records, inside, neighbours=400)) == pytest.approx(np.full(3, 2000.0), rel=0.15)


def test_records_that_coincide_have_a_finite_density():
    assert np.isfinite(log_density(np.zeros((50, 2)), np.zeros((3, 2)))).all()


def level_by_levels(a, log_volume, low, high):
    """The slow twin: the box at each of many levels c, and the first that is large enough."""
    levels = np.geomspace(1e-6, 1e6, 200_001)
    boxes = np.clip(levels[:, None] / a, low, high)
    enough = np.log(2.0 * boxes).sum(axis=1) >= log_volume
    return boxes[np.argmax(enough)] if enough.any() else boxes[-1]


def test_many_axes_equal_the_slow_twin_where_the_volume_is_no_floating_point_number():
    numbers = np.random.default_rng(3)
    a, high = numbers.lognormal(size=400), numbers.uniform(5.0, 20.0, size=400)
    low = np.where(numbers.random(400) < 0.5, 0.0, 0.01)
    log_volume = float(np.log(2.0 * high).sum() - 300.0)
    assert log_volume > np.log(np.finfo(float).max)
    found = half_widths(a[None], np.array([log_volume]), low, high)[0]
    assert found == pytest.approx(level_by_levels(a, log_volume, low, high), rel=2e-4)
    assert np.log(2.0 * found).sum() == pytest.approx(log_volume, rel=1e-9)


def test_a_thousand_axes_take_little_memory():
    sensitivity = np.random.default_rng(4).lognormal(size=(500, 1000))
    tracemalloc.start()
    half_widths(sensitivity, np.full(500, 800.0), np.zeros(1000), np.full(1000, 3.0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6  # the arrays of 500 × 2,000 × 1,000 numbers took 8 GB each
