"""Texts in other languages: sentences of reports, found by patterns in one table per language.

A table is a file ``LANGUAGE.po`` in this folder, in the format of gettext. ``msgid`` is the English sentence; a word in
braces such as ``{rows}`` stands for any text, which is translated by itself where the table knows it. The web page uses
the same table for what other rooms say: methods, options, recommendations, errors and reports. To add a language, copy
``de.po`` and translate each ``msgstr``, and say in ``MARKS`` how it writes numbers. A sentence without a translation
stays English.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from sfumato.params import require_choice

ENGLISH = "en"
MARKS = {"de": (".", ","), "fr": ("\u202f", ",")}  # between thousands, and before decimals: 1.234,5 and 1 234,5
SPACES = re.compile(r"(?<=\d)[ \u00a0\u2009](?=\d)")  # that people type between thousands
PLACE = re.compile(r"\\\{(\w+)\\\}")  # an escaped placeholder
TAG = re.compile(r"(<[^>]+>)")
SILENT = re.compile(r"<(style|pre|script)\b.*?</\1>", re.DOTALL)  # what no one reads as a sentence
INLINE = re.compile(r"</?(?:code|wbr|b|a|span class=\"long\")\b")  # tags inside a sentence
SPOKEN = re.compile(r"\b(data-label|aria-label|title)=\"([^\"]*)\"")  # attributes that are read
NUMBER = re.compile(
    r"(?P<code><code>.*?</code>|\b\w+\([^()]*\)|\barXiv \S+)"
    r"|(?<![\w.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w.,]*\d)|(?<![\w.,])\d+\.\d+(?![\w.]*\d)"
)
LAST_NAME = re.compile(r" and (?=\S+$)")  # before the last of several names
MORE = re.compile(r"(?<=, )([\d,]+) more$")  # names that are not listed
NAMES = frozenset(["name", "names", "column", "statistic", "worst", "x", "y", "recipient", "place", "file"])  # stay
AMOUNTS = frozenset([*"nmklhetp", "share", "lost", "out", "all", "people", "alone", "broken", "drawn"])
AMOUNT = r"[−-]?[\d.,∞]+(?:e[+-]?\d+)?(?: ?%)?"
NO_SENTENCE = r"(?:(?![.?] [A-Z0-9]).)+?"
SENTENCE_END = re.compile(r"(?<=[.?]) (?=[A-Z“`<\d])")
COLON = re.compile(r"(?<=:) (?=[A-Z“`<])")  # before another sentence, or before the name of a column
MARK = re.compile(rf"({SENTENCE_END.pattern}|{COLON.pattern}|; )")  # all that divides a text
MOST_PARTS = 16  # of a text, whose neighbours are joined if they are not known one by one
CODE, BREAK = re.compile(r"</?code>"), re.compile(r"<wbr>|<span class=\"long\">|</span>")
QUOTED = re.compile(r"`([^`]+)`")
SCORE = re.compile(r"“[^”]+”")
KEPT = re.compile(r"<[^>]* translate=\"no\"")  # a tag before a name
ENGLISH_PART = re.compile(r'<(\w+)([^<>]*) lang="en"([^<>]*)>')


def languages() -> tuple[str, ...]:
    """Return the codes of all languages, English first."""
    return (ENGLISH, *sorted(file.stem for file in Path(__file__).parent.glob("*.po")))


@dataclass(frozen=True, repr=False)
class Sentences:
    """The sentences of one language."""

    language: str
    catalogue: Mapping[str, str]
    patterns: tuple[tuple[str, re.Pattern[str], str], ...] = field(default=())  # the first of them: words to look for

    @classmethod
    def of(cls, language: str, catalogue: Mapping[str, str]) -> Sentences:
        """Compile the table; sentences with more words of their own are tried first."""
        patterned = sorted((one for one in catalogue if "{" in one), key=lambda one: -len(re.sub(r"\{\w+\}", "", one)))
        return cls(language, catalogue, tuple((_longest(one), _pattern(one), catalogue[one]) for one in patterned))

    def say(self, text: str) -> str:
        """Return a text in this language: by its sentences and their clauses if all are known, or else as a whole.

        The parts come first, because a pattern of few words may match several sentences.
        """
        if text in self.catalogue:
            return self.catalogue[text]
        told = self._say_parts(text, _whole_parts(SENTENCE_END.split(text), " "), " ", self._say_sentence)
        return self._say_joined(text) or told

    def _say_sentence(self, text: str) -> str:
        if text in self.catalogue:
            return self.catalogue[text]
        return self._say_parts(text, _whole_parts(COLON.split(text), " "), " ", self._say_clauses)

    def _say_clauses(self, text: str) -> str:
        if text in self.catalogue:
            return self.catalogue[text]
        parts = _whole_parts(text.split("; "), "; ")
        return self._say_parts(text, parts, self.catalogue.get("; ", "; "), lambda one: self._find(one) or one)

    def _say_parts(self, text: str, parts: list[str], between: str, say: Callable[[str], str]) -> str:
        """Return the parts one by one where all are known, or where the whole is not."""
        told = [say(part) for part in parts]
        whole = None if all(map(str.__ne__, told, parts)) else self._find(text)
        return whole or (text if told == parts else between.join(told))

    def _say_joined(self, text: str) -> str | None:
        """Return the text with neighbours joined where only then they are known: a name may hold what divides them.

        Of all ways to join them, one with the fewest unknown parts and, of these, with the most parts is taken. None if
        joining does not help.
        """
        marked = MARK.split(text)
        parts, marks = marked[::2], [*marked[1::2], ""]
        alone = [self._find(part) for part in parts]
        if None not in alone or not 1 < len(parts) <= MOST_PARTS:
            return None
        best: list[tuple[int, int, str]] = [(0, 0, "")]
        for end in range(1, len(parts) + 1):
            mark = marks[end - 1] if marks[end - 1] == " " else self.catalogue.get("; ", "; ") if marks[end - 1] else ""
            ways = []
            for start, (unknown, pieces, before) in enumerate(best):
                one = "".join(
                    f"{part}{between}" for part, between in zip(parts[start:end], marks[start:], strict=False)
                )
                one = one.removesuffix(marks[end - 1]) if marks[end - 1] else one
                told = alone[start] if end - start == 1 else self._find(one) or self._find_any_name(one)
                ways.append((unknown + (end - start) * (told is None), pieces - 1, f"{before}{told or one}{mark}"))
            best.append(min(ways, key=lambda way: way[:2]))
        return best[-1][2] if best[-1][0] < alone.count(None) else None

    @cached_property
    def _with_any_name(self) -> list[tuple[str, re.Pattern[str], str]]:
        """The sentences in which names may look like ends of sentences: "Dr. Name"."""
        named = (one for one in self.catalogue if NAMES & {*re.findall(r"\{(\w+)\}", one)})
        ordered = sorted(named, key=lambda one: -len(re.sub(r"\{\w+\}", "", one)))
        return [(_longest(one), _pattern(one, ".+?"), self.catalogue[one]) for one in ordered]

    def _find_any_name(self, text: str) -> str | None:
        """Return a text whose names look like ends of sentences; None if it has none, or is not known."""
        return self._match(text, self._with_any_name) if SENTENCE_END.search(text) else None

    def _find(self, text: str) -> str | None:
        if text in self.catalogue:
            return self.catalogue[text]
        if text.endswith(":") and (before := self._find(text[:-1])) is not None:  # it introduces the next sentence
            return f"{before}{self.catalogue.get(':', ':')}"
        return self._match(text, self.patterns)

    def _match(self, text: str, patterns: Iterable[tuple[str, re.Pattern[str], str]]) -> str | None:
        matches = ((pattern.fullmatch(text), told) for words, pattern, told in patterns if words in text)
        found, translation = next((pair for pair in matches if pair[0]), (None, ""))
        if found is None:
            return None
        values = {name: self._say_value(name, value) for name, value in found.groupdict().items()}
        return re.sub(r"\{(\w+)\}", lambda place: values[place.group(1)], translation)

    def _say_value(self, name: str, text: str) -> str:
        """Return the value of a placeholder in this language; names of columns and other words of the user stay."""
        if name == "scores":
            return self._say_scores(text)
        found = None if name in NAMES else self._find(text) or self._say_list(text) or self._say_joined(text)
        if found is not None:
            return found
        text = MORE.sub(lambda one: self._find(one.group()) or one.group(), text)
        return LAST_NAME.sub(f" {self.catalogue.get('and', 'and')} ", text)

    def _say_list(self, text: str) -> str | None:
        """Return words with commas between them in this language; None if one of them is not known."""
        told = [self._find(one) for one in text.split(", ")]
        return ", ".join(map(str, told)) if len(told) > 1 and None not in told else None

    def _say_scores(self, text: str) -> str:
        """Return a list of scores, in quotes or with semicolons between them, each in this language."""
        if "“" not in text:
            return self.catalogue.get("; ", "; ").join(self._find(one) or one for one in text.split("; "))
        told = SCORE.sub(lambda one: self._find(one.group()) or one.group(), text)
        return told.replace(" and ", f" {self.catalogue.get('and', 'and')} ")

    def tell(self, text: str) -> str:
        """Return a text in this language, with its numbers."""
        return self.numbers(self.say(text))

    def numbers(self, text: str) -> str:
        """Return a text with its numbers as this language writes them; code and names of papers stay.

        >>> Sentences("de", {}).numbers("1,234 rows, 0.5 on average; version 0.1.0; quantile(x, 0.9)")
        '1.234 rows, 0,5 on average; version 0.1.0; quantile(x, 0.9)'
        >>> Sentences("fr", {}).numbers("1,234.5")
        '1\u202f234,5'
        """
        if self.language not in MARKS:
            return text
        thousands, decimals = MARKS[self.language]
        marks = str.maketrans({",": thousands, ".": decimals})
        return NUMBER.sub(lambda one: one.group() if one["code"] else one.group().translate(marks), text)

    def read_number(self, text: str) -> str:
        """Return a number that people of this language typed as Python writes it; other texts stay as they are.

        A comma that cannot stand between thousands is a decimal mark in every language.

        >>> [Sentences("de", {}).read_number(text) for text in ("1.000", "1,5", "0.25", "1.234,5")]
        ['1000', '1.5', '0.25', '1234.5']
        >>> [Sentences("en", {}).read_number(text) for text in ("1,000", "1,5", "0.25", "nearest")]
        ['1000', '1.5', '0.25', 'nearest']
        """
        thousands, decimals = MARKS.get(self.language, (",", "."))
        plain = SPACES.sub("\u202f", text)
        for mark in (thousands, "\u202f"):
            if re.fullmatch(rf"-?[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+(?:{re.escape(decimals)}\d+)?", plain):
                return plain.replace(mark, "").replace(decimals, ".")
        return text.replace(",", ".") if re.fullmatch(r"-?\d+,\d+", text) else text


def _longest(sentence: str) -> str:
    """Return the longest run of fixed words: whether a text holds it is seen faster than whether it matches."""
    return max(re.split(r"\{\w+\}", sentence), key=len)


def _whole_parts(parts: list[str], mark: str) -> list[str]:
    """Return the parts of a text, joined again where a bracket that opens in one closes in another.

    >>> _whole_parts("those (a; b) differ; c".split("; "), "; ")
    ['those (a; b) differ', 'c']
    """
    whole: list[str] = []
    for part in parts:
        is_open = bool(whole) and whole[-1].count("(") > whole[-1].count(")")
        whole = [*whole[:-1], f"{whole[-1]}{mark}{part}"] if is_open else [*whole, part]
    return whole


def _pattern(sentence: str, name_pattern: str = NO_SENTENCE) -> re.Pattern[str]:
    """Return what matches a sentence; placeholders for numbers match only these, so that few words do not match all."""

    def place(found: re.Match[str]) -> str:
        name = found.group(1)
        return f"(?P<{name}>{AMOUNT if name in AMOUNTS else name_pattern if name in NAMES else '.+?'})"

    return re.compile(PLACE.sub(place, re.escape(sentence)), re.DOTALL)


@cache
def sentences(language: str) -> Sentences:
    """Return the sentences of a language; English has none of its own."""
    require_choice(language, name="language", choices=languages())
    return Sentences.of(
        language, {} if language == ENGLISH else read_catalogue(Path(__file__).parent / f"{language}.po")
    )


def translate_lines(text: str, language: str) -> str:
    """Return a plain text in another language, line by line; what is before a dash or a colon may be names."""
    if language == ENGLISH:
        return text
    known = sentences(language)
    return "\n".join(known.say(line) for line in text.split("\n"))


def translate_page(page: str, language: str) -> str:
    """Return an HTML page in another language; code, styles and names stay as they are."""
    if language == ENGLISH:
        return page
    known = sentences(language)
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found.group())
        return f"<kept {len(kept) - 1}>"

    pieces = TAG.split(SILENT.sub(keep, page))
    told = "".join(_translate_pieces(_sentences_and_tags(pieces), known))
    told = told.replace('<html lang="en">', f'<html lang="{language}">')
    return re.sub(r"<kept (\d+)>", lambda place: kept[int(place.group(1))], told)


def translate_english_parts(page: str, language: str) -> str:
    """Return a page in which the elements that are marked ``lang="en"`` are translated; the rest stays as it is."""
    if language == ENGLISH:
        return page
    parts, place = [], 0
    while found := ENGLISH_PART.search(page, place):
        name, before, after = found.groups()
        end = _end_of_element(page, name, found.end())
        parts += [page[place : found.start()], f'<{name}{before} lang="{language}"{after}>']
        parts.append(translate_page(page[found.end() : end], language))
        place = end
    return "".join([*parts, page[place:]])


def _end_of_element(page: str, name: str, start: int) -> int:
    """Return where the element ends whose contents begin at ``start``."""
    depth = 1
    for tag in re.compile(rf"<(/?){name}\b[^>]*>").finditer(page, start):
        depth += -1 if tag.group(1) else 1
        if not depth:
            return tag.start()
    return len(page)


def _sentences_and_tags(pieces: list[str]) -> Iterator[str]:
    """Yield tags that end a sentence, and sentences with the tags inside them."""
    sentence = ""
    for piece in pieces:
        if not piece.startswith("<") or INLINE.match(piece) or (piece == "</span>" and 'class="long"' in sentence):
            sentence += piece
        else:
            yield from ([sentence] if sentence else [])
            sentence = ""
            yield piece
    yield from ([sentence] if sentence else [])


def _translate_pieces(pieces: Iterator[str], known: Sentences) -> Iterator[str]:
    """Yield all pieces, those after a tag that forbids it as they are."""
    before = ""
    for piece in pieces:
        yield piece if KEPT.match(before) and not piece.startswith("<") else _translate_piece(piece, known)
        before = piece


def _translate_piece(piece: str, known: Sentences) -> str:
    if piece.startswith("<") and not INLINE.match(piece):
        return SPOKEN.sub(lambda one: f'{one.group(1)}="{_escape(known.say(_plain(one.group(2))))}"', piece)
    core = " ".join(_plain(piece).split())
    if not core:
        return piece
    before, after = piece[: len(piece) - len(piece.lstrip())], piece[len(piece.rstrip()) :]
    return f"{before}{known.numbers(_say_marked(core, known))}{after}"


def _say_marked(text: str, known: Sentences) -> str:
    """Return a text with tags inside in this language; the table writes code between backquotes, and no line breaks."""
    plain = BREAK.sub("", CODE.sub("`", text))
    told = known.say(plain)
    return known.say(text) if told == plain else QUOTED.sub(r"<code>\1</code>", told)


def _escape(text: str) -> str:
    return text.replace('"', "&#34;")


def _plain(text: str) -> str:
    """Return text with the quotes that templates escape; they are allowed between tags."""
    return text.replace("&#39;", "'").replace("&#34;", '"')


def read_catalogue(file: Path) -> dict[str, str]:
    """Read the pairs of a .po file; comments, contexts and empty translations are ignored."""
    catalogue: dict[str, str] = {}
    key, texts = "", {"msgid": "", "msgstr": ""}
    for line in [*file.read_text(encoding="utf-8").splitlines(), "msgid"]:
        word, _, quoted = line.strip().partition(" ")
        if word == "msgid":
            if texts["msgid"] and texts["msgstr"]:
                catalogue[texts["msgid"]] = texts["msgstr"]
            texts = {"msgid": "", "msgstr": ""}
        if word in texts:
            key = word
        elif not line.strip().startswith('"'):
            continue
        else:
            quoted = line.strip()
        texts[key] += ast.literal_eval(quoted) if quoted else ""
    return catalogue
