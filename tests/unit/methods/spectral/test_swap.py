"""Swapping: columns keep what they are, rows lose who they were."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.components.bases import principal
from sfumato.methods.spectral.swap import ScoreSwap, whiten, winsorise


@pytest.fixture
def scores():
    return principal(np.random.default_rng(0).standard_t(4, size=(300, 6))).scores


def test_a_plain_swap_permutes_every_column_by_itself(scores):
    swapped = ScoreSwap(repair=False)(scores, np.random.default_rng(1))
    assert np.allclose(np.sort(swapped, axis=0), np.sort(scores, axis=0), rtol=0.0, atol=1e-12)
    assert (swapped != scores).mean() > 0.95
    rows = {tuple(row) for row in scores.round(9).tolist()}
    assert not any(tuple(row) in rows for row in swapped.round(9).tolist())


@pytest.mark.parametrize("variant", ["permute", "flip", "orthogonal"])
def test_the_repair_gives_white_scores_again(scores, variant):
    swapped = ScoreSwap(variant=variant)(scores, np.random.default_rng(1))
    assert np.allclose(swapped.mean(axis=0), 0.0, atol=1e-12)
    assert np.allclose(swapped.T @ swapped / 300, np.eye(6), atol=1e-12)
    # control: without it they are not white
    plain = ScoreSwap(variant=variant, repair=False)(scores, np.random.default_rng(1))
    assert np.abs(plain.T @ plain / 300 - np.eye(6)).max() > 1e-4


def test_the_repair_changes_little(scores):
    swapped = np.random.default_rng(1).permuted(scores, axis=0)
    assert np.corrcoef(swapped[:, 0], whiten(swapped, np.random.default_rng(2))[:, 0])[0, 1] > 0.97


def test_flipping_keeps_sizes_and_changes_signs(scores):
    swapped = ScoreSwap(variant="flip", repair=False)(scores, np.random.default_rng(1))
    assert np.array_equal(np.abs(swapped), np.abs(scores))
    assert 0.4 < (swapped == scores).mean() < 0.6


def test_random_directions_have_nothing_of_the_scores(scores):
    swapped = ScoreSwap(variant="orthogonal", repair=False)(scores, np.random.default_rng(1))
    assert np.abs(np.corrcoef(swapped.T, scores.T)[:6, 6:]).max() < 0.2
    assert np.allclose(swapped.std(axis=0), 1.0)


def largest_correlation(columns):
    return np.abs(np.corrcoef(columns.T) - np.eye(columns.shape[1])).max()


def test_a_tolerance_is_met_or_said_to_be_out_of_reach(scores):
    swapped = ScoreSwap(repair=False, tolerance=0.001)(scores, np.random.default_rng(1))
    assert largest_correlation(swapped) <= 0.001
    assert np.allclose(np.sort(swapped, axis=0), np.sort(scores, axis=0), rtol=0.0, atol=1e-12)
    with pytest.raises(CannotRelease, match="at best"):
        ScoreSwap(repair=False, tolerance=1e-12)(scores, np.random.default_rng(1))


@pytest.mark.parametrize("variant", ["permute", "orthogonal"])
def test_without_a_tolerance_correlations_are_a_tenth_of_what_chance_leaves(scores, variant):
    bound = 0.1 / np.sqrt(len(scores))
    assert largest_correlation(ScoreSwap(repair=False, variant=variant)(scores, np.random.default_rng(1))) <= bound
    # control: as the draw falls
    fallen = ScoreSwap(repair=False, variant=variant, tolerance=1.0)(scores, np.random.default_rng(1))
    assert largest_correlation(fallen) > 5 * bound


def test_exchanges_leave_hardly_a_row_as_it_was(scores):
    """Being uncorrelated must not lead back to the people's own rows, which are uncorrelated too."""
    for seed in range(20):
        swapped = ScoreSwap(repair=False)(scores, np.random.default_rng(seed))
        assert np.isclose(swapped, scores).mean() < 0.01
        assert np.abs([np.corrcoef(a, b)[0, 1] for a, b in zip(swapped.T, scores.T, strict=True)]).max() < 0.25


@pytest.mark.parametrize("rows", [4, 7, 20])
def test_of_few_rows_none_are_exchanged(rows):
    few = principal(np.random.default_rng(rows).normal(size=(rows, 5))).scores
    default, drawn = (ScoreSwap(repair=False, tolerance=t)(few, np.random.default_rng(1)) for t in (None, 1.0))
    assert np.allclose(default, drawn)
    with pytest.raises(CannotRelease, match=f"in {rows} rows"):
        ScoreSwap(repair=False, tolerance=0.001)(few, np.random.default_rng(1))


def test_a_tolerance_of_one_leaves_the_draw_as_it_fell(scores):
    fallen = ScoreSwap(repair=False, tolerance=1.0)(scores, np.random.default_rng(1))
    assert (fallen != np.random.default_rng(1).permuted(scores, axis=0)).sum() <= 8  # rows that stayed together
    for seed in range(200):  # columns of three rows fall on each other, and rounding must not speak against it
        few = principal(np.random.default_rng(seed).normal(size=(3, 3))).scores
        assert ScoreSwap(repair=False, tolerance=1.0)(few, np.random.default_rng(seed)).shape == few.shape


def test_winsorising_draws_the_tails_in(scores):
    drawn_in = winsorise(scores, 0.02)
    assert np.ptp(drawn_in, axis=0).max() < np.ptp(scores, axis=0).max()
    assert (drawn_in == scores).mean() > 0.95
    assert winsorise(scores, 0.0) is scores


@pytest.mark.parametrize("rows", [3, 4, 7])
def test_a_few_rows_are_white_after_the_repair_too(rows):
    for seed in range(30):
        draw = np.random.default_rng(seed)
        few = principal(draw.normal(size=(rows, 5))).scores
        swapped = ScoreSwap()(few, draw)
        assert np.allclose(swapped.T @ swapped / rows, np.eye(few.shape[1]), atol=1e-9)
        assert np.allclose(swapped.mean(axis=0), 0.0, atol=1e-6)


def test_nothing_to_swap_is_nothing_swapped():
    assert ScoreSwap()(np.empty((5, 0)), np.random.default_rng(1)).shape == (5, 0)


@pytest.mark.parametrize("option", [{"variant": "turn"}, {"tolerance": 0.0}, {"tolerance": 1.5}, {"winsorise": 1.5}])
def test_options_are_checked(option):
    with pytest.raises(OptionError, match=next(iter(option))):
        ScoreSwap(**option)


def test_signs_cannot_meet_a_tolerance():
    with pytest.raises(OptionError, match="signs"):
        ScoreSwap(variant="flip", tolerance=0.1)
