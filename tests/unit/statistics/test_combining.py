"""Combining rules of synthetic tables: the formulas by hand, and intervals that cover as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import OptionError, RequestError, StatisticError
from sfumato.release.synthetic import combine

ROWS, TABLES, TRIALS = 50, 5, 600


class TestFormulas:
    values, variances = [1.0, 2.0, 3.0, 6.0], [0.5, 0.5, 1.0, 1.0]  # q̄ = 3, ū = 0.75, b = 14/3

    @pytest.mark.parametrize(
        ("rule", "variance", "degrees"),
        [
            ("partial", 0.75 + 14 / 12, 3 * (1 + 4 * 0.75 / (14 / 3)) ** 2),
            ("full", 1.25 * 14 / 3 - 0.75, 3 * (1 - 4 * 0.75 / (5 * 14 / 3)) ** 2),
            ("simple", 1.25 * 0.75, math.inf),
        ],
    )
    def test_by_hand(self, rule, variance, degrees):
        found = combine("q", self.values, self.variances, rule)
        assert found.value == 3.0
        assert found.standard_error == pytest.approx(math.sqrt(variance))
        assert found.degrees == pytest.approx(degrees)
        assert found.low < found.value < found.high

    def test_a_negative_variance_becomes_the_variance_within(self):
        assert combine("q", [1.0, 1.0, 1.1], [1.0] * 3, "full").standard_error == 1.0

    def test_a_single_table_has_a_simple_rule_only(self):
        assert combine("q", [1.0], [2.0], "simple").standard_error == 2.0
        with pytest.raises(OptionError, match="two synthetic tables"):
            combine("q", [1.0], [2.0], "partial")


def coverage(rule: str, *, proper: bool, tables: int = TABLES, understated: float = 1.0) -> float:
    """How often the interval of a mean contains the mean of the population, 0, over many samples and syntheses."""
    draw, hits = np.random.default_rng(11), 0
    for _ in range(TRIALS):
        sample = draw.normal(size=ROWS)
        centres = sample.mean() + (draw.normal(size=tables) * sample.std() / math.sqrt(ROWS) if proper else 0.0)
        made = np.broadcast_to(centres, tables)[:, None] + sample.std() * draw.normal(size=(tables, ROWS))
        found = combine("mean", made.mean(axis=1).tolist(), (made.var(axis=1) / ROWS / understated).tolist(), rule)
        hits += found.low <= 0.0 <= found.high
    return hits / TRIALS


class TestCoverage:
    """95 % of 600 trials, with a standard error of 0.9 %."""

    def test_each_rule_holds_for_its_synthesis(self):
        assert 0.92 < coverage("partial", proper=False) < 0.98
        assert 0.92 < coverage("simple", proper=False) < 0.98
        assert 0.92 < coverage("simple", proper=False, tables=1) < 0.98
        assert 0.92 < coverage("full", proper=True, tables=100) < 0.985  # with few tables its intervals are too wide

    def test_the_wrong_rule_is_seen(self):
        assert coverage("simple", proper=True, tables=1) < 0.92
        assert coverage("simple", proper=False, tables=1, understated=2.0) < 0.88  # as if the rows were people


class TestReleases:
    def release(self, **options):
        draw = np.random.default_rng(0)
        x = draw.normal(size=500)
        people = {"x": x, "y": 2.0 * x + draw.normal(size=500)}
        return sf.Synthesize(kind="copula", **options).release(people, schema=dict.fromkeys(people, "quasi"), seed=1)

    @pytest.mark.parametrize(
        ("options", "rule"),
        [({}, "simple"), ({"imputations": 4}, "partial"), ({"imputations": 4, "proper": True}, "full")],
    )
    def test_the_rule_fits_the_release(self, options, rule):
        found = sf.combined_estimate(self.release(**options), "regress(y ~ x): x")
        assert found.rule == rule
        assert found.low < 2.0 < found.high
        assert found.standard_error < 0.2

    def test_what_cannot_be_combined_is_refused(self):
        with pytest.raises(StatisticError, match="one number"):
            sf.combined_estimate(self.release(), "regress(y ~ x)")
        swapped = sf.SvdSwap().release({"x": np.arange(50.0)}, schema={"x": "quasi"}, seed=1)
        with pytest.raises(RequestError, match="synthetic"):
            sf.combined_estimate(swapped, "mean(x)")


def test_a_group_without_numbers_has_no_record_and_is_not_named_in_an_error():
    boxes = sf.read_release({"x": [1.0, 2.0, None], "y": [None, None, 1.0], "g": ["a", "a", "b"]})
    assert boxes.estimate("mean(x) by g").keys == ("a",)
    with pytest.raises(StatisticError, match=r"mean.* by g needs at least one record"):
        boxes.estimate("mean(y * x) by g")


def test_a_table_without_complete_records_is_refused_without_a_cell():
    boxes = sf.read_release({"a": ["Zq7x", None], "b": [None, "Zq7y"]})
    with pytest.raises(StatisticError, match="value in both columns") as refused:
        boxes.estimate("table(a, b)")
    assert "Zq7" not in str(refused.value)
