"""Counts, sums, quantiles and statistics under a condition: what is certain, and what is possible."""

from __future__ import annotations

import datetime
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import StatisticError
from sfumato.statistics.conditions import Condition, Predicate
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.language import parse
from sfumato.statistics.moment_statistics import Mean
from sfumato.statistics.regression import Regression
from sfumato.statistics.statistic import ConditionalStatistic, enclose, estimate
from sfumato.statistics.tallies import Count, Quantile, Sum
from sfumato.table.table import Table

RELEASED = {
    "box": [1, 1, 2, 2, 3, 3],
    "age_low": [60, 60, 66, 66, 20, 20],
    "age_high": [70, 70, 80, 80, 30, 30],
    "sex": ["F", "F", "F|M", "F|M", "M", "M"],
    "income": [10.0, 20.0, 30.0, 40.0, 50.0, -60.0],
}


MICROSECOND = datetime.timedelta(microseconds=1)


def ask(words, columns=RELEASED, weight=None, sets=None):
    statistic = parse(words)
    read = CountedBoxes.of(Table.from_arrow(pa.table(columns)), statistic.columns, weight=weight, sets=sets)
    found = estimate(statistic, read)
    return found[0] if len(found) == 1 else found


def interval(words, columns=RELEASED, weight=None, sets=None):
    one = ask(words, columns, weight, sets)
    return pytest.approx(one.low), pytest.approx(one.high)


@pytest.mark.parametrize(
    ("words", "low", "high"),
    [
        ("count()", 6, 6),
        ("count(age >= 65)", 2, 4),
        ("count(age < 20)", 0, 0),
        ("count(age <= 20)", 0, 2),
        ("count(age > 30)", 4, 4),
        ("count(age = 25)", 0, 2),
        ("count(age != 25)", 4, 6),
        ("count(sex = F)", 2, 4),
        ("count(sex != F)", 2, 4),
        ("count(sex = F and age >= 65)", 0, 4),
        ("count(sex = M & age < 40)", 2, 2),
        ("count(age >= 65 and age < 66)", 0, 2),
        ("count(income >= 30)", 3, 3),
        ("count(sex = nobody)", 0, 0),
    ],
)
def test_counts_are_certain_and_possible(words, low, high):
    one = ask(words)
    assert (one.low, one.high) == (low, high)
    assert (one.inner_low, one.inner_high) == (low, high)
    assert one.low <= one.value <= one.high
    assert one.name == str(parse(words))


def test_a_box_cut_by_a_condition_counts_by_its_share():
    assert ask("count(age >= 65)").value == pytest.approx(2 + 2 * 0.5)
    assert ask("count(sex = F)").value == pytest.approx(2 + 2 * 0.5)


@pytest.mark.parametrize(
    ("words", "low", "high"),
    [
        ("sum(income)", 90, 90),
        ("sum(age)", 2 * (60 + 66 + 20), 2 * (70 + 80 + 30)),
        ("sum(income | sex = M)", -10, 60),
        ("sum(income | age >= 65)", 70, 100),
        ("mean(income | sex = F)", 15, 25),
        ("mean(age | age >= 65)", (66 + 66 + 65 + 65) / 4, 80),  # two certainly in [66, 80], perhaps two in [65, 70]
        ("median(income)", 25, 25),
        ("median(age)", 60, 70),
        ("quantile(age, 0)", 20, 30),
        ("quantile(age, 1)", 66, 80),
    ],
)
def test_sums_means_and_quantiles(words, low, high):
    assert interval(words) == (low, high)


def test_a_median_under_an_open_condition_is_enclosed_and_nearly_attained():
    one = ask("median(income | sex = F)")  # 10 and 20 for certain, perhaps 30, perhaps 40: medians 15, 20, 25
    assert one.low <= 15.0
    assert one.high >= 25.0
    assert (one.inner_low, one.inner_high) == (15.0, 25.0)


def test_a_condition_narrows_the_boxes_of_its_own_column():
    one = ask("mean(age | age >= 65 and age <= 68)")
    assert (one.low, one.high) == (pytest.approx(65.0), pytest.approx(68.0))
    assert ask("sd(age | age = 66)").high < 1e-9


def test_every_statistic_may_be_asked_under_a_condition():
    alone = {name: values[:2] for name, values in RELEASED.items()}
    for words in ("mean(income{})", "var(income{})", "corr(income, age{})", "regress(income ~ age{})"):
        under, plain = ask(words.format(" | sex = F"), alone), ask(words.format(""), alone)
        for one, other in zip(
            *(found if isinstance(found, tuple) else (found,) for found in (under, plain)), strict=True
        ):
            assert (one.low, one.high) == (pytest.approx(other.low), pytest.approx(other.high))
            assert "| sex = F" in one.name


