"""Histories as curves: functions of time, coefficients from observed cells, groups and swaps of curves."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import OptionError, SfumatoError
from sfumato.measures.measured_release import MeasuredRelease
from sfumato.measures.utility.curves import curve_changes, curve_scores, own_curve_shares
from sfumato.methods.spectral.functions import FUNCTIONS, CurveModel, orthonormal_functions
from sfumato.methods.spectral.histories import find_histories
from sfumato.randomness import Randomness
from sfumato.table.table import Table

TIMES = np.linspace(0.0, 10.0, 15)


def curves(people=400, seed=0, error=1.0):
    """Curves of three random coefficients, and the variance of the errors."""
    draw = np.random.default_rng(seed)
    shapes = np.array([np.ones(15), np.sin(TIMES / 2.0), TIMES / 5.0])
    return 70.0 + draw.normal(size=(people, 3)) * [8.0, 5.0, 3.0] @ shapes + error * draw.normal(size=(people, 15))


def columns_of(cells):
    return {f"pulse_{time:g}": cells[:, place] for place, time in enumerate(np.round(TIMES, 3))}


def trapezoid(values):
    return float(((values[1:] + values[:-1]) / 2.0 * np.diff(TIMES)).sum() / (TIMES[-1] - TIMES[0]))


class TestFunctions:
    @pytest.mark.parametrize("name", FUNCTIONS)
    @pytest.mark.parametrize("count", [1, 2, 4, 8, 15])
    def test_they_are_orthonormal_over_the_times(self, name, count):
        functions = orthonormal_functions(TIMES, name, count)
        assert functions.shape == (15, count)
        products = [[trapezoid(one * other) for other in functions.T] for one in functions.T]
        assert np.allclose(products, np.eye(count), atol=1e-9)

    def test_splines_hold_cubics_and_wavelets_steps(self):
        cubic, step = TIMES**3 - 4.0 * TIMES, np.where(TIMES - TIMES[0] >= 5.0, 3.0, -1.0)

        def rest(values, name):
            functions = orthonormal_functions(TIMES, name, 4)
            return np.abs(values - functions @ np.linalg.lstsq(functions, values)[0]).max() / np.ptp(values)

        assert rest(cubic, "splines") < 1e-9 and rest(step, "wavelets") < 1e-9
        assert rest(cubic, "wavelets") > 0.05 and rest(step, "splines") > 0.05  # each is the control of the other


class TestCoefficients:
    def test_they_are_those_of_the_formula_for_one_person_at_a_time(self):
        cells = curves(30)
        cells[np.random.default_rng(3).random(cells.shape) < 0.6] = np.nan
        cells[5] = np.nan  # nobody saw this person
        functions = orthonormal_functions(TIMES, "splines", 5)
        model = CurveModel.fit(cells, functions)
        found = model.coefficients(cells)
        for person, own in enumerate(cells):
            seen = ~np.isnan(own)
            phi = functions[seen]
            spread = phi @ model.covariance @ phi.T + model.error * np.eye(seen.sum())
            gain = model.covariance @ phi.T @ np.linalg.inv(spread)
            assert found.mean[person] == pytest.approx(model.mean + gain @ (own[seen] - phi @ model.mean))
            rest = model.covariance - gain @ phi @ model.covariance
            assert found.uncertainty[found.pattern[person]] == pytest.approx(rest, abs=1e-8)

    def test_the_parameters_are_found_although_two_of_three_cells_are_missing(self):
        whole = curves(3000, error=2.0)
        cells = np.where(np.random.default_rng(1).random(whole.shape) < 2 / 3, np.nan, whole)
        functions = orthonormal_functions(TIMES, "splines", 6)
        model = CurveModel.fit(cells, functions)
        assert model.error == pytest.approx(4.0, rel=0.1)
        variance = np.diag(functions @ model.covariance @ functions.T) + model.error
        assert variance == pytest.approx(whole.var(axis=0), rel=0.12)
        filled = np.where(np.isnan(cells), np.nanmean(cells, axis=0), cells)  # control: means in place of curves
        assert np.abs(filled.var(axis=0) / whole.var(axis=0) - 1.0).min() > 0.4

    def test_drawn_ones_vary_as_much_as_the_curves_and_means_do_not(self):
        cells = np.where(np.random.default_rng(2).random((2000, 15)) < 0.85, np.nan, curves(2000, error=3.0))
        model = CurveModel.fit(cells, orthonormal_functions(TIMES, "splines", 5))
        found = model.coefficients(cells)
        total = np.trace(model.covariance)
        assert found.draw(np.random.default_rng(4)).var(axis=0).sum() == pytest.approx(total, rel=0.05)
        assert found.mean.var(axis=0).sum() < 0.9 * total

    def test_nothing_observed_is_no_failure(self):
        model = CurveModel.fit(np.full((4, 15), np.nan), orthonormal_functions(TIMES, "splines", 3))
        assert np.isfinite(model.coefficients(np.full((4, 15), np.nan)).mean).all()


class TestReleases:
    def test_a_group_shares_every_cell_and_its_curve_is_the_mean(self):
        people = columns_of(curves()) | {"sex": np.random.default_rng(5).choice(["f", "m"], 400)}
        release = sf.Curves(k=7).release(people, schema=dict.fromkeys(people, "quasi"), seed=1)
        assert release.manifest.guarantee.startswith("7-anonymous")
        rows = release.to_pandas()
        sizes = rows.value_counts()
        assert sizes.min() >= 7 and sizes.max() <= 13
        assert rows["pulse_0"].mean() == pytest.approx(people["pulse_0"].mean(), abs=0.2)

    def test_a_swap_keeps_means_and_covariances_of_curves_and_hides_people(self):
        cells = curves(1500)
        seen = np.where(np.random.default_rng(6).random(cells.shape) < 0.3, np.nan, cells)
        people = columns_of(seen)
        release = sf.Curves(kind="swap").release(people, schema=dict.fromkeys(people, "quasi"), seed=2)
        assert release.manifest.guarantee == "no guarantee"
        made = np.column_stack([release.table.numbers(name) for name in people])
        assert not np.isnan(made).any()
        found = curve_changes(cells, made, TIMES)
        assert found.mean < 0.05 and found.covariance < 0.1 and found.roughness == pytest.approx(1.0, abs=0.2)
        # control: each column shuffled by itself has the means, and neither covariances nor smooth curves
        shuffled = np.random.default_rng(7).permuted(cells, axis=0)
        broken = curve_changes(cells, shuffled, TIMES)
        assert broken.covariance > 0.5 and broken.roughness > 3.0

    def test_whoever_is_released_is_found_only_if_nothing_was_done(self):
        cells = curves(300)
        people = np.arange(300)
        assert own_curve_shares(cells, cells, people, people).mean() == 1.0
        assert own_curve_shares(cells, cells[::-1], people, people).mean() < 0.02
        twins = np.repeat(cells[:150], 2, axis=0)  # two released rows are the same, and one of them is the own one
        assert own_curve_shares(twins, twins, people, people).mean() == pytest.approx(0.5)

    def test_the_measure_tells_a_release_from_a_copy(self):
        people = columns_of(curves(200))
        original = Table.from_arrow(
            sf.Noise(level=1e-9).release(people, schema=dict.fromkeys(people, "quasi")).table.arrow
        )

        def scores(released, origin):
            subject = MeasuredRelease(original=original, released=released, origin=origin, randomness=Randomness(1))
            return {score.name: score.value for score in curve_scores(subject)}

        copied = scores(original, np.arange(200))
        assert copied["people nearest to their own curve"] == 1.0 and copied["change in mean curves"] == 0.0
        order = np.random.default_rng(1).permutation(200)
        assert scores(original.take(order), order) == pytest.approx(copied)

    def test_parts_of_a_history_cannot_be_logarithms(self):
        people = columns_of(np.exp(curves(50) / 30.0))
        with pytest.raises(OptionError, match="log-transformed"):
            sf.Curves(k=3, logs=("pulse_0",)).release(people, schema=dict.fromkeys(people, "quasi"))
        release = sf.Curves(k=3, logs=tuple(people)).release(people, schema=dict.fromkeys(people, "quasi"))
        assert release.table.numbers("pulse_0").min() > 0.0

    @pytest.mark.parametrize("kind", ["group", "swap"])
    def test_constant_whole_and_empty_columns_are_released(self, kind):
        people = {f"count_{time}": np.full(40, 3) for time in range(5)}
        people |= {f"dose_{time}": np.random.default_rng(time).poisson(4.0, 40) for time in range(5)}
        people |= {"never": [None] * 40, "flag": [True, False] * 20}
        release = sf.Curves(kind=kind, k=4).release(people, schema=dict.fromkeys(people, "quasi"))
        assert set(release.table.numbers("count_0")) == {3.0}
        assert (release.table.numbers("dose_1") % 1.0 == 0.0).all()


class TestHistories:
    def test_columns_are_ordered_by_time_and_others_left_alone(self):
        names = ["a_10", "a_9", "a_1.5", "b_1", "b_2", "plain", "a_2"]
        assert [one.stem for one in find_histories(names)] == ["a"]
        assert find_histories(names)[0].columns == ("a_1.5", "a_2", "a_9", "a_10")
        assert find_histories(names, ["b"])[0].times == (1.0, 2.0)
        with pytest.raises(OptionError, match="'plain'"):
            find_histories(names, ["plain"])
        with pytest.raises(OptionError, match="different times"):
            find_histories(["a_1", "a_1.0"], ["a"])

    def test_rows_of_observations_become_rows_of_people(self):
        draw = np.random.default_rng(8)
        person, day = draw.integers(20, size=300), draw.uniform(0.0, 9.0, 300)
        pulse, town = draw.normal(60.0, 5.0, 300), np.array(["Ulm", "Rom"])[person % 2]
        pulse[::17] = np.nan
        seen = {"person": person, "town": town, "day": day, "pulse": pulse}
        made = sf.histories(seen, person="person", time="day", values=["pulse"], times=[0, 3, 6, 9])
        assert made.rows == 20 and made.names == ("person", "town", "pulse_0", "pulse_3", "pulse_6", "pulse_9")
        for row in range(20):
            own = person == made.numbers("person")[row]
            near = own & (np.abs(day - 3.0) < 1.5) & ~np.isnan(pulse)
            expected = pulse[near].mean() if near.any() else np.nan
            assert made.numbers("pulse_3")[row] == pytest.approx(expected, nan_ok=True)
        spaced = sf.histories(seen, person="person", time="day", values=["pulse"], times=5)
        assert len([name for name in spaced.names if name.startswith("pulse_")]) == 5

    def test_what_varies_within_a_person_is_refused_without_a_cell(self):
        seen = {"id": [1, 1], "town": ["Ulm", "Rom"], "day": [0.0, 1.0], "x": [1.0, 2.0]}
        with pytest.raises(SfumatoError, match="same in all rows") as caught:
            sf.histories(seen, person="id", time="day", values=["x"])
        assert "Ulm" not in str(caught.value)
        with pytest.raises(SfumatoError, match="time"):
            sf.histories(seen | {"day": [-1.0, 1.0]}, person="id", time="day", values=["x"])


def test_groups_of_curves_are_refused_beside_a_sensitive_column_unless_one_value_may_be_shown() -> None:
    draw = np.random.default_rng(0)
    table = {f"pulse_{time}": draw.normal(70, 8, 60) for time in range(6)} | {"ill": draw.choice(list("abc"), 60)}
    roles = {name: "sensitive" if name == "ill" else "quasi" for name in table}
    with pytest.raises(sf.SfumatoError, match="no l values"):
        sf.Curves(k=5).release(table, schema=roles)
    assert sf.Curves(k=5, l=1).release(table, schema=roles).manifest.guarantee
