"""HIPAA's safe harbour as a policy: the 18 kinds of identifiers removed or made coarse (45 CFR 164.514(b)(2)).

It is a rule about columns and no promise about people: rows may stay unique. LT Examples 6 to 8 compare it with
probabilistic anonymity; ``Generalize`` gives the latter.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.disclosure.hipaa import (
    BIRTH_NAMES,
    SHOWN_AGE,
    Action,
    IdentifierFinding,
    Limits,
    find_identifiers,
    is_called,
    zip_codes,
)
from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.base import Method
from sfumato.methods.claims import Evidence, Finding
from sfumato.methods.probabilistic.columnwise import blocks_of, truth_of
from sfumato.methods.probabilistic.recoding import RecodingPlan, ValueMap
from sfumato.params import require_choice, require_int
from sfumato.schema.schema import Role, Schema
from sfumato.table.frames import as_table
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from sfumato.randomness import Randomness
    from sfumato.survey.survey import Distinct, Survey

NO_ZIP = "000"
ALWAYS_OPEN = (
    "Do you know of anything left that could identify someone, alone or together with other information? "
    "Safe harbour does not hold if you do (45 CFR 164.514(b)(2)(ii)).",
    "Are relatives, employers or household members named in any column that is kept?",
    "Does a year that is kept tell of an age over 89?",
    "Rows may still be the only ones with their combination of values: see quasi_identifiers.",
)


@dataclass(frozen=True, kw_only=True)
class SafeHarborInspection:
    """What was recognised, and what a person still must decide."""

    findings: tuple[IdentifierFinding, ...]
    open_questions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SafeHarbor(Method):
    """Names, places, dates and numbers that identify are removed; ZIP codes, dates and high ages become coarse.

    ZIP codes keep three digits (000 for areas of 20,000 people or fewer), dates keep their year, ages from 90 on become
    90. ``decided`` is what a person decided: column → "keep" or "remove".
    """

    name: ClassVar[str] = "safe-harbor"

    decided: Mapping[str, str] | None = None
    small_zip3: frozenset[str] | None = (
        None  # three-digit areas of 20,000 people or fewer; None: the list of the 2000 Census
    )
    year: int | None = None  # in which ages are counted from years of birth; None: this one

    def __post_init__(self) -> None:
        for column, decision in (self.decided or {}).items():
            require_choice(decision, name=f"the decision for {column!r}", choices=("keep", "remove"))
        if self.year is not None:
            require_int(self.year, name="year", at_least=1900)
        if self.small_zip3 is not None and any(len(code) != 3 or not code.isdigit() for code in self.small_zip3):
            raise OptionError("small_zip3 must hold codes of three digits.", found=f"{len(self.small_zip3)} codes")

    def inspect(self, table: Any) -> SafeHarborInspection:
        """What looks like an identifier, with confidence and reason, and the questions that stay open."""
        findings = find_identifiers(as_table(table), self._limits)
        doubts = tuple(
            f"Is {finding.column!r} one of «{finding.identifier}»? {finding.reason.capitalize()}."
            for finding in findings
            if finding.action is Action.DECIDE and finding.column not in (self.decided or {})
        )
        return SafeHarborInspection(findings=findings, open_questions=(*doubts, *ALWAYS_OPEN))

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> RecodingPlan:
        """Recognise and act, from the survey alone."""
        names = [column.name for column in schema.columns]
        if survey.rows < 2:
            raise CannotRelease("One person cannot be told from nobody else: more rows are needed.", found="1 row")
        inspection = self.inspect(survey.sample(names))
        actions = self._actions(inspection)
        kept = tuple(name for name in names if actions.get(name) is not Action.REMOVE)
        recodings = tuple(
            self._coarse(name, action, survey.distinct(name))
            for name, action in actions.items()
            if action in (Action.THREE_DIGITS, Action.YEAR, Action.NINETY)
        )
        return RecodingPlan(
            columns=kept,
            quasi=tuple(name for name in kept if schema[name].role is Role.QUASI),
            recodings=recodings,
            promises=(NoIdentifierLeft(policy=self), *truth_of(recodings)),
            said={
                "removed": [name for name in names if name not in kept],
                "findings": [
                    {
                        "column": found.column,
                        "identifier": str(found.identifier),
                        "action": str(actions.get(found.column, "keep")),
                        "confidence": str(found.confidence),
                        "reason": found.reason,
                    }
                    for found in inspection.findings
                ],
                "a person must decide": list(inspection.open_questions),
            },
            parts=blocks_of(survey),
        )

    def _actions(self, inspection: SafeHarborInspection) -> dict[str, Action]:
        """What is done to each column; doubtful ones are kept until a person decides."""
        found: dict[str, Action] = {
            one.column: one.action for one in inspection.findings if one.action is not Action.DECIDE
        }
        for column, decision in (self.decided or {}).items():
            found.pop(column, None)
            if decision == "remove":
                found[column] = Action.REMOVE
        return found

    def _coarse(self, name: str, action: Action, distinct: Distinct) -> ValueMap:
        if action is Action.THREE_DIGITS:
            return ValueMap(
                name=name,
                kind=Kind.NOMINAL,
                distinct=distinct,
                cells=_three_digits(distinct.values, self._limits.small_zip3),
                how="first three digits, 000 for areas of 20,000 people or fewer",
            )
        if action is Action.NINETY:
            cells = pc.min_element_wise(distinct.values, SHOWN_AGE, skip_nulls=False)
            return ValueMap(name=name, kind=Kind.WHOLE, distinct=distinct, cells=cells, how="ages from 90 on are 90")
        years = _years(distinct.values)
        if is_called(name, BIRTH_NAMES):
            years = pc.max_element_wise(years, self._limits.earliest_birth, skip_nulls=False)
        return ValueMap(name=name, kind=Kind.WHOLE, distinct=distinct, cells=years, how="year only")

    @property
    def _limits(self) -> Limits:
        return Limits(
            small_zip3=small_zip3() if self.small_zip3 is None else self.small_zip3,
            earliest_birth=(self.year or datetime.date.today().year) - SHOWN_AGE,
        )


@dataclass(frozen=True, kw_only=True)
class NoIdentifierLeft:
    """Nothing that leaves is recognised as one of the 18 kinds, except what a person decided to keep."""

    policy: SafeHarbor

    def measure(self, evidence: Evidence) -> Finding:
        """Recognise again, on what leaves."""
        kept = {column for column, decision in (self.policy.decided or {}).items() if decision == "keep"}
        left = [
            f"{found.column!r} ({found.identifier})"
            for found in self.policy.inspect(evidence.released).findings
            if found.action is not Action.DECIDE and found.column not in kept
        ]
        return Finding(
            claim="no column that is recognised as one of the 18 identifiers of safe harbour",
            held=not left,
            found=", ".join(left) if left else f"none in {len(evidence.released.names)} columns",
            fix="decide about these columns",
        )


@cache
def small_zip3() -> frozenset[str]:
    """Three-digit ZIP code areas of 20,000 people or fewer, as the package's data file lists them with its source."""
    text = resources.files(__package__).joinpath("zip3_of_20000_or_fewer.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return frozenset(lines[1:])


def _three_digits(values: pa.Array, small: frozenset[str]) -> pa.Array:
    codes = zip_codes(values)
    digits = pc.utf8_slice_codeunits(codes, 0, 3)
    unsafe = pc.or_(
        pc.is_in(digits, value_set=pa.array(sorted(small), pa.string())),
        pc.invert(pc.match_substring_regex(digits, r"^\d{3}$")),
    )
    return pc.if_else(unsafe, pa.scalar(NO_ZIP), digits)


def _years(values: pa.Array) -> pa.Array:
    """Years of dates, or of text that holds them with four digits; what cannot be read is left empty."""
    if pt.is_date(values.type) or pt.is_timestamp(values.type):
        return pc.year(values)
    if pt.is_integer(values.type):
        return values
    found = pc.extract_regex(values.cast(pa.string()), r"(?P<year>\d{4})")
    return pc.struct_field(found, "year").cast(pa.int64())
