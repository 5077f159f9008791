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
from functools import partial

from sfumato.errors import StatisticError
from sfumato.statistics.combined import CrossTable, Difference, GroupedStatistic, Iqr, Ratio, ShareMeeting
from sfumato.statistics.conditions import (
    ALWAYS,
    MISSING,
    OPERATORS,
    Condition,
    Predicate,
)
from sfumato.statistics.cursor import Cursor, require_name
from sfumato.statistics.moment_statistics import Correlation, Covariance, Mean, Sd, Variance
from sfumato.statistics.regression import INTERCEPT, Regression
from sfumato.statistics.statistic import Statistic
from sfumato.statistics.tallies import Count, LogRank, Quantile, Sum, Survival


def parse(text: str | Statistic, names: Sequence[str] | None = None, *, derived: bool = False) -> Statistic:
    """Parse the text of a statistic; a Statistic is returned unchanged, but its columns are checked too.

    ``derived`` allows columns that are computed from others, such as ``log(income)``.
    """
    if isinstance(text, Statistic):
        if names is not None:
            for name in text.columns:
                require_name(name, names)
        return text
    if not isinstance(text, str):
        raise StatisticError("A statistic must be a string or a Statistic.", found=type(text).__name__)
    cursor = Cursor(text, names, derived=derived)
    statistic = _read_statistic(cursor)
    if cursor.accept_word("by"):
        groups = [cursor.name()]
        while cursor.accept(","):
            groups.append(cursor.name())
        statistic = GroupedStatistic(statistic, tuple(groups))
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
        statistic = statistic.given(_read_condition(cursor))
    cursor.expect(")")
    return _read_coefficient(cursor, statistic) if cursor.accept(":") else statistic


def _read_coefficient(cursor: Cursor, statistic: Statistic) -> Statistic:
    """Read the name of a coefficient after the colon: ``intercept`` or a regressor, which may be quoted."""
    intercept, *regressors = statistic.terms or ("",)
    if not intercept or len(statistic.parts()) < len(statistic.terms):
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
    """Read alternatives with ``or``; ``and`` binds closer, and ``not`` closest."""
    alternatives = [_read_all(cursor)]
    while cursor.accept_word("or"):
        alternatives.append(_read_all(cursor))
    return alternatives[0] if len(alternatives) == 1 else Condition(tuple(map(_unwrap, alternatives)), either=True)


def _read_all(cursor: Cursor) -> Condition:
    parts = [_read_one(cursor)]
    while cursor.accept("&") or cursor.accept_word("and"):
        parts.append(_read_one(cursor))
    return ALWAYS.joined(*(one if isinstance(one, Condition) else Condition((one,)) for one in parts))


def _unwrap(condition: Condition) -> Predicate | Condition:
    return condition.predicates[0] if len(condition.predicates) == 1 else condition


def _read_one(cursor: Cursor) -> Predicate | Condition:
    """Read a predicate, the negation of one, or a condition in parentheses."""
    if not cursor.is_known_name() and cursor.accept_word("not"):
        return _read_one(cursor).negated
    if not cursor.is_known_name() and cursor.accept("("):
        inside = _read_condition(cursor)
        cursor.expect(")")
        return _unwrap(inside)
    return _read_predicate(cursor)


def _read_predicate(cursor: Cursor) -> Predicate | Condition:
    column = cursor.name()
    if cursor.accept_word("is"):
        negated = cursor.accept_word("not")
        if not cursor.accept_word("missing"):
            raise cursor.error("'is missing' or 'is not missing'")
        return Predicate(column, "!=" if negated else "=", None)
    if cursor.accept_word("between"):
        least = Predicate(column, ">=", _read_value(cursor))
        if not cursor.accept_word("and"):
            raise cursor.error("'between LOW and HIGH'")
        return Condition((least, Predicate(column, "<=", _read_value(cursor))))
    negated = cursor.accept_word("not")
    if cursor.accept_word("in"):
        listed = Condition(tuple(Predicate(column, "=", value) for value in _read_list(cursor)), either=True)
        return _unwrap(listed.negated if negated else listed)
    operator = None if negated else next((mark for mark in OPERATORS if cursor.accept(mark)), None)
    if operator is None:
        raise cursor.error("a predicate: =, !=, <, <=, >, >=, in (…), between … and …, or is missing")
    return Predicate(column, operator, _read_value(cursor))


def _read_list(cursor: Cursor) -> list[str | None]:
    cursor.expect("(", "'(' and values with commas between them")
    values = [_read_value(cursor)]
    while cursor.accept(","):
        values.append(_read_value(cursor))
    cursor.expect(")")
    return values


