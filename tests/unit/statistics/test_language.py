"""Statistics in words: what is understood, and what the errors say."""

from __future__ import annotations

import pytest

from sfumato.errors import StatisticError
from sfumato.statistics.conditions import Condition, Predicate
from sfumato.statistics.language import parse
from sfumato.statistics.moment_statistics import Correlation, Covariance, Mean, Sd, Variance
from sfumato.statistics.regression import Coefficient, Regression
from sfumato.statistics.statistic import ConditionalStatistic


@pytest.mark.parametrize(
    ("words", "statistic"),
    [
        ("mean(x)", Mean("x")),
        ("  Mean ( x ) ", Mean("x")),
        ("var(x)", Variance("x")),
        ("variance(x)", Variance("x")),
        ("sd(x)", Sd("x")),
        ("cov(x, y)", Covariance("x", "y")),
        ("corr(age,income)", Correlation("age", "income")),
        ("regress(y ~ x1 + x2)", Regression("y", ("x1", "x2"))),
        ("regress(y~x1)", Regression("y", ("x1",))),
        ("mean(hours-per-week)", Mean("hours-per-week")),
        ("corr(education num, größe.cm)", Correlation("education num", "größe.cm")),
        ("mean('a, b')", Mean("a, b")),
        ('mean("x ~ y")', Mean("x ~ y")),
        ("corr(`a (b)`, c)", Correlation("a (b)", "c")),
        ("mean(`tick``s`)", Mean("tick`s")),
        ("mean(children's age)", Mean("children's age")),
    ],
)
def test_words_are_understood(words, statistic):
    assert parse(words) == statistic


def test_awkward_names_need_no_quotes_where_the_names_are_known():
    names = ["income (USD)", "a+b", "a", "rock & roll, live"]
    assert parse("mean(income (USD))", names) == Mean("income (USD)")
    assert parse("regress(a+b ~ income (USD) + a)", names) == Regression("a+b", ("income (USD)", "a"))
    assert parse("mean(rock & roll, live)", names) == Mean("rock & roll, live")


def test_a_statistic_is_passed_through_and_its_columns_are_checked():
    assert parse(Mean("x"), ["x"]) == Mean("x")
    with pytest.raises(StatisticError, match="'y'"):
        parse(Mean("y"), ["x"])


def test_a_misspelt_column_is_answered_with_the_nearest():
    with pytest.raises(StatisticError, match="nearest name 'income'"):
        parse("mean(incme)", ["age", "income"])
    with pytest.raises(StatisticError, match="'age', 'income'"):
        parse("mean(zzzzzz)", ["age", "income"])


@pytest.mark.parametrize(
    ("words", "needs"),
    [
        ("", "name of a statistic"),
        ("age", "name of a statistic"),
        ("correlate(x, y)", "nearest: correlation"),
        ("mean x", r"'\('"),
        ("mean(x", r"'\)'"),
        ("mean()", "name of a column"),
        ("corr(x)", "second column at|second column"),
        ("corr(x, y, z)", r"'\)'"),
        ("regress(y)", "regressors"),
        ("regress(y ~ )", "name of a column"),
        ("mean(x) and more", "to end here"),
        ("mean(`x)", "closing `"),
    ],
)
def test_an_error_says_what_is_needed_and_where(words, needs):
    with pytest.raises(StatisticError, match=needs) as error:
        parse(words)
    assert "at character" in str(error.value) or "the end" in str(error.value)


def test_what_is_no_text_is_refused():
    with pytest.raises(StatisticError, match="int"):
        parse(5)


@pytest.mark.parametrize(
    ("words", "statistic"),
    [
        ("var(x, unbiased)", Variance("x", unbiased=True)),
        ("sd( x , UNBIASED )", Sd("x", unbiased=True)),
        ("cov(x, y, unbiased)", Covariance("x", "y", unbiased=True)),
        ("cov(x, unbiased)", Covariance("x", "unbiased")),
        (
            "sd(x, unbiased | s = a)",
            ConditionalStatistic(Sd("x", unbiased=True), Condition((Predicate("s", "=", "a"),))),
        ),
        ("regress(y ~ x): x", Coefficient(Regression("y", ("x",)), "x")),
        ("regress(y ~ x + z): intercept", Coefficient(Regression("y", ("x", "z")), None)),
        ("regress(y ~ a+b + `c d`): `c d`", Coefficient(Regression("y", ("a", "b", "c d")), "c d")),
        ("regress(y ~ intercept): `intercept`", Coefficient(Regression("y", ("intercept",)), "intercept")),
        ("regress(y ~ intercept_2): intercept_2", Coefficient(Regression("y", ("intercept_2",)), "intercept_2")),
        (
            "regress(y ~ x | s = a): x",
            ConditionalStatistic(Coefficient(Regression("y", ("x",)), "x"), Condition((Predicate("s", "=", "a"),))),
        ),
    ],
)
def test_options_and_coefficients_are_read_and_written(words, statistic):
    assert parse(words) == statistic
    assert parse(str(statistic)) == statistic


@pytest.mark.parametrize(
    "words",
    [
        "var(x, biased)",
        "mean(x): x",
        "regress(y ~ x): z",
        "regress(y ~ x):",
        "corr(x, y, unbiased)",
        "regress(y ~ x): y",
    ],
)
def test_options_and_coefficients_that_do_not_exist_are_refused(words):
    with pytest.raises(StatisticError, match="needs"):
        parse(words)
