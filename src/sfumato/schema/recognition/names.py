"""The words of a column's name (homePhone, home_phone and HOME-PHONE are all home_phone), and the vocabulary."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from sfumato.schema.columns import Column
    from sfumato.table.facts import ColumnFacts


class Identifier(StrEnum):
    """The kinds of identifiers of the HIPAA safe harbor rule, with the letters of the rule."""

    NAME = "A names"
    PLACE = "B geographic units smaller than a state"
    DATE = "C dates, and ages over 89"
    PHONE = "D telephone numbers"
    FAX = "E fax numbers"
    EMAIL = "F e-mail addresses"
    SOCIAL_SECURITY = "G social security numbers"
    MEDICAL_RECORD = "H medical record numbers"
    HEALTH_PLAN = "I health plan numbers"
    ACCOUNT = "J account numbers"
    LICENCE = "K certificate and licence numbers"
    VEHICLE = "L vehicle identifiers and licence plates"
    DEVICE = "M device identifiers and serial numbers"
    URL = "N web addresses"
    IP = "O IP addresses"
    BIOMETRIC = "P biometric identifiers"
    PHOTO = "Q photographs of faces"
    OTHER = "R any other unique number or code"


@cache
def topics() -> Mapping[str, str]:
    """Return the alternatives of every topic, joined as one regular expression."""
    known: dict[str, str] = {}
    for section in ("roles", "safe_harbor", "tokens", "cells"):
        for topic, alternatives in _content()[section].items():
            known[topic] = _join(alternatives, known)
    return known


@cache
def identifier_patterns(
    section: Literal["removed", "doubtful", "whole_cells", "contained"],
) -> tuple[tuple[Identifier, str], ...]:
    """Return kinds of identifiers with a pattern of names or of cells, the most specific first."""
    return tuple((Identifier[entry["kind"].upper()], _join(entry["any"], topics())) for entry in _content()[section])


@cache
def words_of(*chosen: str) -> frozenset[str]:
    """Return the single words of topics that contain no patterns."""
    return frozenset(word for topic in chosen for word in topics()[topic].split("|"))


@cache
def _content() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("vocabulary.toml").read_text(encoding="utf-8"))


def _join(alternatives: str | list[str], known: Mapping[str, str]) -> str:
    """Join alternatives, and replace {topic} by the alternatives of that topic."""
    listed = alternatives.split() if isinstance(alternatives, str) else alternatives
    return re.sub(r"\{([a-z_]+)\}", lambda reference: known[reference[1]], "|".join(listed))


LONGEST = 100  # letters; a longer word is nobody's name of a column, and is not divided
_LETTERS = {"ß": "ss", "ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d"}  # those that have no accent to remove
_CAPITALS = {letter.upper(): plain.upper() for letter, plain in _LETTERS.items() if letter != "ß"}  # SS is two letters
_PLAIN = str.maketrans(_LETTERS | _CAPITALS)
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")  # birthDate
_ABBREVIATION = re.compile(r"(?<=[A-Z])(?=[A-Z][a-z])")  # DOBDay; but HHid and KVNr are one word to those who write so


def without_accents(text: str) -> str:
    """Return a text with plain letters in the same case.

    >>> without_accents("Größe, Nº 1, PRÉNOM, Ødegård")
    'Grosse, No 1, PRENOM, Odegard'
    """
    letters = unicodedata.normalize("NFKD", text.translate(_PLAIN))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


@cache
def written_words(name: str) -> str:
    """Return the words of a name as they are written, in lower case, without accents, and joined by ``_``.

    >>> written_words("patientId 2"), written_words("Nº")
    ('patient_id_2', 'no')
    """
    return "_".join(re.findall(r"[^\W_]+", _CAMEL_CASE.sub("_", without_accents(name)).lower()))


@cache
def divide_words(name: str) -> str:
    """Return the same words without digits and plural endings, and with compound words divided.

    >>> divide_words("homephones2"), divide_words("DOBDay")
    ('home_phone', 'dob_day')
    """
    tokens = re.findall(r"[^\W\d_]+", written_words(_ABBREVIATION.sub("_", without_accents(name))))
    return "_".join(word for token in tokens for word in _divide(token))


def identifier_by_name(name: str) -> Identifier | None:
    """Return the kind of identifier that the words of a name suggest; None if they suggest none.

    Roles and the safe harbor rule both ask this function, so that a column is recognised by both or by neither.
    """
    words = without_harmless_phrases(divide_words(name))
    for kind, phrases in identifier_patterns("removed"):
        if has_phrase(words, phrases):
            return kind
    return Identifier.OTHER if is_personal(name) else None


def is_personal(name: str) -> bool:
    """Return whether a name as a whole is that of a name, an address or a number of a person."""
    words = re.sub(r"(?<=[a-z])_?\d+$", "", written_words(name))  # address_2 → address
    return is_named(words, "personal") or is_named(words, "name_of_a_person")


def is_named(words: str, topic: str) -> bool:
    """Return whether the words of a name are, as a whole, what a topic describes."""
    return re.fullmatch(topics()[topic], words) is not None


def mentions(words: str, *chosen: str) -> bool:
    """Return whether a phrase of one of the topics is anywhere in the words of a name."""
    return any(has_phrase(words, topics()[topic]) for topic in chosen)


def has_phrase(words: str, phrases: str) -> bool:
    """Return whether one of the phrases, a pattern, matches whole words anywhere in the words of a name."""
    return _anywhere(phrases).search(words) is not None


def without_harmless_phrases(words: str) -> str:
    """Return the words of a name without the phrases that identify nobody, such as brand_name."""
    return re.sub(_harmless(), "", words).strip("_")


@cache
def _anywhere(phrases: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|_)(?:{phrases})(?:_|$)")


@cache
def _harmless() -> re.Pattern[str]:
    return re.compile(rf"(?:^|(?<=_))(?:{topics()['harmless']})(?=_|$)")


@cache
def _known_words() -> frozenset[str]:
    """Return the words into which names without separators are divided: listed ones, and long ones of the patterns."""
    patterns = [topics()[topic] for topic in ("age", "birth", "date", "stay")]
    patterns += [pattern for section in ("removed", "doubtful") for _, pattern in identifier_patterns(section)]
    return words_of("joined").union(*(re.findall(r"[a-z]{4,}", pattern) for pattern in patterns))


@cache
def _kept_plurals() -> frozenset[str]:
    """Return the words that keep their s: listed ones, and those of patterns, which would never be found without it."""
    return words_of("plurals").union(re.findall(r"[a-z]{3,}s\b", f"{topics()['measures']}|{topics()['harmless']}"))


@cache  # the rest of a word is reached in many ways, which are as many as the word can be divided in
def _divide(token: str) -> tuple[str, ...]:
    """Divide a word without separators into known words, if it consists of nothing else."""
    known = _known_words()
    if token in known or token in _kept_plurals():
        return (token,)
    if len(token) > LONGEST:
        return (_singular(token),)
    for length in range(len(token) - 2, 1, -1):
        if token[:length] in known:
            rest = _divide(token[length:])
            if all(word in known or word in words_of("short_endings") for word in rest):
                return (token[:length], *rest)
    endings = topics()["endings"].split("|")
    ending = next((one for one in endings if token.endswith(one) and len(token) >= len(one) + 3), "")
    if ending and token not in words_of("undivided"):
        return (*_divide(token.removesuffix(ending)), ending)
    return (_singular(token),)


def _singular(word: str) -> str:
    if word in _kept_plurals() or len(word) < 4 or word.endswith(("ss", "us", "is")):
        return word
    return word[:-2] if word.endswith("sses") else word.removesuffix("s")


POSTAL = 100_000  # postal codes are whole numbers below this


def postal_codes(
    columns: Iterable[Column], ask: Callable[[Sequence[str], bool], Mapping[str, ColumnFacts]]
) -> list[str]:
    """Return the columns of whole numbers that are postal codes, and so names of places, and not quantities.

    A column counts by its name, unless its kind is declared, or what is declared about it speaks of numbers.
    """
    named = [
        one.name
        for one in columns
        if not (one.kind or one.domain or one.words or (one.tree or "").startswith("steps"))
        and mentions(divide_words(one.name), "postal")
    ]
    facts = ask(named, False) if named else {}
    return [
        name for name in named if facts[name].kind is Kind.WHOLE and 0 <= facts[name].low <= facts[name].high < POSTAL
    ]
