"""Statistics in words: ``mean(x)``, ``corr(age, income)``, ``regress(y ~ x1 + x2)``.

A column name is written as it is, spaces, hyphens, dots and all (``mean(hours-per-week)``); a name that holds one of
``( ) , ~ + | = < > ! &`` or starts with a quote is put in quotes or backticks, a quote inside being doubled. Where the
table's names are known, such names are recognised bare as well, and a misspelt name is answered with the nearest one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

from sfumato.errors import StatisticError
from sfumato.statistics.characteristics import Correlation, Covariance, Mean, Regression, Sd, Variance
from sfumato.statistics.statistic import RESERVED, Statistic

QUOTES = "`\"'"


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


def require_name(name: str, names: Sequence[str]) -> None:
    """Raise unless ``name`` is a column, naming the nearest one."""
    if name in names:
        return
    near = get_close_matches(name, list(names), n=1, cutoff=0.5)
    raise StatisticError(
        f"There is no column {name!r}.",
        found=f"nearest name {near[0]!r}" if near else f"columns {', '.join(map(repr, names))}",
    )


class Reader:
    """A position in the words, and the few things that can be read there."""

    def __init__(self, text: str, names: Sequence[str] | None) -> None:
        self.text = text
        self.names = names
        self.at = 0

    def wrong(self, wanted: str) -> StatisticError:
        """The error at this position."""
        rest = self.text[self.at :].strip()
        found = f"{rest[:20]!r} at character {self.at + 1}" if rest else "the end"
        fix = "mean(x), var(x), sd(x), cov(x, y), corr(x, y), regress(y ~ x1 + x2)"
        return StatisticError(f"The statistic {self.text!r} needs {wanted}.", found=found, fix=f"words such as {fix}")

    def skip(self) -> None:
        """Go past blanks."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def sees(self, mark: str) -> bool:
        """Whether a mark comes next; if so, go past it."""
        self.skip()
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def expect(self, mark: str, wanted: str | None = None) -> None:
        """Go past a mark that must come next."""
        if not self.sees(mark):
            raise self.wrong(wanted or f"{mark!r}")

    def end(self) -> None:
        """Nothing may follow."""
        self.skip()
        if self.at < len(self.text):
            raise self.wrong("nothing more")

    def word(self) -> str:
        """Letters up to the next mark or blank, in lower case."""
        self.skip()
        start = self.at
        while self.at < len(self.text) and (self.text[self.at].isalnum() or self.text[self.at] == "_"):
            self.at += 1
        return self.text[start : self.at].lower()

    def name(self) -> str:
        """A column name, which must be among the table's names where these are known."""
        self.skip()
        start = self.at
        name = self._known() or self.quoted() or self.bare()
        if not name:
            raise self.wrong("the name of a column")
        if self.names is not None and name not in self.names:
            self.at = start
            require_name(name, self.names)
        return name

    def quoted(self) -> str:
        """Text in quotes or backticks, a doubled quote standing for one; empty when no quote comes next."""
        self.skip()
        if self.at >= len(self.text) or self.text[self.at] not in QUOTES:
            return ""
        quote, start, at = self.text[self.at], self.at, self.at + 1
        taken = ""
        while True:
            close = self.text.find(quote, at)
            if close < 0:
                self.at = start
                raise self.wrong(f"a closing {quote}")
            taken += self.text[at:close]
            if not self.text.startswith(quote, close + 1):
                self.at = close + 1
                return taken
            taken += quote
            at = close + 2

    def bare(self) -> str:
        """Text up to the next reserved mark, or the word ``and`` between blanks."""
        start = self.at
        inside = RESERVED - set(QUOTES)  # an apostrophe inside a name is part of it
        while self.at < len(self.text) and self.text[self.at] not in inside:
            if self.at > start and self.text[self.at : self.at + 5].lower() == " and ":
                break
            self.at += 1
        return self.text[start : self.at].strip()

    def _known(self) -> str:
        """The longest of the table's names that stands here, whatever marks it holds."""
        best = ""
        for name in self.names or ():
            after = self.at + len(name)
            if len(name) > len(best) and self.text.startswith(name, self.at) and self._closes(after):
                best = name
        self.at += len(best)
        return best

    def _closes(self, at: int) -> bool:
        rest = self.text[at:]
        follows = rest.lstrip()
        return not follows or follows[0] in RESERVED or rest.lower().startswith(" and ")


def _statistic(reader: Reader) -> Statistic:
    start = reader.at
    word = reader.word()
    if word not in FORMS:
        reader.at = start
        near = get_close_matches(word, FORMS, n=1)
        raise reader.wrong(f"the name of a statistic (nearest: {near[0]})" if near else "the name of a statistic")
    reader.expect("(")
    statistic = FORMS[word](reader)
    reader.expect(")")
    return statistic


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


FORMS: dict[str, Callable[[Reader], Statistic]] = {
    **dict.fromkeys(("mean", "average", "avg"), _one(Mean)),
    **dict.fromkeys(("var", "variance"), _one(Variance)),
    **dict.fromkeys(("sd", "std"), _one(Sd)),
    **dict.fromkeys(("cov", "covariance"), _two(Covariance)),
    **dict.fromkeys(("corr", "cor", "correlation"), _two(Correlation)),
    **dict.fromkeys(("regress", "regression"), _regression),
}
