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

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial

from sfumato.errors import StatisticError
from sfumato.statistics.combined import CrossTable, Difference, GroupedStatistic, Iqr, Ratio, ShareMeeting
from sfumato.statistics.conditions import (
    ALWAYS,
    CONNECTIVES,
    FOLLOWING,
    MISSING,
    OPERATORS,
    RESERVED,
    Condition,
    Derived,
    Predicate,
)
from sfumato.statistics.moment_statistics import Correlation, Covariance, Mean, Sd, Variance
from sfumato.statistics.regression import INTERCEPT, Regression
from sfumato.statistics.statistic import Statistic
from sfumato.statistics.tallies import Count, LogRank, Quantile, Sum, Survival

NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
QUOTES = "`\"'"
FUNCTIONS = ("log", "log2", "log10", "sqrt", "exp")  # of one column, all increasing
MOST_NAMED = 30  # columns that an error lists


def require_name(name: str, names: Sequence[str]) -> None:
    """Raise unless ``name`` is a column; the error suggests the nearest one."""
    if name in names:
        return
    near = get_close_matches(name, list(names), n=1, cutoff=0.5)
    few = f"columns {', '.join(map(repr, names))}" if len(names) <= MOST_NAMED else f"{len(names):,} other columns"
    fix = repr(near[0]) if near else None
    if re.search(r"\b(where|if|given|for)\b", name):
        fix = "a condition after a bar: mean(age | sex = F and income > 10)"
    raise StatisticError(f"There is no column {name!r}.", found=f"nearest name {near[0]!r}" if near else few, fix=fix)


