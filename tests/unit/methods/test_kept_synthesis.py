"""Synthetic rows with the user's own statistics: features of rows, the nearest distribution, and what is released."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.synthesize.constraints import Tilt, features_of, measure_features, require_met
from sfumato.methods.synthesize.max_entropy import NumbersGivenCodes
from sfumato.sources.frames import as_table
from sfumato.statistics.language import parse

ROWS = 1200


def people(rows=ROWS, seed=0):
    """Income depends on age by a curve, and women above 65 have less: no covariance tells this."""
    draw = np.random.default_rng(seed)
    age, sex = draw.uniform(20.0, 80.0, rows), draw.choice(["f", "m"], rows)
    income = 40.0 - 0.02 * (age - 50.0) ** 2 - 8.0 * ((age > 65.0) & (sex == "f")) + 3.0 * draw.normal(size=rows)
    return {"age": age, "sex": sex, "income": income}


class TestFeatures:
    @pytest.mark.parametrize(
        "text",
        [
            "mean(income)",
            "var(income | age > 65)",
            'corr(age, income | sex = "f")',
            "regress(income ~ age)",
            "share(income > 30 | age > 65)",
            "median(income)",
            "quantile(income, 0.9)",
            "mean(income) by sex",
            'difference(mean(income | sex = "f"), mean(income | sex = "m"))',
        ],
    )
    def test_they_have_mean_zero_in_the_table_and_not_elsewhere(self, text):
        own, other = as_table(people()), as_table(people(seed=1) | {"income": people(seed=1)["income"] + 2.0})
        features = list(features_of(parse(text, names=own.names), own, 5))
        assert features
        assert all(np.abs(one.mean(axis=0)).max() < 1e-9 for one in measure_features(features, own))
        assert max(np.abs(one.mean(axis=0)).max() for one in measure_features(features, other)) > 1e-3

    def test_they_decide_the_statistic(self):
        """Any weights under which the features have mean 0 give the statistic of the table."""
        own, other = as_table(people()), as_table(people(4000, seed=2))
        features = list(features_of(parse('corr(age, income | sex = "f")', names=own.names), own, 5))
        tilt = Tilt.fit(np.column_stack(measure_features(features, other)), 10**9)  # without slack
        woman = np.array(other.arrow.column("sex").to_pylist()) == "f"
        points = np.column_stack([other.numbers("age"), other.numbers("income")])[woman]
        spread = np.cov(points, rowvar=False, aweights=tilt.weights[woman], bias=True)
        women = np.array(own.arrow.column("sex").to_pylist()) == "f"
        expected = np.corrcoef(own.numbers("age")[women], own.numbers("income")[women])[0, 1]
        assert spread[0, 1] / np.sqrt(spread[0, 0] * spread[1, 1]) == pytest.approx(expected, abs=1e-6)
        plain = np.corrcoef(points, rowvar=False)[0, 1]
        assert abs(plain - expected) > 0.005  # the control: without weights it is another

    def test_a_condition_that_few_rows_meet_is_refused_and_small_groups_are_left_out(self):
        own = as_table(people(50) | {"town": ["Ulm"] * 48 + ["Rom"] * 2})
        with pytest.raises(CannotRelease, match="k = 5"):
            list(features_of(parse('mean(income | town = "Rom")', names=own.names), own, 5))
        assert len(list(features_of(parse("mean(income) by town", names=own.names), own, 5))) == 1

    def test_what_is_no_mean_is_refused(self):
        own = as_table(people(50))
        with pytest.raises(CannotRelease, match="made of means"):
            list(features_of(parse("iqr(income)", names=own.names), own, 5))


class TestTilt:
    def test_it_is_the_distribution_of_least_relative_entropy(self):
        """Against a general optimiser over all distributions of a small space."""
        from scipy.optimize import minimize

        draw = np.random.default_rng(3)
        features = draw.normal(size=(12, 2))
        tilt = Tilt.fit(features, 10**12)
        start = np.full(12, 1.0 / 12.0)
        slow = minimize(
            lambda p: float((p * np.log(12.0 * p)).sum()),
            start,
            bounds=[(1e-9, 1.0)] * 12,
            constraints=[{"type": "eq", "fun": lambda p: p.sum() - 1.0}, {"type": "eq", "fun": lambda p: p @ features}],
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        assert slow.success
        assert tilt.weights == pytest.approx(slow.x, abs=1e-5)

    def test_what_no_row_has_is_missed_and_refused(self):
        features = np.abs(np.random.default_rng(4).normal(size=(500, 1))) + 1.0  # all above 0, the mean that is wanted
        tilt = Tilt.fit(features, 400)
        with pytest.raises(CannotRelease, match="mean"):
            require_met(tilt, ["mean(x)"], 400)
        require_met(Tilt.fit(features - features.mean(), 400), ["mean(x)"], 400)

    def test_rows_are_chosen_as_often_as_their_weights_say(self):
        weights = np.random.default_rng(5).dirichlet(np.ones(50))
        chosen = Tilt(weights, np.zeros(0)).choose(1000, np.random.default_rng(6))
        counts = np.bincount(chosen, minlength=50)
        assert np.abs(counts - 1000 * weights).max() <= 1.0 + 1e-9


KEPT = ("mean(income | age > 65)", 'mean(income | sex = "f")', "share(income > 35)")


def kept_values(columns):
    age, income, sex = np.asarray(columns["age"]), np.asarray(columns["income"]), np.asarray(columns["sex"])
    return np.array([income[age > 65].mean(), income[sex == "f"].mean(), (income > 35).mean()])


def released(**options):
    made = sf.Synthesize(**options).release(people(), schema=dict.fromkeys(people(), "quasi"), seed=1).table
    return {
        "age": made.numbers("age"),
        "income": made.numbers("income"),
        "sex": np.array(made.arrow.column("sex").to_pylist()),
    }


@pytest.mark.parametrize("kind", ["max-entropy", "tables", "copula"])
def test_released_rows_have_the_statistics_and_a_model_without_them_does_not(kind):
    wanted = kept_values(people())
    errors = np.array([8.0 / np.sqrt(ROWS / 4.0), 7.0 / np.sqrt(ROWS / 2.0), 0.5 / np.sqrt(ROWS)])
    found = kept_values(released(kind=kind, keep=KEPT))
    assert (np.abs(found - wanted) < 3.0 * errors).all()
    if kind == "max-entropy":  # the control: moments of second order do not tell them
        without = kept_values(released(kind=kind))
        assert (np.abs(without - wanted) > 3.0 * errors).any()


def test_maximum_entropy_keeps_its_own_moments_beside_them():
    made, own = released(kind="max-entropy", keep=KEPT), people()
    for name in ("age", "income"):
        assert made[name].mean() == pytest.approx(own[name].mean(), abs=4.0 * own[name].std() / np.sqrt(ROWS))
        assert made[name].std() == pytest.approx(own[name].std(), rel=0.12)
    before, after = (np.corrcoef(one["age"], one["income"])[0, 1] for one in (own, made))
    assert after == pytest.approx(before, abs=0.12)


def test_hardly_any_row_is_drawn_twice():
    assert len(np.unique(released(kind="max-entropy", keep=KEPT)["income"])) > 0.95 * ROWS


def test_options_are_checked():
    with pytest.raises(OptionError, match="list"):
        sf.Synthesize(keep="mean(age)")
    with pytest.raises(OptionError, match="whole synthetic rows"):
        sf.Synthesize(keep=["mean(age)"], columns=("age",))
    release = sf.Synthesize(keep=["mean(age)"]).release(people(300), schema=dict.fromkeys(people(), "quasi"))
    assert release.manifest.notes["statistics kept"] == ["mean(age)"]


def test_numbers_of_more_columns_than_people_are_drawn_again_where_they_are_outside():
    root = np.random.default_rng(1).normal(size=(6, 3))  # three people have at most three directions
    normal = NumbersGivenCodes(np.zeros((1, 6)), root, np.full(6, -0.5), np.full(6, 0.5))
    drawn = normal.draw(np.ones((40, 1)), np.random.default_rng(2))
    assert drawn.shape == (40, 6)
    assert (np.abs(drawn) <= 0.5).all()