def _read_value(cursor: Cursor) -> str | None:
    """Read the value to compare with; None for the missing one."""
    if cursor.accept(MISSING):
        return None
    value = cursor.read_quoted()
    if value is None:
        value = cursor.read_number() or cursor.read_unquoted(names=False)
        if not value:
            raise cursor.error("a value to compare with")
    return value


def _read_unbiased(cursor: Cursor) -> bool:
    """Read the option ``, unbiased``, if it is there."""
    if not cursor.accept(","):
        return False
    if not cursor.accept_word("unbiased"):
        raise cursor.error("the word 'unbiased' after this comma, or no comma")
    return True


def _read_two_names(cursor: Cursor) -> tuple[str, str]:
    first = cursor.column()
    cursor.expect(",", "',' and a second column")
    return first, cursor.column()


def _read_regression(cursor: Cursor) -> Statistic:
    response = cursor.column()
    cursor.expect("~", "'~' and the regressors")
    regressors = [cursor.column()]
    while cursor.accept("+"):
        regressors.append(cursor.column())
    return Regression(response, tuple(regressors))


def _read_quantile(cursor: Cursor) -> Statistic:
    column = cursor.column()
    cursor.expect(",", "',' and a share such as 0.9")
    return Quantile(column, cursor.number("a share such as 0.9"))


def _read_survival(cursor: Cursor) -> Statistic:
    time, event = _read_two_names(cursor)
    cursor.expect(",", "',' and a time such as 365")
    return Survival(time, event, cursor.number("a time such as 365"))


def _read_log_rank(cursor: Cursor) -> Statistic:
    time, event = _read_two_names(cursor)
    cursor.expect("~", "'~' and the column of the groups")
    return LogRank(time, event, cursor.column())


def _read_two_statistics(cursor: Cursor) -> tuple[Statistic, Statistic]:
    first = _read_statistic(cursor)
    cursor.expect(",", "',' and a second statistic")
    return first, _read_statistic(cursor)


def _read_test(word: str, cursor: Cursor) -> Statistic:
    if word in ("logistic", "poisson"):
        from sfumato.statistics.formula import read_model

        return read_model("poisson" if word == "poisson" else "binomial", cursor)
    from sfumato.statistics.hypothesis_tests import TESTS

    test = TESTS[word]
    first = cursor.column()
    cursor.expect(test.sign.strip(), f"{test.sign.strip()!r} and a second column")
    return test(first, cursor.column())


TEST_WORDS = (
    *("ttest", "welch", "anova", "mannwhitney", "wilcoxon", "spearman", "kendall", "rsquared", "r2", "poisson"),
    *("chi2", "chisquare", "oddsratio", "odds_ratio", "relativerisk", "relative_risk", "riskratio", "fisher"),
)
PARSERS: dict[str, Callable[[Cursor], Statistic]] = {
    **{word: partial(_read_test, word) for word in ("logistic", *TEST_WORDS)},
    **dict.fromkeys(("mean", "average", "avg"), lambda cursor: Mean(cursor.column())),
    **dict.fromkeys(("var", "variance"), lambda cursor: Variance(cursor.column(), _read_unbiased(cursor))),
    **dict.fromkeys(("sd", "std"), lambda cursor: Sd(cursor.column(), _read_unbiased(cursor))),
    **dict.fromkeys(("cov", "covariance"), lambda cursor: Covariance(*_read_two_names(cursor), _read_unbiased(cursor))),
    **dict.fromkeys(("corr", "cor", "correlation"), lambda cursor: Correlation(*_read_two_names(cursor))),
    **dict.fromkeys(("regress", "regression"), _read_regression),
    "sum": lambda cursor: Sum(cursor.column()),
    "median": lambda cursor: Quantile(cursor.column(), 0.5),
    "min": lambda cursor: Quantile(cursor.column(), 0.0),
    "max": lambda cursor: Quantile(cursor.column(), 1.0),
    "quantile": _read_quantile,
    "logrank": _read_log_rank,
    **dict.fromkeys(("survival", "kaplanmeier"), _read_survival),
    "iqr": lambda cursor: Iqr(cursor.column()),
    "share": lambda cursor: ShareMeeting(_read_condition(cursor)),
    "difference": lambda cursor: Difference(*_read_two_statistics(cursor)),
    "ratio": lambda cursor: Ratio(*_read_two_statistics(cursor)),
    "table": lambda cursor: CrossTable(Count(), _read_two_names(cursor)),
    "count": lambda cursor: Count() if cursor.is_next(")") else Count(_read_condition(cursor)),
}
