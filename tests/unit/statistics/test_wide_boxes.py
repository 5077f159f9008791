"""Dismissal and fuzzy weights: equal to the papers' own procedures and to a general solver; the shift is shown."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from sfumato.errors import OptionError, StatisticError
from sfumato.release.read import read_release
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.language import parse
from sfumato.statistics.moments import Moments, derivatives, sampling_constant
from sfumato.statistics.wide_boxes import dismissal_threshold, fuzzy_factors, fuzzy_threshold, reweight
from sfumato.table.table import Table

contributions = arrays(np.float64, st.integers(1, 12), elements=st.integers(0, 20).map(lambda whole: whole / 4.0))
constants = st.floats(0.01, 50.0)


def slow_dismissal(contribution, constant, objective):
    """Every threshold in turn, as the papers say it."""
    best = (math.inf, math.nan)
    for threshold in np.unique(contribution):
        kept = contribution[contribution <= threshold]
        among = len(kept) if objective == "normalised" else len(contribution)
        best = min(best, (kept.sum() / among + constant / math.sqrt(len(kept)), threshold))
    return best


def iterated_threshold(contribution, constant):
    """XF §III word for word (with its missing n): solve the quadratic over the points below the last λ, repeat."""
    last = math.inf
    for _ in range(1000):
        kept = contribution[contribution < last]
        n, s, q = len(kept), kept.sum(), (kept**2).sum()
        now = (s + math.sqrt(max(s * s - n * (q - constant**2), 0.0))) / n
        if now == last:
            break
        last = now
    return last


@given(contributions, constants, st.sampled_from(["normalised", "first"]))
def test_the_threshold_is_the_best_of_all(contribution, constant, objective):
    error, _ = slow_dismissal(contribution, constant, objective)
    threshold = dismissal_threshold(contribution, np.ones(len(contribution)), constant, objective)
    kept = contribution[contribution <= threshold]
    among = len(kept) if objective == "normalised" else len(contribution)
    assert kept.sum() / among + constant / math.sqrt(len(kept)) == pytest.approx(error)


@given(contributions, constants)
def test_the_fuzzy_threshold_solves_its_equation(contribution, constant):
    threshold = fuzzy_threshold(contribution, np.ones(len(contribution)), constant)
    assert (np.maximum(threshold - contribution, 0.0) ** 2).sum() == pytest.approx(constant**2, rel=1e-9)


@given(contributions, constants)
def test_the_fuzzy_threshold_is_that_of_the_papers_iteration(contribution, constant):
    exact = fuzzy_threshold(contribution, np.ones(len(contribution)), constant)
    assert iterated_threshold(contribution, constant) == pytest.approx(exact, rel=1e-6, abs=1e-6)


@given(contributions, constants, st.data())
def test_copies_are_as_good_as_records(contribution, constant, data):
    copies = data.draw(arrays(np.int64, len(contribution), elements=st.integers(1, 4)))
    repeated = np.repeat(contribution, copies)
    ones, row_weight = np.ones(len(repeated)), copies.astype(float)
    assert fuzzy_threshold(contribution, row_weight, constant) == pytest.approx(
        fuzzy_threshold(repeated, ones, constant)
    )
    for objective in ("normalised", "first"):
        one, other = (
            dismissal_threshold(*case, constant, objective) for case in ((contribution, row_weight), (repeated, ones))
        )
        assert one == other


@pytest.mark.parametrize("seed", range(5))
def test_fuzzy_weights_are_the_minimum_that_a_general_solver_finds(seed):
    rng = np.random.default_rng(seed)
    contribution, constant = rng.exponential(size=12), float(rng.uniform(0.3, 3.0))

    def error(weights):
        return weights @ contribution + constant * math.sqrt(weights @ weights)

    factors = fuzzy_factors(contribution, fuzzy_threshold(contribution, np.ones(12), constant))
    weights = factors / factors.sum()
    solved = minimize(
        error,
        np.full(12, 1 / 12),
        bounds=[(0.0, 1.0)] * 12,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert error(weights) <= solved.fun + 1e-9
    assert np.allclose(weights, solved.x, atol=1e-4)


def boxes_with_outliers(seed=0):
    """Four hundred boxes of five in a dense middle, twenty wide ones far out on one side."""
    rng = np.random.default_rng(seed)
    middle = np.concatenate([rng.normal(size=400), rng.uniform(5.0, 40.0, size=20)])
    half = np.concatenate([np.full(400, 0.02), np.full(20, 5.0)])
    return CountedBoxes.make(["x"], (middle - half)[:, None], (middle + half)[:, None], count=np.full(420, 5))


def test_outliers_are_dismissed_and_the_error_falls_while_the_statistic_shifts():
    boxes = boxes_with_outliers()
    all_weights = [reweight(parse("mean(x)"), boxes, wide_boxes) for wide_boxes in ("keep", "dismiss", "fuzzy")]
    whole, dismissed, fuzzy = (weights.effect for weights in all_weights)
    assert whole.shift == 0.0
    assert whole.error == pytest.approx(whole.whole_error)
    assert fuzzy.error <= dismissed.error < whole.error
    assert not all_weights[1].kept[400:].any()
    assert all_weights[1].kept[:400].all()
    assert dismissed.records == pytest.approx(2000)
    # the bias that the papers do not mention: what was left out was not like the rest
    assert dismissed.shift == pytest.approx(dismissed.value - whole.value)
    assert dismissed.shift < -0.5
    assert abs(fuzzy.shift) > 0.1
    for weights in all_weights:
        assert weights.share.sum() == pytest.approx(1.0)


def test_the_uncertainty_of_all_records_is_the_linear_half_width_and_the_sampling_error_a_over_root_n():
    boxes = boxes_with_outliers()
    effect = reweight(parse("mean(x)"), boxes, "keep").effect
    half = (boxes.high - boxes.low)[:, 0] / 2.0
    assert effect.uncertainty == pytest.approx(half.mean())
    middle = (boxes.high + boxes.low)[:, 0] / 2.0
    assert effect.sampling == pytest.approx(middle.std() / math.sqrt(2100))


def test_records_that_are_exact_and_equal_need_no_weights():
    exact = CountedBoxes.make(["x"], [[1.0], [1.0]], [[1.0], [1.0]])
    for wide_boxes in ("keep", "dismiss", "fuzzy"):
        weights = reweight(parse("mean(x)"), exact, wide_boxes)
        assert weights.kept.all()
        assert weights.effect.shift == 0.0


def test_sampling_weights_are_copies():
    released = Table.from_arrow(pa.table({"x_low": [0.0, 1.0], "x_high": [1.0, 9.0], "w": [3.0, 1.0]}))
    weights = reweight(parse("mean(x)"), CountedBoxes.of(released, ["x"], weight="w"), "keep")
    assert sorted(weights.share) == [0.25, 0.75]
    assert weights.effect.records == pytest.approx(2.0)


def test_correlations_and_coefficients_can_be_reweighted_too_and_under_a_condition():
    rng = np.random.default_rng(1)
    middle = rng.normal(size=(100, 2))
    half = rng.exponential(0.3, size=(100, 2))
    boxes = CountedBoxes.make(["x", "y"], middle - half, middle + half)
    for words in ("corr(x, y)", "var(x)", "var(x, unbiased)", "corr(x, y | x > 0)"):
        effect = reweight(parse(words), boxes, "fuzzy").effect
        assert effect.minimised <= effect.whole_error + 1e-12
    for part in parse("regress(y ~ x)").parts():
        assert reweight(part, boxes, "fuzzy").effect.minimised <= reweight(part, boxes, "keep").effect.error + 1e-12


def test_what_cannot_be_reweighted_is_refused():
    boxes = boxes_with_outliers()
    with pytest.raises(OptionError, match="wide_boxes"):
        reweight(parse("mean(x)"), boxes, "some")
    with pytest.raises(OptionError, match="objective"):
        reweight(parse("mean(x)"), boxes, "dismiss", objective="second")
    with pytest.raises(StatisticError, match=r"median\(x\) cannot be reweighted"):
        reweight(parse("median(x)"), boxes, "fuzzy")


def released_with_outliers(seed=0):
    """The same as a table that was given, every record with a true value inside its box."""
    boxes = boxes_with_outliers(seed)
    rng = np.random.default_rng(seed)
    low, high = (np.repeat(ends[:, 0], 5) for ends in (boxes.low, boxes.high))
    return read_release(pa.table({"x_low": low, "x_high": high})), low + (high - low) * rng.random(len(low))


@pytest.mark.parametrize("wide_boxes", ["dismiss", "fuzzy"])
def test_an_estimate_shows_the_shift_and_keeps_the_guarantee_of_the_whole_table(wide_boxes):
    release, truth = released_with_outliers()
    for words, true in (("mean(x)", truth.mean()), ("var(x)", truth.var())):
        plain, reweighted = release.estimate(words), release.estimate(words, wide_boxes=wide_boxes)
        assert plain.reweighting is None
        assert plain.shift == 0.0
        assert (reweighted.low, reweighted.high, reweighted.gap) == (plain.low, plain.high, plain.gap)
        assert reweighted.low <= true <= reweighted.high
        assert reweighted.reweighting.whole_value == pytest.approx(plain.value)
        assert reweighted.shift == pytest.approx(reweighted.value - plain.value)
        assert reweighted.linear_high - reweighted.linear_low < plain.linear_high - plain.linear_low
        # the interval of the kept part does not cover the whole table: here it misses the truth by far
        assert not reweighted.linear_low <= true <= reweighted.linear_high


def test_every_coefficient_is_reweighted_by_its_own_contributions():
    rng = np.random.default_rng(2)
    middle, half = rng.normal(size=(200, 2)), rng.exponential(0.1, size=(200, 2))
    low, high = middle - half, middle + half
    columns = {"x_low": low[:, 0], "x_high": high[:, 0], "y_low": low[:, 1], "y_high": high[:, 1]}
    intercept, slope = read_release(pa.table(columns)).estimate("regress(y ~ x)", wide_boxes="fuzzy")
    assert intercept.reweighting.threshold != slope.reweighting.threshold


def test_a_statistic_that_is_not_defined_stays_so_under_weights():
    boxes = pa.table({"x_low": [1.0] * 6, "x_high": [1.0] * 6, "y_low": np.arange(6.0), "y_high": np.arange(1.0, 7.0)})
    for wide_boxes in ("dismiss", "fuzzy"):
        estimate = read_release(boxes).estimate("corr(x, y)", wide_boxes=wide_boxes)
        assert math.isnan(estimate.value)
        assert (estimate.low, estimate.high) == (-1.0, 1.0)


def correlated(seed=0, boxes=300):
    """Boxes of correlated records, wider far from the centre, as boxes with k records are."""
    rng = np.random.default_rng(seed)
    middle = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]], size=boxes)
    half = 0.03 * np.exp(np.abs(middle)) * rng.uniform(0.5, 1.5, size=(boxes, 2))
    return CountedBoxes.make(["x", "y"], middle - half, middle + half)


def attained(words, weights, boxes, seed=0):
    """The statistic of the reweighted records when each value moves to the end of its box that raises it most."""
    statistic = parse(words)
    low, high = boxes.low[weights.box], boxes.high[weights.box]
    points = (low + high) / 2.0
    for _ in range(20):
        slopes = derivatives(statistic, Moments.of(points, weights.share), points)
        points = np.where(slopes > 0.0, high, low)
    return statistic.value(Moments.of(points, weights.share))


class TestErrorsAreThoseOfTheReweightedStatistic:
    @pytest.mark.parametrize("wide_boxes", ["dismiss", "fuzzy"])
    @pytest.mark.parametrize("words", ["corr(x, y)", "var(x)", "cov(x, y)"])
    def test_the_uncertainty_is_that_of_the_derivatives_at_the_reweighted_moments(self, words, wide_boxes):
        boxes = correlated()
        weights, statistic = reweight(parse(words), boxes, wide_boxes), parse(words)
        low, high = boxes.low[weights.box], boxes.high[weights.box]
        columns, share = range(len(statistic.columns)), weights.share
        points, half = ((low + high) / 2.0)[:, columns], ((high - low) / 2.0)[:, columns]
        slopes = derivatives(statistic, Moments.of(points, share), points)
        assert weights.effect.uncertainty == pytest.approx(float((share[:, None] * np.abs(slopes) * half).sum()))

    def test_tables_inside_the_kept_boxes_attain_about_what_is_told(self):
        # at the moments of all records the half-width would be told three times too small
        boxes = correlated()
        weights = reweight(parse("corr(x, y)"), boxes, "dismiss")
        reached = attained("corr(x, y)", weights, boxes) - weights.effect.value
        assert 0.5 * reached <= weights.effect.uncertainty <= 2.0 * reached
        assert weights.effect.value + reached <= weights.effect.high

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 10_000), st.sampled_from(["corr(x, y)", "var(x)", "regress(y ~ x): x"]))
    def test_the_certain_interval_holds_for_every_choice(self, seed, words):
        boxes = correlated(seed, boxes=30)
        rng = np.random.default_rng(seed)
        for wide_boxes in ("dismiss", "fuzzy"):
            weights = reweight(parse(words), boxes, wide_boxes)
            columns = [boxes.names.index(name) for name in parse(words).columns]
            low, high = boxes.low[weights.box][:, columns], boxes.high[weights.box][:, columns]
            for _ in range(20):
                points = low + rng.choice([0.0, 0.5, 1.0], size=low.shape) * (high - low)
                value = parse(words).value(Moments.of(points, weights.share))
                assert weights.effect.low - 1e-12 <= value <= weights.effect.high + 1e-12


class TestSeveralStatisticsTogether:
    WORDS: ClassVar = ["mean(x)", "corr(x, y)", "regress(y ~ x)"]

    def release(self):
        boxes = correlated(3)
        ends = {}
        for place, name in enumerate("xy"):
            ends[f"{name}_low"], ends[f"{name}_high"] = boxes.low[:, place], boxes.high[:, place]
        return read_release(pa.table(ends))

    def test_one_statistic_together_with_itself_is_that_statistic_alone(self):
        release = self.release()
        for wide_boxes in ("dismiss", "fuzzy"):
            (together,) = release.estimate_jointly(["corr(x, y)"], wide_boxes=wide_boxes, accuracy=[1.0])
            alone = release.estimate("corr(x, y)", wide_boxes=wide_boxes)
            assert together.value == pytest.approx(alone.value)
            assert together.reweighting.threshold == pytest.approx(alone.reweighting.threshold)

    def test_all_have_the_same_records_and_the_weighted_error_is_least(self):
        release, scale = self.release(), {"mean(x)": 0.1, "corr(x, y)": 0.05}
        both = release.estimate_jointly(list(scale), importance=[3, 1], accuracy=scale, wide_boxes="fuzzy")
        assert len({one.reweighting.records for one in both}) == 1
        minimised = both[0].reweighting.minimised
        for words in scale:  # weights that are best for one of them are not better for both
            weights = reweight(parse(words), CountedBoxes.of(release.table, ["x", "y"]), "fuzzy")
            assert minimised <= joint_error(release, weights.share, scale, (0.75, 0.25)) + 1e-12

    def test_a_statistic_without_importance_has_no_influence(self):
        release = self.release()
        first, _ = release.estimate_jointly(["mean(x)", "corr(x, y)"], importance=[1, 0], accuracy=[1.0, 1.0])
        assert first.value == pytest.approx(release.estimate("mean(x)", wide_boxes="fuzzy").value)

    def test_a_regression_counts_once_and_stays_one_record(self):
        found = self.release().estimate_jointly(self.WORDS, wide_boxes="dismiss", objective="first")
        assert found[2]["x"].reweighting.statistics == tuple(self.WORDS)

    def test_what_cannot_be_weighted_together_is_refused(self):
        release = self.release()
        with pytest.raises(StatisticError, match="cannot be reweighted"):
            release.estimate_jointly(["mean(x)", "median(x)"])
        with pytest.raises(StatisticError, match="same condition"):
            release.estimate_jointly(["mean(x)", "mean(y | x > 0)"])
        with pytest.raises(OptionError, match="importance"):
            release.estimate_jointly(["mean(x)"], importance=[1, 2])
        with pytest.raises(OptionError, match="positive"):
            release.estimate_jointly(["mean(x)"], importance=[0])
        with pytest.raises(StatisticError, match="estimated"):
            release.estimate_jointly(["mean(x)"], accuracy={"mean(y)": 1.0})


def joint_error(release, share, accuracies, importances):
    """Σ (p/Δ0) (Σ w n·c + A √Σw²), with contributions and A at the moments of all records."""
    boxes = CountedBoxes.of(release.table, ["x", "y"])
    middle, half, total = (boxes.low + boxes.high) / 2.0, (boxes.high - boxes.low) / 2.0, 0.0
    for (words, accuracy), importance in zip(accuracies.items(), importances, strict=True):
        statistic = parse(words)
        columns = [boxes.names.index(name) for name in statistic.columns]
        points = middle[:, columns]
        slopes = np.abs(derivatives(statistic, Moments.of(points), points))
        contribution = (slopes * half[:, columns]).sum(axis=1)
        error = share @ contribution + sampling_constant(statistic, points) * math.sqrt((share**2).sum())
        total += importance / accuracy * error
    return total


def test_a_first_order_correlation_stays_between_minus_one_and_one():
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    y = x + 0.4 * rng.normal(size=40)
    ends = {"x_low": x - 0.5, "x_high": x + 0.5, "y_low": y - 0.5, "y_high": y + 0.5}
    for wide_boxes in ("keep", "dismiss"):
        one = read_release(pa.table(ends)).estimate("corr(x, y)", wide_boxes=wide_boxes)
        assert one.linear_high == 1.0
        assert one.linear_low >= -1.0
