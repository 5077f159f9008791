"""Values of a likely distribution: within the interval, nearer to the truth than midpoints, and said."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.statistics.likelihood_value import BY_LIKELIHOOD, BY_MIDPOINTS


def boxed(seed=0, rows=400, whole=False, **options):
    """Release skewed incomes and ages in boxes."""
    random = np.random.default_rng(seed)
    income = random.lognormal(0.0, 1.0, rows)
    people = {"income": np.round(10 * income) if whole else income, "age": random.normal(40, 10, rows)}
    if whole:
        people["income"] = people["income"].astype(int)
    method = sf.Boxes(**{"k": 10, "l": 1, **options})
    return people, method.release(people, schema={"income": "quasi", "age": "quasi"})


@pytest.mark.parametrize("options", [{}, {"edges": "cells"}, {"whole": True}], ids=["hull", "cells", "whole"])
def test_the_value_is_nearer_than_midpoints(options):
    errors = []
    for seed in range(4):
        people, release = boxed(seed, **options)
        income = people["income"]
        for words, true, scale in (
            ("mean(income)", income.mean(), income.std()),
            ("median(income)", np.median(income), income.std()),
            ("share(income > 1.5)", (income > 1.5).mean(), 1.0),
        ):
            middle, likely = release.estimate(words), release.estimate(words, value="likelihood")
            assert (middle.low, middle.high) == (likely.low, likely.high)
            assert likely.low <= likely.value <= likely.high and BY_LIKELIHOOD in likely.notes
            errors.append([(one.value - true) / scale for one in (middle, likely)])
    middle, likely = np.sqrt(np.mean(np.square(errors), axis=0))
    assert likely < 0.8 * middle


def test_known_values_stay_as_they_are():
    people = {"x": np.repeat([1.0, 2.0, 5.0], 10), "y": np.arange(30.0)}
    release = sf.Boxes(k=10, l=1).release(people, schema={"x": "quasi", "y": "other"})
    for words in ("mean(x)", "var(x, unbiased)", "median(y)"):
        assert release.estimate(words, value="likelihood").value == pytest.approx(release.estimate(words).value)
    assert release.estimate("mean(x)", value="likelihood").value == pytest.approx(8 / 3)


def test_an_unbiased_variance_counts_the_records():
    _, release = boxed()
    population, unbiased = (
        release.estimate(words, value="likelihood").value for words in ("var(age)", "var(age, unbiased)")
    )
    assert unbiased == pytest.approx(population * 400 / 399)


def test_missing_values_are_left_out():
    people, _ = boxed()
    income = [None if row % 20 == 0 else value for row, value in enumerate(people["income"])]
    release = sf.Boxes(k=10, l=1).release({**people, "income": income}, schema={"income": "quasi", "age": "quasi"})
    known = np.array([value for value in income if value is not None])
    middle, likely = (release.estimate("mean(income)", value=one).value for one in ("midpoints", "likelihood"))
    assert abs(likely - known.mean()) < abs(middle - known.mean())
    assert BY_MIDPOINTS in release.estimate("count(income > 1)", value="likelihood").notes


@pytest.mark.parametrize("words", ["corr(income, age)", "mean(income | age > 40)", "count()"])
def test_other_statistics_keep_midpoints_and_say_so(words):
    _, release = boxed()
    middle, likely = release.estimate(words), release.estimate(words, value="likelihood")
    assert likely.value == middle.value and BY_MIDPOINTS in likely.notes


def test_without_a_manifest_it_is_not_known_what_ends_are():
    boxes = sf.read_release({"x_low": [1, 3, 6], "x_high": [2, 5, 9], "box": [1, 2, 3]})
    assert BY_MIDPOINTS in boxes.estimate("mean(x)", value="likelihood").notes


@pytest.mark.parametrize("options", [{"value": "mode"}, {"value": "likelihood", "wide_boxes": "fuzzy"}])
def test_other_options_are_refused(options):
    with pytest.raises(SfumatoError):
        boxed()[1].estimate("mean(age)", **options)
