"""The story of Lasko's thesis on people of NHANES: what hides, what keeps, what does neither."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.methods.spectral.svd_swap import SvdSwap

pytestmark = pytest.mark.replication

SEEDS = (11, 1, 2, 3)
PRIVATE, FAITHFUL = 0.01, 2  # least p-value of the three measures; most components of 20 that may differ


@pytest.fixture(scope="module")
def thesis(script):
    return script("spectral")


@pytest.fixture(scope="module", params=SEEDS)
def experiment(request, thesis, data_folder):
    if not (data_folder / "nhanes" / "nhanes_complete.csv.gz").is_file():
        pytest.skip("the NHANES table is not here")
    return thesis.experiment(thesis.nhanes(data_folder), request.param)


def test_a_fresh_sample_differs_in_no_more_components_than_chance(experiment):
    assert experiment.run("reference").differing <= FAITHFUL


@pytest.mark.parametrize("name", ["PICA 300", "PICA auto"])
def test_partitioned_swapping_hides_everybody_and_keeps_the_distribution(experiment, name):
    found = experiment.run(name)
    assert found.least_p > PRIVATE
    assert found.differing <= FAITHFUL


def test_auto_chooses_clusters_about_as_large_as_the_thesis_does(experiment):
    assert 150 <= experiment.run("PICA auto").size <= 500


def test_small_clusters_keep_the_distribution_and_do_not_hide(experiment):
    found = experiment.run("PICA 100")
    assert found.least_p < PRIVATE
    assert found.differing <= FAITHFUL


@pytest.mark.parametrize("name", ["SVD swap", "SVD swap, repaired"])
def test_swapping_over_the_whole_table_hides_and_keeps_the_distribution_less_well(experiment, name):
    found = experiment.run(name)
    assert found.least_p > PRIVATE
    assert found.differing >= FAITHFUL
    assert found.differing > experiment.run("PICA 300").differing


def test_noise_is_matched_back_and_right_matches_are_told(experiment):
    found = experiment.run("noise b = 0.1").linkage
    assert found.rate.value > 0.95
    assert found.by_distance.value > 0.8
    assert found.by_ambiguity.value > 0.9


def test_spectral_groups_are_matched_now_and_then_and_nobody_can_tell_when(experiment):
    found = experiment.run("spectral RHS").linkage
    assert 0.05 <= found.rate.value <= 0.10
    assert max(found.by_distance.value, found.by_ambiguity.value, found.by_uncertainty.value) < 0.62


def test_plain_histograms_anonymize_nothing(experiment):
    found = experiment.run("plain RHS")
    assert found.linkage.rate.value > 0.9
    assert (found.prediction.distance < 1e-6).mean() > 0.85


def test_the_plain_swap_betters_means_variances_and_correlations_of_table_4_1(experiment, thesis):
    ours, theirs = experiment.run("SVD swap").four_moments, thesis.TABLE_4_1["SVD swap"]
    assert all(our < its + 5e-4 for our, its in zip(ours[:3], theirs[:3], strict=True))
    assert ours[3] < theirs[3] + 0.003, "ranks follow relations that are not linear: matched, and not on every split"
    # control: a permutation as it falls keeps correlations no better than the thesis
    fallen = experiment.judge(experiment.release(SvdSwap(repair=False, tolerance=1.0))[0].released)
    assert fallen.four_moments[2] > ours[2]


def test_medians_over_splits_meet_all_of_table_4_1(thesis, data_folder):
    if not (data_folder / "nhanes" / "nhanes_complete.csv.gz").is_file():
        pytest.skip("the NHANES table is not here")
    table = thesis.nhanes(data_folder)
    splits = [thesis.experiment(table, seed) for seed in thesis.FRESH_SEEDS]
    changes = np.array([one.run("SVD swap").four_moments for one in splits])
    assert (np.median(changes, axis=0) < np.add(thesis.TABLE_4_1["SVD swap"], 5e-4)).all()


def test_restored_marginals_let_a_swap_over_the_whole_table_keep_the_distribution_too(experiment):
    found = experiment.run("SVD swap, restored")
    assert found.least_p > PRIVATE
    assert found.differing <= FAITHFUL


def test_the_repair_keeps_means_and_covariances(experiment):
    released = experiment.release(SvdSwap())[0].released
    names = [number.name for number in experiment.pair.code.numbers]
    before, after = experiment.original.matrix(names), released.matrix(names)
    spread = before.std(axis=0)
    assert abs(after.mean(axis=0) - before.mean(axis=0)).max() < 1e-9
    centred, swapped = (before - before.mean(axis=0)) / spread, (after - after.mean(axis=0)) / spread
    assert abs(centred.T @ centred - swapped.T @ swapped).max() / len(before) < 1e-9
