"""Enclosures: they hold every value that the hidden data can have, and the attained ends are attained.

The twin is brute force: all corners of all boxes, and many random choices within them.
"""

from __future__ import annotations

import csv
import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.statistics.bounds import estimate
from sfumato.statistics.bounds.spread import largest_sum_of_squares
from sfumato.statistics.characteristics import Coefficient
from sfumato.statistics.interval_table import IntervalTable
from sfumato.statistics.language import parse

NAMES = ["x", "y", "z"]


@dataclass(frozen=True)
class Case:
    """Boxes with counts and weights, and the same record by record."""

    table: IntervalTable
    low: np.ndarray  # (N, n)
    high: np.ndarray
    share: np.ndarray  # (N,), weights that sum to 1

    @classmethod
    def of(cls, low, high, count, weight):
        table = IntervalTable.make(NAMES[: low.shape[1]], low, high, count=count, weight=weight)
        each = (table.weight / count).repeat(count)
        return cls(table, low.repeat(count, axis=0), high.repeat(count, axis=0), each / each.sum())

    def corners(self):
        """Every choice of corners: (M, N, n)."""
        bits = 1 << self.low.size
        pattern = (np.arange(bits)[:, None] >> np.arange(self.low.size)) & 1
        return np.where(pattern.reshape(bits, *self.low.shape) == 1, self.high, self.low)

    def choices(self, number, seed=0):
        """Random choices: inside, on corners, and mixed."""
        rng = np.random.default_rng(seed)
        shape = (number, *self.low.shape)
        inside = self.low + rng.random(shape) * (self.high - self.low)
        corner = np.where(rng.random(shape) < 0.5, self.low, self.high)
        return np.concatenate([inside, corner, np.where(rng.random(shape) < 0.5, inside, corner)])

    def values(self, words, data):
        """The statistic of each choice, by the plainest formulas; undefined ones are left out."""
        mean = np.einsum("p,mpi->mi", self.share, data)
        away = data - mean[:, None, :]
        s = np.einsum("p,mpi,mpj->mij", self.share, away, away)
        if words == "mean(x)":
            return mean[:, 0]
        if words == "var(x)":
            return s[:, 0, 0]
        if words == "cov(x, y)":
            return s[:, 0, 1]
        fine = s[:, 0, 0] > 1e-8
        if words == "corr(x, y)":
            fine &= s[:, 1, 1] > 1e-8
            return s[fine, 0, 1] / np.sqrt(s[fine, 0, 0] * s[fine, 1, 1])
        slope = s[fine, 0, 1] / s[fine, 0, 0]
        return slope if words == "slope" else mean[fine, 1] - slope * mean[fine, 0]


@st.composite
def cases(draw, columns=2, most_records=4):
    """Few boxes on a coarse grid, so that they nest, overlap, touch and repeat; some without width; weights or none."""
    boxes = draw(st.integers(1, most_records))
    low = draw(arrays(np.float64, (boxes, columns), elements=st.integers(-6, 6).map(float)))
    width = draw(arrays(np.float64, (boxes, columns), elements=st.sampled_from([0.0, 0.25, 1.0, 2.0, 5.0])))
    spare = most_records - boxes
    count = np.ones(boxes, dtype=np.int64)
    count[0] += draw(st.integers(0, spare))
    weight = draw(st.one_of(st.none(), arrays(np.float64, boxes, elements=st.sampled_from([0.5, 1.0, 3.0]))))
    return Case.of(low, low + width, count, weight)


def assert_encloses(case, words, data, statistic):
    values = case.values(words, data)
    one = estimate(statistic, case.table)[0]
    if values.size:
        slack = 1e-9 * (1.0 + np.abs(values).max())
        assert one.low - slack <= values.min()
        assert values.max() <= one.high + slack
    if not np.isnan(one.inner_low):
        assert one.low <= one.inner_low <= one.inner_high <= one.high
    return one, values


@settings(max_examples=600)
@given(cases(columns=1, most_records=7))
def test_the_variance_of_every_choice_of_corners_is_enclosed_and_the_inner_ends_are_attained(case):
    one, values = assert_encloses(case, "var(x)", case.corners(), parse("var(x)"))
    scale = 1e-9 * (1.0 + values.max())
    certificate = ((case.share * (case.high - case.low)[:, 0] / 2.0) ** 2).max()
    assert one.inner_high <= values.max() + scale
    assert one.high <= one.inner_high + certificate + scale
    least = case.values("var(x)", case.choices(200)).min()
    assert one.inner_low <= least + scale
    assert one.inner_low - one.low <= scale  # the lower end is exact


@settings(max_examples=200)
@given(cases(columns=1))
def test_the_mean_is_exact(case):
    one, _ = assert_encloses(case, "mean(x)", case.corners(), parse("mean(x)"))
    assert one.high == pytest.approx(case.share @ case.high[:, 0], abs=1e-9)
    assert one.low == pytest.approx(case.share @ case.low[:, 0], abs=1e-9)


