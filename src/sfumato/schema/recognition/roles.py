"""Suggest roles for columns that have none. In doubt, a column is protected.

A column that looks like an identifier gets the role identifier, and the reason is recorded. Every other column becomes
a quasi-identifier. The roles sensitive, other and weight would reduce protection, so they are never suggested; where a
column looks like one of them, the reason says so, and the user decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sfumato.schema.columns import Column, Role
from sfumato.schema.recognition.names import (
    Identifier,
    divide_words,
    identifier_by_name,
    is_named,
    is_personal,
    mentions,
    written_words,
)
from sfumato.table.facts import ColumnFacts
from sfumato.table.kinds import LARGEST_EXACT, Kind

FEWEST_ROWS = 20  # with fewer cells, the number of distinct values is not informative
NEARLY_ALL = 0.9  # share of distinct cells from which nearly all count as distinct
LEAST_NUMBER = 10_000_000  # whole numbers from here on, all with as many digits and distinct, number people
DATES = (18_000_101, 21_001_231)  # but these may be dates without separators

RECUR = 0.5  # share of distinct cells below which the values of a column recur
SMALL = 1_000  # a smaller number is no telephone or address, where an abbreviation may also be a measurement
# Free text: at least so many words per cell, and a share of distinct cells
WORDS, SHARE = 3.0, 0.2
WRITTEN_WORDS, WRITTEN_SHARE = 1.5, 0.02  # if the name says so

# kinds of identifiers of the safe harbor rule that belong to one person, and not to a place, a date or a thing
NUMBERED = (
    Identifier.PHONE,
    Identifier.FAX,
    Identifier.EMAIL,
    Identifier.SOCIAL_SECURITY,
    Identifier.MEDICAL_RECORD,
    Identifier.HEALTH_PLAN,
    Identifier.ACCOUNT,
    Identifier.LICENCE,
    Identifier.VEHICLE,
    Identifier.DEVICE,
)
WRITTEN = "words per cell, in which people may be named"
NOT_RECOGNISED = "not recognised, therefore protected"
LOOKS_SAMPLING = "its name is that of a sampling weight: if it is one, the role weight fits; protected until you say so"
LOOKS_SENSITIVE = "looks sensitive; give it the role sensitive if outsiders cannot know it"
LOOKS_NUMBERED = 'nearly all of its whole numbers are distinct; set role = "identifier" if they number people'
LOOKS_KNOWN = "its name is that of something others may know about a person"


def suggest(names: Sequence[str], ask: Callable[[Sequence[str], bool], Mapping[str, ColumnFacts]]) -> dict[str, Column]:
    """Suggest a role for every column, with a reason: identifier if the column looks like one, else quasi-identifier.

    ``ask(names, count_distinct)`` returns facts about the cells of these columns. Distinct values are counted only for
    columns where they matter, because counting them is expensive.
    """
    facts = dict(ask(names, False))
    facts |= ask([name for name in names if _needs_distinct(name, facts[name])], True)
    return {name: _suggest_role(name, facts[name]) for name in names}


def _suggest_role(name: str, facts: ColumnFacts) -> Column:
    reason = _why_identifier(name, facts)
    if reason:
        return Column(name=name, role=Role.IDENTIFIER, reason=reason)
    return Column(name=name, role=Role.QUASI, reason=_why_quasi(name, facts))


def _why_quasi(name: str, facts: ColumnFacts) -> str:
    """Return why the column is protected, and which role may fit better."""
    words = written_words(name)
    if is_named(words, "sampling_weight"):  # a weight is a number for every row
        is_weight = facts.kind in (Kind.CONTINUOUS, Kind.WHOLE) and facts.low >= 0.0 and not facts.missing
        return LOOKS_SAMPLING if is_weight else NOT_RECOGNISED
    if mentions(words, "sensitive"):
        return LOOKS_SENSITIVE
    if mentions(words, "known_to_others"):
        return LOOKS_KNOWN
    is_numbered = _may_number_people(facts) and facts.present >= FEWEST_ROWS and _nearly_all_distinct(facts)
    return LOOKS_NUMBERED if is_numbered and not mentions(divide_words(name), "measures") else NOT_RECOGNISED


def may_be_unknown(column: Column) -> bool:
    """Return whether a suggested quasi-identifier may be unknown to outsiders: its name is not of what they know."""
    return column.role is Role.QUASI and column.reason in (LOOKS_SENSITIVE, LOOKS_NUMBERED, NOT_RECOGNISED)


def identifiers_of_people(columns: Sequence[Column], kinds: Mapping[str, Kind]) -> tuple[str, ...]:
    """Return the identifiers that are removed and that tell people apart: if one repeats, a person has several rows.

    Names that people share, free text, measured numbers and what others may know (an age) do not tell. If a number
    belongs to one person, only such numbers are asked.
    """
    removed = [column for column in columns if column.role is Role.IDENTIFIER and not column.pseudonym]
    telling = [
        column.name
        for column in removed
        if kinds[column.name] not in (Kind.CONTINUOUS, Kind.BOOLEAN)
        and not column.reason.endswith(WRITTEN)
        and not is_named(written_words(column.name), "shared_by_people")
        and (
            _has_personal_name(column.name) or not mentions(written_words(column.name), "known_to_others", "sensitive")
        )
    ]
    return tuple(name for name in telling if is_named(written_words(name), "of_one_person")) or tuple(telling)


def _needs_distinct(name: str, facts: ColumnFacts) -> bool:
    """Return whether the role depends on the number of distinct values."""
    if facts.present < FEWEST_ROWS:
        return False
    if facts.kind is Kind.WHOLE:
        may_number = _may_number_people(facts) or _is_dense(facts) or _has_digits_of_a_number(facts)
        return _is_long(facts) or may_number or _has_personal_name(name)
    return facts.kind in (Kind.NOMINAL, Kind.ORDERED) or _has_personal_name(name)


def _why_identifier(name: str, facts: ColumnFacts) -> str:
    """Return why the column looks like an identifier; empty if it does not."""
    if _has_personal_name(name) and not _is_yes_or_no(facts) and not _contradicts(name, facts):
        return "its name is that of a personal identifier"
    if facts.kind is Kind.TEXT:
        return "it is free text, and nearly all cells are distinct"
    if facts.present < FEWEST_ROWS:
        return ""
    if facts.kind is Kind.NOMINAL and _is_written(name, facts):
        return f"it is free text, with {facts.words:.0f} {WRITTEN}"
    if facts.kind in (Kind.NOMINAL, Kind.ORDERED) and not facts.is_floating:
        distinct = facts.distinct_values
        return f"{distinct:,} of its {facts.present:,} values are distinct" if _nearly_all_distinct(facts) else ""
    return _why_numbered(facts) if facts.kind is Kind.WHOLE else ""


def _is_written(name: str, facts: ColumnFacts) -> bool:
    """Return whether people wrote the cells: several words, and not the same ones again and again."""
    by_name = mentions(written_words(name), "written")
    words, share = (WRITTEN_WORDS, WRITTEN_SHARE) if by_name else (WORDS, SHARE)
    return facts.words >= words and facts.distinct_values >= share * facts.present


def _has_personal_name(name: str) -> bool:
    words = divide_words(name)
    if is_personal(name) or mentions(words, "measures"):
        return is_personal(name)
    has_one_meaning = mentions(words, "number") or not mentions(words, "ambiguous")
    return has_one_meaning and identifier_by_name(name) in NUMBERED


def _contradicts(name: str, facts: ColumnFacts) -> bool:
    """Return whether the cells tell that a column such as product_id or nir does not identify people."""
    words = written_words(name)
    if is_named(words, "of_a_thing"):
        return facts.present >= FEWEST_ROWS and facts.distinct_values < RECUR * facts.present
    return facts.kind is Kind.CONTINUOUS and facts.high < SMALL and is_named(words, "personal_or_measured")


def _is_yes_or_no(facts: ColumnFacts) -> bool:
    """Return whether a column such as "phone" can only state that there is one."""
    if facts.kind is Kind.BOOLEAN:
        return True
    return facts.present >= FEWEST_ROWS and facts.distinct_values <= 2


def _why_numbered(facts: ColumnFacts) -> str:
    """Return why whole numbers look like an identifier: consecutive, or too large for a quantity; else empty."""
    if _is_dense(facts) and not _is_long(facts) and facts.distinct_values == facts.present:
        return "it numbers the rows: consecutive whole numbers, all distinct"
    if _is_long(facts) and _nearly_all_distinct(facts):
        return "its whole numbers are too large for a quantity, and nearly all are distinct"
    if _has_digits_of_a_number(facts) and facts.distinct_values == facts.present:
        return f"its whole numbers have {len(str(int(facts.low)))} digits each, and all are distinct"
    return ""


def _may_number_people(facts: ColumnFacts) -> bool:
    """Return whether whole numbers are all as long, with room to be different in nearly all rows."""
    if facts.kind is not Kind.WHOLE or facts.high - facts.low + 1 < NEARLY_ALL * facts.present:
        return False
    return facts.low > 0 and len(str(int(facts.low))) == len(str(int(facts.high)))


def _is_long(facts: ColumnFacts) -> bool:
    return max(-facts.low, facts.high) >= LARGEST_EXACT


def _has_digits_of_a_number(facts: ColumnFacts) -> bool:
    """Return whether all whole numbers have the same number of digits, as many as record numbers have, and no date."""
    if not LEAST_NUMBER <= facts.low <= facts.high < LARGEST_EXACT:
        return False
    return len(str(int(facts.low))) == len(str(int(facts.high))) and not DATES[0] <= facts.low <= facts.high <= DATES[1]


def _is_dense(facts: ColumnFacts) -> bool:
    """Return whether the numbers between the extremes are exactly as many as the cells."""
    return facts.high - facts.low + 1 == facts.present


def _nearly_all_distinct(facts: ColumnFacts) -> bool:
    return facts.distinct_values >= NEARLY_ALL * facts.present
