"""Enclosures: they hold every value that the hidden data can have, and the attained ends are attained.

The twin is brute force: all corners of all boxes, and many random choices within them.
"""

from __future__ import annotations

import csv
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import sfumato as sf
from sfumato.statistics.bounds.enclosure import EstimateBudget
from sfumato.statistics.bounds.scaled_boxes import largest_sum_of_squares
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.language import parse
from sfumato.statistics.regression import Coefficient
from sfumato.statistics.statistic import enclose, estimate

NAMES = ["x", "y", "z"]


@dataclass(frozen=True)
class Case:
    """Boxes with counts and weights, and the same record by record."""

    table: CountedBoxes
    low: np.ndarray  # (N, n)
    high: np.ndarray
    share: np.ndarray  # (N,), weights that sum to 1

    @classmethod
    def of(cls, low, high, count, weight):
        table = CountedBoxes.make(NAMES[: low.shape[1]], low, high, count=count, weight=weight)
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


BRIEF = EstimateBudget(seconds=0.3)  # small tables have a duality gap that no time closes


def assert_encloses(case, words, data, statistic):
    values = case.values(words, data)
    one = estimate(statistic, case.table, BRIEF)[0]
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
        one = estimate(part, case.table, BRIEF)[0]
        assert one.low - 1e-9 <= values.min() and values.max() <= one.high + 1e-9
        if not np.isnan(one.inner_low):
            assert one.low <= one.inner_low <= one.inner_high <= one.high


def exactly(words, rows, weight):
    """The statistic in fractions, so that no rounding stands between the test and the truth; None where undefined."""
    whole = sum(weight)
    columns = [[Fraction(float(cell)) for cell in column] for column in rows.T]
    mean = [sum(w * cell for w, cell in zip(weight, column, strict=True)) / whole for column in columns]

    def spread(i, j):
        pairs = zip(weight, columns[i], columns[j], strict=True)
        return sum(w * (a - mean[i]) * (b - mean[j]) for w, a, b in pairs) / whole

    if words == "mean(x)":
        return mean[0]
    if words == "var(x)":
        return spread(0, 0)
    if words == "cov(x, y)":
        return spread(0, 1)
    return None if spread(0, 0) == 0 else spread(0, 1) / spread(0, 0)


@st.composite
def crooked_cases(draw):
    """Boxes that floating point likes least: far from zero, tiny, of many sizes, with weights that hardly count."""
    boxes = draw(st.integers(1, 4))
    low = draw(arrays(np.float64, (boxes, 2), elements=st.integers(-9, 9).map(lambda whole: whole / 7.0)))
    width = draw(arrays(np.float64, (boxes, 2), elements=st.sampled_from([0.0, 1e-9, 0.1, 1.0 / 3.0, 2.0])))
    size = np.array(draw(st.lists(st.sampled_from([1e-12, 1e-6, 1.0, 1e6, 1e12]), min_size=2, max_size=2)))
    far = np.array(draw(st.lists(st.sampled_from([0.0, 1e3, -1e9]), min_size=2, max_size=2)))
    weight = draw(arrays(np.float64, boxes, elements=st.sampled_from([1e-9, 1.0, 1.0, 7.0, 1e9])))
    low = (low + far) * size
    return Case.of(low, np.maximum(low + width * size, low), np.ones(boxes, dtype=np.int64), weight)


@settings(max_examples=80)
@given(crooked_cases(), st.sampled_from(["mean(x)", "var(x)", "cov(x, y)", "slope"]))
def test_rounding_never_carries_a_value_out_of_its_interval(case, words):
    statistic = parse("regress(y ~ x)").parts()[1] if words == "slope" else parse(words)
    one = estimate(statistic, case.table, EstimateBudget(seconds=1.0))[0]
    weight = [Fraction(float(w)) for w in case.table.weight]
    for rows in (*case.corners()[:: max(1, 2 ** (case.low.size - 4))], *case.choices(2)):
        value = exactly(words, np.clip(rows, case.low, case.high), weight)
        if value is not None:
            assert math.isinf(one.low) or Fraction(one.low) <= value
            assert math.isinf(one.high) or value <= Fraction(one.high)


