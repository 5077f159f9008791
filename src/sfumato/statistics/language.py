"""The language of statistics: ``mean(x)``, ``corr(age, income)``, ``regress(y ~ x1 + x2)``, ``count(age >= 65)``.

Any statistic can have a condition: ``median(income | sex = F and age >= 65)``. ``var(x, unbiased)``,
``sd(x, unbiased)`` and ``cov(x, y, unbiased)`` are divided by n − 1. ``regress(y ~ x): x`` is one coefficient of a
regression, and ``regress(y ~ x): intercept`` its intercept.

Column names are written as they are, including spaces, hyphens and dots (``mean(hours-per-week)``). A name that
contains one of ``( ) , ~ + | = < > ! &`` or starts with a quote is written in quotes or backticks, and a quote inside
it is doubled. If the column names of the table are known, such names are recognised without quotes too, and the error
for a misspelt name suggests the nearest one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from sfumato.errors import StatisticError
from sfumato.statistics.conditions import MISSING, OPERATORS, Condition, Predicate
from sfumato.statistics.moment_statistics import Correlation, Covariance, Mean, Sd, Variance
from sfumato.statistics.parser import Cursor, require_name
from sfumato.statistics.regression import INTERCEPT, Regression
from sfumato.statistics.statistic import ConditionalStatistic, Statistic
from sfumato.statistics.tallies import Count, Quantile, Sum


def parse(text: str | Statistic, names: Sequence[str] | None = None) -> Statistic:
    """Parse the text of a statistic; a Statistic is returned unchanged, but its columns are checked too."""
    if isinstance(text, Statistic):
        if names is not None:
            for name in text.columns:
                require_name(name, names)
        return text
    if not isinstance(text, str):
        raise StatisticError("A statistic must be a string or a Statistic.", found=type(text).__name__)
    cursor = Cursor(text, names)
    statistic = _read_statistic(cursor)
    cursor.expect_end()
    return statistic


def _read_statistic(cursor: Cursor) -> Statistic:
    start = cursor.at
    name = cursor.identifier()
    if name not in PARSERS:
        cursor.at = start
        near = get_close_matches(name, PARSERS, n=1)
        raise cursor.error(f"the name of a statistic (nearest: {near[0]})" if near else "the name of a statistic")
    cursor.expect("(")
    statistic = PARSERS[name](cursor)
    if statistic.takes_condition and cursor.accept("|"):
        statistic = ConditionalStatistic(statistic, _read_condition(cursor))
    cursor.expect(")")
    return _read_coefficient(cursor, statistic) if cursor.accept(":") else statistic


def _read_coefficient(cursor: Cursor, statistic: Statistic) -> Statistic:
    """Read the name of a coefficient after the colon: ``intercept`` or a regressor, which may be quoted."""
    intercept, *regressors = statistic.terms or ("",)
    if not intercept:
        raise cursor.error("its end here: only a regression has coefficients to name after ':'")
    start = cursor.at
    if cursor.text[cursor.at :].strip().lower() == INTERCEPT and cursor.accept_word(INTERCEPT):
        return statistic.parts()[0]
    term = cursor.name()
    if term not in regressors:
        cursor.at = start
        raise cursor.error(f"'intercept' or one of the regressors {', '.join(map(repr, regressors))}")
    return statistic.parts()[1 + regressors.index(term)]


def _read_condition(cursor: Cursor) -> Condition:
    predicates = [_read_predicate(cursor)]
    while cursor.accept("&") or cursor.accept_word("and"):
        predicates.append(_read_predicate(cursor))
    return Condition(tuple(predicates))


def _read_predicate(cursor: Cursor) -> Predicate:
    column = cursor.name()
    operator = next((mark for mark in OPERATORS if cursor.accept(mark)), None)
    if operator is None:
        raise cursor.error("a predicate: =, !=, <, <=, > or >=")
    if cursor.accept(MISSING):
        return Predicate(column, operator, None)
    value = cursor.quoted()
    if value is None:
        value = cursor.unquoted()
        if not value:
            raise cursor.error("a value to compare with")
    return Predicate(column, operator, value)


def _read_unbiased(cursor: Cursor) -> bool:
    """Read the option ``, unbiased``, if it is there."""
    if not cursor.accept(","):
        return False
    if not cursor.accept_word("unbiased"):
        raise cursor.error("the word 'unbiased' after this comma, or no comma")
    return True


def _read_two_names(cursor: Cursor) -> tuple[str, str]:
    first = cursor.name()
    cursor.expect(",", "',' and a second column")
    return first, cursor.name()


def _read_regression(cursor: Cursor) -> Statistic:
    response = cursor.name()
    cursor.expect("~", "'~' and the regressors")
    regressors = [cursor.name()]
    while cursor.accept("+"):
        regressors.append(cursor.name())
    return Regression(response, tuple(regressors))


def _read_quantile(cursor: Cursor) -> Statistic:
    column = cursor.name()
    cursor.expect(",", "',' and a share such as 0.9")
    return Quantile(column, cursor.number("a share such as 0.9"))


PARSERS: dict[str, Callable[[Cursor], Statistic]] = {
    **dict.fromkeys(("mean", "average", "avg"), lambda cursor: Mean(cursor.name())),
    **dict.fromkeys(("var", "variance"), lambda cursor: Variance(cursor.name(), _read_unbiased(cursor))),
    **dict.fromkeys(("sd", "std"), lambda cursor: Sd(cursor.name(), _read_unbiased(cursor))),
    **dict.fromkeys(("cov", "covariance"), lambda cursor: Covariance(*_read_two_names(cursor), _read_unbiased(cursor))),
    **dict.fromkeys(("corr", "cor", "correlation"), lambda cursor: Correlation(*_read_two_names(cursor))),
    **dict.fromkeys(("regress", "regression"), _read_regression),
    "sum": lambda cursor: Sum(cursor.name()),
    "median": lambda cursor: Quantile(cursor.name(), 0.5),
    "quantile": _read_quantile,
    "count": lambda cursor: Count() if cursor.is_next(")") else Count(_read_condition(cursor)),
}
