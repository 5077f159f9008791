"""What an estimate says: its unit, dates as dates, counts as counts, when it ended, and how it is shown."""

from __future__ import annotations

import datetime
import json
import math
import time

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import StatisticError
from sfumato.kernels.jit import working_time
from sfumato.report.html import to_json
from sfumato.statistics.bounds import kernels as enclosure_products
from sfumato.statistics.bounds.enclosure import Deadline
from sfumato.statistics.bounds.scaled_boxes import compile_kernels

DAY = datetime.timedelta(days=1)


def days(*texts):
    return pa.array([datetime.date.fromisoformat(text) for text in texts], pa.date32())


BORN = {
    "born_low": days("1980-01-01", "1980-01-01", "1990-01-01", "1990-01-01"),
    "born_high": days("1980-01-03", "1980-01-03", "1990-01-05", "1990-01-05"),
    "y": [1.0, 2.0, 3.0, 4.0],
}


class TestDates:
    def test_a_mean_of_dates_is_a_date_between_dates(self):
        one = sf.read_release(BORN).estimate("mean(born)")
        assert one.low == datetime.date(1984, 12, 31)  # 1984-12-31 12:00, rounded outward
        assert one.high == datetime.date(1985, 1, 4)
        assert one.low < one.value < one.high
        assert one.unit == "date"
        assert isinstance(one.linear_low, datetime.date)
        assert one.numbers.low == pytest.approx((datetime.date(1984, 12, 31) - datetime.date(1970, 1, 1)) / DAY + 0.5)

    def test_an_exact_column_of_dates_has_one_date_as_its_interval(self):
        exact = dict.fromkeys(("born_low", "born_high"), days("1980-01-01", "1980-01-03", "1980-01-05"))
        one = sf.read_release(exact).estimate("mean(born)")
        assert one.low == one.value == one.high == datetime.date(1980, 1, 3)

    def test_a_quantile_of_dates_is_a_date(self):
        one = sf.read_release(BORN).estimate("quantile(born, 0.1)")
        assert (one.low, one.high) == (datetime.date(1980, 1, 1), datetime.date(1980, 1, 3))

    def test_spreads_of_dates_and_moments_are_in_days(self):
        seen = pa.array([datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 3)])
        release = sf.read_release({"seen": seen, "born": days("2020-01-01", "2020-01-03"), "y": [0.0, 1.0]})
        for name in ("seen", "born"):
            assert release.estimate(f"sd({name})").value == pytest.approx(1.0)
            assert release.estimate(f"sd({name})").unit == "days"
            assert release.estimate(f"var({name})").unit == "days²"
            assert release.estimate(f"cov({name}, y)").value == pytest.approx(0.5)
            assert release.estimate(f"regress(y ~ {name})")[name].value == pytest.approx(0.5)
        assert release.estimate("cov(seen, born)").value == pytest.approx(1.0)

    def test_moments_have_a_time_and_keep_their_zone(self):
        plain = pa.array([datetime.datetime(2020, 1, 1, 6), datetime.datetime(2020, 1, 1, 18)])
        one = sf.read_release({"seen_low": plain, "seen_high": plain}).estimate("mean(seen)")
        assert abs(one.value - datetime.datetime(2020, 1, 1, 12)) <= datetime.timedelta(microseconds=1)
        assert one.low <= datetime.datetime(2020, 1, 1, 12) <= one.high
        aware = pa.array([datetime.datetime(2020, 1, 1, 6, tzinfo=datetime.UTC)] * 2, pa.timestamp("us", tz="UTC"))
        assert sf.read_release({"seen": aware}).estimate("median(seen)").value.tzinfo is datetime.UTC

    def test_dates_are_text_in_json_and_on_the_page(self):
        one = sf.read_release(BORN).estimate("mean(born)", wide_boxes="fuzzy")
        written = json.loads(to_json(one))
        assert written["low"] == "1984-12-31"
        assert written["reweighting"]["whole_value"][:4] == "1985"
        assert "1984-12-31 … 1985-01-04" in one._repr_html_()
        assert "1984-12-31 … 1985-01-04" in str(one)

    def test_dates_cannot_be_added(self):
        with pytest.raises(StatisticError, match="dates cannot be added"):
            sf.read_release(BORN).estimate("sum(born)")


class TestCounts:
    def test_a_count_is_a_whole_number_and_shown_as_one(self):
        one = sf.read_release({end: np.arange(1_234_567) for end in ("x_low", "x_high")}).estimate("count(x >= 1)")
        assert (one.low, one.high) == (1_234_566, 1_234_566)
        assert isinstance(one.low, int)
        assert "count(x >= 1) = 1,234,566, guaranteed 1,234,566 … 1,234,566" in str(one)
        assert json.loads(to_json(one))["low"] == 1_234_566


class TestRegressions:
    RELEASE = sf.read_release({"x_low": [1, 3, 6, 7], "x_high": [2, 4, 8, 9], "y": [1.0, 2.0, 6.0, 5.0]})

    def test_is_one_record_with_coefficients_by_name_and_position(self):
        fit = self.RELEASE.estimate("regress(y ~ x)")
        assert isinstance(fit, sf.RegressionEstimate)
        assert fit.terms == ("intercept", "x")
        assert fit["x"] is fit[1] is fit[-1]
        assert fit["intercept"] is fit[0]
        intercept, slope = fit
        assert (intercept, slope) == fit[:]
        assert len(fit) == 2
        assert [line.split(" = ")[0] for line in str(fit).splitlines()] == [intercept.name, slope.name]
        assert fit._repr_html_().count("<tr>") == 3

    def test_one_coefficient_can_be_asked_for(self):
        assert self.RELEASE.estimate("regress(y ~ x): x") == self.RELEASE.estimate("regress(y ~ x)")["x"]

    def test_an_unknown_coefficient_is_named(self):
        with pytest.raises(StatisticError, match=r"no coefficient 'z'.*'intercept', 'x'"):
            self.RELEASE.estimate("regress(y ~ x)")["z"]


