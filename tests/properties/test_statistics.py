"""Statistics in general: moments can be cut anywhere, gradients are derivatives, words can be read back."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.statistics.language import parse
from sfumato.statistics.moment_statistics import Correlation, Covariance, Mean, Sd, Variance
from sfumato.statistics.moments import Moments, derivatives
from sfumato.statistics.regression import Regression

cells = st.one_of(st.integers(-50, 50).map(float), st.floats(-1e3, 1e3))
gaps = st.one_of(cells, st.just(np.nan))
weights = st.integers(0, 5).map(float)
names = st.text(min_size=1, max_size=8)


@st.composite
def weighted_rows(draw, columns=(1, 3), elements=gaps, rows=(0, 12)):
    shape = (draw(st.integers(*rows)), draw(st.integers(*columns)))
    return draw(arrays(np.float64, shape, elements=elements)), draw(arrays(np.float64, shape[0], elements=weights))


def slow_moments(rows, sampling):
    kept = ~np.isnan(rows).any(axis=1)
    repeated = np.repeat(rows[kept], sampling[kept].astype(int), axis=0)
    return repeated.mean(axis=0), np.atleast_2d(np.cov(repeated.T, bias=True))


@given(weighted_rows(), st.integers(0, 12))
def test_moments_of_parts_merge_to_the_moments_of_the_whole(case, cut):
    rows, sampling = case
    whole = Moments.of(rows, sampling)
    merged = Moments.of(rows[:cut], sampling[:cut]).merge(Moments.of(rows[cut:], sampling[cut:]))
    assert merged.records == whole.records
    assert np.isclose(merged.weight, whole.weight)
    assert np.allclose(merged.mean, whole.mean, equal_nan=True, atol=1e-9)
    assert np.allclose(merged.covariance, whole.covariance, equal_nan=True, rtol=1e-9, atol=1e-6)


@given(weighted_rows())
def test_moments_are_those_of_the_slow_twin(case):
    rows, sampling = case
    kept = ~np.isnan(rows).any(axis=1)
    assume(sampling[kept].sum() > 0.0)
    mean, covariance = slow_moments(rows, sampling)
    moments = Moments.of(rows, sampling)
    assert np.allclose(moments.mean, mean, atol=1e-9)
    assert np.allclose(moments.covariance, covariance, rtol=1e-9, atol=1e-6)


@given(weighted_rows(columns=(3, 3), elements=st.integers(-20, 20).map(float), rows=(5, 12)), st.data())
def test_derivatives_are_what_moving_a_record_does(case, data):
    rows, sampling = case
    statistics = [
        Mean("a"),
        Variance("a"),
        Sd("a"),
        Covariance("a", "b"),
        Correlation("a", "b"),
        *Regression("a", ("b", "c")).parts(),
    ]
    statistic = data.draw(st.sampled_from(statistics))
    rows = rows[:, : len(statistic.columns)]
    moments = Moments.of(rows, sampling)
    assume(moments.weight > 0.0)
    assume(np.linalg.eigvalsh(moments.covariance)[0] > 0.5)  # far from where a statistic is not defined
    record = data.draw(st.integers(0, len(rows) - 1))
    column = data.draw(st.integers(0, rows.shape[1] - 1))
    ends = []
    for step in (-1e-4, 1e-4):
        moved = rows.copy()
        moved[record, column] += step
        ends.append(statistic.value(Moments.of(moved, sampling)))
    slope = (ends[1] - ends[0]) / 2e-4
    expected = sampling[record] / sampling.sum() * derivatives(statistic, moments, rows)[record, column]
    assert np.isclose(slope, expected, rtol=1e-3, atol=1e-6)


@given(names, names, names)
def test_every_statistic_can_be_written_in_words_and_read_back(one, two, three):
    assume(len({one, two, three}) == 3)
    for statistic in (
        Mean(one),
        Variance(one),
        Sd(one),
        Covariance(one, two),
        Correlation(one, two),
        Regression(one, (two, three)),
    ):
        assert parse(str(statistic)) == statistic
        assert parse(str(statistic), [one, two, three]) == statistic


@given(st.lists(names, min_size=2, max_size=4, unique=True))
def test_a_known_name_is_understood_bare_whatever_it_holds(known):
    blanks = [name for name in known if name != name.strip() or name[0] in "`\"'"]
    assume(not blanks)
    for name in known:
        words = f"mean({name})"
        longer = [other for other in known if other != name and f"{name})".startswith(other)]
        assume(not longer)
        assert parse(words, known) == Mean(name)
