"""The 18 kinds of identifiers of the HIPAA safe harbor rule (45 CFR 164.514(b)(2)), recognised by name, type, content.

Recognition uses patterns and needs no network and no model. It finds columns that look like identifiers and can miss
others. Every finding therefore has a confidence and a reason, and the policy lists the questions that remain open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.schema.columns import Role
from sfumato.schema.suggest import suggest
from sfumato.table.facts import facts_of
from sfumato.table.kinds import Kind
from sfumato.table.table import Table


class Identifier(StrEnum):
    """The kinds of identifiers, with the letters of the rule."""

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


class Action(StrEnum):
    """What the rule requires for a column."""

    REMOVE = "remove"
    THREE_DIGITS = "three digits"  # of a ZIP code; 000 for small areas
    YEAR = "year"  # of a date
    NINETY = "ninety"  # ages of 90 and more become 90
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


# Patterns for the end of a column's name, in lower case with words joined by _; the first that matches decides.
_NUMBER = r"(_?(id|no|nr|num|number))"
NAMED: tuple[tuple[Identifier, str], ...] = (
    (Identifier.EMAIL, r"e_?mails?"),
    (Identifier.FAX, rf"fax{_NUMBER}?"),
    (Identifier.PHONE, rf"(tele|cell_?|mobile_?)?phone{_NUMBER}?|mobile{_NUMBER}?|tel"),
    (Identifier.SOCIAL_SECURITY, rf"ssn|social_security{_NUMBER}?|soc_?sec"),
    (Identifier.MEDICAL_RECORD, rf"mrn|medical_record{_NUMBER}?|chart{_NUMBER}|patient{_NUMBER}"),
    (
        Identifier.HEALTH_PLAN,
        rf"(health_plan|beneficiary|member|policy|subscriber|insurance|medicare|medicaid){_NUMBER}",
    ),
    (Identifier.ACCOUNT, rf"(account|acct|credit_card|card){_NUMBER}|iban"),
    (Identifier.LICENCE, rf"(licen[cs]e|certificate|passport|permit){_NUMBER}|passport|npi"),
    (Identifier.VEHICLE, rf"vin|vehicle{_NUMBER}|(licen[cs]e_)?plate{_NUMBER}?"),
    (Identifier.DEVICE, rf"(device|serial|implant){_NUMBER}|imei|mac_addr(ess)?|udi"),
    (Identifier.URL, r"urls?|web_?(page|site|address)|homepage"),
    (Identifier.IP, r"ip(_addr(ess)?)?"),
    (Identifier.BIOMETRIC, r"finger_?prints?|voice(_?print)?|retina(_scan)?|iris_scan|biometrics?"),
    (Identifier.PHOTO, r"photo(graph)?s?|portrait|face_image|image|picture"),
    (
        Identifier.NAME,
        r"(first|last|middle|full|given|family|maiden|sur|fore|nick|user|patient|mother|father|spouse)_?names?",
    ),
    (Identifier.NAME, r"(employer|physician|doctor|contact)_?names?|initials|^name"),
    (Identifier.PLACE, r"street|address|addr|city|town|county|precinct|district|parish|village|geo_?code"),
    (
        Identifier.PLACE,
        r"lat|latitude|lon|lng|longitude|(census_)?tract|block_group|zip_?(code|[59])?|zcta|post(al)?_?code",
    ),
    (Identifier.DATE, r"birth|dob|birth_?(date|day)|date|admission|discharge|death|dod"),
)
ZIP_NAMES = r"zip_?(code|[59])?|zcta|post(al)?_?code"
AGE_NAMES = r"age|age_(in_)?years"
BIRTH_NAMES = r"birth|dob|birth_?(date|day|year)|(date|year)_of_birth"

# Patterns that nearly all cells must match.
LOOKS: tuple[tuple[Identifier, str], ...] = (
    (Identifier.EMAIL, r"^[^@\s]+@[^@\s]+\.[A-Za-z]{2,}$"),
    (Identifier.URL, r"^(https?://|www\.)\S+$"),
    (Identifier.DEVICE, r"^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$"),
    (Identifier.IP, r"^(\d{1,3}\.){3}\d{1,3}$|^[0-9A-Fa-f]{0,4}(:[0-9A-Fa-f]{0,4}){3,7}$"),
    (Identifier.SOCIAL_SECURITY, r"^\d{3}[- ]\d{2}[- ]\d{4}$"),
    (Identifier.PHONE, r"^(\+?1[ .-]?)?(\([2-9]\d{2}\) ?|[2-9]\d{2}[ .-])[2-9]\d{2}[ .-]\d{4}$"),
    (Identifier.VEHICLE, r"^[A-HJ-NPR-Z0-9]{17}$"),
    (Identifier.ACCOUNT, r"^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$|^(\d{4}[ -]){3}\d{4}$"),
    (Identifier.PLACE, r"(?i)^\d+ .*\b(street|st|avenue|ave|road|rd|boulevard|blvd|lane|ln|drive|dr|court|ct|way)\b"),
    (Identifier.DATE, r"^\d{4}-\d{2}-\d{2}([ T].*)?$|^\d{1,2}[/.]\d{1,2}[/.]\d{4}$"),
)
PERSON = r"^[A-Z][a-z]+,? ([A-Z]\. )?(Mc|Mac|O')?[A-Z][a-z]+$"
ZIP = r"^\d{5}(-?\d{4})?$"
MOST = 0.8  # share of the cells that must match a pattern
YES_OR_NO = 2  # a column "phone" with two values says whether there is a phone
OLDEST = 130  # a number above this is not an age
SHOWN_AGE = 90  # ages of this and more are released as this


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What may be released about places and births."""

    small_zip3: frozenset[str]  # three-digit ZIP code areas with too few people
    earliest_birth: int  # year; earlier years of birth are released as this year


