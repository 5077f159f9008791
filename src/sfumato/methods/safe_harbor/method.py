"""The HIPAA safe harbor rule as a method: 18 kinds of identifiers are removed or generalized (45 CFR 164.514(b)(2)).

It is a rule about columns and makes no promise about people: rows may remain unique. LT Examples 6 to 8 compare it
with probabilistic anonymity, which ``Generalize`` provides.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.base import Method
from sfumato.methods.recodings.quasi_columns import MOST_VALUES, promise_containment
from sfumato.methods.recodings.recoding import RecodingPlan, ValueMap
from sfumato.params import Checked, OrNone, Whole, option, require_choice
from sfumato.plan.plan import Claim, ClaimKind, Evidence, Finding, format_count
from sfumato.plan.questions import Answers, Distinct, DistinctIn, FactsOf, Question
from sfumato.plan.survey import Survey
from sfumato.schema.columns import Role
from sfumato.schema.recognition.cells import (
    SHOWN_AGE,
    ColumnCells,
    as_texts,
    cells_of,
    read_ages,
    reveals_ninety,
    zip_codes,
)
from sfumato.schema.recognition.hipaa import Action, IdentifierFinding, Limits, find_identifiers
from sfumato.schema.recognition.roles import suggest
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table
from sfumato.table.facts import ColumnFacts, facts_of
from sfumato.table.groups import column_hashes
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from sfumato.randomness import Randomness

NO_ZIP = "000"
KEEP = "keep"
ANSWERS = (KEEP, *(str(action) for action in Action if action is not Action.DECIDE))
# A day and a month, then the year, without separators. Never a date that begins with a year: 19 and 20 are no months.
DAY_FIRST = (
    r"^(?:(?:0?[1-9]|[12]\d|3[01])(?:0[1-9]|1[0-2])|(?:0?[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))"
    r"(?P<year>(?:18|19|20)\d{2})$"
)
READABLE = 0.8  # share of the cells that an answer such as "year" must be able to read
ALWAYS_OPEN = (
    "Do you know of any remaining information that could identify someone, alone or combined with other information? "
    "If so, the safe harbor rule is not met (45 CFR 164.514(b)(2)(ii)).",
    "Are relatives, employers or household members named in any released column?",
    "Does a released year reveal an age over 89?",
    "Are there rows with a unique combination of values? The rule does not check this; see quasi_identifiers.",
)


@dataclass(frozen=True, kw_only=True)
class SafeHarborInspection:
    """The recognised columns, and the questions that a person must decide."""

    findings: tuple[IdentifierFinding, ...]
    open_questions: tuple[str, ...]


def _require_answers(value: object, name: str) -> None:
    if not isinstance(value, Mapping):
        raise OptionError(f"{name} must map columns to one of {', '.join(ANSWERS)}.", found=type(value).__name__)
    for column, answer in value.items():
        require_choice(answer, name=f"the answer for {column!r}", choices=ANSWERS)


def _require_zip3(value: object, name: str) -> None:
    if not isinstance(value, Set) or any(len(str(code)) != 3 or not str(code).isdigit() for code in value):
        raise OptionError(f"{name} must be a set of three-digit codes.", found=type(value).__name__)


@dataclass(frozen=True, kw_only=True)
class SafeHarbor(Method):
    """Apply the HIPAA safe harbor rule: remove 18 kinds of identifiers, or generalize them where the rule allows it.

    ZIP codes keep three digits (000 for areas of 20,000 people or fewer), dates keep their year, and ages of 90 and
    more become 90. Columns are recognised by the words of their names and by their cells. A table with a doubtful
    column is refused until you answer the question about it. It is a rule about columns: rows may remain unique.

    Examples
    --------
    >>> import sfumato as sf
    >>> patients = {"email": ["a@x.org", "b@x.org", "c@x.org"], "age": [40, 93, 91]}
    >>> release = sf.SafeHarbor().release(patients, schema={"email": "quasi", "age": "quasi"})
    >>> sorted(release.table.numbers("age").tolist())
    [40.0, 90.0, 90.0]

    A doubtful column must be decided by a person:

    >>> patients = {"seen_month": [3, 4, 5], "sex": ["f", "m", "f"]}
    >>> print(sf.SafeHarbor().inspect(patients).open_questions[0])
    Does 'seen_month' belong to "C dates, and ages over 89"? It could be a part of dates.
    >>> roles = {"seen_month": "quasi", "sex": "quasi"}
    >>> sf.SafeHarbor(answers={"seen_month": "remove"}).release(patients, schema=roles).table.names
    ('sex',)
    """

    name: ClassVar[str] = "safe-harbor"
    theory: ClassVar[str] = "probabilistic"
    manifest_notes: ClassVar[Mapping[str, str]] = {
        "removed": "columns that were removed",
        "findings": "columns that were recognised, with confidence, reason and action",
        "open questions": "questions that a person must decide",
        "columns": "how each column was recoded",
    }

    answers: Mapping[str, str] | None = option(
        OrNone(Checked('"keep", "remove", "year", "three-digits" or "age-90" for each named column', _require_answers)),
        "Answers about columns, which override the recognition: keep the column as it is, remove it, or keep the year "
        "of its dates, three digits of its ZIP codes, or its ages up to 90. A table with a doubtful column is refused "
        "until the question is answered. None: no answers.",
        default=None,
    )
    small_zip3: frozenset[str] | None = option(
        OrNone(Checked("set of three-digit codes", _require_zip3)),
        "Three-digit ZIP code areas of 20,000 people or fewer. None: the list of the 2000 Census.",
        default=None,
    )
    year: int | None = option(
        OrNone(Whole(at_least=1900)),
        "Calendar year for which ages are computed from years of birth. None: the current year.",
        default=None,
    )

    def inspect(self, table: Any) -> SafeHarborInspection:
        """Return the columns that look like identifiers, with confidence and reason, and the open questions."""
        return self.inspect_cells(cells_of(as_table(table)))

    def inspect_cells(self, columns: Sequence[ColumnCells]) -> SafeHarborInspection:
        """Do the same from the distinct cells of each column."""
        findings = find_identifiers(columns, self._limits)
        doubts = tuple(
            f'Does {finding.column!r} belong to "{finding.identifier}"? {finding.reason.capitalize()}.'
            for finding in findings
            if finding.action is Action.DECIDE and finding.column not in (self.answers or {})
        )
        return SafeHarborInspection(findings=findings, open_questions=(*doubts, *ALWAYS_OPEN))

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> RecodingPlan:
        """Recognise identifiers and choose the recodings, from the survey alone."""
        names = [column.name for column in schema.columns]
        if survey.rows < 2:
            raise CannotRelease("The table must have at least 2 rows.", found=f"{survey.rows}", fix="add rows")
        answers = survey.ask(_questions(names))
        inspection = self.inspect_cells([_cells(answers, name) for name in names])
        self._require_answered(inspection, names)
        actions = self._actions(inspection)
        kept = tuple(name for name in names if actions.get(name) is not Action.REMOVE)
        if not kept:
            raise CannotRelease("At least one column must remain to be released.", found="all columns are identifiers")
        recodings = tuple(
            self._coarse(name, action, answers[DistinctIn(name, MOST_VALUES)].require_complete(name))
            for name, action in actions.items()
            if action in (Action.THREE_DIGITS, Action.YEAR, Action.NINETY)
        )
        years = tuple(name for name, action in actions.items() if action is Action.YEAR)
        return RecodingPlan(
            columns=kept,
            quasi=tuple(name for name in kept if schema[name].role is Role.QUASI),
            recodings=recodings,
            promises=(NoIdentifierLeft(policy=self, columns=kept, years=years), *promise_containment(recodings)),
            method_notes={
                "removed": [name for name in names if name not in kept],
                "findings": [
                    {
                        "column": found.column,
                        "identifier": str(found.identifier),
                        "action": str(actions.get(found.column, KEEP)),
                        "answered": found.column in (self.answers or {}),
                        "confidence": str(found.confidence),
                        "reason": found.reason,
                    }
                    for found in inspection.findings
                ],
                "open questions": list(inspection.open_questions),
            },
        ).in_blocks(survey)

    def _require_answered(self, inspection: SafeHarborInspection, names: Sequence[str]) -> None:
        """Raise if a question about a column is open, or if an answer names no column."""
        answers = self.answers or {}
        absent = [name for name in answers if name not in names]
        if absent:
            raise OptionError(
                "Answers must name columns that can be released.",
                found=f"answers for {', '.join(map(repr, absent))}",
                fix="the name of a column; a column with the role identifier is removed and needs no answer",
            )
        doubts = [f for f in inspection.findings if f.action is Action.DECIDE and f.column not in answers]
        if doubts:
            first = doubts[0].column
            raise CannotRelease(
                "A person must answer the question about every doubtful column.",
                found="; ".join(f"{doubt.column!r}: {doubt.reason} ({doubt.identifier})" for doubt in doubts),
                fix=f"answers={{{first!r}: ...}} or --answer {first}=..., with one of {', '.join(ANSWERS)}",
            )

    def _actions(self, inspection: SafeHarborInspection) -> dict[str, Action]:
        """Return the action for each column that is not kept as it is."""
        actions = {one.column: one.action for one in inspection.findings}
        for column, answer in (self.answers or {}).items():
            actions.pop(column, None)
            if answer != KEEP:
                actions[column] = Action(answer)
        return actions

    def _coarse(self, name: str, action: Action, distinct: Distinct) -> ValueMap:
        if action is Action.THREE_DIGITS:
            kind, how = Kind.NOMINAL, "first three digits, 000 for areas of 20,000 people or fewer"
            cells = _three_digits(distinct.values, self._limits.small_zip3)
        elif action is Action.NINETY:
            how, cells = "ages over 89 become 90", _up_to_ninety(distinct.values)
            kind = Kind.NOMINAL if pt.is_string(cells.type) else Kind.CONTINUOUS
            kind = Kind.WHOLE if pt.is_integer(cells.type) else kind
        else:
            years, kind, how = _years(distinct.values), Kind.WHOLE, "year only"
            cells = pc.max_element_wise(years, self._limits.earliest_birth, skip_nulls=False)
        lost = cells.null_count - distinct.values.null_count
        if lost > (1.0 - READABLE) * len(distinct.values):
            raise CannotRelease(
                f"Most cells of {name!r} must be readable for the action {str(action)!r}.",
                found=f"{lost:,} of {len(distinct.values):,} values are not",
                fix=f"another answer for {name!r}, such as remove",
            )
        return ValueMap(name=name, kind=kind, distinct=distinct, cells=cells, how=how)

    @property
    def _limits(self) -> Limits:
        return Limits(
            small_zip3=small_zip3() if self.small_zip3 is None else self.small_zip3,
            earliest_birth=(self.year or datetime.date.today().year) - SHOWN_AGE,
        )


MOST_CELLS = 100_000  # distinct cells of a released column by which it is recognised; of more, a random sample


@dataclass(frozen=True, eq=False, repr=False)
class DistinctCells:
    """The distinct cells of a column whose hashes are at most ``limit``: all of them, or a random sample of very many.

    The smallest and the largest cell are kept, too.
    """

    cells: pa.Array
    limit: int = 2**64 - 1

    @classmethod
    def of(cls, cells: pa.Array, limit: int = 2**64 - 1) -> DistinctCells:
        """Return as many of these cells as are kept."""
        if len(cells) <= MOST_CELLS and limit == 2**64 - 1:
            return cls(cells)
        hashes = column_hashes(Table.from_arrow(pa.table({"cells": cells})), "cells")
        below = hashes[hashes <= np.uint64(limit)]
        if len(below) > MOST_CELLS:
            limit = int(np.partition(below, MOST_CELLS - 1)[MOST_CELLS - 1])
        ends = pc.min_max(cells)
        extremes = pc.or_(pc.equal(cells, ends["min"]), pc.equal(cells, ends["max"]))
        return cls(cells.filter(pc.or_(extremes, pa.array(hashes <= np.uint64(limit)))), limit)

    def merge(self, other: DistinctCells) -> DistinctCells:
        """Return the cells of both; a block may have no cell in a column, and so another type."""
        if not len(self.cells) or not len(other.cells):
            return self if len(self.cells) else other
        return DistinctCells.of(pc.unique(pa.chunked_array([self.cells, other.cells])), min(self.limit, other.limit))

    @property
    def distinct(self) -> int:
        """The number of distinct cells; estimated if these are a sample, within about 1 %."""
        return len(self.cells) if self.limit == 2**64 - 1 else round(len(self.cells) * 2.0**64 / (self.limit + 1.0))


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedCells:
    """The distinct cells of each released column and the numbers of rows, from which identifiers are recognised."""

    kinds: Mapping[str, Kind]
    rows: int
    missing: Mapping[str, int]  # rows without a value
    cells: Mapping[str, DistinctCells]

    @classmethod
    def of(cls, released: Table) -> ReleasedCells:
        """Return the distinct cells of one block."""
        columns = dict(zip(released.names, released.arrow.columns, strict=True))
        missing = {name: int(column.null_count) for name, column in columns.items()}
        cells = {name: DistinctCells.of(_distinct_cells(column)) for name, column in columns.items()}
        return cls(released.kinds, released.rows, missing, cells)

    def merge(self, other: ReleasedCells) -> ReleasedCells:
        """Return the distinct cells of both."""
        kinds, none = {**other.kinds, **self.kinds}, DistinctCells(pa.nulls(0))
        return ReleasedCells(
            kinds,
            self.rows + other.rows,
            {name: self.missing.get(name, self.rows) + other.missing.get(name, other.rows) for name in kinds},
            {name: self.cells.get(name, none).merge(other.cells.get(name, none)) for name in kinds},
        )

    @property
    def columns(self) -> list[ColumnCells]:
        """What each column is recognised by."""
        columns = []
        for name, kept in self.cells.items():
            cells = kept.cells
            found = facts_of(Table(pa.table({name: cells}), {name: self.kinds[name]}), [name], count_distinct=True)
            blanks = round(found[name].blanks * kept.distinct / max(len(cells), 1))
            facts = replace(
                found[name], rows=self.rows, missing=self.missing[name], distinct=kept.distinct, blanks=blanks
            )
            columns.append(_column_cells(name, facts, cells))
        return columns


@dataclass(frozen=True, kw_only=True)
class NoIdentifierLeft(Claim[ReleasedCells]):
    """No released column is or may be one of the 18 kinds, except those about which a person answered."""

    kind: ClassVar[ClaimKind] = "privacy"

    policy: SafeHarbor
    columns: tuple[str, ...] = ()  # all released columns
    years: tuple[str, ...] = ()  # columns of dates that are released as years, whatever their names suggest

    def count_people(self, person: str) -> NoIdentifierLeft:
        """Return the claim itself: it speaks of columns, not of rows or people."""
        return self

    def tally(self, evidence: Evidence) -> ReleasedCells:
        return ReleasedCells.of(evidence.released)

    def finding(self, tally: ReleasedCells) -> Finding:
        columns = [cells for cells in tally.columns if cells.name not in self.years or not self._are_years(cells)]
        left = [
            f"{found.column!r} ({found.identifier})"
            for found in self.policy.inspect_cells(columns).findings
            if found.column not in (self.policy.answers or {})
        ]
        return self.report(
            claim="no released column is recognised as one of the 18 identifiers of the HIPAA safe harbor rule",
            held=not left,
            found=", ".join(left) if left else f"none in {format_count(len(tally.cells), 'column')}",
            fix="say whether to keep or to remove these columns (option answers)",
        )

    def _are_years(self, column: ColumnCells) -> bool:
        return not len(column.cells) or (column.is_number and column.within(self.policy._limits.earliest_birth, 2150))

    @property
    def protects(self) -> tuple[str, ...]:
        """All released columns, because the rule itself says which may be released as they are."""
        return self.columns


def _distinct_cells(column: pa.ChunkedArray) -> pa.Array:
    """Return the distinct cells of a column, without the missing one; a dictionary is decoded to its values."""
    cells = column.cast(column.type.value_type) if pt.is_dictionary(column.type) else column
    return pc.unique(cells.drop_null())


def _questions(names: Sequence[str]) -> list[Question[Any]]:
    asked: list[Question[Any]] = [FactsOf(name, count_distinct=True) for name in names]
    return asked + [DistinctIn(name, MOST_VALUES) for name in names]


def _cells(answers: Answers, name: str) -> ColumnCells:
    """Return the cells of a column from the survey; if there are very many values, the most frequent ones."""
    cells = answers[DistinctIn(name, MOST_VALUES)].values.drop_null()
    return _column_cells(name, answers[FactsOf(name, count_distinct=True)], cells)


def _column_cells(name: str, facts: ColumnFacts, cells: pa.Array) -> ColumnCells:
    suggested = suggest([name], lambda *_: {name: facts})[name]
    unique = suggested.reason if suggested.role is Role.IDENTIFIER else ""
    return ColumnCells(name=name, kind=facts.kind, rows=facts.rows, cells=cells, unique=unique)


@cache
def small_zip3() -> frozenset[str]:
    """Return the three-digit ZIP code areas of 20,000 people or fewer; the package's data file names the source."""
    text = (
        resources.files("sfumato.methods")
        .joinpath("safe_harbor", "zip3_of_20000_or_fewer.csv")
        .read_text(encoding="utf-8")
    )
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


