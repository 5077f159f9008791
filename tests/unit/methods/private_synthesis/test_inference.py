"""The fit against what it minimizes, on tables that are small enough to be written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from sfumato.methods.private_synthesis.inference import Measurement, estimate_total, fit_model, join_measurements
from sfumato.methods.private_synthesis.minimization import minimize as minimize_by_corrections

SIZES = [2, 3, 2]
CLIQUES = [(0,), (0, 1), (1, 2), (0, 2)]


def sum_onto(table, clique):
    return table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in clique))


def measure(table, cliques, sigma, generator):
    found = []
    for clique in cliques:
        counts = sum_onto(table, clique)
        found.append(
            Measurement(clique, counts + generator.normal(0.0, sigma, counts.shape), np.full(counts.shape, sigma**2))
        )
    return found


def primal(p, measurements, total, slack):
    """What the fit minimizes: entropy, and the distance from noisy counts."""
    entropy = total * (p * np.log(np.maximum(p, 1e-300))).sum()
    misses = [
        ((total * sum_onto(p, one.clique) - one.counts) ** 2 / (2.0 * slack * np.sqrt(one.variances))).sum()
        for one in measurements
    ]
    return entropy + sum(misses)


def joint(fitted):
    """The full table of a fitted model, from its parameters."""
    table = np.zeros(SIZES)
    for clique, own in fitted.parameters.items():
        table += own.reshape([size if place in clique else 1 for place, size in enumerate(SIZES)])
    p = np.exp(table - table.max())
    return p / p.sum()


@pytest.mark.parametrize("seed", range(5))
def test_no_distribution_is_better(seed):
    generator = np.random.default_rng(seed)
    people = generator.multinomial(3000, generator.dirichlet(np.full(12, 0.4))).reshape(SIZES).astype(float)
    measurements = measure(people, CLIQUES, 20.0, generator)
    total = estimate_total(measurements)
    fitted = fit_model(SIZES, measurements, rounds=2000, tolerance=1e-14)
    own = primal(joint(fitted), measurements, total, 0.1)

    def by_logits(logits):
        p = np.exp(logits - logits.max())
        return primal((p / p.sum()).reshape(SIZES), measurements, total, 0.1) / total

    twin = min(
        minimize(by_logits, generator.normal(size=12), method="BFGS", options={"maxiter": 2000}).fun for _ in range(2)
    )
    assert own / total == pytest.approx(twin, abs=1e-4)
    assert by_logits(np.zeros(12)) > twin + 0.01  # control: equal shares would be seen to be worse


def test_with_little_noise_a_tree_has_the_largest_entropy_that_its_pairs_allow():
    generator = np.random.default_rng(0)
    people = generator.integers(50, 500, SIZES).astype(float)
    measurements = measure(people, [(0, 1), (1, 2)], 1e-3, generator)
    fitted = fit_model(SIZES, measurements, rounds=2000, tolerance=1e-15)
    expected = sum_onto(people, (0, 1))[:, :, None] * sum_onto(people, (1, 2))[None] / sum_onto(people, (1,))[:, None]
    np.testing.assert_allclose(joint(fitted) * people.sum(), expected, rtol=1e-3)
    assert np.abs(people - expected).max() > 10.0  # control: the joint table itself is another one


def test_a_pair_that_was_not_measured_is_independent():
    generator = np.random.default_rng(1)
    people = generator.integers(1, 100, [2, 3]).astype(float)
    fitted = fit_model([2, 3], measure(people, [(0,), (1,)], 0.01, generator), rounds=500, tolerance=1e-15)
    expected = np.outer(people.sum(axis=1), people.sum(axis=0)) / people.sum()
    np.testing.assert_allclose(fitted.counts((0, 1)), expected, rtol=1e-2)


def test_repeated_measurements_are_averaged_by_their_precision():
    one = Measurement((0,), np.array([10.0, 20.0]), np.array([1.0, 1.0]))
    other = Measurement((0,), np.array([16.0, 14.0]), np.array([2.0, 2.0]))
    (joined,) = join_measurements([one, other])
    np.testing.assert_allclose(joined.counts, [12.0, 18.0])
    np.testing.assert_allclose(joined.variances, [2.0 / 3.0, 2.0 / 3.0])
    assert estimate_total([one, other]) == pytest.approx(30.0)


def test_negative_noisy_counts_give_a_distribution():
    counts = np.array([-40.0, -3.0, -10.0])
    fitted = fit_model([3], [Measurement((0,), counts, np.full(3, 400.0))])
    assert fitted.total == 1.0
    assert fitted.calibrated.marginal((0,)).sum() == pytest.approx(1.0)


def test_the_minimum_of_a_badly_scaled_function_is_found_as_fast_as_by_scipy():
    scales = np.geomspace(1.0, 1e4, 30)
    target = np.linspace(-2.0, 3.0, 30)

    def function(point):
        return float((scales * (point - target) ** 2).sum()), 2.0 * scales * (point - target)

    found = minimize_by_corrections(function, np.zeros(30), rounds=500, tolerance=1e-9)
    np.testing.assert_allclose(found.point, target, atol=1e-3)
    settings = {"ftol": 1e-9, "gtol": 0.0, "maxiter": 1000}
    twin = minimize(function, np.zeros(30), jac=True, method="L-BFGS-B", options=settings)
    assert found.evaluations < 1.3 * twin.nfev