@dataclass(frozen=True, kw_only=True, repr=False)
class ColumnCells:
    """What a column is recognised by."""

    name: str
    kind: Kind
    rows: int
    cells: pa.Array  # distinct values, without the missing one
    unique: str = ""  # why the column alone identifies people; empty if it does not


def cells_of(table: Table) -> tuple[ColumnCells, ...]:
    """Return what the columns of a table in memory are recognised by."""
    roles = suggest(table.names, partial(facts_of, table))
    return tuple(
        ColumnCells(
            name=name,
            kind=table.kinds[name],
            rows=table.rows,
            cells=pc.unique(table.arrow.column(name).drop_null()),
            unique=roles[name].reason if roles[name].role is Role.IDENTIFIER else "",
        )
        for name in table.names
    )


def find_identifiers(columns: Iterable[ColumnCells], limits: Limits) -> tuple[IdentifierFinding, ...]:
    """Return the columns that look like one of the 18 kinds; at most one finding per column."""
    found = (_finding(column, limits) for column in columns)
    return tuple(finding for finding in found if finding is not None)


def is_called(name: str, patterns: str) -> bool:
    """Return whether a column's name ends in one of the patterns."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)  # birthDate is read as birth_date
    normalized = re.sub(r"[\W_]+", "_", spaced.lower()).strip("_")
    normalized = re.sub(r"_\d+$", "", normalized)  # address_2 is an address
    return re.fullmatch(rf"(.*_)?({patterns})", normalized) is not None


def zip_codes(cells: pa.Array) -> pa.Array:
    """Return cells as text, with the leading zeros restored where ZIP codes were read as numbers."""
    codes = cells.cast(pa.string())
    return pc.utf8_lpad(codes, 5, padding="0") if pt.is_integer(cells.type) else codes


def _finding(column: ColumnCells, limits: Limits) -> IdentifierFinding | None:
    name, cells = column.name, column.cells
    if not len(cells):
        return None
    if column.kind is Kind.DATE:
        return _found(name, Identifier.DATE, Action.YEAR, "it contains dates")
    if is_called(name, AGE_NAMES) and _is_number(cells):
        return _age(name, cells)
    if is_called(name, ZIP_NAMES):
        return _zip(name, cells, limits.small_zip3)
    if is_called(name, BIRTH_NAMES) and _are_years(cells):
        too_early = pc.min(cells).as_py() < limits.earliest_birth
        return _found(name, Identifier.DATE, Action.YEAR, "it reveals ages over 89") if too_early else None
    looks = _looks_like(cells)
    if looks is not None:
        action = Action.YEAR if looks is Identifier.DATE else Action.REMOVE
        return _found(name, looks, action, "its cells have this form")
    return _by_name(name, cells) or _by_likeness(name, cells, column.rows, column.unique)


def _by_name(name: str, cells: pa.Array) -> IdentifierFinding | None:
    """Recognise a column by its name alone: it is removed, unless its cells contradict the name."""
    named = next((identifier for identifier, patterns in NAMED if is_called(name, patterns)), None)
    if named is None or (named is Identifier.DATE and _are_years(cells)):
        return None
    if named is Identifier.DATE or len(cells) <= YES_OR_NO:
        return _found(name, named, Action.DECIDE, "its name suggests it, its cells do not")
    return _found(name, named, Action.REMOVE, "its name suggests it", Confidence.MEDIUM)


def _by_likeness(name: str, cells: pa.Array, rows: int, unique: str) -> IdentifierFinding | None:
    if unique:
        return _found(name, Identifier.OTHER, Action.REMOVE, unique, Confidence.MEDIUM)
    if _share(cells, ZIP) >= MOST and pt.is_string(cells.type):
        return _found(name, Identifier.PLACE, Action.DECIDE, "its cells could be ZIP codes")
    if len(cells) >= rows / 2 and _share(cells, PERSON) >= MOST:
        return _found(name, Identifier.NAME, Action.DECIDE, "its cells could be names of people")
    return None


def _age(name: str, cells: pa.Array) -> IdentifierFinding | None:
    oldest = pc.max(cells).as_py()
    if oldest > OLDEST:
        return _found(name, Identifier.DATE, Action.DECIDE, "its name suggests ages, its numbers do not")
    if oldest <= SHOWN_AGE:
        return None
    return _found(name, Identifier.DATE, Action.NINETY, "it contains ages over 89")


def _zip(name: str, cells: pa.Array, small_zip3: frozenset[str]) -> IdentifierFinding | None:
    codes = zip_codes(cells)
    if _share(codes, ZIP) >= MOST:
        return _found(name, Identifier.PLACE, Action.THREE_DIGITS, "it contains ZIP codes")
    if _share(cells, r"^\d{3}$") == 1.0 and not small_zip3.intersection(cells.cast(pa.string()).to_pylist()):
        return None
    return _found(name, Identifier.PLACE, Action.REMOVE, "its name suggests postal codes", Confidence.MEDIUM)


def _found(
    name: str, identifier: Identifier, action: Action, reason: str, confidence: Confidence = Confidence.HIGH
) -> IdentifierFinding:
    if action is Action.DECIDE:
        confidence = Confidence.LOW
    return IdentifierFinding(column=name, identifier=identifier, action=action, confidence=confidence, reason=reason)


def _looks_like(cells: pa.Array) -> Identifier | None:
    if not pt.is_string(cells.type):
        return None
    return next((identifier for identifier, pattern in LOOKS if _share(cells, pattern) >= MOST), None)


def _share(cells: pa.Array, pattern: str) -> float:
    """Return the share of the cells that match a pattern."""
    return float(pc.mean(pc.match_substring_regex(cells.cast(pa.string()), pattern)).as_py())


def _is_number(cells: pa.Array) -> bool:
    return bool(pt.is_integer(cells.type) or pt.is_floating(cells.type))


def _are_years(cells: pa.Array) -> bool:
    return bool(pt.is_integer(cells.type) and pc.min(cells).as_py() >= 1850 and pc.max(cells).as_py() <= 2150)
