"""The words of a column's name: homePhone, home_phone, HOME-PHONE and homephone are all home_phone."""

from __future__ import annotations

import re
from functools import cache

from sfumato.disclosure.identifier_patterns import ENDINGS, KEPT_PLURALS, SHORT_ENDINGS, UNDIVIDED, VOCABULARY
from sfumato.schema.accents import without_accents

LONGEST = 100  # letters; a longer word is nobody's name of a column, and is not divided


@cache
def column_words(name: str) -> str:
    """Return the words of a name, joined by ``_``: lower case, without accents, digits and plural endings."""
    plain = without_accents(name)
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain)  # birthDate, DOBDay
    return "_".join(word for token in re.findall(r"[^\W\d_]+", text.lower()) for word in _divided(token))


def is_called(name: str, patterns: str) -> bool:
    """Return whether one of the patterns matches whole words anywhere in a column's name."""
    return re.search(rf"(?:^|_)(?:{patterns})(?:_|$)", column_words(name)) is not None


@cache  # the rest of a word is reached in many ways, which are as many as the word can be divided in
def _divided(token: str) -> tuple[str, ...]:
    """Divide a word without separators into known words, if it consists of nothing else."""
    if token in VOCABULARY or token in KEPT_PLURALS:
        return (token,)
    if len(token) > LONGEST:
        return (_singular(token),)
    for length in range(len(token) - 2, 1, -1):
        if token[:length] in VOCABULARY:
            rest = _divided(token[length:])
            if all(word in VOCABULARY or word in SHORT_ENDINGS for word in rest):
                return (token[:length], *rest)
    ending = next((one for one in ENDINGS if token.endswith(one) and len(token) >= len(one) + 3), "")
    if ending and token not in UNDIVIDED:
        return (*_divided(token.removesuffix(ending)), ending)
    return (_singular(token),)


def _singular(word: str) -> str:
    if word in KEPT_PLURALS or len(word) < 4 or word.endswith(("ss", "us", "is")):
        return word
    return word[:-2] if word.endswith("sses") else word.removesuffix("s")
