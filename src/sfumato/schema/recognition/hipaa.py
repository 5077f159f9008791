"""The 18 kinds of identifiers of the HIPAA safe harbor rule (45 CFR 164.514(b)(2)), recognised by name, type, content.

Recognition uses words and patterns (``vocabulary.toml``) and needs no network and no model. It finds columns that
look like identifiers and can miss others. Every finding therefore has a confidence and a reason. If a column may or may
not be an identifier, the action is to ask a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.schema.recognition.cells import SHOWN_AGE, ColumnCells, read_ages, reveals_ninety, zip_codes
from sfumato.schema.recognition.names import (
    Identifier,
    divide_words,
    has_phrase,
    identifier_by_name,
    identifier_patterns,
    mentions,
    topics,
    words_of,
)
from sfumato.table.kinds import Kind

__all__ = ["Action", "Confidence", "Identifier", "IdentifierFinding", "Limits", "find_identifiers"]

MOST = 0.8  # share of the cells that must match a pattern
OLDEST = 130  # a number above this is not an age
MANY_AGES = 15  # fewest different numbers by which ages are recognised
DENSE = 0.3  # least share of the whole numbers between the extremes that occur, if these are ages
EVENLY = 0.15  # largest distance from evenly spread numbers
FEWEST_ROWS = 20  # with fewer rows, it says nothing that all cells are different
LONG_TEXT = 8  # average number of words from which cells are free text
SOME_NAMES = 0.25  # share of common names from which a column may contain names
FEWEST_NAMES = 3
LONG_NAME = 5  # words
SAMPLED = 20_000  # cells in which names are looked up
MANY_TEXTS = 5  # different texts
MOST_RELATIVES = 30  # a column "child" with whole numbers up to this counts
OLDEST_IN_MONTHS = SHOWN_AGE * 12 - 1
STATES = 78  # largest code of a state or territory; those of counties have three or five digits
SHORT_NUMBER = 1_000  # whole numbers below this are no numbers of telephones, accounts or devices
WRITTEN = (Identifier.NAME, Identifier.EMAIL, Identifier.URL, Identifier.IP, Identifier.PHOTO, Identifier.BIOMETRIC)


class Action(StrEnum):
    """What the rule requires for a column."""

    REMOVE = "remove"
    THREE_DIGITS = "three-digits"  # of a ZIP code; 000 for small areas
    YEAR = "year"  # of a date; years that reveal an age over 89 are joined
    NINETY = "age-90"  # ages of 90 and more are released as 90
    DECIDE = "decide"  # a person must decide


class Confidence(StrEnum):
    """How certain a finding is."""

    HIGH = "high"  # by name and content, or by a type or content that is specific to identifiers
    MEDIUM = "medium"  # by name or content alone
    LOW = "low"  # a resemblance: a person must decide


@dataclass(frozen=True, kw_only=True)
class IdentifierFinding:
    """A column that looks like an identifier."""

    column: str
    identifier: Identifier
    action: Action
    confidence: Confidence
    reason: str


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What may be released about places and births."""

    small_zip3: frozenset[str]  # three-digit ZIP code areas with too few people
    earliest_birth: int  # year; earlier years are released as this year


def find_identifiers(columns: Iterable[ColumnCells], limits: Limits) -> tuple[IdentifierFinding, ...]:
    """Return the columns that look like one of the 18 kinds; at most one finding per column."""
    findings = (_judge(column, limits) for column in columns)
    return tuple(finding for finding in findings if finding is not None)


def _judge(column: ColumnCells, limits: Limits) -> IdentifierFinding | None:
    """Apply the rules from certain to doubtful; the first that finds something decides."""
    if not len(column.cells) or column.is_yes_or_no:
        return None
    if column.kind is Kind.DATE:
        action = Action.DECIDE if column.is_called("versions") else Action.YEAR
        return _report(column, Identifier.DATE, action, "it contains dates")
    if column.is_called("since_birth"):
        return _report(column, Identifier.DATE, Action.DECIDE, "it may reveal dates of birth")
    if column.is_called("age"):
        return _age(column)
    if column.is_called("zip") and not column.is_measure:
        return _zip(column, limits.small_zip3)
    if column.are_years and not (column.unique and not column.is_called("year", "birth", "date")):
        return _years(column, limits)
    rules = (_date, _looks, _judge_by_name, _unique, _doubtful_name, _doubtful_number, _doubtful_text)
    return next((finding for rule in rules if (finding := rule(column)) is not None), None)