@settings(max_examples=200)
@given(cases())
def test_the_covariance_of_every_choice_of_corners_is_enclosed_and_the_inner_ends_are_attained(case):
    one, values = assert_encloses(case, "cov(x, y)", case.corners(), parse("cov(x, y)"))
    scale = 1e-9 * (1.0 + np.abs(values).max())
    assert values.min() - scale <= one.inner_low
    assert one.inner_high <= values.max() + scale


@settings(max_examples=40)
@given(cases())
def test_the_correlation_of_every_choice_is_enclosed(case):
    assert_encloses(case, "corr(x, y)", np.concatenate([case.corners(), case.choices(300)]), parse("corr(x, y)"))


@settings(max_examples=60)
@given(cases())
def test_the_line_through_every_choice_is_enclosed(case):
    data = np.concatenate([case.corners(), case.choices(300)])
    intercept, slope = parse("regress(y ~ x)").parts()
    assert_encloses(case, "slope", data, slope)
    assert_encloses(case, "intercept", data, intercept)


def slow_coefficients(case, data):
    """Least squares with two regressors for each choice, leaving out those that are (nearly) collinear."""
    found = []
    for rows in data:
        design = np.column_stack([np.ones(len(rows)), rows[:, 0], rows[:, 2]]) * np.sqrt(case.share)[:, None]
        singular = np.linalg.svd(design, compute_uv=False)
        if singular[-1] > 1e-3:
            found.append(np.linalg.lstsq(design, rows[:, 1] * np.sqrt(case.share), rcond=None)[0])
    return np.array(found).reshape(-1, 3)


@settings(max_examples=12)
@given(st.integers(0, 10**6))
def test_two_regressors_of_every_choice_are_enclosed(seed):
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(8, 3)).round(1)
    high = low + rng.choice([0.0, 0.1, 0.4], size=low.shape)
    case = Case.of(low, high, rng.integers(1, 3, size=8), None)
    found = slow_coefficients(case, case.choices(100, seed))
    for part, values in zip(parse("regress(y ~ x + z)").parts(), found.T, strict=True):
        assert isinstance(part, Coefficient)
        one = estimate(part, case.table)[0]
        assert one.low - 1e-9 <= values.min() and values.max() <= one.high + 1e-9
        if not np.isnan(one.inner_low):
            assert one.low <= one.inner_low <= one.inner_high <= one.high


def test_a_bound_that_takes_the_nearer_ends_would_be_caught():
    """Control: the test of the variance fails for a bound that is too small."""
    low, high = np.array([0.0, 1.0, 5.0]), np.array([2.0, 2.0, 6.0])
    weight = np.full(3, 1.0 / 3.0)
    true = max(np.var(corner) for corner in itertools.product(*zip(low, high, strict=True)))
    assert largest_sum_of_squares(low, high, weight).bound >= true
    centre = largest_sum_of_squares(low, high, weight).centre
    nearer = (weight * np.minimum((low - centre) ** 2, (high - centre) ** 2)).sum()
    assert nearer < true


def kd_boxes(rows, k):
    """A plain k-d tree that cuts at multiples of k: hulls and counts."""
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    pending, leaves = [np.arange(len(rows))], []
    while pending:
        members = pending.pop()
        if len(members) < 2 * k:
            leaves.append(members)
            continue
        axis = int(np.argmax(np.ptp(scaled[members], axis=0)))
        half = max(k, len(members) // 2 // k * k)
        order = np.argsort(scaled[members, axis], kind="stable")
        pending += [members[order[:half]], members[order[half:]]]
    low, high = (np.array([edge(rows[leaf], axis=0) for leaf in leaves]) for edge in (np.min, np.max))
    return low, high, np.array([len(leaf) for leaf in leaves])


@pytest.mark.parametrize("k", [3, 5, 10])
@pytest.mark.parametrize("names", [("AGI", "FEDTAX"), ("AGI", "FEDTAX", "PTOTVAL", "FICA")], ids=len)
def test_census_intervals_are_tight(data_folder, names, k):
    with (data_folder / "casc" / "census.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    rows = np.array([[float(record[name]) for name in names] for record in records])
    low, high, count = kd_boxes(rows, k)
    table = IntervalTable.make(names, low, high, count=count)
    truth = {
        "var(AGI)": rows[:, 0].var(),
        "cov(AGI, FEDTAX)": np.cov(rows[:, :2].T, bias=True)[0, 1],
        "corr(AGI, FEDTAX)": np.corrcoef(rows[:, :2].T)[0, 1],
        "regress(FEDTAX ~ AGI)": np.polyfit(rows[:, 0], rows[:, 1], 1)[0],
    }
    widest = {"var(AGI)": 1e-6, "cov(AGI, FEDTAX)": 1e-3, "corr(AGI, FEDTAX)": 1e-3, "regress(FEDTAX ~ AGI)": 1e-2}
    for words, value in truth.items():
        one = estimate(parse(words), table)[-1]
        assert one.low <= value <= one.high
        assert one.gap <= widest[words]
