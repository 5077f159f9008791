"""Estimates from altered columns: they hold the parameter as often as they say, and rows taken as they are do not."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.errors import StatisticError

SURVEYS, ROWS = 100, 500
CITIES = np.array(["a", "b", "c"])
GIVEN = {"sick": {"0": {"0": 0.9, "1": 0.1}, "1": {"0": 0.25, "1": 0.75}}}


def sample(draw, rows=ROWS):
    city = draw.choice(3, rows, p=[0.5, 0.3, 0.2])
    x = draw.normal(size=rows) + (city == 0)
    sick = (draw.random(rows) < 1.0 / (1.0 + np.exp(-(-1.0 + 0.8 * x)))).astype(np.int64)
    return {"city": CITIES[city], "sick": sick, "x": x, "y": 1.0 + 0.5 * x + draw.normal(size=rows)}


ROLES = {"city": "quasi", "sick": "quasi", "x": "other", "y": "other"}


def change(people, draw, keep=0.7):
    """Change categories as the method does: cities by the invariant matrix, and ``sick`` by the given one."""
    city, sick = people["city"], people["sick"]
    redrawn = draw.permutation(city) if keep < 1.0 else city
    flipped = draw.random(len(sick)) < np.where(sick == 1, 0.25, 0.1)
    return people | {
        "city": np.where(draw.random(len(city)) < keep, city, redrawn),
        "sick": np.where(flipped, 1 - sick, sick),
    }


@pytest.fixture(scope="module")
def changed():
    return sf.Pram(keep=0.7, matrix=GIVEN).release(sample(np.random.default_rng(0)), schema=ROLES, seed=1)


def like(release, people):
    """Return a release of other people by the same method."""
    table = sf.read_release(people).table
    return replace(release, table=replace(table, kinds={name: release.table.kinds[name] for name in table.names}))


TRUTHS = {
    "share(city = a)": 0.5,
    "mean(x | city = a)": 1.0,
    "difference(mean(y | city = a), mean(y | city = b))": 0.5,
}


class TestChangedCategories:
    def test_intervals_hold_the_parameter_and_rows_as_they_are_do_not(self, changed):
        draw, hold, plain = np.random.default_rng(1), dict.fromkeys(TRUTHS, 0), dict.fromkeys(TRUTHS, 0)
        for _ in range(SURVEYS):
            release = like(changed, change(sample(draw), draw))
            for text, truth in TRUTHS.items():
                found = release.estimate(text, confidence=0.95)
                reach = (found.confidence_high - found.confidence_low) / 2.0
                hold[text] += abs(found.value - truth) <= reach
                plain[text] += abs(found.released - truth) <= 0.7 * reach  # the error without that of the changes
        assert all(0.90 * SURVEYS <= one <= 0.995 * SURVEYS for one in hold.values()), hold
        assert plain["mean(x | city = a)"] < 0.5 * SURVEYS  # control
        assert plain["difference(mean(y | city = a), mean(y | city = b))"] < 0.8 * SURVEYS  # control

    def test_a_logistic_model_with_a_changed_outcome(self, changed):
        draw, hold, plain = np.random.default_rng(2), 0, 0
        for _ in range(SURVEYS):
            people = change(sample(draw), draw)
            one = like(changed, people).fit("sick ~ x", family="binomial")["x"]
            hold += one.confidence_low <= 0.8 <= one.confidence_high
            plain += abs(_logit(people["x"], people["sick"]) - 0.8) <= 0.7 * (one.confidence_high - one.value)
        assert hold >= 0.90 * SURVEYS
        assert plain < 0.6 * SURVEYS  # control: the slope of the released outcomes is too flat

    def test_the_standard_error_is_the_spread_over_draws_of_the_method(self, changed):
        draw, people = np.random.default_rng(3), sample(np.random.default_rng(0))
        texts = ["share(city = a)", "count(city = a and sick = 1)", "oddsratio(city2, sick)", "mean(sick)"]
        people["city2"] = np.where(people["city"] == "a", "a", "b")
        found = {text: [] for text in texts}
        for _ in range(80):
            other = change(people, draw)
            other["city2"] = people["city2"]
            release = like(changed, {name: other[name] for name in ("city", "sick", "x", "y")})
            release = replace(
                release,
                table=replace(
                    sf.read_release(other).table, kinds={**release.table.kinds, "city2": release.table.kinds["city"]}
                ),
            )
            for text in texts:
                found[text].append(release.estimate(text))
        for text, own in found.items():
            spread = np.std([one.value for one in own])
            assert np.mean([one.standard_error for one in own]) == pytest.approx(spread, rel=0.3), text

    def test_the_matrix_travels_with_the_release(self, changed, tmp_path, capfd):
        folder = changed.write(tmp_path / "out")
        again = sf.read_release(folder)
        assert again.estimate("mean(sick)").value == changed.estimate("mean(sick)").value
        assert run(["estimate", str(folder), "mean(sick)", "table(city, sick)", "--confidence", "0.9"]) == 0
        shown = capfd.readouterr().out
        assert "random changes" in shown
        assert "90% confidence" in shown
        assert "Nothing is guaranteed" in shown

    def test_a_missing_cell_stays_missing(self):
        people = sample(np.random.default_rng(5), 4000)
        people["city"] = np.where(np.arange(4000) % 5 == 0, None, people["city"])
        release = sf.Pram(keep=0.6).release(people, schema=ROLES, seed=1)
        truth = np.mean(people["x"][people["city"] == "a"])
        found = release.estimate("mean(x | city = a)")
        assert abs(found.value - truth) < 4.0 * found.standard_error
        assert release.estimate("count(city is missing)").value == pytest.approx(800.0)

    def test_changes_that_cannot_be_undone_are_refused(self):
        release = sf.Pram(keep=0.0).release(sample(np.random.default_rng(5)), schema=ROLES, seed=1)
        with pytest.raises(StatisticError, match="cannot be undone"):
            release.estimate("mean(x | city = a)")

    def test_a_column_of_one_category_needs_no_correction(self):
        people = {"city": ["a"] * 40, "x": np.arange(40.0)}
        release = sf.Pram(keep=0.0).release(people, schema={"city": "quasi", "x": "other"}, seed=1)
        assert release.estimate("mean(x | city = a)", confidence=0.9).value == 19.5


class TestNoise:
    def noisy(self, people, draw, level=1.0):
        """Add uncorrelated noise to x and shrink it, as the method does."""
        x = people["x"]
        noise = draw.normal(size=len(x)) * x.std() * np.sqrt(level)
        divisor = np.sqrt(1.0 + level)
        return people | {"x": (x + noise + (divisor - 1.0) * x.mean()) / divisor}

    def test_group_means_and_slopes_hold_the_parameter_and_rows_as_they_are_do_not(self):
        draw = np.random.default_rng(4)
        roles = {"city": "other", "sick": "other", "x": "quasi", "y": "other"}
        release = sf.Noise(level=1.0, kind="uncorrelated").release(sample(draw), schema=roles, seed=1)
        manifest = replace(release.manifest, altered=("x",), unaltered=("city", "sick", "y"))
        release = replace(release, manifest=manifest)
        texts = {
            "difference(mean(x | city = a), mean(x | city = b))": 1.0,
            "regress(y ~ x): x": 0.5,
            "var(x | city = a)": 1.0,
        }
        hold, plain = dict.fromkeys([*texts, "fit"], 0), dict.fromkeys(texts, 0)  # the shrunk variance is right
        for _ in range(SURVEYS):
            other = like(release, self.noisy(sample(draw), draw))
            for text, truth in texts.items():
                found = other.estimate(text, confidence=0.95)
                hold[text] += found.confidence_low <= truth <= found.confidence_high
                plain[text] += abs(found.released - truth) <= 0.7 * (found.confidence_high - found.value)
            one = other.fit("y ~ x + C(city)")["x"]
            hold["fit"] += one.confidence_low <= 0.5 <= one.confidence_high
        assert all(one >= 0.88 * SURVEYS for one in hold.values()), hold
        assert all(plain[text] < 0.6 * SURVEYS for text in list(texts)[:2]), plain  # control

    def test_intervals_of_correlated_noise_count_the_sample_and_the_noise(self):
        """The noise follows the covariance of the sample: rows with noise are not drawn independently."""
        surveys, rows, hold, control = 300, 300, np.zeros(2), 0
        for seed in range(surveys):
            draw = np.random.default_rng(seed)
            x = draw.normal(size=rows)
            people = {"x": x, "y": 0.6 * x + 0.8 * draw.normal(size=rows)}
            release = sf.Noise(level=1.0).release(people, schema={"x": "quasi", "y": "quasi"}, seed=seed)
            found = [release.estimate(one, confidence=0.95) for one in ("corr(x, y)", "regress(y ~ x): x")]
            hold += [one.confidence_low <= 0.6 <= one.confidence_high for one in found]
            control += abs(found[0].value - 0.6) <= 1.96 * (1.0 - 0.6**2) / np.sqrt(rows)  # rows as if independent
        assert (stats.binom.cdf(hold, surveys, 0.95) > 0.001).all(), hold
        assert stats.binom.cdf(control, surveys, 0.95) < 0.001, control

    def test_an_exact_column_beside_a_noisy_one(self):
        people = sample(np.random.default_rng(6), 4000)
        release = sf.Noise(level=0.5).release(people, schema=dict.fromkeys(people, "quasi"), seed=1)
        release = replace(release, manifest=replace(release.manifest, altered=("x", "y"), unaltered=("city", "sick")))
        release = like(release, {**release.to_pandas().to_dict("list"), "city": people["city"], "sick": people["sick"]})
        found = release.estimate("mean(x) by city")
        assert isinstance(found["a"], sf.RecoveredEstimate)
        with pytest.raises(StatisticError, match=r"noise.*altered.*pram"):
            release.fit("sick ~ x", family="binomial")
        assert release.estimate("share(x > 0)").high == np.inf

    @pytest.mark.filterwarnings("error::RuntimeWarning")
    def test_columns_without_common_values_and_ratios_to_zero_give_no_number(self):
        x = np.random.default_rng(7).normal(size=60)
        people = pa.table(
            {
                "x": pa.array(x, mask=np.arange(60) < 30),
                "y": pa.array(x, mask=np.arange(60) >= 30),
                "zero": np.zeros(60),
                "none": pa.array([None] * 60, pa.int64()),
            }
        )
        release = sf.Noise().release(people, schema=dict.fromkeys(people.column_names, "quasi"), seed=1)
        for text in ("cov(x, y)", "ratio(mean(x), mean(zero))", "cov(x, none)"):
            assert np.isnan(release.estimate(text).value)


class TestSynthesis:
    def test_estimates_and_models_combine_the_tables(self):
        people = sample(np.random.default_rng(7), 1500)
        release = sf.Synthesize(imputations=4, k=20).release(people, schema=dict.fromkeys(people, "quasi"), seed=1)
        found = release.estimate("difference(mean(x | city = a), mean(x | city = b))", confidence=0.95)
        assert isinstance(found, sf.RecoveredEstimate)
        assert (found.of, found.low, found.high) == ("population", -np.inf, np.inf)
        assert found.confidence_low < 1.0 < found.confidence_high
        one = release.estimate("mean(x)")
        assert one.standard_error == pytest.approx(sf.combined_estimate(release, "mean(x)").standard_error)
        assert np.isnan(one.confidence_low)
        fit = release.fit("sick ~ x", family="binomial")
        assert fit["x"].confidence_low < 0.8 < fit["x"].confidence_high
        assert fit["x"].low == -np.inf
        assert "no guarantee" in fit.summary()

    def test_intervals_hold_the_parameter_and_rows_taken_for_people_do_not(self):
        draw, hold, plain = np.random.default_rng(8), 0, 0
        people = {"x": draw.normal(size=60)}
        release = sf.Synthesize(kind="max-entropy", imputations=2).release(people, schema={"x": "quasi"}, seed=1)
        for _ in range(2 * SURVEYS):
            own = draw.normal(size=60)
            made = own.mean() + own.std() * draw.normal(size=120)
            other = like(release, {"x": made, "imputation": np.repeat([0, 1], 60)})
            found = other.estimate("mean(x)", confidence=0.95)
            hold += found.confidence_low <= 0.0 <= found.confidence_high
            plain += abs(found.value) <= 1.96 * made.std() / np.sqrt(120)
        assert hold >= 0.90 * 2 * SURVEYS
        assert plain < 0.88 * 2 * SURVEYS  # control: rows taken for 120 people


class TestWhatIsCertain:
    def test_moments_that_the_method_kept(self):
        people = {name: own for name, own in sample(np.random.default_rng(9)).items() if name in "xy"}
        release = sf.SvdSwap().release(people, schema=dict.fromkeys(people, "quasi"), seed=1)
        slope = np.polyfit(people["x"], people["y"], 1)[0]
        truths = {
            "mean(x)": people["x"].mean(),
            "sum(x)": people["x"].sum(),
            "corr(x, y)": np.corrcoef(people["x"], people["y"])[0, 1],
            "regress(y ~ x): x": slope,
        }
        for text, truth in truths.items():
            found = release.estimate(text, confidence=0.95)
            assert found.low <= truth <= found.high, text
            assert found.high - found.low < 1e-5 * max(1.0, abs(truth)), text
        assert np.isfinite(release.estimate("mean(x)", confidence=0.95).confidence_low)
        assert np.isnan(release.estimate("corr(x, y)", confidence=0.95).confidence_low)  # needs fourth moments
        fit = release.fit("y ~ x")["x"]
        assert fit.low <= slope <= fit.high < fit.low + 1e-5
        for text in ("median(x)", "share(x > 0)", "mean(x | y > 0)"):
            assert release.estimate(text).high == np.inf, text
            assert "boxes" in release.estimate(text).notes[-1], text

    @pytest.mark.parametrize("method", [sf.Swap(), sf.Shuffle()], ids=lambda method: method.name)
    def test_exchanged_cells_keep_statistics_of_single_columns(self, method):
        people = sample(np.random.default_rng(10))
        release = method.release(people, schema=dict.fromkeys(people, "quasi"), seed=1)
        truths = {"median(x)": np.median(people["x"]), "share(city = a)": np.mean(people["city"] == "a")}
        for text, truth in truths.items():
            found = release.estimate(text)
            assert found.low == pytest.approx(truth) == found.high
        assert release.estimate("mean(x | city = a)").high == np.inf
        assert release.estimate("corr(x, y)").high == np.inf
        with pytest.raises(StatisticError, match="altered a column"):
            release.fit("y ~ x")

    def test_means_of_groups_keep_means_and_bound_variances_from_below(self):
        people = {name: own for name, own in sample(np.random.default_rng(11)).items() if name in "xy"}
        release = sf.Microaggregate(k=5).release(people, schema=dict.fromkeys(people, "quasi"), seed=1)
        mean, spread = release.estimate("mean(x)", confidence=0.95), release.estimate("var(x)")
        assert mean.low <= people["x"].mean() <= mean.high < mean.low + 1e-6
        assert np.isnan(mean.confidence_low)  # the variance of means of groups is too small
        assert 0.9 * people["x"].var() < spread.low < people["x"].var()
        assert spread.high == np.inf
        assert release.estimate("corr(x, y)").high == np.inf
        people["x"][::7] = np.nan
        release = sf.Microaggregate(k=5).release(people, schema=dict.fromkeys(people, "quasi"), seed=1)
        assert release.estimate("mean(x)").high == np.inf
        assert (
            sf.Microaggregate(k=5, values="median")
            .release({"y": people["y"]}, schema={"y": "quasi"})
            .estimate("mean(y)")
            .high
            == np.inf
        )


def _logit(x, y):
    design, beta = np.column_stack([np.ones(len(x)), x]), np.zeros(2)
    for _ in range(25):
        mean = 1.0 / (1.0 + np.exp(-design @ beta))
        beta += np.linalg.solve((design.T * mean * (1.0 - mean)) @ design, design.T @ (y - mean))
    return beta[1]


@pytest.mark.parametrize("method", [sf.Microaggregate(k=4), sf.SvdSwap(), sf.Swap(), sf.Shuffle()])
@pytest.mark.parametrize("offset", [0.0, 1e9, 1e12, 1e15, 1e16])
@pytest.mark.parametrize("kind", ["normal", "whole", "constant"])
def test_numbers_far_from_zero_are_certain_only_up_to_their_rounding(method, offset, kind):
    draw = np.random.default_rng(0)
    x = {"normal": draw.normal(size=99), "whole": draw.integers(0, 9, 99), "constant": np.zeros(99)}[kind] + offset
    release = method.release({"x": x, "y": draw.normal(size=99)}, schema={"x": "quasi", "y": "quasi"}, seed=1)
    exact = [Fraction(number) for number in x.tolist()]
    mean = sum(exact) / 99
    for text, truth in {
        "mean(x)": mean,
        "sum(x)": sum(exact),
        "var(x)": sum((one - mean) ** 2 for one in exact) / 99,
    }.items():
        found = release.estimate(text)
        assert found.low == -np.inf or Fraction(found.low) <= truth
        assert found.high == np.inf or truth <= Fraction(found.high)
