"""Statistics in words: ``mean(x)``, ``corr(age, income)``, ``regress(y ~ x1 + x2)``, ``count(age >= 65)``.

Any statistic may be asked under a condition: ``median(income | sex = F and age >= 65)``. A column name is written as it
is, spaces, hyphens, dots and all (``mean(hours-per-week)``); a name that holds one of ``( ) , ~ + | = < > ! &`` or
starts with a quote is put in quotes or backticks, a quote inside being doubled. Where the table's names are known, such
names are recognised bare as well, and a misspelt name is answered with the nearest one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
from sfumato.statistics.parser import Reader, require_name
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
    reader = Reader(words, names)
    statistic = _statistic(reader)
    reader.end()
    return statistic


def parse_all(
    words: str | Statistic | Iterable[str | Statistic], names: Sequence[str] | None = None
) -> tuple[Statistic, ...]:
    """Several statistics, or one given alone."""
    several = [words] if isinstance(words, str | Statistic) else list(words)
    return tuple(parse(one, names) for one in several)


def _statistic(reader: Reader) -> Statistic:
    start = reader.at
    word = reader.word()
    if word not in FORMS:
        reader.at = start
        near = get_close_matches(word, FORMS, n=1)
        raise reader.wrong(f"the name of a statistic (nearest: {near[0]})" if near else "the name of a statistic")
    reader.expect("(")
    statistic = FORMS[word](reader)
    if not isinstance(statistic, Count) and reader.sees("|"):
        statistic = Conditional(statistic, _condition(reader))
    reader.expect(")")
    return statistic


def _condition(reader: Reader) -> Condition:
    predicates = [_comparison(reader)]
    while reader.sees("&") or reader.sees_word("and"):
        predicates.append(_comparison(reader))
    return Condition(tuple(predicates))


def _comparison(reader: Reader) -> Predicate:
    column = reader.name()
    operator = next((mark for mark in OPERATORS if reader.sees(mark)), None)
    if operator is None:
        raise reader.wrong("a predicate: =, !=, <, <=, > or >=")
    if reader.sees(MISSING):
        return Predicate(column, operator, None)
    value = reader.quoted()
    if value is None:
        value = reader.bare()
        if not value:
            raise reader.wrong("a value to compare with")
    return Predicate(column, operator, value)


def _one(make: Callable[[str], Statistic]) -> Callable[[Reader], Statistic]:
    return lambda reader: make(reader.name())


def _two(make: Callable[[str, str], Statistic]) -> Callable[[Reader], Statistic]:
    def read(reader: Reader) -> Statistic:
        first = reader.name()
        reader.expect(",", "',' and a second column")
        return make(first, reader.name())

    return read


def _regression(reader: Reader) -> Statistic:
    response = reader.name()
    reader.expect("~", "'~' and the regressors")
    regressors = [reader.name()]
    while reader.sees("+"):
        regressors.append(reader.name())
    return Regression(response, tuple(regressors))


def _quantile(reader: Reader) -> Statistic:
    column = reader.name()
    reader.expect(",", "',' and a share such as 0.9")
    return Quantile(column, reader.number("a share such as 0.9"))


def _count(reader: Reader) -> Statistic:
    return Count() if reader.is_at(")") else Count(_condition(reader))


FORMS: dict[str, Callable[[Reader], Statistic]] = {
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