class Cursor:
    """A position in the text of a statistic, and the tokens that can be read there."""

    def __init__(self, text: str, names: Sequence[str] | None, *, derived: bool = False, symbols: str = "") -> None:
        self.text = text
        self.names = names
        self.derived = derived  # whether columns may be computed from others
        self.symbols = set(symbols or ("*/" if derived else ""))  # that end a name, besides the reserved ones
        self.at = 0

    def error(self, wanted: str) -> StatisticError:
        """Return the error for this position."""
        rest = self.text[self.at :].strip()
        found = f"{rest[:20]!r} at character {self.at + 1}" if rest else "the end"
        fix = "mean(x), corr(x, y), regress(y ~ x1 + x2), quantile(x, 0.9), count(x >= 65), sum(x | y = F and z < 2)"
        return StatisticError(f"The statistic {self.text!r} needs {wanted}.", found=found, fix=f"for example {fix}")

    def skip_spaces(self) -> None:
        """Skip spaces."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def accept(self, symbol: str) -> bool:
        """Return whether a symbol comes next, and skip it if so."""
        self.skip_spaces()
        if self.text.startswith(symbol, self.at):
            self.at += len(symbol)
            return True
        return False

    def accept_word(self, word: str) -> bool:
        """Return whether a word comes next, up to a space, and skip it if so."""
        self.skip_spaces()
        end = self.at + len(word)
        if self.text[self.at : end].lower() == word and not self.text[end : end + 1].isalnum():
            self.at = end
            return True
        return False

    def is_next(self, symbol: str) -> bool:
        """Return whether a symbol comes next; the position does not change."""
        self.skip_spaces()
        return self.text.startswith(symbol, self.at)

    def expect(self, symbol: str, wanted: str | None = None) -> None:
        """Skip a symbol that must come next."""
        if not self.accept(symbol):
            raise self.error(wanted or f"{symbol!r}")

    def expect_end(self) -> None:
        """Raise unless the text ends here."""
        self.skip_spaces()
        if self.at < len(self.text):
            raise self.error("to end here")

    def identifier(self) -> str:
        """Read letters, digits and underscores, and return them in lower case."""
        self.skip_spaces()
        start = self.at
        while self.at < len(self.text) and (self.text[self.at].isalnum() or self.text[self.at] == "_"):
            self.at += 1
        return self.text[start : self.at].lower()

    def name(self) -> str:
        """Read a column name, which must be one of the table's names if these are known."""
        self.skip_spaces()
        start = self.at
        name = self._known_name() or self.read_quoted() or self.read_unquoted()
        if not name:
            raise self.error("the name of a column")
        if self.names is not None and name not in self.names:
            self.at = start
            require_name(name, self.names)
        return name

    def column(self) -> str:
        """Read a column name or, if allowed, a product, a ratio or a monotone function of columns."""
        if not self.derived:
            return self.name()
        text = self.factor()
        while True:
            sign = next((mark for mark in "*/" if self.accept(mark)), None)
            if sign is None:
                return text
            text = Derived.of(sign, text, self.factor())

    def factor(self) -> str:
        """Read a name, or a function of an expression."""
        start = self.at
        if not self.is_known_name():
            function = self.identifier()
            if function in FUNCTIONS and self.accept("("):
                inside = self.column()
                self.expect(")")
                return Derived.of(function, inside)
            self.at = start
        return self.name()

    def number(self, wanted: str) -> float:
        """Read a number."""
        self.skip_spaces()
        start = self.at
        try:
            return float(self.read_number() or self.read_unquoted())
        except ValueError:
            self.at = start
        raise self.error(wanted)

    def read_quoted(self) -> str | None:
        """Read text in quotes or backticks, in which a doubled quote means one; None if no quote comes next."""
        self.skip_spaces()
        if self.at >= len(self.text) or self.text[self.at] not in QUOTES:
            return None
        quote, start, at = self.text[self.at], self.at, self.at + 1
        taken = ""
        while True:
            close = self.text.find(quote, at)
            if close < 0:
                self.at = start
                raise self.error(f"a closing {quote}")
            taken += self.text[at:close]
            if not self.text.startswith(quote, close + 1):
                self.at = close + 1
                return taken
            taken += quote
            at = close + 2

    def read_number(self) -> str:
        """Read a number that ends where a value may end, such as 1e+05; "" if none comes next."""
        self.skip_spaces()
        found = NUMBER.match(self.text, self.at)
        if found is None or not self._is_name_end(found.end()):
            return ""
        self.at = found.end()
        return found[0]

    def read_unquoted(self, *, names: bool = True) -> str:
        """Read text up to the next reserved symbol, or up to a word of the language between spaces.

        The words after a name (``in``, ``between``, ``is missing``) may occur in a value.
        """
        start = self.at
        inside = RESERVED - set(QUOTES)  # an apostrophe inside a name is part of it
        inside |= self.symbols if names else set()
        while self.at < len(self.text) and self.text[self.at] not in inside:
            if self.at > start and (self._is_connective(self.at) or (names and FOLLOWING.match(self.text, self.at))):
                break
            self.at += 1
        return self.text[start : self.at].strip()

    def is_known_name(self) -> bool:
        """Return whether a column name of the table comes next; the position does not change."""
        self.skip_spaces()
        at = self.at
        name, self.at = self._known_name(), at
        return bool(name)

    def _known_name(self) -> str:
        """Read the longest column name of the table that matches here, whatever symbols it contains."""
        best = ""
        for name in self.names or ():
            after = self.at + len(name)
            if len(name) > len(best) and self.text.startswith(name, self.at) and self._is_name_end(after):
                best = name
        self.at += len(best)
        return best

    def _is_name_end(self, at: int) -> bool:
        rest = self.text[at:]
        follows = rest.lstrip()
        ends = RESERVED | self.symbols
        return not follows or follows[0] in ends or self._is_connective(at) or bool(FOLLOWING.match(self.text, at))

    def _is_connective(self, at: int) -> bool:
        for word in CONNECTIVES:
            end = at + 1 + len(word)
            after = self.text[end : end + 1]
            if self.text[at:end].lower() == f" {word}" and (not after or after.isspace() or after in RESERVED):
                return True
        return False


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
    from sfumato.statistics.hypothesis_tests import TESTS

    test = TESTS[word]
    first = cursor.column()
    cursor.expect(test.sign.strip(), f"{test.sign.strip()!r} and a second column")
    return test(first, cursor.column())


TEST_WORDS = (
    *("ttest", "welch", "anova", "mannwhitney", "wilcoxon", "spearman", "kendall", "rsquared", "r2"),
    *("chi2", "chisquare", "oddsratio", "odds_ratio", "relativerisk", "relative_risk", "riskratio", "fisher"),
)
PARSERS: dict[str, Callable[[Cursor], Statistic]] = {
    **{word: partial(_read_test, word) for word in TEST_WORDS},
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