def _age(column: ColumnCells) -> IdentifierFinding | None:
    if column.is_number:
        oldest = float(column.numbers.max())
        if oldest <= (OLDEST_IN_MONTHS if column.is_called("age_units") else SHOWN_AGE):
            return None
        if oldest > OLDEST:
            return _report(column, Identifier.DATE, Action.DECIDE, "its name suggests ages, its numbers do not")
        return _report(column, Identifier.DATE, Action.NINETY, "it contains ages over 89")
    low, high, is_open = read_ages(column.texts)
    readable = ~np.isnan(low)
    if readable.mean() < MOST:
        finding = _doubtful_text(column)
        doubt = _report(column, Identifier.DATE, Action.DECIDE, "its name suggests ages, and not all can be read")
        return finding or (doubt if bool(readable.any()) else None)
    if np.fmax(low, high)[readable].max() > OLDEST:
        return _report(column, Identifier.DATE, Action.DECIDE, "its name suggests ages, its numbers do not")
    reveals = bool(reveals_ninety(low, high, is_open).any())
    return _report(column, Identifier.DATE, Action.NINETY, "it contains ages over 89") if reveals else None


def _zip(column: ColumnCells, small_zip3: frozenset[str]) -> IdentifierFinding | None:
    codes = zip_codes(column.cells)
    if float(pc.mean(pc.match_substring_regex(codes, topics()["zip_code"])).as_py()) >= MOST:
        return _report(column, Identifier.PLACE, Action.THREE_DIGITS, "it contains ZIP codes")
    if float(pc.mean(pc.match_substring_regex(codes, r"^\d{3}$")).as_py()) == 1.0:
        small = small_zip3.intersection(codes.to_pylist())
        return _report(column, Identifier.PLACE, Action.THREE_DIGITS, "it contains small areas") if small else None
    return _report(column, Identifier.PLACE, Action.REMOVE, "its name suggests postal codes", Confidence.MEDIUM)


def _years(column: ColumnCells, limits: Limits) -> IdentifierFinding | None:
    if int(pc.min(column.texts.cast(pa.int64())).as_py()) >= limits.earliest_birth or column.is_measure:
        return None
    if column.is_called("birth"):
        return _report(column, Identifier.DATE, Action.YEAR, "it reveals ages over 89")
    return _report(column, Identifier.DATE, Action.DECIDE, "its years could reveal ages over 89")


def _date(column: ColumnCells) -> IdentifierFinding | None:
    """Recognise dates that are stored as text or as numbers, and parts of dates."""
    if (column.whole or not column.is_number) and column.share_of("full_date") >= MOST:
        return _report(column, Identifier.DATE, Action.YEAR, "its cells have the form of dates")
    if (len(column.cells) >= MANY_TEXTS or not column.is_number) and column.share_of("year_and_month") >= MOST:
        finding = _report(column, Identifier.DATE, Action.DECIDE, "its cells could be years with a month or a day")
        return None if column.is_measure else finding
    is_part = column.within(0, 366) or (not column.is_number and column.share_of("date_part") >= MOST)
    if column.is_called("part_of_stay"):
        return _report(column, Identifier.DATE, Action.REMOVE if is_part else Action.DECIDE, "it is a part of a date")
    if column.is_number:
        is_called_part = column.is_called("part_of_date") and column.within(0, 53) and not column.is_measure
        return (
            _report(column, Identifier.DATE, Action.DECIDE, "it could be a part of dates") if is_called_part else None
        )
    if column.share_of("short_date") >= MOST:
        return _report(column, Identifier.DATE, Action.REMOVE, "its cells have the form of dates")
    return _report(column, Identifier.DATE, Action.DECIDE, "it could be a part of dates") if is_part else None


