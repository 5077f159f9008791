"""Letters without accents, so that prénom, PRÉNOM and prenom are the same name of a column."""

from __future__ import annotations

import unicodedata

_LETTERS = {"ß": "ss", "ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d"}  # those that have no accent to remove
_CAPITALS = {letter.upper(): plain.upper() for letter, plain in _LETTERS.items() if letter != "ß"}  # SS is two letters
_PLAIN = str.maketrans(_LETTERS | _CAPITALS)


def without_accents(text: str) -> str:
    """Return a text with plain letters in the same case.

    >>> without_accents("Größe, Nº 1, PRÉNOM, Ødegård")
    'Grosse, No 1, PRENOM, Odegard'
    """
    letters = unicodedata.normalize("NFKD", text.translate(_PLAIN))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