def test_missing_cells_meet_no_other_predicate_and_can_be_counted():
    columns = {
        "x_low": [0.0] * 3 + [5.0],
        "x_high": [1.0] * 3 + [6.0],
        "x_missing": [2, 2, 2, 0],
        "box": [1, 1, 1, 2],
        "s": ["a|(missing)", "a|(missing)", "a|(missing)", None],
    }
    assert interval("count(x >= 0)", columns) == (2, 2)
    assert interval("count(x = (missing))", columns) == (2, 2)
    assert interval("count(x != (missing))", columns) == (2, 2)
    assert interval("count(s = (missing))", columns) == (1, 4)
    assert interval("count(s != a)", columns, sets=["s"]) == (0, 0)
    assert interval("count(s = a and x <= 1)", columns) == (0, 1)
    with pytest.raises(StatisticError, match="at least one record"):
        ask("mean(x | x = (missing))", columns)


def test_weights_are_counted_instead_of_records():
    columns = RELEASED | {"w": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]}
    assert interval("count(sex = F)", columns, "w") == (3, 15)
    assert interval("sum(income | sex = M)", columns, "w") == (16 * 50 - 32 * 60, 16 * 50 - 32 * 60 + 4 * 30 + 8 * 40)


def test_dates_are_compared_as_dates():
    day = datetime.date(2020, 1, 1)
    columns = {"born_low": [day, day], "born_high": [datetime.date(2020, 12, 31), day]}
    assert interval("count(born < 2020-06-01)", columns) == (1, 2)
    moments = {"seen": [datetime.datetime(2020, 1, 1, 12), datetime.datetime(2021, 1, 1)]}
    assert interval("count(seen >= 2020-06-01 00:00)", moments) == (1, 1)
    with pytest.raises(StatisticError, match="date"):
        ask("count(born < yesterday)", columns)


def test_moments_are_compared_to_the_microsecond():
    # a moment whose seconds, as a floating-point number times a million, are not its microseconds
    moment = datetime.datetime(2005, 4, 18, 2, 42, 41, 147961, tzinfo=datetime.UTC)
    assert moment.timestamp() * 1e6 != (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) / MICROSECOND
    columns = {"t_low": [moment] * 3, "t_high": [moment] * 3}
    for words, count in (("count(t >= {})", 3), ("count(t = {})", 3), ("count(t > {})", 0), ("count(t < {})", 0)):
        assert interval(words.format(f"'{moment.isoformat()}'"), columns) == (count, count)


def test_truth_values_are_categories():
    assert interval("count(smoker = true)", {"smoker": [True, False, None]}) == (1, 1)


class TestCellsThatLookLikeSets:
    COLUMNS: ClassVar = {"s": ["a\\|b", "a|b"]}

    def test_a_column_that_is_known_to_hold_sets_is_parsed(self):
        assert interval("count(s = 'a|b')", self.COLUMNS, sets=["s"]) == (1, 1)
        assert interval("count(s = a)", self.COLUMNS, sets=["s"]) == (0, 1)

    def test_a_column_that_is_known_to_hold_no_sets_is_taken_as_it_is(self):
        assert interval("count(s = 'a|b')", self.COLUMNS, sets=[]) == (1, 1)
        assert interval("count(s = a)", self.COLUMNS, sets=[]) == (0, 0)
        assert interval("count(s != a)", self.COLUMNS, sets=[]) == (2, 2)

    def test_without_knowing_only_what_holds_in_both_readings_is_certain(self):
        assert interval("count(s = 'a|b')", self.COLUMNS) == (0, 2)
        assert interval("count(s = a)", self.COLUMNS) == (0, 1)
        assert interval("count(s != c)", self.COLUMNS) == (2, 2)


def test_predicates_that_make_no_sense_are_refused():
    with pytest.raises(StatisticError, match="categories"):
        ask("count(sex > F)")
    with pytest.raises(StatisticError, match="number"):
        ask("count(age >= old)")
    with pytest.raises(StatisticError, match="must be numeric"):
        ask("mean(sex)")
    with pytest.raises(StatisticError, match="meets the condition"):
        ask("mean(income | age > 100)")
    with pytest.raises(StatisticError, match="no order"):
        parse("count(age > (missing))")
    with pytest.raises(StatisticError, match="from 0 to 1"):
        parse("quantile(age, 1.5)")
    with pytest.raises(StatisticError, match="already"):
        ConditionalStatistic(Count(), Condition((Predicate("a", "=", "1"),)))
    with pytest.raises(StatisticError):
        Predicate("a", "~", "1")


