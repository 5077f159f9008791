"""Additive noise: its variance, its covariance, Kim's correction, its shapes, and what it keeps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.engines.memory.engine import MemorySurvey
from sfumato.errors import OptionError
from sfumato.methods.noise import Noise
from sfumato.methods.noise_rows import NoiseMixture, nearest_is_own, resample_rows
from sfumato.randomness import Randomness
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.table import Table

ROWS = 20_000
ADDITIVE = ["correlated", "uncorrelated", "mixture"]


@pytest.fixture(scope="module")
def pair():
    draw = np.random.default_rng(0)
    first = draw.normal(size=ROWS)
    return Table.from_arrow(pa.table({"x": first + 5, "y": 3 * (0.8 * first + 0.6 * draw.normal(size=ROWS))}))


def transformed(method, table, domain=None):
    schema = Schema(tuple(Column(name=name, role=Role.QUASI, domain=domain) for name in table.names))
    return method.plan(MemorySurvey(table), schema, Randomness(3)).transform(table, 0)


def masked(method, table):
    outcome = transformed(method, table)
    return outcome.released.matrix(table.names), table.matrix(table.names)[outcome.origin]


@pytest.mark.parametrize("kind", ADDITIVE)
@pytest.mark.parametrize("level", [0.1, 0.5])
def test_noise_has_the_asked_variance(pair, kind, level):
    after, before = masked(Noise(kind=kind, level=level, correct=False), pair)
    noise = after - before
    assert noise.mean(axis=0) == pytest.approx(np.zeros(2), abs=0.05)
    assert noise.var(axis=0) == pytest.approx(level * before.var(axis=0), rel=0.05)
    correlation = np.corrcoef(noise.T)[0, 1]
    assert correlation == pytest.approx(0.0 if kind == "uncorrelated" else 0.8, abs=0.03)


@pytest.mark.parametrize("options", [{}, {"kind": "mixture"}, {"resample": 0.8}], ids=str)
def test_the_correction_gives_back_mean_and_covariance(pair, options):
    after, before = masked(Noise(level=0.5, **options), pair)
    assert after.mean(axis=0) == pytest.approx(before.mean(axis=0), abs=0.05)
    assert np.cov(after.T) == pytest.approx(np.cov(before.T), rel=0.05)
    # control: without it the covariance has grown by half
    plain, _ = masked(Noise(level=0.5, correct=False, **options), pair)
    assert np.cov(plain.T) == pytest.approx(1.5 * np.cov(before.T), rel=0.05)


def test_the_correction_of_uncorrelated_noise_keeps_variances_and_not_covariances(pair):
    after, before = masked(Noise(kind="uncorrelated", level=0.5), pair)
    assert after.var(axis=0) == pytest.approx(before.var(axis=0), rel=0.05)
    assert np.cov(after.T)[0, 1] == pytest.approx(np.cov(before.T)[0, 1] / 1.5, rel=0.05)


def test_each_released_row_stands_for_its_original(pair):
    after, before = masked(Noise(level=0.01), pair)
    assert np.corrcoef(after[:, 0], before[:, 0])[0, 1] > 0.99


class TestShapes:
    @pytest.mark.parametrize("share", [0.5, 0.99])
    @pytest.mark.parametrize("columns", [1, 6])
    def test_resampled_rows_are_white_and_not_near_zero(self, share, columns):
        rows = resample_rows(ROWS, columns, share, np.random.default_rng(1))
        assert np.cov(rows.T, bias=True) == pytest.approx(np.eye(columns).squeeze(), abs=0.05)
        # the slow way: draw again what is short
        draw = np.random.default_rng(2)
        plain = draw.standard_normal((ROWS, columns))
        bound = np.quantile((draw.standard_normal((10 * ROWS, columns)) ** 2).sum(axis=1), share)
        while (short := (plain**2).sum(axis=1) < bound).any():
            plain[short] = draw.standard_normal((int(short.sum()), columns))
        slow = plain / np.sqrt((plain**2).sum(axis=1).mean() / columns)
        quantiles = [
            np.quantile(np.linalg.norm(found, axis=1), [0.01, 0.25, 0.5, 0.75, 0.99]) for found in (rows, slow)
        ]
        assert quantiles[0] == pytest.approx(quantiles[1], rel=0.04)
        # control: plain normal rows have shorter ones
        assert (
            np.quantile(np.linalg.norm(plain * 0 + draw.standard_normal(plain.shape), axis=1), 0.01)
            < 0.9 * quantiles[0][0]
        )

    @pytest.mark.parametrize("within", [0.01, 0.25, 0.9])
    def test_a_mixture_has_mean_0_and_variance_1(self, within):
        mixture = NoiseMixture.draw(within, np.random.default_rng(3))
        assert mixture.means.sum() == pytest.approx(0.0)
        assert (mixture.means**2).mean() + within == pytest.approx(1.0)
        rows = mixture.rows(ROWS, 2, np.random.default_rng(4))
        assert rows.std(axis=0) == pytest.approx(np.ones(2), rel=0.03)

    def test_a_narrow_mixture_leaves_few_cells_nearly_unchanged(self, pair):
        near = {}
        for kind, options in {"mixture": {"within": 0.02}, "correlated": {}}.items():
            after, before = masked(Noise(kind=kind, correct=False, **options), pair)
            near[kind] = float((np.abs(after - before)[:, 0] < 0.02).mean())
        assert near["mixture"] < 0.3 * near["correlated"]


class TestNormalScores:
    @pytest.mark.parametrize("level", [0.1, 1.0])
    def test_distributions_and_rank_correlations_are_kept(self, level):
        draw = np.random.default_rng(5)
        first = draw.normal(size=ROWS)
        table = Table.from_arrow(
            pa.table(
                {
                    "x": np.exp(2 * first),
                    "y": np.cbrt(0.8 * first + 0.6 * draw.normal(size=ROWS)),
                    "city": np.where(first > 0.5, "a", np.where(first > 0, "b", "c")),
                }
            )
        )
        outcome = transformed(Noise(kind="normal-scores", level=level), table)
        for name in ("x", "y"):
            before, after = np.sort(table.numbers(name)), np.sort(outcome.released.numbers(name))
            shares = np.searchsorted(before, after) / ROWS  # Kolmogorov and Smirnov
            assert np.abs(shares - np.arange(ROWS) / ROWS).max() < 1.63 / np.sqrt(ROWS / 2)
        ranks = [
            np.corrcoef([np.argsort(np.argsort(one.numbers(name))) for name in ("x", "y")])[0, 1]
            for one in (table, outcome.released)
        ]
        assert ranks[1] == pytest.approx(ranks[0], abs=0.02)
        cities = [
            np.unique(one.arrow.column("city").to_numpy(), return_counts=True)[1] for one in (table, outcome.released)
        ]
        assert cities[1] == pytest.approx(cities[0], rel=0.05)
        # control: without the correction tails grow
        wide = transformed(Noise(kind="normal-scores", level=level, correct=False), table).released
        assert np.quantile(wide.numbers("x"), 0.95) > 1.2 * np.quantile(table.numbers("x"), 0.95) or level < 1.0


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["correlated", "uncorrelated", "normal-scores", "mixture"]), st.integers(0, 10**6))
def test_missing_cells_stay_missing(kind, seed):
    draw = np.random.default_rng(seed)
    x = draw.normal(size=60)
    x[draw.random(60) < 0.4] = np.nan
    table = Table.from_arrow(pa.table({"x": pa.array(x, from_pandas=True), "n": draw.integers(0, 9, 60)}))
    outcome = transformed(Noise(kind=kind, level=2.0), table)
    assert np.array_equal(np.isnan(outcome.released.numbers("x")), np.isnan(x[outcome.origin]))


def test_numbers_are_limited_only_if_asked_for_or_declared(pair):
    def ends(method, domain=None):
        numbers = transformed(method, pair, domain).released.numbers("x")
        return numbers.min(), numbers.max()

    x = pair.numbers("x")
    low, high = ends(Noise(level=1.0, correct=False))
    assert low < x.min()
    assert high > x.max()
    low, high = ends(Noise(level=1.0, correct=False, clip=True))
    assert x.min() <= low <= high <= x.max()
    assert ends(Noise(level=1.0, correct=False), (2.0, 9.0)) == (2.0, 9.0)


@pytest.mark.parametrize(
    "option",
    [
        {"level": 0.0},
        {"level": "much"},
        {"kind": "white"},
        {"resample": 1.0},
        {"within": 0.0},
        {"resample": 0.5, "kind": "mixture"},
    ],
)
def test_options_are_checked(option):
    with pytest.raises(OptionError, match=next(iter(option))):
        Noise(**option)


class TestRowsDrawnAgain:
    def test_the_nearest_is_that_of_all_distances(self):
        draw = np.random.default_rng(1)
        original = draw.normal(size=(60, 3))
        released = original + 0.7 * draw.normal(size=(60, 3))
        apart = np.linalg.norm(original[:, None] - released[None], axis=2)
        slow = [apart[row, row] < np.delete(apart[row], row).min() for row in range(60)]
        assert nearest_is_own(original, released).tolist() == slow
        assert 5 < sum(slow) < 55

    def test_fewer_rows_are_nearest_to_their_own_and_moments_are_not_recovered(self):
        draw = np.random.default_rng(2)
        people = {name: draw.normal(size=300) for name in "xyz"}
        schema = Schema(tuple(Column(name=name, role=Role.QUASI) for name in people))
        table = Table.from_arrow(pa.table(people))

        def found(**options):
            plan = Noise(level=0.3, **options).plan(MemorySurvey(table), schema, Randomness(4))
            outcome = plan.transform(table, 0)
            released = np.empty((300, 3))
            released[outcome.origin] = outcome.released.matrix(("x", "y", "z"))
            return nearest_is_own(table.matrix(("x", "y", "z")), released).mean(), plan.recoverable

        before, recovered = found()
        after, lost = found(redraw=5)
        assert after < 0.7 * before and recovered == ("x", "y", "z") and lost == ()

    def test_it_needs_plain_noise(self):
        with pytest.raises(OptionError, match="redraw"):
            Noise(redraw=2, basis="svd")
