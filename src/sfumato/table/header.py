"""Decide whether the first line of a text file contains column names. In doubt it is not used as names.

A row of data that is mistaken for names would be published: names are in every output. The first line is therefore
used only if it differs from the rows below it in a way that a person's cells do not. If that is not certain, a
warning says so; if the line looks like data, the user must decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.table.type_inference import is_value

LETTERS_OF_NOBODY = 2  # a cell of so few letters, such as x or ID, describes nobody
USUAL = 0.5  # share of the cells of a column from which their appearance is the usual one
SHOWN_ROWS = 1000  # rows whose appearance is compared

# Cells that are certainly data: addresses of mail, web and networks, times, amounts, ranges, shares, long numbers.
DATA = re.compile(
    r"\S+@\S+\.\S+|https?://.*|www\..*|\d{1,3}(\.\d{1,3}){3}|\d{1,2}:\d\d(:\d\d.*)?|[<>≤≥~=]{1,2} ?[\d.,]+|"
    r"[\d.,]+ ?[%+]|[$€£¥] ?-?[\d.,']+|"
    r"-?[\d.,']+ ?[$€£¥]|\d+ ?(-|–|to) ?\d+|[+-]?\d{1,3}([,.' ]\d{3})+([.,]\d+)?|.*\d{6}.*|"
    r"[(+]?\d[\d ()/.-]{6,}"
)
# Words that stand for a missing number in many tables, so that a number column below them proves nothing.
WITHOUT_VALUE = re.compile(
    r"(?i)\W*(unknown|none|missing|nil|not .*|no .*|refused|declined|others?|various|unspecified|undisclosed|"
    r"unbekannt|keine?r?|k\.? ?a\.?|fehlt|inconnue?|aucune?|desconocid[oa]|n\.?[/ ]?[adks]\.?|tbd|tba|nan|null|blank|"
    r"empty|invalid|withheld|confidential|yes|no|true|false|(under|over|less|more|about|approx) .*|zero|one|two|three|"
    r"four|five|six|seven|eight|nine|ten|eleven|twelve|(thir|four|fif|six|seven|eigh|nine)teen|"
    r"(twen|thir|for|fif|six|seven|eigh|nine)ty\b.*|hundred.*)\W*"
)
# Words of column names that are hardly ever values. A name made of them is one even if the cells below look alike.
WORDS = frozenset(
    """
    id ids identifier key code number nr num name names surname forename firstname lastname fullname vorname
    nachname prenom nom nombre apellido age alter edad sex gender geschlecht sexo race ethnicity nationality
    citizenship country city town stadt ville ciudad county region province district zip zipcode plz postcode postal
    address adresse direccion street birth birthdate birthday dob date datum fecha day month year time timestamp
    marital status education degree occupation profession beruf employment employer industry sector workclass income
    salary wage earnings einkommen salaire ingreso expense expenses cost costs charge amount balance tax diagnosis
    diagnose diagnostic disease condition symptom outcome result score grade rating rank level class classification
    type category group cluster label target response variable value values measure count frequency percent rate
    ratio weight wt wgt fnlwgt height bmi pressure pulse temperature glucose cholesterol religion language party
    household relationship insurance department site email mail phone telephone mobile fax ssn patient person
    subject participant respondent customer client member user student employee record row case visit admission
    discharge length duration colour color size brand model product item description comment comments note notes
    text title reason cause source question answer native full first last middle given current start end of in per
    at col column field var feature index low high box
    """.split()  # noqa: SIM905
)


class Header(Enum):
    """What the first line of a text file is."""

    NAMES = "names"
    PROBABLY_NAMES = "probably names"
    DATA = "data"
    UNCLEAR = "unclear"  # it looks like data, but not certainly


def detect_header(
    first: Sequence[str], body: Sequence[pa.ChunkedArray], is_text: Callable[[pa.ChunkedArray], bool]
) -> Header:
    """Decide what the first line of a file is by the columns below it; ``is_text`` says whether a column is text."""
    if any(is_value(cell) or DATA.fullmatch(cell) for cell in first):
        return Header.DATA
    named = [(cell, column) for cell, column in zip(first, body, strict=True) if cell]
    if not named or not len(body[0]):
        return Header.NAMES
    typed = [cell for cell, column in named if not is_text(column)]
    proofs = [cell for cell in typed if not WITHOUT_VALUE.fullmatch(cell) or _has_word(cell)]
    recurring = any(column.index(cell).as_py() >= 0 for cell, column in named)
    if len(set(proofs)) > 1:
        return Header.NAMES
    if recurring:
        return Header.UNCLEAR if proofs else Header.DATA
    words = sum(_has_word(cell) for cell in first)
    alike = sum(_looks_alike(cell, column) for cell, column in named if cell not in typed)
    alike += len(typed) - len(proofs)
    if words == len(named) or (proofs and words > alike):
        return Header.NAMES
    if alike > words or not (proofs or words):
        return Header.UNCLEAR
    return Header.PROBABLY_NAMES


def _has_word(cell: str) -> bool:
    """Return whether a cell is made of words of column names: all of them, or one if _ or capitals join them.

    A single letter is such a word: it describes nobody, and as a value it would recur in its column.
    """
    if len(cell) == 1 and cell.isalpha():
        return True
    joined = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part).lower().strip("_") for part in re.split(r"[^\w]+", cell)]
    return all(WORDS.intersection(re.split(r"[_\d]+", part)) for part in joined if part) and any(joined)


def _looks_alike(cell: str, column: pa.ChunkedArray) -> bool:
    """Return whether a first cell without a word of column names looks like most of the cells below it."""
    if _has_word(cell) or len(cell) <= LETTERS_OF_NOBODY:
        return False
    below = pc.utf8_trim_whitespace(column.slice(0, SHOWN_ROWS)).to_pylist()
    looks = [_appearance(other) for other in below if other]
    return not looks or looks.count(_appearance(cell)) >= USUAL * len(looks)


def _appearance(cell: str) -> tuple[bool, ...]:
    """Return how a text looks: how it begins, whether it is in capitals, and whether it has spaces and digits."""
    start = cell[:1]
    return (
        start.isupper(),
        start.islower(),
        cell.isupper(),
        " " in cell,
        any(sign.isdigit() for sign in cell),
        "_" in cell,
    )
