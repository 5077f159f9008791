"""Read the text of a statistic from left to right: names, numbers, quoted text and marks."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from sfumato.errors import StatisticError
from sfumato.statistics.statistic import RESERVED

QUOTES = "`\"'"


def require_name(name: str, names: Sequence[str]) -> None:
    """Raise unless ``name`` is a column, naming the nearest one."""
    if name in names:
        return
    near = get_close_matches(name, list(names), n=1, cutoff=0.5)
    raise StatisticError(
        f"There is no column {name!r}.",
        found=f"nearest name {near[0]!r}" if near else f"columns {', '.join(map(repr, names))}",
    )


class Cursor:
    """A position in the text of a statistic, and the few things that can be read there."""

    def __init__(self, text: str, names: Sequence[str] | None) -> None:
        self.text = text
        self.names = names
        self.at = 0

    def wrong(self, wanted: str) -> StatisticError:
        """The error at this position."""
        rest = self.text[self.at :].strip()
        found = f"{rest[:20]!r} at character {self.at + 1}" if rest else "the end"
        fix = "mean(x), corr(x, y), regress(y ~ x1 + x2), quantile(x, 0.9), count(x >= 65), sum(x | y = F and z < 2)"
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

    def sees_word(self, word: str) -> bool:
        """Whether a word comes next, up to a blank; if so, go past it."""
        self.skip()
        end = self.at + len(word)
        if self.text[self.at : end].lower() == word and not self.text[end : end + 1].isalnum():
            self.at = end
            return True
        return False

    def is_at(self, mark: str) -> bool:
        """Whether a mark comes next; the position stays."""
        self.skip()
        return self.text.startswith(mark, self.at)

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

    def number(self, wanted: str) -> float:
        """A number."""
        self.skip()
        start = self.at
        try:
            return float(self.bare())
        except ValueError:
            self.at = start
        raise self.wrong(wanted)

    def quoted(self) -> str | None:
        """Text in quotes or backticks, a doubled quote standing for one; None when no quote comes next."""
        self.skip()
        if self.at >= len(self.text) or self.text[self.at] not in QUOTES:
            return None
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
            if self.at > start and self._is_and(self.at):
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
        return not follows or follows[0] in RESERVED or self._is_and(at)

    def _is_and(self, at: int) -> bool:
        after = self.text[at + 4 : at + 5]
        return self.text[at : at + 4].lower() == " and" and (not after or after.isspace() or after in RESERVED)