class TestUnbiased:
    def test_divides_by_one_less(self):
        rows = np.array([[1.0, 2.0], [3.0, 1.0], [4.0, 8.0]])
        ends = {f"{name}_{end}": rows[:, at] for at, name in enumerate("xy") for end in ("low", "high")}
        release = sf.read_release(ends)
        for words, true in (
            ("var(x, unbiased)", rows[:, 0].var(ddof=1)),
            ("sd(x, unbiased)", rows[:, 0].std(ddof=1)),
            ("cov(x, y, unbiased)", np.cov(rows.T)[0, 1]),
        ):
            one = release.estimate(words)
            assert one.value == pytest.approx(true)
            assert one.low <= true <= one.high
            assert one.high - one.low < 1e-9

    def test_one_record_has_no_unbiased_variance(self):
        one = sf.read_release({"x_low": [1.0], "x_high": [2.0]}).estimate("var(x, unbiased)")
        assert math.isnan(one.value)
        assert (one.low, one.high) == (-math.inf, math.inf)

    def test_can_be_kept_by_boxes(self):
        people = {"x": np.arange(60.0), "y": np.arange(60.0) ** 2}
        keep = ["var(x, unbiased)", "regress(y ~ x): x"]
        release = sf.Boxes(k=5, keep=keep, accuracy={keep[1]: 0.5}).release(people, schema=dict.fromkeys("xy", "quasi"))
        assert release.manifest.keep == tuple(keep)
        assert release.estimate(keep[0]).low <= np.var(people["x"], ddof=1) <= release.estimate(keep[0]).high


def four_columns(rows=1500):
    rng = np.random.default_rng(0)
    middle = rng.normal(size=(rows, 4))
    return {
        f"x{place}_{end}": middle[:, place] + shift
        for place in range(4)
        for end, shift in (("low", -0.1), ("high", 0.1))
    }


class TestTime:
    def test_an_interval_that_ended_early_says_so(self):
        release = sf.read_release(four_columns())
        hasty = release.estimate("regress(x0 ~ x1 + x2 + x3)", budget=sf.EstimateBudget(seconds=0.05))
        assert any(one.ended_early for one in hasty)
        assert "ended early" in str(hasty)
        assert not release.estimate("mean(x0)", budget=sf.EstimateBudget(seconds=0.0)).ended_early
        assert not release.estimate("corr(x0, x1)").ended_early

    def test_a_share_of_the_time_that_is_used_up_marks_the_whole(self):
        whole = Deadline(10.0, 1e-4)
        part = whole.share(2)
        assert not whole.ended_early
        assert Deadline(0.0, 1e-4, started=working_time() - 1.0, whole=part).is_over
        assert part.ended_early
        assert whole.ended_early

    def test_all_kernels_are_compiled_before_the_clock_starts(self):
        compile_kernels()
        kernels = [
            getattr(enclosure_products, name) for name in ("largest_product_sum", "largest_product_sums", "best_points")
        ]
        before = [len(kernel.signatures) for kernel in kernels]
        release = sf.read_release(four_columns(200))
        for words in ("cov(x0, x1)", "corr(x0, x1)", "regress(x0 ~ x1 + x2)", "var(x0 | x1 > 0)"):
            release.estimate(words, budget=sf.EstimateBudget(seconds=1))
        assert [len(kernel.signatures) for kernel in kernels] == before

    def test_the_time_is_kept_to_on_large_tables(self):
        release = sf.read_release(four_columns(60_000))
        release.estimate("corr(x0, x1)", budget=sf.EstimateBudget(seconds=0.0))
        started = time.process_time()
        release.estimate("regress(x0 ~ x1 + x2 + x3)", budget=sf.EstimateBudget(seconds=0.5))
        assert time.process_time() - started < 5.0


def test_results_become_data_frames():
    boxes = sf.read_release({"x_low": [1.0, 3.0, 6.0, 7.0], "x_high": [2.0, 4.0, 8.0, 8.0], "sex": list("ffmm")})
    frame = boxes.estimate("mean(x)", confidence=0.9).to_pandas()
    assert frame.loc["mean(x)", "low"] == boxes.estimate("mean(x)").low
    assert frame.loc["mean(x)", "confidence_low"] < frame.loc["mean(x)", "low"]
    assert "confidence" not in boxes.estimate("mean(x)").to_pandas()
    ends = {"x_low": [1.0, 3.0, 6.0], "x_high": [1.0, 3.0, 6.0], "y_low": [1, 2, 4], "y_high": [1, 2, 4]}
    pair = sf.read_release(ends)
    assert list(pair.estimate("regress(y ~ x)").to_pandas().index) == ["intercept", "x"]
    noisy = sf.Noise().release({"x": np.arange(50.0)}, schema={"x": "quasi"}).estimate("mean(x)").to_pandas()
    assert noisy["standard_error"].iloc[0] > 0.0
    assert noisy["high"].iloc[0] == np.inf