def _looks(column: ColumnCells) -> IdentifierFinding | None:
    if column.is_number:
        return None
    patterns = identifier_patterns("whole_cells")
    looks = next((identifier for identifier, pattern in patterns if column.share(pattern) >= MOST), None)
    if looks is None:
        return None
    if looks is Identifier.PHONE and _could_be_codes(column):
        return _report(column, looks, Action.DECIDE, "its cells have this form, and other codes have it, too")
    return _report(column, looks, Action.REMOVE, "its cells have this form")


def _could_be_codes(column: ColumnCells) -> bool:
    """Return whether cells such as 0123 45678 may be lots or measurements instead of telephone numbers."""
    is_phone = has_phrase(column.words, dict(identifier_patterns("removed"))[Identifier.PHONE])
    if is_phone or column.share(f"^{topics()['european_phone']}$") < MOST:
        return False
    return column.has_few or column.is_called("measures")


def _judge_by_name(column: ColumnCells) -> IdentifierFinding | None:
    """Recognise a column by its name alone: it is removed, unless its cells contradict the name."""
    named = identifier_by_name(column.name)
    if named in (None, Identifier.OTHER) or column.is_measure or column.is_category:
        return None
    if _contradicts(column, named):
        return _report(column, named, Action.DECIDE, "its name suggests it, its cells do not")
    return _report(column, named, Action.REMOVE, "its name suggests it", Confidence.MEDIUM)


def _kind_by_name(column: ColumnCells, section: Literal["removed", "doubtful"]) -> Identifier | None:
    kinds = (kind for kind, phrases in identifier_patterns(section) if has_phrase(column.words, phrases))
    return next(kinds, None)


def _contradicts(column: ColumnCells, named: Identifier) -> bool:
    """Return whether the cells cannot be what the name suggests: names in numbers, a "portable" that is yes or no.

    A name with one meaning is believed whatever the cells are, and so is one that speaks of a number: udi_no.
    """
    if column.is_number and named in WRITTEN:
        return True
    if has_phrase(column.words, "fips"):
        return column.within(0, STATES)
    if column.is_called("number") or not column.is_called("ambiguous"):
        return False
    if column.is_number:
        return not column.whole or column.within(0, SHORT_NUMBER - 1)
    return column.has_few and column.share(r"\d") == 0.0


def _unique(column: ColumnCells) -> IdentifierFinding | None:
    if not column.unique or (column.is_measure and len(column.cells) < MOST * column.rows):
        return None
    return _report(column, Identifier.OTHER, Action.REMOVE, column.unique, Confidence.MEDIUM)


def _doubtful_name(column: ColumnCells) -> IdentifierFinding | None:
    if column.is_measure:
        return None
    if column.is_called("date", "could_be_date") and not column.are_years:
        return _report(
            column, Identifier.DATE, Action.DECIDE, "its name suggests dates, its cells cannot be read as dates"
        )
    doubtful = _kind_by_name(column, "doubtful")
    if doubtful is None or column.within(0, MOST_RELATIVES) or column.is_category:
        return None
    if doubtful is Identifier.NAME and not column.is_number and _could_be_names(column):
        return _report(column, doubtful, Action.REMOVE, "its name and its cells suggest names of people")
    return _report(column, doubtful, Action.DECIDE, "its name suggests it")


def _doubtful_number(column: ColumnCells) -> IdentifierFinding | None:
    if not column.is_number or (column.is_measure and not column.ends_in_number):
        return None
    if _could_be_ages(column.numbers):
        return _report(column, Identifier.DATE, Action.DECIDE, "its numbers could be ages over 89")
    if not column.whole:
        return None
    if column.share(r"^1?[2-9]\d{2}[2-9]\d{6}$") >= MOST:
        return _report(column, Identifier.PHONE, Action.DECIDE, "its numbers could be telephone numbers")
    is_distinct = column.rows >= FEWEST_ROWS and len(column.cells) >= MOST * column.rows
    if (
        is_distinct
        and _are_given_out(column)
        and (column.ends_in_number or not mentions(divide_words(column.name), "measures"))
    ):
        return _report(column, Identifier.OTHER, Action.DECIDE, "its whole numbers are mostly distinct")
    return None


