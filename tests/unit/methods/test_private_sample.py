"""Differential privacy by sampling: the formula against exact divergences of neighbouring tables, and a simulation."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import sfumato as sf
from sfumato.plan.claims.risk import SampledPrivacy
from sfumato.plan.claims.sampling_privacy import sampling_delta, sampling_parameters
from sfumato.plan.plan import Evidence
from sfumato.report.html import Report
from sfumato.sources.frames import as_table


def released_sizes(n: int, beta: float, k: int) -> np.ndarray:
    """The distribution of the number of released rows of a group of n: a sample, or 0 if it is smaller than k."""
    sizes = binom.pmf(np.arange(n + 1), n, beta)
    sizes[0] += sizes[1:k].sum()
    sizes[1:k] = 0.0
    return sizes


def exact_delta(k: int, beta: float, epsilon: float, most: int) -> float:
    """The smallest δ for groups of up to ``most`` rows: the largest divergence of two tables that differ by one row."""
    worst = 0.0
    for n in range(most):
        one, other = np.append(released_sizes(n, beta, k), 0.0), released_sizes(n + 1, beta, k)
        for p, q in ((one, other), (other, one)):
            worst = max(worst, float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()))
    return worst


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-2), (1.0, 1e-2), (1.0, 1e-3), (1.5, 1e-2), (2.0, 1e-2)])
def test_neighbouring_tables_differ_by_no_more_than_promised(epsilon, delta):
    found = sampling_parameters(epsilon, delta)
    assert exact_delta(found.k, found.beta, epsilon, 3 * found.k) <= delta
    assert exact_delta(max(1, found.k // 3), found.beta, epsilon, 3 * found.k) > delta, "a much smaller k would be seen"
    more = min(0.99, 1 - (1 - found.beta) ** 2)
    assert exact_delta(found.k, more, epsilon, 3 * found.k) > delta, "and so would a larger sample"


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 3.0), st.floats(-9.0, -1.5))
def test_k_is_the_smallest_that_reaches_delta(epsilon, power):
    delta = 10.0**power
    found = sampling_parameters(epsilon, delta)
    assert found.beta == pytest.approx(1 - math.exp(-epsilon))
    assert sampling_delta(found.k, found.beta, epsilon) <= delta
    assert found.k == 1 or sampling_delta(found.k - 1, found.beta, epsilon) > delta


def slow_delta(k: int, beta: float, epsilon: float, most: int) -> float:
    """The formula of the papers, term by term."""
    gamma = (math.exp(epsilon) - 1 + beta) / math.exp(epsilon)
    first = math.ceil(k / gamma - 1)
    return max(sum(binom.pmf(j, n, beta) for j in range(math.floor(gamma * n) + 1, n + 1)) for n in range(first, most))


@pytest.mark.parametrize(("k", "epsilon"), [(5, 1.0), (20, 1.0), (10, 0.5), (7, 2.0)])
def test_delta_by_the_formula(k, epsilon):
    beta = 1 - math.exp(-epsilon)
    assert sampling_delta(k, beta, epsilon) == pytest.approx(slow_delta(k, beta, epsilon, 8 * k + 40), rel=1e-9)


def test_a_sample_that_is_too_large_gives_nothing():
    assert sampling_delta(100, 0.9, 1.0) == 1.0


ROLES = {"x": {"role": "quasi", "tree": "steps:10"}, "y": {"role": "sensitive", "tree": "steps:10"}}


def sizes_of(rows: int, runs: int, **options) -> list[int]:
    """The number of released rows in the cell of a person among ``rows`` others, over many releases."""
    frame = pd.DataFrame({"x": [5] * rows + [25] * 100, "y": [5] * rows + [25] * 100})
    method = sf.PrivateSample(levels={"x": 1, "y": 1}, **options)
    found = []
    for seed in range(runs):
        cells = method.release(frame, schema=ROLES, seed=seed).to_pandas()["x"]
        found.append(int((cells == "0–9").sum()))
    return found


def test_releases_of_neighbouring_tables_by_simulation():
    """Whether the cell of a person is released at all: probabilities with and without the person, within e^ε and δ."""
    epsilon, delta, runs = 1.0, 0.05, 120
    k = sampling_parameters(epsilon, delta).k
    n = round(k / (1 - math.exp(-epsilon)))  # about half of the samples reach k
    without, released = (np.array(sizes_of(rows, runs, epsilon=epsilon, delta=delta)) for rows in (n, n + 1))
    shown = [np.mean(sizes >= k) for sizes in (without, released)]
    error = 3 * math.sqrt(0.25 / runs)
    assert 0.1 < shown[0] < 0.95, "the test must be about an event that may happen"
    assert shown[1] <= math.exp(epsilon) * shown[0] + delta + 2 * error
    assert set(released[released > 0]) <= set(range(k, n + 2))
    expected = 1 - binom.cdf(k - 1, n + 1, 1 - math.exp(-epsilon))
    assert abs(np.mean(released >= k) - expected) < error, "rows are kept with the probability that is told"


def test_every_column_is_generalized_and_counted():
    draw = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"age": draw.integers(0, 80, 2000), "ill": draw.choice(["flu", "none"], 2000), "w": draw.random(2000)}
    )
    schema = {"age": {"role": "quasi", "tree": "steps:20,40"}, "ill": "sensitive", "w": "weight"}
    release = sf.PrivateSample().release(frame, schema=schema)
    assert set(release.table.names) == {"age", "ill"}
    assert set(release.to_pandas()["ill"]) == {"*"}, "a column without a tree tells nothing"
    assert release.manifest.notes["columns"]["age"]["how"] == "level 1 of its tree"
    assert any("differentially private" in finding.claim and finding.held for finding in release.findings)


def test_the_claim_is_broken_by_small_groups_other_columns_and_small_k():
    rows = as_table({"x": ["a"] * 60 + ["b"] * 3})
    large = as_table({"x": ["a"] * 60, "y": ["c"] * 60})
    k, beta = 57, 1 - math.exp(-1.0)
    for table, columns, smallest, held in (
        (rows, ("x",), k, False),
        (large, ("x",), k, False),
        (large, ("x", "y"), k, True),
        (large, ("x", "y"), 10, False),
    ):
        claim = SampledPrivacy(epsilon=1.0, delta=1e-4, beta=beta, k=smallest, columns=columns)
        assert claim.measure(Evidence(table, table, np.arange(table.rows))).held is held


def test_a_level_of_an_unknown_column_is_refused():
    with pytest.raises(sf.SfumatoError, match="level"):
        sf.PrivateSample(levels={"zip": 1}).release({"x": [1, 2]}, schema={"x": "quasi"})


def test_an_epsilon_that_keeps_every_row_is_refused():
    with pytest.raises(sf.SfumatoError, match="epsilon"):
        sf.PrivateSample(epsilon=50.0).release({"sex": ["f", "m"] * 50}, schema={"sex": "quasi"})


def test_a_value_that_its_tree_lacks_is_refused_without_showing_it(tmp_path):
    (tmp_path / "tree.csv").write_text("red;warm;*\ngreen;cold;*\n")
    schema = {"colour": {"role": "quasi", "tree": str(tmp_path / "tree.csv")}}
    with pytest.raises(sf.SfumatoError, match="must contain every value") as refused:
        sf.PrivateSample().release({"colour": ["red", "green", "violet"] * 30}, schema=schema)
    assert "violet" not in str(refused.value)


@pytest.mark.parametrize("one", [1000.0, math.nan])
def test_the_manifest_does_not_tell_whether_one_person_is_in_the_table(one):
    """Counts of the original values or rows would differ with certainty, whatever ε is."""
    ages = [20.0 + row % 60 for row in range(3000)]
    method = sf.PrivateSample(epsilon=1.0, delta=1e-4, levels={"age": 1})
    schema = {"age": {"role": "quasi", "tree": "steps:20"}}
    without, with_one = (
        method.release({"age": values}, schema=schema).manifest for values in ([*ages, 20.0], [*ages, one])
    )
    assert without.notes == with_one.notes
    assert without.rows_in == with_one.rows_in


def test_a_table_that_is_too_small_is_told_to_use_a_larger_epsilon():
    """The method has no option k."""
    with pytest.raises(sf.SfumatoError, match="larger epsilon"):
        sf.PrivateSample(epsilon=1.0, delta=1e-6).release({"sex": ["f", "m"]}, schema={"sex": "quasi"})


def test_an_assessment_is_returned_and_not_written_beside_the_promise(tmp_path):
    rows = 3137
    people = {"age": [20 + row % 60 for row in range(rows)], "sex": ["f", "m", "f"] * (rows // 3) + ["m"] * (rows % 3)}
    schema = {"age": {"role": "quasi", "tree": "steps:20"}, "sex": {"role": "quasi", "tree": "prefix"}}
    made = sf.release_and_assess(sf.PrivateSample(epsilon=1.0, levels={"age": 1, "sex": 0}), people, schema=schema)
    assert made.assessment.original_rows == rows
    bundle = made.release.write(tmp_path / "private")
    written = "".join(file.read_text() for file in bundle.glob("*.[jh]*"))
    left_out = rows - made.release.table.rows
    for count in (f"{rows:,}", str(rows), f"{left_out:,}", f"{rows**-1.2:g}"):
        assert count not in written
    assert "copies" not in written
    assert json.loads((bundle / "report.json").read_text())["assessment"] is None
    assert sf.read_release(bundle).manifest.rows_in is None


@pytest.mark.parametrize("told", ["manifest", "report"])
def test_counts_of_the_original_beside_the_promise_are_refused(told, tmp_path):
    people = {"sex": ["f", "m"] * 500}
    schema = {"sex": {"role": "quasi", "tree": "prefix"}}
    release = sf.PrivateSample(levels={"sex": 0}).release(people, schema=schema)
    assert sf.read_release(release.write(tmp_path / "as written")).table.rows > 0
    if told == "manifest":
        release = replace(release, manifest=replace(release.manifest, rows_in=1000))
        bundle = release.write(tmp_path / "told")
    else:
        rendered = Report.of(release)
        numbers = json.loads(rendered.numbers) | {"assessment": {"original_rows": 1000}}
        bundle = release.write(tmp_path / "told", report=replace(rendered, numbers=json.dumps(numbers)))
    with pytest.raises(sf.SfumatoError, match="covers every output"):
        sf.read_release(bundle)
