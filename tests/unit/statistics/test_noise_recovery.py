"""Statistics recovered from noisy rows: right on average, with a standard error that is that of the noise."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.release.noisy_columns import AdditiveNoise, recover
from sfumato.report import html as plain_json
from sfumato.statistics.language import parse
from sfumato.statistics.moments import pairwise_covariance

ROWS, DRAWS = 400, 300
STATISTICS = ["mean(x)", "var(x)", "sd(y)", "cov(x, y)", "corr(x, y)", "regress(y ~ x): x", "regress(y ~ x): intercept"]


@pytest.fixture(scope="module")
def original():
    draw = np.random.default_rng(0)
    x = draw.exponential(10.0, ROWS)
    return np.column_stack([x, 0.7 * x + draw.uniform(-10.0, 10.0, ROWS)])


def noisy(original, noise, draw):
    covariance = np.cov(original.T, bias=True)
    covariance = covariance if noise.correlated else np.diag(np.diag(covariance))
    rows = original + draw.multivariate_normal(np.zeros(2), noise.level * covariance, len(original))
    mean, d = original.mean(axis=0), np.sqrt(1.0 + noise.level) if noise.corrected else 1.0
    return (rows + (d - 1.0) * mean) / d


def estimate(text, rows, noise, rounded=(False, False)):
    wanted = parse(text)
    places = [("x", "y").index(name) for name in wanted.columns]
    return recover((wanted,), rows[:, places], noise, np.array(rounded)[places])[0]


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("correlated", [True, False])
class TestManyDraws:
    NOISE = 0.4

    def draws(self, original, correlated, corrected):
        noise = AdditiveNoise(level=self.NOISE, correlated=correlated, corrected=corrected)
        draw = np.random.default_rng(7)
        return noise, [noisy(original, noise, draw) for _ in range(DRAWS)]

    def test_the_mean_is_the_truth_and_the_spread_is_the_standard_error(self, original, correlated, corrected):
        noise, draws = self.draws(original, correlated, corrected)
        without = AdditiveNoise(level=1e-12, correlated=True, corrected=False)
        for text in STATISTICS:
            truth = estimate(text, original, without).value
            found = [estimate(text, rows, noise) for rows in draws]
            values = np.array([one.value for one in found])
            error = values.std()
            # variances and covariances are unbiased; functions of them have a bias of the order of 1/rows
            assert abs(values.mean() - truth) < 4.0 * error / np.sqrt(DRAWS) + 0.1 * error, text
            assert np.mean([one.standard_error for one in found]) == pytest.approx(error, rel=0.15), text

    def test_a_wrong_level_would_be_seen(self, original, correlated, corrected):
        """Control: released variances, or covariances of uncorrelated noise, are wrong by more than chance."""
        _, draws = self.draws(original, correlated, corrected)
        wrong = AdditiveNoise(level=0.1, correlated=not correlated, corrected=corrected)
        truth = np.cov(original.T, bias=True)[0, 1]
        values = np.array([estimate("cov(x, y)", rows, wrong).value for rows in draws])
        assert abs(values.mean() - truth) > 8.0 * values.std() / np.sqrt(DRAWS)


def test_whole_numbers_are_corrected_for_rounding(original):
    noise, draw = AdditiveNoise(level=0.4, correlated=True, corrected=False), np.random.default_rng(3)
    small = original / 10.0  # so that a twelfth counts
    draws = [np.rint(noisy(small, noise, draw)) for _ in range(DRAWS)]
    found = np.array([estimate("var(x)", rows, noise, (True, True)).value for rows in draws])
    plain = np.array([estimate("var(x)", rows, noise).value for rows in draws])
    error = found.std() / np.sqrt(DRAWS)
    assert abs(found.mean() - small[:, 0].var()) < 4.0 * error
    assert abs(plain.mean() - small[:, 0].var()) > 4.0 * error  # control


def test_noise_that_rounding_removes_is_told():
    whole = np.repeat([[0.0, 0.0], [1.0, 1.0]], 50, axis=0)
    noise = AdditiveNoise(level=0.01, correlated=True, corrected=True)
    assert "rounding" in estimate("var(x)", whole, noise, (True, True)).notes[0]


def test_pairwise_covariances_are_those_of_the_rows_with_both():
    draw = np.random.default_rng(1)
    rows = draw.normal(size=(300, 3)) @ draw.normal(size=(3, 3))
    assert pairwise_covariance(rows) == pytest.approx(np.cov(rows.T, bias=True))
    rows[draw.random((300, 3)) < 0.3] = np.nan
    found = pairwise_covariance(rows)
    for i in range(3):
        for j in range(3):
            both = ~np.isnan(rows[:, i]) & ~np.isnan(rows[:, j])
            assert found[i, j] == pytest.approx(np.cov(rows[both, i], rows[both, j], bias=True)[0, 1])


@pytest.fixture(scope="module")
def people():
    draw = np.random.default_rng(5)
    x = draw.normal(50.0, 10.0, 3000)
    age = np.rint(draw.normal(40.0, 12.0, 3000)).astype(int)
    y = 0.5 * x + draw.normal(0.0, 5.0, 3000)
    x[draw.random(3000) < 0.2] = np.nan
    return {"x": x, "y": y, "age": age}


class TestReleases:
    def release(self, people, **options):
        return sf.Noise(level=0.5, **options).release(people, schema=dict.fromkeys(people, "quasi"), seed=3)

    @pytest.mark.parametrize("kind", ["correlated", "uncorrelated", "mixture"])
    @pytest.mark.parametrize("options", [{}, {"correct": False}], ids=str)
    def test_the_truth_is_within_four_standard_errors(self, people, kind, options):
        noisy = self.release(people, kind=kind, **options)
        both = ~np.isnan(people["x"])
        x, y, age = (people[name] for name in ("x", "y", "age"))
        slope, intercept = np.polyfit(x[both], y[both], 1)
        truths = {
            "mean(y)": y.mean(),
            "var(x)": np.nanvar(x),
            "var(age)": age.var(),
            "cov(x, y)": np.cov(x[both], y[both], bias=True)[0, 1],
            "corr(x, y)": np.corrcoef(x[both], y[both])[0, 1],
        }
        for text, truth in truths.items():
            found = noisy.estimate(text)
            assert isinstance(found, sf.RecoveredEstimate)
            assert abs(found.value - truth) < 4.0 * found.standard_error, text
        fit = noisy.estimate("regress(y ~ x)")
        assert abs(fit["x"].value - slope) < 4.0 * fit["x"].standard_error
        assert abs(fit["intercept"].value - intercept) < 4.0 * fit["intercept"].standard_error
        assert fit.terms == ("intercept", "x")

    def test_it_is_said_that_nothing_is_guaranteed(self, people, tmp_path):
        noisy = sf.read_release(self.release(people).write(tmp_path / "out"))
        found = noisy.estimate("corr(x, y)")
        assert (found.low, found.high) == (-np.inf, np.inf)
        for shown in (str(found), repr(found), found._repr_html_(), plain_json.to_json(found)):
            assert "no guarantee" in shown
        assert "no guarantee" in noisy.estimate("regress(y ~ x)")._repr_html_()
        assert '"standard_error"' in plain_json.to_json(found)

    def test_the_command_shows_the_standard_error_and_no_interval(self, people, tmp_path, capfd):
        folder = str(self.release(people).write(tmp_path / "out"))
        assert run(["estimate", folder, "regress(y ~ x)", "count(age > 40)"]) == 0
        shown = capfd.readouterr().out
        assert "standard error" in shown
        assert "Nothing is guaranteed" in shown
        assert run(["estimate", folder, "var(x)", "--json"]) == 0
        record = json.loads(capfd.readouterr().out)[0]
        assert record["guarantee"] == "an estimate, no guarantee"
        assert record["standard_error"] > 0.0
        assert "low" not in record

    def test_what_cannot_be_recovered_has_no_interval(self, people):
        noisy = self.release(people, kind="normal-scores")
        assert isinstance(noisy.estimate("var(x)"), sf.Estimate)
        assert noisy.estimate("var(x)").high == np.inf
        noisy = self.release({"z": np.exp(people["y"] / 10.0)}, logs="auto")
        assert isinstance(noisy.estimate("var(z)"), sf.Estimate)
        assert isinstance(self.release(people).estimate("median(y)"), sf.Estimate)

    def test_clipped_numbers_are_told(self, people):
        assert "clipped" in self.release(people, clip=True).estimate("var(y)").notes[-1]
        assert self.release(people).estimate("var(y)").notes == ()

    def test_weighted_statistics_are_not_recovered_from_altered_weights(self, people):
        roles = {"x": "quasi", "y": "quasi", "age": "weight"}
        weighted = sf.Noise().release(people | {"age": 1.0 + np.abs(people["age"])}, schema=roles, seed=1)
        assert isinstance(weighted.estimate("mean(y)"), sf.Estimate)
        assert isinstance(weighted.estimate("mean(y)", unweighted=True), sf.RecoveredEstimate)
