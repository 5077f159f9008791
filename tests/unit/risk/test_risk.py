"""Individual risk, special uniques and population uniqueness: hand-worked cases, slow twins and a known population."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import hypergeom

from sfumato.errors import OptionError, TableError
from sfumato.risk.individual import dis_suda, individual_risk, linkage_risk, special_uniques
from sfumato.risk.population import pitman_uniques, population_uniqueness, snb_uniques, zayatz_uniques
from sfumato.sources.files import read
from sfumato.table.group_counts import GroupSizes
from sfumato.table.groups import group_labels

KEYS = ["key1", "key2", "key3", "key4"]
FRANCDAT = {
    "key1": [1, 1, 1, 3, 4, 4, 6, 1],
    "key2": [2, 2, 2, 3, 3, 3, 2, 2],
    "key3": [5, 1, 1, 1, 1, 1, 1, 5],
    "key4": [1, 1, 1, 5, 4, 1, 5, 1],
    "w": [18.0, 45.5, 39.0, 17.0, 541.0, 8.0, 5.0, 92.0],
}


def test_francdat_has_the_published_risks():
    found = individual_risk(FRANCDAT, KEYS, "w")
    published = [0.017144, 0.022042, 0.022042, 0.177076, 0.011654, 0.297063, 0.402359, 0.017144]
    np.testing.assert_allclose(found.risks, published, atol=5e-7)
    assert found.expected == pytest.approx(sum(published), abs=1e-5)
    assert found.global_risk == pytest.approx(found.expected / 8)
    assert (found.rows_above(0.2), found.largest) == (2, found.risks.max())


@given(st.integers(1, 400), st.floats(1e-6, 1.0))
def test_the_risk_is_the_mean_of_one_over_the_number_of_people(frequency, share):
    found = linkage_risk(np.array([frequency]), np.array([frequency / share]))[0]
    slow = quad(lambda u: share * u ** (frequency - 1) / (share + (1 - share) * u), 0, 1, epsabs=0, epsrel=1e-10)[0]
    assert found == pytest.approx(slow, rel=1e-6)


def test_the_risk_is_the_mean_of_a_negative_binomial_number():
    rng = np.random.default_rng(1)
    frequency, share = 3, 0.2
    people = frequency + rng.negative_binomial(frequency, share, 400_000)
    found = linkage_risk(np.array([frequency]), np.array([frequency / share]))[0]
    assert found == pytest.approx((1.0 / people).mean(), abs=1e-3)
    assert abs(share / frequency - found) > 5e-3  # control: one over the mean is another number


def test_without_weights_the_table_is_the_population():
    assert individual_risk(FRANCDAT, KEYS).risks.tolist() == [0.5, 0.5, 0.5, 1, 1, 1, 1, 0.5]
    equal = individual_risk(FRANCDAT, KEYS, population=800).risks
    assert equal[3] == pytest.approx(math.log(100) / 99)


def test_weights_below_one_never_make_the_risk_larger_than_one_over_the_frequency():
    found = individual_risk({"a": [1, 1], "w": [0.1, 0.2]}, ["a"], "w")
    assert found.risks.tolist() == [0.5, 0.5]


def test_a_household_is_known_as_soon_as_one_member_is():
    table = {"a": [1, 1, 2, 3], "home": [7, None, 7, None]}
    found = individual_risk(table, ["a"], population=40, household="home")
    risks = found.risks
    together = 1 - (1 - risks[0]) * (1 - risks[2])
    assert found.household_risks == pytest.approx([together, risks[1], together, risks[3]])
    assert found.household_expected == pytest.approx(2 * together + risks[1] + risks[3])
    assert individual_risk(table, ["a"], household="home").household_risks.tolist() == [1.0, 0.5, 1.0, 1.0]


def test_a_population_and_weights_contradict_each_other():
    with pytest.raises(OptionError, match="either"):
        individual_risk(FRANCDAT, KEYS, "w", population=100)
    with pytest.raises(TableError, match="positive"):
        individual_risk({"a": [1], "w": [0.0]}, ["a"], "w")


# --------------------------------------------------------------------------------------------- special uniques
def slow_scores(columns: dict[str, list], largest: int) -> tuple[list[float], list[int]]:
    """SUDA scores by looking at all rows and sets of columns."""
    names, rows = list(columns), len(next(iter(columns.values())))
    keys = {
        members: Counter(tuple(columns[name][row] for name in members) for row in range(rows))
        for size in range(1, len(names) + 1)
        for members in combinations(names, size)
    }
    scores, sizes = [0.0] * rows, [0] * largest
    for row in range(rows):
        unique = {members for members, seen in keys.items() if seen[tuple(columns[n][row] for n in members)] == 1}
        for members in unique:
            if len(members) <= largest and not any(set(other) < set(members) for other in unique):
                scores[row] += math.factorial(len(names) - len(members))
                sizes[len(members) - 1] += 1
    return scores, sizes


cells = st.one_of(st.none(), st.integers(0, 3))
tables = st.integers(1, 25).flatmap(
    lambda rows: st.fixed_dictionaries({name: st.lists(cells, min_size=rows, max_size=rows) for name in "abcd"})
)


@given(tables, st.integers(1, 5))
def test_scores_are_those_of_looking_at_all_sets(columns, largest):
    found = special_uniques(pa.table(columns), list("abcd"), max_size=largest)
    scores, sizes = slow_scores(columns, min(4, largest))
    assert found.scores.tolist() == scores
    assert list(found.sets_by_size) == sizes


def test_francdat_by_hand():
    # row 4: key1 = 3 alone (3! = 6), and key2, key4 = 3, 5 together (2! = 2); key2 = 3 and key4 = 5 occur elsewhere.
    # row 5: key4 = 4 alone (6). row 6: key1, key4 = 4, 1 (2) and key2, key4 = 3, 1 (2).
    # row 7: key1 = 6 alone (6), and key2, key4 = 2, 5 (2).
    found = special_uniques(FRANCDAT, KEYS)
    assert found.scores.tolist() == [0, 0, 0, 8, 6, 4, 8, 0]
    assert (found.unique_rows, found.sets_by_size) == (4, (3, 4, 0, 0))
    assert found.contributions["key3"] == 0.0
    assert found.contributions["key1"] == pytest.approx((6 + 6 + 2) / 26)


def test_dis_scores_by_hand():
    found = special_uniques(FRANCDAT, KEYS, sampling_fraction=0.5)
    q, scores = 1.2, np.array([8.0, 6.0, 4.0, 8.0])
    correct = 4 * 0.5 / (4 * 0.5 + 4 * 0.5)  # 4 uniques, two pairs of equal rows
    spread = scores**q * (scores**-q).sum()
    np.testing.assert_allclose(found.dis_scores[3:7], 1 / (1 + (4 / correct - 4) / spread))
    assert found.dis_scores[[0, 1, 2, 7]].tolist() == [0, 0, 0, 0]
    assert dis_suda(np.zeros(3), 4, 0, 2, 0.1).tolist() == [0, 0, 0]


def test_too_many_sets_are_refused():
    table = {f"c{place}": [1, 2] for place in range(20)}
    with pytest.raises(OptionError, match="sets of columns"):
        special_uniques(table, list(table))
    assert special_uniques(table, list(table), max_size=2).sets_by_size == (40, 0)


# --------------------------------------------------------------------------------------- population uniqueness
def classes(*sizes: int) -> GroupSizes:
    return GroupSizes.of(np.array(sizes))


def test_zayatz_is_the_rule_of_bayes():
    found, population, rows = classes(1, 1, 1, 2, 2, 3), 40, 10
    drawn = {j: hypergeom.pmf(1, population, j, rows) for j in (1, 2, 3)}
    share = 3 / 6 * drawn[1] / (3 / 6 * drawn[1] + 2 / 6 * drawn[2] + 1 / 6 * drawn[3])
    assert zayatz_uniques(found, population) == pytest.approx(3 * share * population / rows)


def test_pitman_solves_the_equations_of_hoshino():
    found, population = classes(*[1] * 60, *[2] * 20, *[3] * 8, 5, 9, 17), 5000
    estimate = pitman_uniques(found, population)
    n, u = int(found.sizes @ found.groups), found.count

    def gradient(theta: float, alpha: float) -> tuple[float, float]:
        by_theta = sum(1 / (theta + i * alpha) for i in range(1, u)) - sum(1 / (theta + i) for i in range(1, n))
        filled = sum(
            groups * sum(1 / (i - alpha) for i in range(1, size))
            for size, groups in zip(found.sizes, found.groups, strict=True)
        )
        return by_theta, sum(i / (theta + i * alpha) for i in range(1, u)) - filled

    from scipy.optimize import fsolve

    theta, alpha = fsolve(lambda place: gradient(*place), [50.0, 0.3])
    slow = math.exp(math.lgamma(theta + 1) - math.lgamma(theta + alpha)) * population**alpha
    assert estimate == pytest.approx(slow, rel=0.02)  # the slow one is the limit for large populations


def test_the_negative_binomial_estimate_is_that_of_its_own_model():
    rng = np.random.default_rng(5)
    sizes = 1 + rng.negative_binomial(0.4, 0.1, 6000)
    people = np.repeat(np.arange(6000), sizes)
    drawn = np.bincount(rng.permutation(people)[: len(people) // 5])
    found = snb_uniques(GroupSizes.of(drawn[drawn > 0]), len(people))
    assert found == pytest.approx((sizes == 1).sum(), rel=0.1)


@pytest.mark.parametrize("estimate", [zayatz_uniques, pitman_uniques, snb_uniques])
def test_the_ends_are_exact(estimate):
    assert estimate(classes(2, 2, 3), 100) == 0.0
    assert estimate(classes(1, 1, 1), 100) == pytest.approx(100)
    assert estimate(classes(1, 1, 2), 4) == pytest.approx(2, rel=0.6 if estimate is pitman_uniques else 1e-6)


def test_a_population_smaller_than_the_table_is_refused():
    with pytest.raises(OptionError, match="must include"):
        population_uniqueness({"a": [1, 2, 3]}, ["a"], population=2)


@pytest.mark.parametrize(
    ("columns", "fraction", "error"),  # relative error of the median of five samples
    [
        ((1, 4, 13), 0.05, 0.40),
        ((1, 4, 6, 10, 14), 0.05, 0.40),
        ((1, 4, 6, 10, 14), 0.20, 0.10),
        ((1, 4, 7, 9, 10, 14), 0.20, 0.15),
        ((1, 4, 6, 7, 9, 10, 13, 14), 0.05, 0.20),
        ((1, 4, 6, 7, 9, 10, 13, 14), 0.20, 0.10),
    ],
)
def test_uniques_of_adult_are_estimated_from_samples(data_folder, columns, fraction, error):
    adult = read(data_folder / "adult" / "adult.data")
    names = [f"column_{place}" for place in columns]
    true = int((np.bincount(group_labels(adult, names)) == 1).sum())
    rng, found = np.random.default_rng(11), []
    for _ in range(5):
        sample = adult.take(rng.permutation(adult.rows)[: round(fraction * adult.rows)])
        found.append(population_uniqueness(sample, names, adult.rows))
    estimates = np.median([one.unique_people for one in found])
    assert estimates == pytest.approx(true, rel=error)
    naive = np.median([one.unique_rows for one in found]) / fraction  # control: scaling up the sample fails
    assert naive > (1 + error) * true
    assert found[0].estimator == "pitman" if fraction <= 0.1 else found[0].estimator in ("zayatz", "snb")
    truth = true / adult.rows * sum(one.rows for one in found) / sum(one.unique_rows for one in found)
    assert np.mean([one.correct_share for one in found]) == pytest.approx(truth, rel=error)
