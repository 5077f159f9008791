"""A position in the text of a statistic or a formula, and what can be read there: names, numbers, symbols."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from sfumato.errors import StatisticError
from sfumato.statistics.conditions import CONNECTIVES, FOLLOWING, RESERVED, Derived

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