@settings(max_examples=60)
@given(cases(), st.sampled_from(["mean(x)", "var(x)", "sd(x)", "cov(x, y)", "corr(x, y)", "slope", "intercept"]))
def test_the_inner_ends_are_the_statistics_of_their_witnesses(case, words):
    parts = parse("regress(y ~ x)").parts()
    statistic = {"slope": parts[1], "intercept": parts[0]}.get(words) or parse(words)
    found = enclose(statistic, case.table, EstimateBudget(seconds=1.0))
    assert (found.lowest is None) == math.isnan(found.inner_low)
    columns = [NAMES.index(name) for name in statistic.columns]
    for witness, value in ((found.lowest, found.inner_low), (found.highest, found.inner_high)):
        if witness is not None:
            assert (case.table.low[witness.box][:, columns] <= witness.points).all()
            assert (witness.points <= case.table.high[witness.box][:, columns]).all()
            sampling = np.bincount(witness.box, weights=witness.weight, minlength=len(case.table.weight))
            assert np.allclose(sampling, case.table.weight)
            assert statistic.value(witness.moments) == pytest.approx(value, rel=1e-9, abs=1e-9)


@settings(max_examples=40)
@given(
    cases(),
    st.sampled_from(["var(x)", "cov(x, y)", "corr(x, y)", "slope", "intercept"]),
    st.sampled_from(
        [
            EstimateBudget(seconds=0.0),
            EstimateBudget(seconds=0.003),
            EstimateBudget(gap=0.5),
            EstimateBudget(seconds=0.02, gap=0.0),
        ]
    ),
)
def test_a_budget_that_ends_early_leaves_a_valid_interval(case, words, budget):
    parts = parse("regress(y ~ x)").parts()
    statistic = {"slope": parts[1], "intercept": parts[0]}.get(words) or parse(words)
    one = estimate(statistic, case.table, budget)[0]
    values = case.values(words, np.concatenate([case.corners(), case.choices(100)]))
    if values.size:
        slack = 1e-9 * (1.0 + np.abs(values).max())
        assert one.low - slack <= values.min() and values.max() <= one.high + slack
    if not math.isnan(one.inner_low):
        assert one.low <= one.inner_low <= one.inner_high <= one.high


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.05, 0.5]))
def test_a_regression_that_is_stopped_early_leaves_valid_intervals(seed, seconds):
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(10, 3)).round(1)
    case = Case.of(low, low + rng.choice([0.0, 0.1, 0.3], size=low.shape), rng.integers(1, 3, size=10), None)
    found = slow_coefficients(case, case.choices(60, seed))
    for one, values in zip(
        estimate(parse("regress(y ~ x + z)"), case.table, EstimateBudget(seconds=seconds)), found.T, strict=True
    ):
        assert one.low - 1e-9 <= values.min() and values.max() <= one.high + 1e-9


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


PATIENT = EstimateBudget(seconds=300.0)  # the gap ends the work, not the clock of a busy machine


@pytest.mark.parametrize("k", [3, 5, 10])
@pytest.mark.parametrize("names", [("AGI", "FEDTAX"), ("AGI", "FEDTAX", "PTOTVAL", "FICA")], ids=len)
def test_census_intervals_are_tight(data_folder, names, k):
    with (data_folder / "casc" / "census.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    rows = np.array([[float(record[name]) for name in names] for record in records])
    low, high, count = kd_boxes(rows, k)
    table = CountedBoxes.make(names, low, high, count=count)
    truth = {
        "var(AGI)": rows[:, 0].var(),
        "cov(AGI, FEDTAX)": np.cov(rows[:, :2].T, bias=True)[0, 1],
        "corr(AGI, FEDTAX)": np.corrcoef(rows[:, :2].T)[0, 1],
        "regress(FEDTAX ~ AGI)": np.polyfit(rows[:, 0], rows[:, 1], 1)[0],
    }
    widest = {"var(AGI)": 1e-6, "cov(AGI, FEDTAX)": 1e-3, "corr(AGI, FEDTAX)": 1e-3, "regress(FEDTAX ~ AGI)": 1e-2}
    for words, value in truth.items():
        one = estimate(parse(words), table, PATIENT)[-1]
        assert one.low <= value <= one.high
        assert one.gap <= widest[words]


def test_a_correlation_whose_lowest_ratios_differ_is_tight_all_the_same(data_folder):
    """Choices with two ratios σy/σx are equally low here, so t has to lie between them."""
    with (data_folder / "casc" / "census.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    columns = {name: [float(record[name]) for record in records] for name in ("POTHVAL", "INTVAL", "ERNVAL", "AFNLWGT")}
    release = sf.Boxes(k=5, keep=["corr(POTHVAL, INTVAL)"]).release(columns, seed=1)
    assert release.estimate("corr(POTHVAL, INTVAL)", budget=PATIENT).gap <= 1e-3
