"""Tests, models and joined intervals: equal to SciPy where boxes are points, and certain where they are not."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import sfumato as sf
from sfumato.errors import StatisticError
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.language import parse
from sfumato.statistics.statistic import estimate
from sfumato.table.table import Table

RANDOM = np.random.default_rng(5)
ROWS = 60
EXACT = {
    "x": RANDOM.normal(50, 10, ROWS).round(1),
    "y": RANDOM.normal(20, 5, ROWS).round(1),
    "g": RANDOM.choice(["a", "b"], ROWS),
    "h": RANDOM.choice(["p", "q", "r"], ROWS),
    "d": RANDOM.integers(0, 2, ROWS),
    "n": RANDOM.poisson(2.0, ROWS),
    "zip": RANDOM.integers(0, 4, ROWS),
}
A, B = (EXACT["y"][EXACT["g"] == one] for one in "ab")
TABLE = np.array([[((EXACT["g"] == g) & (EXACT["d"] == d)).sum() for d in (0, 1)] for g in "ab"])
WIDE = np.array([[((EXACT["h"] == h) & (EXACT["d"] == d)).sum() for d in (0, 1)] for h in "pqr"])
RISKS = TABLE[:, 1] / TABLE.sum(axis=1)


@pytest.fixture(scope="module")
def exact():
    roles = {name: "quasi" if name == "zip" else "other" for name in EXACT}
    return sf.Boxes(k=2, l=1).release(EXACT, schema=roles, seed=1)


@pytest.mark.parametrize(
    ("words", "value", "p"),
    [
        ("ttest(y ~ g)", *stats.ttest_ind(B, A, equal_var=False)),
        ("anova(y ~ h)", *stats.f_oneway(*(EXACT["y"][EXACT["h"] == one] for one in "pqr"))),
        ("mannwhitney(y ~ g)", *stats.mannwhitneyu(B, A, method="asymptotic")),
        ("spearman(x, y)", *stats.spearmanr(EXACT["x"], EXACT["y"])),
        ("kendall(x, y)", *stats.kendalltau(EXACT["x"], EXACT["y"])),
        ("rsquared(y ~ x)", stats.pearsonr(EXACT["x"], EXACT["y"])[0] ** 2, stats.pearsonr(EXACT["x"], EXACT["y"])[1]),
        ("chi2(h, d)", *stats.chi2_contingency(WIDE, correction=False)[:2]),
        ("oddsratio(g, d)", TABLE[0, 0] * TABLE[1, 1] / TABLE[0, 1] / TABLE[1, 0], None),
        ("relativerisk(g, d)", RISKS[1] / RISKS[0], None),
        ("fisher(g, d)", *stats.fisher_exact(TABLE)),
        (
            "ttest(y ~ g | x > 40)",
            *stats.ttest_ind(
                B[EXACT["x"][EXACT["g"] == "b"] > 40], A[EXACT["x"][EXACT["g"] == "a"] > 40], equal_var=False
            ),
        ),
    ],
)
def test_a_test_of_points_is_that_of_scipy(exact, words, value, p):
    found = exact.estimate(words)
    assert found.value == pytest.approx(value, rel=1e-8)
    assert found.low - 1e-8 <= value <= found.high + 1e-8
    assert found.high - found.low <= 1e-6 * (1.0 + abs(value))
    assert parse(str(parse(words))) == parse(words)
    if p is not None:
        assert (found.p_value, found.p_low, found.p_high) == pytest.approx((p, p, p), rel=1e-6)
        assert found.verdict == f"significant at 0.05 for {'every' if p < 0.05 else 'no'} completion"


def newton(design, y, family, weights=None, offset=0.0):
    """The slow twin of a fit."""
    mean = {"gaussian": lambda e: e, "binomial": lambda e: 1 / (1 + np.exp(-e)), "poisson": np.exp}[family]
    slope = {"gaussian": np.ones_like, "binomial": lambda e: mean(e) * (1 - mean(e)), "poisson": np.exp}[family]
    w, beta = np.ones(len(y)) if weights is None else weights, np.zeros(design.shape[1])
    if family == "poisson":
        beta[0] = math.log(max(np.mean(y), 1e-3))
    for _ in range(100):
        eta = design @ beta + offset
        step = np.linalg.solve(design.T @ ((w * slope(eta))[:, None] * design), design.T @ (w * (y - mean(eta))))
        beta = beta + step
        if np.abs(step).max() < 1e-12:
            break
    return beta


X, Y, D, N = (EXACT[name].astype(float) for name in ("x", "y", "d", "n"))
ONE = np.ones(ROWS)
IS_B, IS_Q, IS_R = (EXACT["g"] == "b").astype(float), EXACT["h"] == "q", EXACT["h"] == "r"


@pytest.mark.parametrize(
    ("formula", "family", "terms", "design", "response", "options"),
    [
        ("y ~ x + C(g)", "gaussian", ("intercept", "x", "C(g)[T.b]"), (ONE, X, IS_B), Y, {}),
        ("y ~ 0 + x", "gaussian", ("x",), (X,), Y, {}),
        ("d ~ x + y", "binomial", ("intercept", "x", "y"), (ONE, X, Y), D, {}),
        ("d ~ x * g", "binomial", ("intercept", "x", "g[T.b]", "x:g[T.b]"), (ONE, X, IS_B, X * IS_B), D, {}),
        ("n ~ log(x) + h", "poisson", ("intercept", "log(x)", "h[T.q]", "h[T.r]"), (ONE, np.log(X), IS_Q, IS_R), N, {}),
        ("n ~ x + offset(y)", "gaussian", ("intercept", "x"), (ONE, X), N - Y, {}),
        ("y ~ x", "gaussian", ("intercept", "x"), (ONE, X), Y, {"weights": "n"}),
    ],
)
def test_a_fit_of_points_is_that_of_newton(exact, formula, family, terms, design, response, options):
    fit = exact.fit(formula, family=family, **options)
    true = newton(np.column_stack(design).astype(float), response, family, N if options else None)
    assert fit.terms == terms
    for term, value in zip(terms, true, strict=True):
        assert fit[term].value == pytest.approx(value, rel=1e-8, abs=1e-10)
        assert fit[term].low <= value <= fit[term].high
        assert fit[term].high - fit[term].low < 1e-5 * (1.0 + abs(value))
    assert fit.summary().count("\n") >= len(terms) + 4
    assert "coef" in fit._repr_html_()
    assert list(fit.to_pandas().index) == list(terms)


def test_standard_errors_are_those_of_the_textbook(exact):
    fit = exact.fit("y ~ x")
    line = stats.linregress(X, Y)
    assert fit["x"].standard_error == pytest.approx(line.stderr, rel=1e-8)
    assert fit["intercept"].standard_error == pytest.approx(line.intercept_stderr, rel=1e-8)
    reach = stats.t.ppf(0.975, ROWS - 2) * line.stderr
    assert fit["x"].confidence_high == pytest.approx(line.slope + reach, rel=1e-4)
    value, low, high = fit.predict(x=50.0)
    assert low <= value <= high
    assert value == pytest.approx(line.intercept + 50.0 * line.slope)


def hidden_boxes(seed, rows=9, width=1.5):
    """Boxes around a few records: x and y are intervals, the others exact."""
    random = np.random.default_rng(seed)
    low = {name: random.normal(10, 3, rows).round(2) for name in "xy"}
    high = {name: (low[name] + random.uniform(0, width, rows) * (random.random(rows) < 0.7)).round(2) for name in "xy"}
    table = {f"{name}_{end}": values[name] for name in "xy" for end, values in (("low", low), ("high", high))}
    groups = np.array(list("ab") * rows)[:rows]
    outcome = (np.arange(rows) // 2 % 2).astype(int)
    return {**table, "g_low": outcome, "g_high": outcome, "s": groups}, low, high, groups, outcome


def completions(low, high, seed, count=60):
    random = np.random.default_rng(seed)
    for turn in range(count):
        share = {n: random.integers(0, 2, len(low[n])) if turn % 2 else random.random(len(low[n])) for n in "xy"}
        yield {name: low[name] + share[name] * (high[name] - low[name]) for name in "xy"}


TWINS = {
    "ttest(x ~ g)": lambda v, g, s: stats.ttest_ind(v["x"][g == 1], v["x"][g == 0], equal_var=False),
    "anova(x ~ g)": lambda v, g, s: stats.f_oneway(v["x"][g == 0], v["x"][g == 1]),
    "mannwhitney(x ~ g)": lambda v, g, s: stats.mannwhitneyu(v["x"][g == 1], v["x"][g == 0], method="asymptotic"),
    "spearman(x, y)": lambda v, g, s: stats.spearmanr(v["x"], v["y"]),
    "kendall(x, y)": lambda v, g, s: stats.kendalltau(v["x"], v["y"], method="asymptotic"),
    "rsquared(y ~ x)": lambda v, g, s: (stats.pearsonr(v["x"], v["y"])[0] ** 2, stats.pearsonr(v["x"], v["y"])[1]),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("words", TWINS)
def test_a_test_holds_for_every_completion(words, seed):
    table, low, high, _, outcome = hidden_boxes(seed)
    found = sf.read_release(table).estimate(words)
    values = [TWINS[words](one, outcome, None) for one in completions(low, high, seed)]
    for value, p in values:
        assert found.low - 1e-9 <= value <= found.high + 1e-9
        assert found.p_low - 1e-9 <= p <= found.p_high + 1e-9
    numbers = [value for value, _ in values]
    middle, half = (found.low + found.high) / 2, (found.high - found.low) / 2
    assert any(abs(value - middle) > 0.1 * half for value in numbers)  # control: a tenth of the interval is too little


@pytest.mark.parametrize("words", ["chi2(s, t)", "oddsratio(s, t)", "fisher(s, t)", "relativerisk(s, t)"])
@pytest.mark.parametrize("seed", range(4))
def test_a_table_of_undecided_people_holds_every_membership(words, seed):
    random = np.random.default_rng(seed)
    cells = {name: [str(one) for one in random.choice(["a", "b", "a|b"], 12, p=[0.4, 0.4, 0.2])] for name in "st"}
    cells["s"][:4], cells["t"][:4] = list("aabb"), list("abab")
    table = CountedBoxes.of(Table.from_arrow(pa.table(cells)), ["s", "t"], sets=["s", "t"])
    (found,) = estimate(parse(words), table)
    options = [
        [(s, t) for s in one.split("|") for t in other.split("|")] for one, other in zip(*cells.values(), strict=True)
    ]
    for chosen in itertools.islice(itertools.product(*options), 3000):
        table = np.array([[sum(one == (s, t) for one in chosen) for t in "ab"] for s in "ab"])
        risks = table[:, 1] / table.sum(axis=1)
        odds = table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0])
        value = {"chi2": 0.0, "relativerisk": risks[1] / risks[0]}.get(words.split("(")[0], odds)
        p = stats.chi2_contingency(table, correction=False)
        if words.startswith("chi2"):
            value = p[0]
        p_value = stats.fisher_exact(table)[1] if words.startswith("fisher") else p[1]
        assert found.low - 1e-9 <= value <= found.high + 1e-9
        assert found.p_low - 1e-9 <= p_value <= found.p_high + 1e-9


@pytest.mark.parametrize(("family", "seed"), [("gaussian", 0), ("gaussian", 1), ("binomial", 0), ("poisson", 0)])
def test_a_fit_holds_for_every_completion(family, seed):
    random = np.random.default_rng(seed)
    rows = 40
    low = {name: random.normal(0, 1, rows) for name in "xy"}
    high = {name: low[name] + random.uniform(0.0, 0.2, rows) for name in "xy"}
    response = {
        "gaussian": low["x"] + random.normal(0, 1, rows),
        "binomial": (random.random(rows) < 1 / (1 + np.exp(-low["x"]))).astype(float),
        "poisson": random.poisson(np.exp(0.3 * low["x"])).astype(float),
    }[family]
    table = {f"{n}_{end}": ends[n] for n in "xy" for end, ends in (("low", low), ("high", high))}
    fit = sf.read_release({**table, "o_low": response, "o_high": response}).fit("o ~ x + y", family=family)
    width = np.array([one.high - one.low for one in fit])
    assert np.isfinite(width).all()
    found = []
    for values in completions(low, high, seed, 200):
        found.append(newton(np.column_stack([np.ones(rows), values["x"], values["y"]]), response, family))
        for one, value in zip(fit, found[-1], strict=True):
            assert one.low <= value <= one.high
    climbed = climb(low, high, response, family)
    assert fit["x"].low <= climbed <= fit["x"].high
    assert width[1] <= 4.0 * 2.0 * abs(climbed - fit["x"].value) + 1e-6  # control: not merely wide
    assert np.ptp(found, axis=0)[1] > 0.05 * width[1]


def climb(low, high, response, family):
    """The slope of x that a search over corners reaches."""
    corner = {name: (low[name] + high[name]) / 2 for name in "xy"}
    design = lambda v: np.column_stack([np.ones(len(response)), v["x"], v["y"]])  # noqa: E731
    best = newton(design(corner), response, family)[1]
    for _ in range(2):
        for name, row in itertools.product("xy", range(len(response))):
            for end in (low, high):
                trial = {one: values.copy() for one, values in corner.items()}
                trial[name][row] = end[name][row]
                value = newton(design(trial), response, family)[1]
                if value > best:
                    best, corner = value, trial
    return best


def test_boxes_that_allow_separation_have_no_finite_interval():
    table = {"x_low": np.zeros(8), "x_high": np.ones(8), "o_low": [0, 1] * 4, "o_high": [0, 1] * 4}
    fit = sf.read_release(table).fit("o ~ x", family="binomial")
    assert math.isinf(fit["x"].high)


def test_six_columns_have_finite_ends():
    random = np.random.default_rng(0)
    middle = random.normal(size=(400, 5))
    table = {f"x{k}_{end}": middle[:, k] + shift for k in range(5) for end, shift in (("low", -0.02), ("high", 0.02))}
    response = middle @ [1, 2, 0, -1, 0.5] + random.normal(size=400)
    release = sf.read_release({**table, "o_low": response, "o_high": response})
    fit = release.fit("o ~ x0 + x1 + x2 + x3 + x4")
    for one, true in zip(fit, newton(np.column_stack([np.ones(400), middle]), response, "gaussian"), strict=True):
        assert one.low <= true <= one.high
        assert one.high - one.low < 0.5


@pytest.mark.parametrize(("unit", "shift"), [(1e-12, 0.0), (1e7, 1e9), (1e12, 0.0), (1e-3, 1e6), (1e150, 0.0)])
def test_the_unit_of_the_outcome_does_not_matter_to_a_linear_model(unit, shift):
    draw = np.random.default_rng(3)
    x = draw.normal(size=300)
    y = np.round(1.0 + 0.5 * x + draw.normal(size=300), 2)
    plain, scaled = (
        sf.Boxes(k=5).release({"x": x, "y": values}, schema={"x": "quasi", "y": "other"}, seed=1).fit("y ~ x")
        for values in (y, shift + unit * y)
    )
    for term, moved in (("x", 0.0), ("intercept", shift)):
        tolerance = 1e-6 + 1e-11 * abs(moved) / unit
        for end in ("low", "value", "high", "confidence_low", "confidence_high"):
            expected = getattr(plain[term], end)
            assert (getattr(scaled[term], end) - moved) / unit == pytest.approx(expected, rel=1e-6, abs=tolerance)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_numbers_whose_squares_are_too_large_have_no_finite_interval():
    draw = np.random.default_rng(3)
    people = {"x": draw.normal(size=60), "y": draw.normal(size=60) * 1e300}
    fit = sf.Boxes(k=5).release(people, schema={"x": "quasi", "y": "other"}).fit("y ~ x")
    assert fit["x"].low == -np.inf
    assert fit["x"].high == np.inf


def test_groups_and_tables_are_found_by_value(exact):
    by = exact.estimate("mean(y) by g")
    assert by["a"].value == pytest.approx(A.mean())
    assert by.keys == ("a", "b")
    assert list(by.to_pandas().index) == ["a", "b"]
    two = exact.estimate("count() by g, d")
    assert two["a", 1].value == TABLE[0, 1]
    table = exact.estimate("table(g, d)")
    assert [[table[g, d].value for d in (0, 1)] for g in "ab"] == TABLE.tolist()
    assert table["a", None].value == TABLE[0].sum()
    assert table[None, None].value == ROWS
    assert table.shares["b", 1].value == pytest.approx(TABLE[1, 1] / ROWS)
    with pytest.raises(StatisticError, match="no group"):
        by["c"]


def test_joined_intervals_hold_the_parameter_and_too_short_ones_do_not():
    held = np.zeros(3)
    for seed in range(120):
        random = np.random.default_rng(seed)
        low = random.normal(10, 3, 80).round(0) - 0.5
        release = sf.read_release({"x_low": low, "x_high": low + 1.0})
        shorter, union = (
            release.estimate("mean(x)", confidence=0.9, confidence_by=way) for way in ("imbens-manski", "union")
        )
        assert union.confidence_low <= shorter.confidence_low <= shorter.low
        held += [
            shorter.confidence_low <= 10 <= shorter.confidence_high,
            union.confidence_low <= 10 <= union.confidence_high,
            abs(shorter.value - 10) <= 0.2,
        ]
    assert (held[:2] >= 0.9 * 120).all()
    assert held[2] < 0.9 * 120  # control


@pytest.mark.parametrize(
    ("words", "parameter"),
    [
        ("share(x > 10)", 0.5),
        ("sd(x)", 3.0),
        ("median(x)", 10.0),
        ("difference(mean(x | g = 1), mean(x | g = 0))", 0.0),
        ("ratio(mean(x | g = 1), mean(x | g = 0))", 1.0),
        ("corr(x, y)", 0.0),
        ("count(x > 10)", 40.0),
    ],
)
def test_joined_intervals_of_other_statistics(words, parameter):
    held = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        low = random.normal(10, 3, 80).round(1) - 0.05
        g = np.arange(80) % 2
        release = sf.read_release(
            {
                "x_low": low,
                "x_high": low + 0.1,
                "y_low": (y := random.normal(size=80)),
                "y_high": y,
                "g_low": g,
                "g_high": g,
            }
        )
        found = release.estimate(words, confidence=0.95)
        held += found.confidence_low <= parameter <= found.confidence_high
        assert found.confidence_by
    assert held >= 34


def test_a_sum_of_some_records_has_the_error_of_their_number():
    draw, held, fixed = np.random.default_rng(5), 0, 0
    for _ in range(300):
        x, g = draw.normal(10.0, 1.0, 100), draw.choice(["a", "b"], 100)
        found = sf.read_release({"x": x, "g": g}).estimate("sum(x | g = a)", confidence=0.9)
        held += found.confidence_low <= 500.0 <= found.confidence_high
        fixed += abs(found.value - 500.0) <= 1.645 * np.sqrt((g == "a").sum())  # control: the number is taken as known
    assert held >= 255
    assert fixed < 150


def test_what_has_no_groups_is_refused(exact):
    with pytest.raises(StatisticError, match="needs two groups"):
        exact.estimate("ttest(y ~ h)")
    with pytest.raises(StatisticError, match="two different columns"):
        exact.estimate("oddsratio(g, g)")
    with pytest.raises(StatisticError, match="must have groups"):
        sf.read_release({"x_low": [1.5], "x_high": [2.5]}).estimate("mean(x) by x")


def test_altered_columns_give_no_p_values():
    noisy = sf.Noise(level=0.1).release(EXACT, schema={name: "other" if name in "gd" else "quasi" for name in EXACT})
    found = noisy.estimate("ttest(y ~ g)", confidence=0.9)
    assert (found.p_low, found.p_high, found.low, found.high) == (0.0, 1.0, -math.inf, math.inf)
    assert found.verdict == "undecided"
    assert math.isinf(noisy.fit("y ~ x")["x"].high)
    with pytest.raises(StatisticError, match="cannot be reweighted"):
        noisy.estimate("difference(mean(y | g = a), mean(y | g = b))", wide_boxes="fuzzy")


def test_features_are_midpoints_widths_and_shares_of_members(exact):
    cells = {"age_low": [20, 40], "age_high": [30, 51], "s": ["a|b", "a"], "n": [1, 5]}
    assert sf.read_release(cells).to_features().to_dict("list") == {
        "age": [25.0, 45.5],
        "age_width": [10.0, 11.0],
        "s=a": [0.5, 1.0],
        "s=b": [0.5, 0.0],
        "n": [1.0, 5.0],
    }
    assert "box" not in exact.to_features()


def test_a_column_with_many_values_can_be_tested(exact):
    found = exact.estimate("chi2(g, n)")
    table = np.array([[((EXACT["g"] == g) & (EXACT["n"] == n)).sum() for n in np.unique(EXACT["n"])] for g in "ab"])
    assert found.value == pytest.approx(stats.chi2_contingency(table, correction=False)[0])


def _kaplan_meier(time, event, at):
    """Multiply over the times of events, slowly."""
    factors = [
        1 - ((time == u) & (event == 1)).sum() / (time >= u).sum() for u in np.unique(time[event == 1]) if u <= at
    ]
    return math.prod(factors)


class TestSurvival:
    """Kaplan–Meier: equal to the product where boxes are points, and both ends attained where they are not."""

    @pytest.mark.parametrize("at", [30.0, 50.0, 200.0])
    def test_of_points_is_the_product(self, exact, at):
        found, true = exact.estimate(f"survival(x, d, {at})"), _kaplan_meier(EXACT["x"], EXACT["d"], at)
        assert found.value == pytest.approx(true, abs=1e-12) and found.low <= true <= found.high
        assert found.high - found.low < 1e-9

    @pytest.mark.parametrize("seed", range(25))
    def test_ends_are_those_of_all_completions(self, seed):
        random = np.random.default_rng(seed)
        rows, at = int(random.integers(2, 6)), int(random.integers(0, 10))
        low, event = random.integers(0, 8, rows), random.integers(0, 2, rows)
        high, may = low + random.integers(0, 3, rows), np.maximum(event, random.random(rows) < 0.15).astype(int)
        release = sf.read_release({"t_low": low, "t_high": high, "e_low": event, "e_high": may})
        found = release.estimate(f"survival(t, e, {at})")
        times = [range(one, other + 1) for one, other in zip(low, high, strict=True)]
        events = [range(one, other + 1) for one, other in zip(event, may, strict=True)]
        choices = [np.array(one) for one in itertools.product(*times, *events)]
        values = [_kaplan_meier(one[:rows], one[rows:], at) for one in choices]
        assert found.low == pytest.approx(min(values), abs=1e-9) and found.high == pytest.approx(max(values), abs=1e-9)

    def test_records_that_may_not_count_are_in_the_interval(self):
        low, high, event = np.array([1, 2, 3, 4, 5]), np.array([3, 4, 5, 4, 7]), np.array([1, 0, 1, 0, 1])
        ages = np.array([10, 10, 30, 10, 30]), np.array([20, 50, 50, 20, 50])
        table = {"t_low": low, "t_high": high, "e_low": event, "e_high": event, "a_low": ages[0], "a_high": ages[1]}
        found = sf.read_release(table).estimate("survival(t, e, 4 | a >= 30)")
        for here in itertools.product([False, True], repeat=5):
            chosen = np.array(here)
            if (ages[1][chosen] >= 30).all() and chosen[ages[0] >= 30].all():
                for times in itertools.product(*map(range, low, high + 1)):
                    value = _kaplan_meier(np.array(times)[chosen], event[chosen], 4)
                    assert found.low - 1e-9 <= value <= found.high + 1e-9

    def test_events_may_be_true_and_false_and_nothing_else(self):
        people = {"t": np.arange(20.0), "e": [True, False] * 10, "g": ["a", "b"] * 10, "zip": [1] * 20}
        roles = {"zip": "quasi", "t": "other", "e": "other", "g": "other"}
        release = sf.Boxes(k=2, l=1).release(people, schema=roles)
        true = _kaplan_meier(people["t"], np.array(people["e"]), 9)
        assert release.estimate("survival(t, e, 9)").value == pytest.approx(true)
        for words in ("survival(t, g, 9)", "survival(e, t, 9)", "survival(t, t, 9)"):
            with pytest.raises(StatisticError):
                release.estimate(words)


def _log_rank(time, event, second):
    """Return (O − E)² / V, slowly; None if V is 0."""
    gap = variance = 0.0
    for one in np.unique(time[event == 1]):
        risk, dies = time >= one, (time == one) & (event == 1)
        share, records, deaths = second[risk].mean(), risk.sum(), dies.sum()
        gap += second[dies].sum() - deaths * share
        variance += deaths * share * (1 - share) * (records - deaths) / max(records - 1, 1)
    return gap**2 / variance if variance > 0.0 else None


class TestLogRank:
    """Equal to SciPy where boxes are points; holds all completions, and is not the whole line, where they are not."""

    def test_of_points_is_that_of_scipy(self, exact):
        groups = [
            stats.CensoredData(
                uncensored=EXACT["x"][own & (EXACT["d"] == 1)], right=EXACT["x"][own & (EXACT["d"] == 0)]
            )
            for own in (EXACT["g"] == "b", EXACT["g"] == "a")
        ]
        known, found = stats.logrank(*groups), exact.estimate("logrank(x, d ~ g)")
        assert found.value == pytest.approx(known.statistic**2, abs=1e-8)
        assert found.p_low == pytest.approx(known.pvalue, abs=1e-8) and found.p_high == pytest.approx(
            known.pvalue, abs=1e-8
        )

    @pytest.mark.parametrize("seed", range(15))
    def test_no_completion_is_outside(self, seed):
        random = np.random.default_rng(seed)
        low, event, group = random.integers(0, 8, 6), random.integers(0, 2, 6), np.array([0, 1, 0, 1, 0, 1])
        high = low + random.integers(0, 3, 6)
        ends = {"t_low": low, "t_high": high, "e_low": event, "e_high": event, "g_low": group, "g_high": group}
        found = sf.read_release(ends).estimate("logrank(t, e ~ g)")
        values = [_log_rank(np.array(one), event, group == 1) for one in itertools.product(*map(range, low, high + 1))]
        for value in (one for one in values if one is not None):
            assert found.low - 1e-9 <= value <= found.high + 1e-9
            assert found.p_low - 1e-9 <= stats.chi2.sf(value, 1) <= found.p_high + 1e-9

    @pytest.mark.parametrize(("width", "verdict"), [(0.05, "for every completion"), (50.0, "undecided")])
    def test_narrow_times_decide_and_wide_ones_do_not(self, width, verdict):
        random = np.random.default_rng(3)
        group = random.integers(0, 2, 2_000)
        time = random.exponential(10.0, 2_000) * (1.0 + 0.5 * group)
        ends = {"t_low": time, "t_high": time + width, "g_low": group, "g_high": group}
        release = sf.read_release({**ends, "e_low": np.ones(2_000), "e_high": np.ones(2_000)})
        assert verdict in release.estimate("logrank(t, e ~ g)").verdict

    def test_an_event_that_is_not_known_leaves_everything_open(self):
        ends = {"t_low": [1, 2, 3, 4], "t_high": [1, 2, 3, 4], "g_low": [0, 1, 0, 1], "g_high": [0, 1, 0, 1]}
        found = sf.read_release({**ends, "e_low": [1, 1, 0, 0], "e_high": [1, 1, 1, 0]}).estimate("logrank(t, e ~ g)")
        assert (found.low, found.high, found.p_low, found.p_high) == (0.0, math.inf, 0.0, 1.0)
