"""Verdicts: samples of other people fail any test in at most 5 %, leaks of the stated size fail, and intervals agree.

The limit on the number of failures is the 99.9 % quantile of the binomial distribution at the stated level. On the code
before permutation tests, 11 of 60 samples failed for their kernel components and 7 of 60 for some privacy measure.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from sfumato.job.assess import assess
from sfumato.measures.assess import LEVEL
from sfumato.measures.registry import MEASURES
from sfumato.methods.noise import Noise
from sfumato.table.table import Table

TESTS = [name for name, measure in MEASURES.items() if measure.tests]


def sample(seed: int, rows: int) -> Table:
    """Heavy tails, columns that depend on each other, clusters and categories."""
    draw = np.random.default_rng(seed)
    kind = draw.integers(3, size=rows)
    shared = draw.normal(size=rows) + 2.0 * (kind == 1)
    columns = {
        "a": shared + 0.3 * draw.normal(size=rows),
        "b": shared**2 + draw.normal(size=rows),
        "c": np.exp(0.7 * shared + 0.5 * draw.normal(size=rows)),
        "d": draw.standard_t(3, size=rows),
        "e": np.round(40 + 12 * shared + 5 * draw.normal(size=rows)),
        "f": np.array(["x", "y", "z"])[np.where(draw.random(rows) < 0.8, kind, draw.integers(3, size=rows))],
    }
    return Table.from_arrow(pa.table(columns))


def failures(draws: int, rows: int, released: int, outside: int | None, first: int = 0) -> tuple[int, dict[str, int]]:
    """Count the samples that fail any test, and the tests that fail."""
    failed, by_test = 0, dict.fromkeys(("privacy", "utility"), 0)
    for seed in range(first, first + draws):
        reference = None if outside is None else sample(3 * seed + 2, outside)
        found = assess(sample(3 * seed, rows), sample(3 * seed + 1, released), reference, measures=TESTS, seed=seed)
        failed += found.passed is False
        assert not contradictions(found), seed
        for family in {score.family for score in found.failed}:
            by_test[family] += 1
    return failed, by_test


def most(draws: int) -> int:
    return int(binom.ppf(0.999, draws, LEVEL))


@pytest.mark.parametrize(("rows", "released", "outside"), [(200, 200, 200), (250, 150, None)])
def test_a_sample_of_other_people_seldom_fails(rows, released, outside):
    failed, by_test = failures(40, rows, released, outside)
    assert failed <= most(40), by_test


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "released", "outside"), [(1000, 1000, 1000), (200, 300, 120), (1000, 1000, None)])
def test_a_sample_of_other_people_seldom_fails_in_larger_tables(rows, released, outside):
    failed, by_test = failures(120, rows, released, outside, first=1000)
    assert failed <= most(120), by_test


@pytest.mark.parametrize("outside", [250, None])
def test_copies_and_noise_fail(outside):
    found = 0
    for seed in range(8):
        original = sample(3 * seed + 500, 250)
        reference = None if outside is None else sample(3 * seed + 501, outside)
        noisy = Noise(level=0.1).release(original, schema=dict.fromkeys(original.names, "quasi"), seed=seed).table
        copied, moved = (assess(original, rows, reference, measures=TESTS, seed=seed) for rows in (original, noisy))
        assert {"copies, all columns", "distance below the reference"} <= {score.name for score in copied.failed}
        found += any(score.family == "privacy" for score in moved.failed)
    assert found >= 6  # of 24 without a reference 18 were found


# The power curve: members plus noise, scaled back to the variances of the population. The largest area under the curve
# of a membership attack on 1,000 people is then about 0.61 or more, with any of these numbers of columns.

PEOPLE = 1000
CURVE = [(2, 0.1), (6, 0.5), (15, 1.0)]


def noisy_members(columns: int, noise: float | None, seed: int) -> list[Table]:
    """Return members, their release and outsiders; without noise the release is other people."""
    draw = np.random.default_rng([seed, columns])
    people, others, fresh = (draw.normal(size=(PEOPLE, columns)) for _ in range(3))
    released = fresh if noise is None else (people + noise * fresh) / np.sqrt(1.0 + noise**2)
    tables = ({f"x{place}": one[:, place] for place in range(columns)} for one in (people, released, others))
    return [Table.from_arrow(pa.table(one)) for one in tables]


def contradictions(found) -> list[str]:
    return [
        score.name
        for score in found.scores
        if score.low is not None
        and (
            not score.low <= score.value <= score.high
            or (score.passed is not None and (score.low > score.chance) == score.passed)
        )
    ]


def rejected(columns: int, noise: float | None, seeds: range) -> int:
    """Count the assessments that fail for membership; no verdict may contradict its interval."""
    failed = 0
    for seed in seeds:
        original, released, reference = noisy_members(columns, noise, seed)
        found = assess(original, released, reference, measures=["membership"], seed=seed)
        assert not contradictions(found), seed
        # a measure alone has the whole level; here it is judged as in an assessment with all six measures of privacy
        failed += min(score.p_value for score in found.scores) <= LEVEL * 0.75 / 6.0
    return failed


@pytest.mark.parametrize(("columns", "noise"), [(2, 0.1), (6, 0.5)])
def test_a_leak_with_an_area_of_six_tenths_fails(columns, noise):
    assert rejected(columns, noise, range(2)) == 2
    assert rejected(columns, None, range(2)) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "noise"), CURVE)
def test_power(columns, noise):
    assert rejected(columns, noise, range(40)) >= 32


@pytest.mark.slow
def test_honest_samples_are_rejected_in_at_most_five_percent():
    assert failures(200, PEOPLE, PEOPLE, PEOPLE, first=2000)[0] <= 10


@pytest.mark.parametrize("seed", range(3))
def test_columns_that_are_shuffled_apart_fail_for_their_components(seed):
    original, draw = sample(seed, 300), np.random.default_rng(seed)
    shuffled = {name: original.arrow.column(name).take(draw.permutation(300)) for name in original.names}
    found = assess(original, Table.from_arrow(pa.table(shuffled)), measures=["kernel-components"], seed=seed)
    assert found["kernel components that differ"].passed is False
