"""Roles for columns that nobody gave one. In doubt more is protected, never less.

A column that looks like an identifier is removed, and the reason says so; every other is quasi. Sensitive, other and
weight would weaken the protection, so they are never suggested.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.schema.schema import Column, Role, Schema
from sfumato.table.coding import distinct
from sfumato.table.kinds import Kind
from sfumato.table.table import LARGEST_EXACT, Table

FEWEST_ROWS = 20  # with fewer cells than this, distinct ones say nothing
NEARLY_ALL = 0.9  # share of cells that are distinct

# Ends of names, as lower-case words joined by _, that say "this names a person".
_PERSON = (
    r"id|ids|identifier|uid|uuid|guid|pid|oid|recid|seqn|caseid|subjid|subjectid|personid|patientid|userid|custid|"
    r"customerid|clientid|memberid|empid|employeeid|studentid|respid|respondentid|hhid|rowid|idno|idnr|"
    r"ssn|nin|nino|cpf|dni|nif|bsn|mrn|iban|vin|imei|passport|"
    r"e?mail|e_mail|phone|telephone|tel|mobile|fax|cellphone|telefon|"
    r"firstname|lastname|fullname|forename|surname|givenname|nickname|username|login|vorname|nachname|prenom|apellido|"
    r"address|addr|street|adresse|ip|url|signature"
)
_NUMBERED = (
    r"phone|telephone|mobile|fax|nhs|passport|account|card|licen[cs]e|security|insurance|policy|member|customer|patient|"
    r"employee|student|person|record|case|serial|row|national|tax|house|certificate|plate|beneficiary|medical"
)
NAMES_A_PERSON = re.compile(rf"(^|.*_)({_PERSON}|({_NUMBERED})_(no|nr|num|nbr|number)|address_line|addr_line)")
# The name of a place or a thing is no person's; any other is.
_THINGS = (
    r"country|state|region|county|province|district|city|town|village|area|place|site|ward|department|brand|product|item|"
    r"drug|medication|disease|diagnosis|test|course|subject|category|class|type|group|variable|column|file|event|plan"
)
NAME = re.compile(rf"(?!(.*_)?({_THINGS})_names?$)((.*_)?names?|names?_.*)")


def suggest(table: Table) -> Schema:
    """A role for every column: identifier where something says so, else quasi, with the reason in words."""
    return Schema(tuple(_suggested(table, name) for name in table.names))


def _suggested(table: Table, name: str) -> Column:
    reason = _why_identifier(table, name)
    if reason:
        return Column(name=name, role=Role.IDENTIFIER, reason=reason)
    return Column(name=name, role=Role.QUASI, reason="it may be known from elsewhere")


def _why_identifier(table: Table, name: str) -> str:
    """Why the column looks as if it named a person; empty when it does not."""
    column, kind = table.arrow.column(name), table.kinds[name]
    present = len(column) - column.null_count
    if _is_persons_name(name) and not _says_yes_or_no(column, kind, present):
        return "its name says that it names a person"
    if kind is Kind.TEXT:
        return "it is free text, and nearly every cell is distinct"
    if present < FEWEST_ROWS:
        return ""
    if kind in (Kind.NOMINAL, Kind.ORDERED) and not pt.is_floating(column.type):
        count = distinct(column)
        return f"{count:,} of its {present:,} values are distinct" if count >= NEARLY_ALL * present else ""
    if kind is Kind.WHOLE:
        return _why_counted(column, present)
    return ""


def _is_persons_name(name: str) -> bool:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)  # patientId is patient_id
    words = re.sub(r"[\W_]+", "_", spaced.lower()).strip("_")
    words = re.sub(r"(?<=[a-z])_?\d+$", "", words)  # address_2 is an address
    return bool(NAMES_A_PERSON.fullmatch(words) or NAME.fullmatch(words))


def _says_yes_or_no(column: pa.ChunkedArray, kind: Kind, present: int) -> bool:
    """Whether a column called phone can only say that there is one."""
    if kind is Kind.BOOLEAN:
        return True
    return present >= FEWEST_ROWS and distinct(column) <= 2


def _why_counted(column: pa.ChunkedArray, present: int) -> str:
    """Why whole numbers count people off, or are too long for a quantity; empty when they are not."""
    ends = pc.min_max(column).as_py()
    long = max(-ends["min"], ends["max"]) >= LARGEST_EXACT
    if not long and ends["max"] - ends["min"] + 1 != present:
        return ""
    count = distinct(column)
    if count == present and not long:
        return "it numbers the rows: consecutive whole numbers, all distinct"
    if long and count >= NEARLY_ALL * present:
        return "its whole numbers are too long for a quantity, and nearly all distinct"
    return ""
