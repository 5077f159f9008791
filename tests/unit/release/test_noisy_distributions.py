"""Distributions, moments and tables to grow trees on, recovered from numbers with normal noise."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.release.noisy_distributions import _chances, deconvolve, moment_without_noise


def noisy(columns, **options):
    return sf.Noise(**options).release(columns, schema=dict.fromkeys(columns, "quasi"), seed=1)


def two_hills(rows=3000, seed=0):
    draw = np.random.default_rng(seed)
    return np.concatenate([draw.normal(150.0, 4.0, rows // 2), draw.normal(180.0, 4.0, rows - rows // 2)])


class TestDistributions:
    def test_a_round_is_that_of_the_formula(self):
        draw = np.random.default_rng(1)
        counts, chances = draw.integers(1, 30, 12).astype(float), draw.dirichlet(np.ones(12), 5).T
        shares = np.full(5, 0.2)
        for _ in range(deconvolve(counts, chances).rounds):
            new = np.zeros(5)
            for cell, count in enumerate(counts):
                belief = shares * chances[cell]
                new += count * belief / belief.sum()
            shares = new / new.sum()
        assert deconvolve(counts, chances).shares == pytest.approx(shares)

    def test_chances_of_a_point_are_those_of_normal_noise(self):
        from scipy.stats import norm

        edges = np.array([-2.0, -1.0, 0.5, 2.0])
        found = _chances(edges, np.array([0.0, 1.0]), 2.0)
        assert found.sum(axis=0) == pytest.approx(1.0)
        assert found[1, 0] == pytest.approx(norm.cdf(0.25) - norm.cdf(-0.5))

    @pytest.mark.parametrize("correct", [True, False])
    def test_hills_that_noise_hides_are_found_again(self, correct):
        heights = two_hills()
        release = noisy({"height": heights}, level=0.3, correct=correct)
        found = sf.recover_distribution(release, "height", seed=2)
        true = ((heights > 160.0) & (heights < 170.0)).mean()
        raw = release.table.numbers("height")
        assert ((raw > 160.0) & (raw < 170.0)).mean() > true + 0.1  # the control: the released rows as they are
        assert found.share(160.0, 170.0).value < true + 0.04
        assert found.shares.sum() == pytest.approx(1.0) and found.records == 3000
        for share in (0.1, 0.25, 0.75, 0.9):
            assert found.quantile(share).value == pytest.approx(np.quantile(heights, share), abs=1.5)
        assert found.share().value == pytest.approx(1.0)
        assert found.share(high=165.0).value + found.share(low=165.0).value == pytest.approx(1.0)

    def test_the_error_is_that_of_noise_drawn_again(self):
        """Shares of twenty releases of one table scatter as the standard error says, within a factor of two."""
        ages = np.random.default_rng(3).gamma(4.0, 10.0, 2000)
        values, errors = [], []
        for seed in range(20):
            release = sf.Noise(level=0.3).release({"age": ages}, schema={"age": "quasi"}, seed=seed)
            one = sf.recover_distribution(release, "age", seed=seed).share(high=30.0)
            values.append(one.value)
            errors.append(one.standard_error)
        assert 0.5 < np.mean(errors) / np.std(values) < 2.5
        assert abs(np.mean(values) - (ages <= 30.0).mean()) < 0.02

    def test_missing_whole_and_constant_numbers_are_no_failure(self):
        draw = np.random.default_rng(4)
        ages = draw.integers(20, 80, 500).astype(float)
        ages[:30] = np.nan
        release = noisy({"age": ages, "visits": draw.poisson(3.0, 500)}, level=0.5)
        assert sf.recover_distribution(release, "age").records == 470
        assert sf.recover_distribution(release, "visits").quantile(0.5).value == pytest.approx(3.0, abs=1.0)

    def test_what_cannot_be_recovered_is_refused(self):
        column = {"x": np.random.default_rng(5).lognormal(size=300)}
        for options in ({"kind": "density"}, {"kind": "mixture"}, {"resample": 0.3}, {"logs": ("x",)}):
            with pytest.raises(SfumatoError, match="normal noise"):
                sf.recover_distribution(noisy(column, **options), "x")
        other = sf.Swap().release(column, schema={"x": "quasi"})
        with pytest.raises(SfumatoError, match="normal noise"):
            sf.recover_moment(other, "x", 3)
        with pytest.raises(SfumatoError, match="order"):
            sf.recover_moment(noisy(column), "x", 7)


class TestTrees:
    def test_a_tree_grown_on_recovered_numbers_beats_one_grown_on_noise(self):
        from sklearn.tree import DecisionTreeClassifier

        draw = np.random.default_rng(6)
        points = draw.uniform(-1.0, 1.0, (6000, 3))
        ill = (points[:, 0] > 0.3) | (points[:, 1] < -0.5)
        own, others = slice(0, 3000), slice(3000, 6000)
        columns = {f"x{place}": points[own, place] for place in range(3)} | {"ill": np.where(ill[own], "yes", "no")}
        release = noisy(columns, level=0.5, kind="uncorrelated")

        def accuracy(table):
            numbers = np.column_stack([table.numbers(f"x{place}") for place in range(3)])
            classes = np.array(table.arrow.column("ill").to_pylist()) == "yes"
            tree = DecisionTreeClassifier(min_samples_leaf=40, random_state=0).fit(numbers, classes)
            return tree.score(points[others], ill[others])

        recovered = sf.recover_table(release, by="ill")
        assert recovered.rows == 3000 and recovered.names == release.table.names
        assert accuracy(recovered) > accuracy(release.table) + 0.02
        assert accuracy(recovered) > 0.93

    def test_ranks_stay_in_each_class(self):
        draw = np.random.default_rng(7)
        release = noisy({"x": draw.normal(size=400), "c": draw.choice(["a", "b"], 400)}, level=0.4)
        recovered, classes = sf.recover_table(release, by="c"), np.array(release.table.arrow.column("c").to_pylist())
        for name in ("a", "b"):
            before, after = (one.numbers("x")[classes == name] for one in (release.table, recovered))
            assert (np.diff(after[np.argsort(before)]) >= 0.0).all()
        assert recovered.numbers("x").std() < release.table.numbers("x").std() * np.sqrt(1.4)


class TestMoments:
    @pytest.mark.parametrize(("order", "least"), [(2, 0.9), (3, 0.9), (4, 0.86)])
    def test_the_error_that_is_told_covers_the_moment_of_the_original(self, order, least):
        """95 % of the intervals of 1.96 errors would hold it; moments of rows as they are do not."""
        draw, held, plain = np.random.default_rng(order), 0, 0
        for _ in range(150):
            original = draw.exponential(size=1500)
            stars = original + draw.normal(size=1500) * np.sqrt(0.5 * original.var())
            stars = stars - stars.mean()
            share = 1.0 - 1.0 / (1.0 + 0.5 * (1.0 - 1.0 / 1500))
            found = moment_without_noise(stars, share * stars.var(), share, order)
            true = ((original - original.mean()) ** order).mean()
            held += abs(found.value - true) < 1.96 * np.sqrt(found.by_method)
            plain += abs((stars**order).mean() - true) < 1.96 * np.sqrt(found.by_method)
        assert held >= least * 150
        if order != 3:  # the third moment of normal noise is zero
            assert plain < 0.5 * 150

    def test_the_interval_of_the_population_is_wider_and_holds_it(self):
        draw, held = np.random.default_rng(9), 0
        for _ in range(150):
            original = draw.normal(size=1000)
            stars = original + draw.normal(size=1000) * np.sqrt(0.5 * original.var())
            share = 1.0 - 1.0 / (1.0 + 0.5 * (1.0 - 1.0 / 1000))
            found = moment_without_noise(stars - stars.mean(), share * stars.var(), share, 4)
            assert found.total > found.by_method
            held += abs(found.value - 3.0) < 1.96 * np.sqrt(found.total)
        assert held >= 0.9 * 150

    def test_units_and_shrinkage_do_not_matter(self):
        incomes = 1000.0 + 300.0 * np.random.default_rng(10).exponential(size=4000)
        for correct in (True, False):
            release = noisy({"income": incomes}, level=0.4, correct=correct)
            found = sf.recover_moment(release, "income", 3, confidence=0.95)
            true = ((incomes - incomes.mean()) ** 3).mean()
            assert abs(found.value - true) < 3.5 * found.standard_error
            assert found.confidence_low < found.value < found.confidence_high
        release = noisy({"income": incomes}, level=0.4)
        second = sf.recover_moment(release, "income", 2)
        known = release.estimate("var(income)")
        assert second.value == pytest.approx(known.value, rel=1e-6)
        assert second.standard_error == pytest.approx(known.standard_error, rel=0.05)
