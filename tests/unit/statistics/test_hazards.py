"""Proportional hazards: equal to a slow twin where boxes are points, and certain where they are not."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError, StatisticError
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.formula import parse_formula

DRUG = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
CENSORED = [0, 0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1]
PLACEBO = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]


def cox(design, time, event, weights=None, offset=0.0):
    """The slow twin: Newton's method for the partial likelihood with Breslow's ties; None if it does not converge."""
    weights, beta = np.ones(len(time)) if weights is None else weights, np.zeros(design.shape[1])
    died = event == 1
    at_risk = (time[None, :] >= time[died][:, None]).astype(float)
    for _ in range(40):
        share = at_risk * (weights * np.exp(design @ beta + offset))
        share /= share.sum(axis=1, keepdims=True)
        mean = share @ design
        score = weights[died] @ (design[died] - mean)
        information = design.T @ ((weights[died] @ share)[:, None] * design) - mean.T @ (weights[died, None] * mean)
        if np.linalg.cond(information) > 1e12:
            return None
        step = np.linalg.solve(information, score)
        beta = beta + step
        if np.abs(beta).max() > 50:
            return None
        if np.abs(step).max() < 1e-12:
            return beta, np.sqrt(np.diag(np.linalg.inv(information)))
    return None


def invent(seed, rows):
    """Invent people with ties: numbers x and y, a group, times and events."""
    random = np.random.default_rng(seed)
    x, y, group = random.normal(size=rows), random.normal(size=rows), random.integers(0, 2, rows)
    time, until = random.exponential(8 * np.exp(-0.5 * x - 0.3 * group)), random.exponential(12, rows)
    return x, y, group, np.ceil(np.minimum(time, until)), (time <= until).astype(int)


@pytest.fixture(scope="module")
def exact():
    x, y, group, time, event = invent(0, 150)
    people = {"x": x, "y": y, "g": np.where(group == 1, "b", "a"), "t": time, "d": event, "b": event == 1}
    people |= {"n": np.arange(150) % 3 + 1, "zip": np.ones(150)}
    return sf.Boxes(k=5, l=1).release(people, schema={"zip": "quasi", **dict.fromkeys("xygtdbn", "other")})


@pytest.mark.parametrize(
    ("formula", "terms", "columns", "options"),
    [
        ("survival(t, d) ~ x + C(g)", ("x", "C(g)[T.b]"), lambda x, y, g: (x, g), {}),
        ("Surv(t, b) ~ x * y", ("x", "y", "x:y"), lambda x, y, g: (x, y, x * y), {}),
        ("survival(t, d) ~ 0 + x + y", ("x", "y"), lambda x, y, g: (x, y), {"weights": "n"}),
    ],
)
def test_a_fit_of_points_is_that_of_newton(exact, formula, terms, columns, options):
    x, y, group, time, event = invent(0, 150)
    weights = np.arange(150) % 3 + 1.0 if options else None
    fit = exact.fit(formula, family="cox", **options)
    true, errors = cox(np.column_stack(columns(x, y, group)).astype(float), time, event, weights)
    assert fit.terms == terms
    for one, value, error in zip(fit, true, errors, strict=True):
        assert one.value == pytest.approx(value, abs=1e-8) and one.low <= value <= one.high
        assert one.standard_error == pytest.approx(error, rel=1e-8)
        assert one.high - one.low < 1e-6 * (1.0 + abs(value))


TIME, EVENT = np.array(DRUG + PLACEBO), np.array([1 - one for one in CENSORED] + [1] * 21)
GROUP = np.repeat([0.0, 1.0], 21)


def leukemia():
    columns = {"t": TIME, "d": EVENT, "g": GROUP}
    return sf.read_release({f"{name}_{end}": columns[name] for name in columns for end in ("low", "high")})


def test_ties_are_those_of_breslow():
    found = leukemia().fit("survival(t, d) ~ g", family="cox")["g"]
    assert (found.value, found.standard_error) == pytest.approx((1.5092, 0.4096), abs=1e-4)  # Efron's value is 1.5721


def test_the_value_is_that_of_statsmodels():
    statsmodels = pytest.importorskip("statsmodels.duration.api")
    found = leukemia().fit("survival(t, d) ~ g", family="cox")["g"]
    assert found.value == pytest.approx(statsmodels.PHReg(TIME, GROUP, EVENT).fit().params[0], abs=1e-8)


def test_records_of_different_weights_are_not_taken_for_one():
    """Two records of a group may have different times, so that neither need be at risk at the event of the other."""
    random = np.random.default_rng(0)
    x, start = random.normal(size=8), np.arange(8.0)
    ends = np.column_stack([x, start, np.ones(8)]), np.column_stack([x, start + 9, np.ones(8)])
    pairs = CountedBoxes.make(("x", "t", "d"), *ends, count=np.full(8, 2), weight=np.full(8, 4.0))
    table = replace(pairs, lightest=np.ones(8), heaviest=np.full(8, 3.0), weighted_by="w")
    model = parse_formula("survival(t, d) ~ x", ("x", "t", "d"), family="cox")
    (one,) = model.resolve(table).estimate_parts(table)
    (alone,) = model.resolve(pairs).estimate_parts(pairs)
    found = []
    for _ in range(300):
        time = np.repeat(start, 2) + random.integers(0, 10, 16)
        found.append(cox(np.repeat(x, 2)[:, None], time, np.ones(16), np.tile([1.0, 3.0], 8)))
        assert found[-1] is None or one.low <= found[-1][0][0] <= one.high
    assert one.high >= alone.high


def test_the_summary_has_hazard_ratios(exact):
    fit = exact.fit("survival(t, d) ~ x + C(g)", family="cox")
    assert "hazard ratio" in fit.summary() and "hazard ratio" in fit._repr_html_()
    assert fit.hazard_ratios["x"][0] == pytest.approx(math.exp(fit["x"].value))
    assert list(fit.to_pandas()["hazard_ratio"]) == [one[0] for one in fit.hazard_ratios.values()]
    value, low, high = fit.predict(x=2.0, g="b")
    assert value == pytest.approx(math.exp(2.0 * fit["x"].value + fit["C(g)[T.b]"].value)) and low <= value <= high


def around(seed, rows, width, later, unsure):
    """Boxes around invented people: numbers, times and some events are open."""
    x, y, _, time, event = invent(seed, rows)
    random = np.random.default_rng(seed)
    low = {"x": x - width * random.random(rows), "y": y, "t": time - np.floor((later + 1) * random.random(rows))}
    high = {"x": low["x"] + width, "y": y, "t": low["t"] + later}
    open_ = random.random(rows) < unsure
    low["d"], high["d"] = np.where(open_, 0, event), np.where(open_, 1, event)
    return low, high


def fit_ends(low, high, formula="survival(t, d) ~ x + y"):
    table = {f"{name}_{end}": ends[name] for name in low for end, ends in (("low", low), ("high", high))}
    return sf.read_release(table).fit(formula, family="cox")


CASES = [
    # seed, rows, width of x, of the time, share of unknown events
    pytest.param(0, 30, 0.2, 0, 0.0, id="numbers"),
    pytest.param(1, 60, 0.0, 1, 0.0, id="times"),
    pytest.param(2, 60, 0.0, 0, 0.05, id="events"),
    pytest.param(3, 120, 0.1, 1, 0.01, id="all"),
]


@pytest.mark.parametrize(("seed", "rows", "width", "later", "unsure"), CASES)
def test_a_fit_holds_for_every_completion(seed, rows, width, later, unsure):
    low, high = around(seed, rows, width, later, unsure)
    fit = fit_ends(low, high)
    ends = np.array([(one.low, one.high) for one in fit])
    assert np.isfinite(ends).all()
    random, found = np.random.default_rng(seed), []
    for draw in range(1000):
        share = random.random(rows) if draw % 2 else random.integers(0, 2, rows).astype(float)
        late = random.integers(0, later + 1, rows) if draw % 3 else later * (low["x"] * (-1) ** draw > 0)
        event = np.where(low["d"] < high["d"], random.integers(0, 2, rows), low["d"])
        number = low["x"] + share * (high["x"] - low["x"])
        found.append(cox(np.column_stack([number, low["y"]]), low["t"] + late, event)[0])
    assert (np.array(found) >= ends[:, 0]).all() and (np.array(found) <= ends[:, 1]).all()
    middle, half = ends.mean(axis=1), np.ptp(ends, axis=1) / 2
    assert (np.abs(found - middle) > 0.15 * half).any()  # control: a seventh of the interval is too little


@pytest.mark.parametrize("seed", range(6))
def test_no_corner_of_a_small_table_is_outside(seed):
    low, high = around(seed, 9, 0.3, 0, 0.0)
    one = fit_ends(low, high, "survival(t, d) ~ x")["x"]
    corners = [np.where(ends, high["x"], low["x"]) for ends in itertools.product([False, True], repeat=9)]
    found = [cox(corner[:, None], low["t"], low["d"]) for corner in corners]
    if any(value is None for value in found):
        assert math.isinf(one.high) or math.isinf(one.low)
    for value in (value for value in found if value is not None):
        assert one.low <= value[0][0] <= one.high


def test_the_interval_is_not_much_wider_than_what_a_search_reaches():
    low, high = around(5, 100, 0.2, 0, 0.0)
    one, event = fit_ends(low, high, "survival(t, d) ~ x")["x"], low["d"]
    reached = []
    for side in (-1.0, 1.0):
        x = (low["x"] + high["x"]) / 2
        for _ in range(3):
            base = cox(x[:, None], low["t"], event)[0][0]
            slope = [cox((x + 1e-4 * (np.arange(100) == row))[:, None], low["t"], event)[0][0] for row in range(100)]
            x = np.where(side * (np.array(slope) - base) > 0, high["x"], low["x"])
        reached.append(cox(x[:, None], low["t"], event)[0][0])
    assert one.low <= reached[0] and reached[1] <= one.high
    assert one.high - one.low <= 1.5 * (reached[1] - reached[0])


def test_missing_numbers_leave_open_who_counts():
    x, _, group, time, event = invent(4, 200)
    people = {"x": [None if row % 50 == 0 else value for row, value in enumerate(x)], "g": group, "t": time, "d": event}
    release = sf.Boxes(k=3, l=1).release(people, schema={"x": "quasi", "g": "other", "t": "other", "d": "other"})
    fit = release.fit("survival(t, d) ~ x + g", family="cox")
    known = np.arange(200) % 50 > 0
    true, _ = cox(np.column_stack([x, group])[known].astype(float), time[known], event[known])
    for one, value in zip(fit, true, strict=True):
        assert one.low <= value <= one.high and one.high - one.low < 1.0


def test_boxes_that_allow_a_monotone_likelihood_have_no_finite_interval():
    table = {"x_low": np.zeros(6), "x_high": np.ones(6), "t_low": np.arange(6), "t_high": np.arange(6)}
    fit = sf.read_release({**table, "d_low": np.ones(6), "d_high": np.ones(6)}).fit("survival(t, d) ~ x", family="cox")
    assert math.isinf(fit["x"].high)


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("survival(t, d) ~ x", "gaussian"),
        ("t ~ x", "cox"),
        ("survival(t, t) ~ x", "cox"),
        ("survival(t, g) ~ x", "cox"),
        ("survival(t, n) ~ x", "cox"),
        ("survival(t, d) ~ 1", "cox"),
        ("survival(t) ~ x", "cox"),
        ("survival(t, d) ~ x", "weibull"),
    ],
)
def test_what_is_no_time_and_event_is_refused(exact, formula, family):
    with pytest.raises(StatisticError if family != "weibull" else SfumatoError):
        exact.fit(formula, family=family)