def _are_given_out(column: ColumnCells) -> bool:
    """Return whether numbers are spread as those that are given out: all as long, or everywhere in their range.

    Amounts are not: most are small, and few are large.
    """
    numbers = np.sort(column.numbers)
    if len(str(int(abs(numbers[0])))) == len(str(int(abs(numbers[-1])))):
        return True
    spread = (numbers - numbers[0]) / (numbers[-1] - numbers[0])
    return bool(np.abs(spread - np.linspace(0.0, 1.0, len(spread))).max() < EVENLY)


def _doubtful_text(column: ColumnCells) -> IdentifierFinding | None:
    if column.is_number:
        return None
    for identifier, pattern in identifier_patterns("contained"):
        if pc.any(pc.match_substring_regex(column.texts, pattern)).as_py():
            return _report(column, identifier, Action.DECIDE, "the text in some cells contains this form")
    low, high, is_open = read_ages(column.texts)
    if (~np.isnan(low)).mean() >= MOST:
        grouped = (~np.isnan(high)).mean() >= 0.5 and np.fmax(low, high)[~np.isnan(low)].max() <= OLDEST
        if _could_be_ages(low) or (grouped and reveals_ninety(low, high, is_open).any()):
            return _report(column, Identifier.DATE, Action.DECIDE, "its cells could be ages over 89")
    if column.share_of("zip_code") >= MOST:
        return _report(column, Identifier.PLACE, Action.DECIDE, "its cells could be ZIP codes")
    if _could_be_names(column):
        return _report(column, Identifier.NAME, Action.DECIDE, "its cells could be names of people")
    if column.rows >= FEWEST_ROWS and len(column.cells) >= MOST * column.rows and column.share(r"\d") >= MOST:
        return _report(column, Identifier.OTHER, Action.DECIDE, "its codes are mostly distinct")
    words = float(pc.mean(pc.count_substring_regex(column.texts, r"\S+")).as_py())
    if words >= LONG_TEXT and len(column.cells) >= MANY_TEXTS:
        return _report(column, Identifier.OTHER, Action.DECIDE, "it is free text, which may contain any identifier")
    return None


def _could_be_ages(numbers: NDArray[np.float64]) -> bool:
    """Return whether numbers are as dense as ages of many people, and some are over 90."""
    whole = np.unique(np.floor(numbers[~np.isnan(numbers)]))
    if len(whole) < MANY_AGES or not (0 <= whole[0] <= 70 and SHOWN_AGE < whole[-1] <= 120):
        return False
    return bool(len(whole) >= DENSE * (whole[-1] - whole[0] + 1))


def _could_be_names(column: ColumnCells) -> bool:
    """Return whether cells have the form of full names, or contain common names of people."""
    cells = [set(re.findall(r"[^\W\d_]+", text.lower())) for text in column.texts.slice(0, SAMPLED).to_pylist()]
    common = {name.lower() for name in words_of("given_names", "surnames")}
    known = sum(not common.isdisjoint(words) for words in cells if len(words) <= LONG_NAME)
    is_common = known >= max(FEWEST_NAMES, SOME_NAMES * len(cells))
    return is_common or (len(column.cells) >= column.rows / 2 and column.share_of("full_name") >= MOST)


def _report(
    column: ColumnCells, identifier: Identifier, action: Action, reason: str, confidence: Confidence = Confidence.HIGH
) -> IdentifierFinding:
    if action is Action.DECIDE:
        confidence = Confidence.LOW
    return IdentifierFinding(
        column=column.name, identifier=identifier, action=action, confidence=confidence, reason=reason
    )