@pytest.mark.parametrize(
    ("words", "statistic"),
    [
        ("count()", Count()),
        ("count(age >= 65)", Count(Condition((Predicate("age", ">=", "65"),)))),
        ("sum(x)", Sum("x")),
        ("median(x)", Quantile("x", 0.5)),
        ("quantile(x, 0.9)", Quantile("x", 0.9)),
        ("mean(x | s == 'a and b')", ConditionalStatistic(Mean("x"), Condition((Predicate("s", "=", "a and b"),)))),
        (
            "regress(y ~ x | s != Never-married AND age<3)",
            ConditionalStatistic(
                Regression("y", ("x",)),
                Condition((Predicate("s", "!=", "Never-married"), Predicate("age", "<", "3"))),
            ),
        ),
    ],
)
def test_the_words_are_understood_and_can_be_read_back(words, statistic):
    assert parse(words) == statistic
    assert parse(str(statistic)) == statistic


def test_columns_of_statistic_and_condition_are_named_once():
    assert parse("mean(x | x > 1 and s = a)").columns == ("x", "s")
    assert [str(part) for part in parse("regress(y ~ x | s = a)").parts()] == [
        "regress(y ~ x | s = a): intercept",
        "regress(y ~ x | s = a): x",
    ]


@pytest.mark.parametrize(
    "words", ["count(age)", "count(age >= )", "quantile(x)", "quantile(x, y)", "mean(x |)", "count(a = 1 and)"]
)
def test_broken_conditions_are_refused_with_a_place(words):
    with pytest.raises(StatisticError, match=r"at character|the end"):
        parse(words)


def test_no_condition_is_a_characteristic():
    with pytest.raises(StatisticError, match="must be a single function"):
        parse("mean(x | x > 1)").value(None)


def test_the_witness_of_a_conditional_mean_says_who_joined():
    read = CountedBoxes.of(Table.from_arrow(pa.table(RELEASED)), ["income", "sex"])
    found = enclose(parse("mean(income | sex = F)"), read)
    assert found.highest.weight.sum() == pytest.approx(4.0)
    assert found.lowest.weight.sum() == pytest.approx(2.0)


@pytest.mark.parametrize("written", ["true", "True", "TRUE", "1", "1.0"])
def test_true_may_be_written_in_any_way(written):
    numbers = np.random.default_rng(3)
    table = {"smokes": numbers.random(60) < 0.4, "age": numbers.integers(20, 80, 60)}
    release = sf.Boxes(k=5, l=1).release(table, schema={"smokes": "quasi", "age": "quasi"}, seed=1)
    found = release.estimate(f"count(smokes = {written})")
    assert found.low <= table["smokes"].sum() <= found.high
    assert found.high > 0
    assert sf.read_release({"smokes": [True, True, False]}).estimate(f"count(smokes = {written})").value == 2
    assert sf.read_release({"b": ["0|1", "1", "0"]}).estimate(f"count(b = {written})").value == 1.5


def test_a_condition_that_leaves_rows_open_has_no_first_order_of_width_0():
    table = {"y": [1.0, 2.0, 3.0, 9.0] * 5, "s": list("ab") * 10}
    release = sf.Boxes(k=20, l=1).release(table, schema={"s": "quasi", "y": "other"}, seed=1)
    found = release.estimate("mean(y | s = a)")
    assert found.low < found.high
    assert np.isnan(found.linear_low)
    assert np.isnan(found.linear_high)


@pytest.mark.parametrize("rule", ["exact", "box-mean"])
def test_the_sum_of_the_weights_is_not_weighted(rule):
    numbers = np.random.default_rng(4)
    table = {"age": numbers.integers(20, 80, 60), "w": numbers.uniform(1, 3, 60)}
    roles = {"age": "quasi", "w": "weight"}
    method = sf.Boxes(k=5, l=1, sampling_weights=rule)
    release = method.release(table, schema=roles, seed=1)
    total = release.estimate("sum(w)")
    assert total.value == pytest.approx(table["w"].sum())
    assert total.low <= table["w"].sum() <= total.high
    part = release.estimate("sum(w | age >= 50)")
    assert part.low <= table["w"][table["age"] >= 50].sum() <= part.high
    assert release.estimate("mean(w)").value == pytest.approx(table["w"].mean())
    youngest, oldest = release.estimate("min(age)"), release.estimate("max(age)")
    assert (youngest.name, oldest.name) == ("min(age)", "max(age)")
    assert youngest.low <= table["age"].min() <= youngest.high
    assert oldest.low <= table["age"].max() <= oldest.high


@pytest.mark.parametrize("written", ["1e+05", "+1E+5", "100000", "1e5", "100000."])
def test_a_number_may_be_written_with_an_exponent(written):
    boxes = sf.read_release({"y_low": [1e4, 2e5, 3e5], "y_high": [2e4, 2e5, 3e5]})
    assert boxes.estimate(f"count(y >= {written})").value == 2
    assert boxes.estimate(f"mean(y | y >= {written} and y < 2.5e+05)").records == 1
    assert parse(str(parse(f"count(y >= {written})"))) == parse(f"count(y >= {written})")