def _up_to_ninety(values: pa.Array) -> pa.Array:
    """Return ages with those over 90 as 90, and age groups that reach 90 without their upper end."""
    if pt.is_floating(values.type) or pt.is_decimal(values.type):
        return pc.min_element_wise(values.cast(pa.float64()), float(SHOWN_AGE), skip_nulls=False)
    if pt.is_integer(values.type):
        return pc.min_element_wise(values, pa.scalar(SHOWN_AGE, values.type), skip_nulls=False).cast(pa.int64())
    texts = values.cast(pa.string())
    low, high, is_open = read_ages(texts)
    reveals = reveals_ninety(low, high, is_open)
    shown = [f"{min(age, SHOWN_AGE):.0f}+" if over else None for age, over in zip(low, reveals, strict=True)]
    return pc.coalesce(pa.array(shown, pa.string()), texts)


def _years(values: pa.Array) -> pa.Array:
    """Return the years of dates, or of text or numbers with four-digit years; what cannot be read becomes missing."""
    if pt.is_date(values.type) or pt.is_timestamp(values.type):
        return pc.year(values)
    texts = as_texts(values)
    last = pc.extract_regex(texts, DAY_FIRST)
    anywhere = pc.extract_regex(texts, r"(?P<year>(?:18|19|20|21)\d{2})")
    return pc.coalesce(pc.struct_field(last, "year"), pc.struct_field(anywhere, "year")).cast(pa.int64())
