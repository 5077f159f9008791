"""Statistics in words: ``mean(x)``, ``corr(age, income)``, ``regress(y ~ x1 + x2)``, ``count(age >= 65)``.

Any statistic may be asked under a condition: ``median(income | sex = F and age >= 65)``. A column name is written as it
is, spaces, hyphens, dots and all (``mean(hours-per-week)``); a name that holds one of ``( ) , ~ + | = < > ! &`` or
starts with a quote is put in quotes or backticks, a quote inside being doubled. Where the table's names are known, such
names are recognised bare as well, and a misspelt name is answered with the nearest one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from sfumato.errors import StatisticError
from sfumato.statistics.conditions import (
    MISSING,
    OPERATORS,
    Condition,
    Conditional,
    Count,
    Predicate,
    Quantile,
    Sum,
)
from sfumato.statistics.moment_statistics import Correlation, Covariance, Mean, Regression, Sd, Variance
from sfumato.statistics.parser import Cursor, require_name
from sfumato.statistics.statistic import Statistic


def parse(words: str | Statistic, names: Sequence[str] | None = None) -> Statistic:
    """The statistic that the words name; a Statistic is passed through, its columns checked all the same."""
    if isinstance(words, Statistic):
        if names is not None:
            for name in words.columns:
                require_name(name, names)
        return words
    if not isinstance(words, str):
        raise StatisticError("A statistic must be given in words or as a Statistic.", found=type(words).__name__)
    cursor = Cursor(words, names)
    statistic = _statistic(cursor)
    cursor.end()
    return statistic


def _statistic(cursor: Cursor) -> Statistic:
    start = cursor.at
    word = cursor.word()
    if word not in FORMS:
        cursor.at = start
        near = get_close_matches(word, FORMS, n=1)
        raise cursor.wrong(f"the name of a statistic (nearest: {near[0]})" if near else "the name of a statistic")
    cursor.expect("(")
    statistic = FORMS[word](cursor)
    if not isinstance(statistic, Count) and cursor.sees("|"):
        statistic = Conditional(statistic, _condition(cursor))
    cursor.expect(")")
    return statistic


def _condition(cursor: Cursor) -> Condition:
    predicates = [_predicate(cursor)]
    while cursor.sees("&") or cursor.sees_word("and"):
        predicates.append(_predicate(cursor))
    return Condition(tuple(predicates))


def _predicate(cursor: Cursor) -> Predicate:
    column = cursor.name()
    operator = next((mark for mark in OPERATORS if cursor.sees(mark)), None)
    if operator is None:
        raise cursor.wrong("a predicate: =, !=, <, <=, > or >=")
    if cursor.sees(MISSING):
        return Predicate(column, operator, None)
    value = cursor.quoted()
    if value is None:
        value = cursor.bare()
        if not value:
            raise cursor.wrong("a value to compare with")
    return Predicate(column, operator, value)


def _one(make: Callable[[str], Statistic]) -> Callable[[Cursor], Statistic]:
    return lambda cursor: make(cursor.name())


def _two(make: Callable[[str, str], Statistic]) -> Callable[[Cursor], Statistic]:
    def read(cursor: Cursor) -> Statistic:
        first = cursor.name()
        cursor.expect(",", "',' and a second column")
        return make(first, cursor.name())

    return read


def _regression(cursor: Cursor) -> Statistic:
    response = cursor.name()
    cursor.expect("~", "'~' and the regressors")
    regressors = [cursor.name()]
    while cursor.sees("+"):
        regressors.append(cursor.name())
    return Regression(response, tuple(regressors))


def _quantile(cursor: Cursor) -> Statistic:
    column = cursor.name()
    cursor.expect(",", "',' and a share such as 0.9")
    return Quantile(column, cursor.number("a share such as 0.9"))


def _count(cursor: Cursor) -> Statistic:
    return Count() if cursor.is_at(")") else Count(_condition(cursor))


FORMS: dict[str, Callable[[Cursor], Statistic]] = {
    **dict.fromkeys(("mean", "average", "avg"), _one(Mean)),
    **dict.fromkeys(("var", "variance"), _one(Variance)),
    **dict.fromkeys(("sd", "std"), _one(Sd)),
    **dict.fromkeys(("cov", "covariance"), _two(Covariance)),
    **dict.fromkeys(("corr", "cor", "correlation"), _two(Correlation)),
    **dict.fromkeys(("regress", "regression"), _regression),
    "sum": _one(Sum),
    "median": _one(lambda column: Quantile(column, 0.5)),
    "quantile": _quantile,
    "count": _count,
}
