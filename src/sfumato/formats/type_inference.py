"""Infer the type of a text column: whole numbers, numbers, booleans, dates, timestamps or text.

Every cell of a column is checked, not only a sample, and the type must fit *all* cells. In doubt a column stays text:
02139 is a postal code and not a number, and 03/04/2020 can be two different dates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.table.kinds import MARKS

# So is a cell with one of these, in any case, if all other cells of the column are numbers or dates.
MARKS_AMONG_NUMBERS = frozenset(
    """
    - -- * ** : .. ... na none n.a. n.d. nd k.a. ka k.w. missing unknown unk unbekannt fehlt fehlend
    #value! #div/0! #ref! #num! #null!
    """.split()  # noqa: SIM905
) | {"k. a.", "n. a.", "keine angabe", "nicht bekannt", "not known", "not available", "not applicable", "not done"}
NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
DATE_FORMATS = ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y")
DATE = r"(\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{4}/\d{1,2}/\d{1,2})"
GROUPED = r"[+-]?[1-9]\d{{0,2}}({0}\d{{3}})+({1}\d+)?"  # thousands separator, decimal mark
UNGROUPED = r"[+-]?(0|[1-9]\d{{0,2}})?({1}\d+)?"  # a number below 1000 in a column of grouped numbers
NUMBER_OR_DATE = rf"{NUMBER.pattern}|\d{{4}}-\d\d?-\d\d?([ T]\d.*)?|{DATE}"
VALUE = re.compile(NUMBER_OR_DATE)
Attempt = Callable[[pa.ChunkedArray], pa.ChunkedArray | None]  # converts a column, or returns None
ZERO_ONE = pa.array(["0", "1"])
PROBE = 100  # number of cells that are converted before the whole column is
LONGEST_WHOLE = 18  # number of digits that always fit into 64 bits


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """How values are written in a file."""

    marks: Collection[str] = ()  # texts of missing cells that the user adds to the usual ones
    decimal: str | None = None  # decimal mark, given by the user; None means a point or else a comma
    commas_separate: bool = True  # whether commas separate cells, so that a quoted 1,234 is not read as 1.234
    marks_are_text: bool = False  # whether the usual marks stay in columns of text, where NA may be a category


def infer_type(column: pa.ChunkedArray, spelling: Spelling) -> pa.ChunkedArray:
    """Convert the column to the type that fits all its cells, else leave it as text; missing cells become null."""
    cells = without_marks(column, MARKS.union(spelling.marks))
    texts = without_marks(column, {"", *spelling.marks}) if spelling.marks_are_text else cells
    if cells.null_count == len(cells):
        return texts
    converted = _plain(cells) if spelling.decimal in (None, ".") else None
    if converted is None:
        converted = _uncommon(cells, spelling)
    return texts if converted is None else converted


def is_value(cell: str) -> bool:
    """Return whether a cell is a number, a date, a timestamp or a mark of a missing value, and so not a column name."""
    return cell in MARKS - {""} or VALUE.fullmatch(cell) is not None


def are_values(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return which cells are numbers or dates, or are made of digits, such as postal codes with leading zeros."""
    return pc.match_substring_regex(cells, rf"^\s*({NUMBER_OR_DATE}|{GROUPED.format(',', '[.]')})\s*$")


def may_be_values(cells: pa.ChunkedArray) -> bool:
    """Return whether half of some cells from all parts of the column are values; the others are then looked at."""
    present = cells.drop_null()
    return bool(len(present)) and 2 * pc.sum(are_values(_spread(present))).as_py() >= min(len(present), PROBE)


def _spread(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return cells from all parts of the column, about PROBE of them."""
    return cells.take(pa.array(range(0, len(cells), len(cells) // PROBE))) if len(cells) > PROBE else cells


def without_marks(column: pa.ChunkedArray, marks: Collection[str]) -> pa.ChunkedArray:
    """Return the column with cells that are one of these texts missing."""
    listed, null = pa.array(sorted(marks), column.type), pa.scalar(None, column.type)
    chunks = []
    for part in column.chunks:
        chunk = pa.concat_arrays([part]) if part.offset else part  # copy, because Arrow 17 corrupts a slice here
        missing = pc.is_in(chunk, value_set=listed)
        chunks.append(pc.if_else(missing, null, chunk) if pc.any(missing).as_py() else chunk)
    return pa.chunked_array(chunks, column.type)


def _attempt(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    """Cast the column to this type; None if that fails.

    A cast that fails is slow, so cells from all parts of the column are tried first.
    """
    try:
        _spread(column).cast(kind)
        return column.cast(kind)
    except pa.ArrowInvalid:  # the error quotes the cell, so it is dropped here
        return None


def _plain(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Convert numbers with a decimal point, true and false, ISO dates and timestamps; None if that fails."""
    first: str = cells.drop_null()[0].as_py()
    converted = None
    if first[:1].isdigit() or first[:1] in "+-.iI":
        converted = _whole(cells)
        if converted is None and not _has_code(cells):
            converted = _continuous(cells)
        if converted is None and first[:1].isdigit():
            converted = _timestamp(cells)
    elif first.lower() in ("true", "false") and not pc.any(pc.is_in(cells, value_set=ZERO_ONE)).as_py():
        converted = _attempt(cells, pa.bool_())
    return converted


def _whole(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Convert whole numbers; None if any has a leading zero, because it is then a code."""
    converted = _attempt(cells, pa.int64())
    if converted is None:
        return None
    has_leading_zero = pc.and_(pc.starts_with(cells, "0"), pc.greater(pc.binary_length(cells), 1))
    return None if pc.any(has_leading_zero).as_py() else converted


def _continuous(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Convert numbers; None if no cell is finite, because a column of "inf" only is text."""
    converted = _attempt(cells, pa.float64())
    return converted if converted is not None and pc.any(pc.is_finite(converted)).as_py() else None


def _has_code(cells: pa.ChunkedArray) -> bool:
    """Return whether some cell is a code: digits with a leading zero, or more digits than 64 bits can hold."""
    return bool(pc.any(pc.match_substring_regex(cells, rf"^-?(0\d+|\d{{{LONGEST_WHOLE + 1},}})$")).as_py())


def _timestamp(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    for kind in (pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.timestamp("ns")):
        converted = _attempt(cells, kind)
        if converted is not None:
            return converted
    return None


def _uncommon(cells: pa.ChunkedArray, spelling: Spelling) -> pa.ChunkedArray | None:
    """Convert numbers and dates in less common notations: padded, grouped, with a decimal comma or other marks."""
    point = spelling.decimal in (None, ".")
    comma = spelling.decimal == "," or (spelling.decimal is None and not spelling.commas_separate)
    # 1,234 alone is a grouped number if a comma cannot be a decimal mark; 1,234.5 and 1,234,567 always are
    attempts: tuple[Attempt | None, ...] = (
        _plain if point else None,
        _date,
        _with_comma if comma else None,
        partial(_without_groups, separator=",", decimal=".", alone=not comma) if point else None,
        partial(_without_groups, separator="'", decimal=".", alone=True) if point else None,
        _with_quoted_comma if spelling.decimal is None and spelling.commas_separate else None,
        _with_spaces if comma else None,
        partial(_without_groups, separator=".", decimal=",", alone=spelling.decimal == ",") if comma else None,
    )
    marks = MARKS | set(spelling.marks)
    few = cells.drop_null().slice(0, PROBE)
    for attempt in attempts:
        # try a few cells first, so that text columns are not scanned several times; they need not show a separator
        probe = partial(attempt, proven=True) if isinstance(attempt, partial) else attempt
        if attempt and probe and _try(few, marks, probe) is not None:
            converted = _try(cells, marks, attempt)
            if converted is not None:
                return converted
    return None


def _try(cells: pa.ChunkedArray, marks: Collection[str], attempt: Attempt) -> pa.ChunkedArray | None:
    cells = without_marks(pc.utf8_trim_whitespace(cells), marks)
    known = pc.is_in(pc.utf8_lower(cells), value_set=pa.array(sorted(MARKS_AMONG_NUMBERS), cells.type))
    cells = pc.if_else(known, pa.scalar(None, cells.type), cells) if pc.any(known).as_py() else cells
    return attempt(cells) if cells.null_count < len(cells) else None


def _with_comma(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    if pc.any(pc.match_substring(cells, ".")).as_py():
        return None  # ambiguous: 1.234,5, or 1.5 next to 1,5
    whole = _whole(cells)
    if whole is not None or _has_code(cells):
        return whole
    return _continuous(pc.replace_substring(cells, ",", ".", max_replacements=1))


def _with_quoted_comma(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Convert "12,5" in a file whose cells commas separate, if some comma cannot separate thousands.

    "1,3" next to "2" may be a list of answers, so a column of nothing but single digits stays text.
    """
    known = cells.drop_null()
    if not pc.any(pc.match_substring_regex(known, r"^[+-]?(0,\d+|\d+,\d{1,2}|\d+,\d{4,})$")).as_py():
        return None
    return None if pc.all(pc.match_substring_regex(known, r"^\d(,\d)?$")).as_py() else _with_comma(cells)


def _with_spaces(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Convert 12 345,67. Whole numbers need a no-break space: 612 345 678 with ordinary ones may be a telephone."""
    bare = pc.replace_substring_regex(cells, "[\u00a0\u202f\u2009]", " ")
    has_ordinary = pc.any(pc.match_substring(cells, " ")).as_py()
    if has_ordinary and not pc.any(pc.match_substring_regex(bare, r"^[+-]?\d+ .*,")).as_py():
        return None
    return _without_groups(bare, separator=" ", decimal=",", alone=True)


def _without_groups(
    cells: pa.ChunkedArray, *, separator: str, decimal: str, alone: bool, proven: bool = False
) -> pa.ChunkedArray | None:
    """Convert numbers with a thousands separator; None if it is not used throughout the column.

    Some cell must prove that it separates thousands; ``alone`` says that one separator without a decimal mark, such as
    1,234, is proof.
    """
    group, mark = re.escape(separator), re.escape(decimal)
    grouped, ungrouped = GROUPED.format(group, mark), UNGROUPED.format(group, mark)
    if not pc.all(pc.match_substring_regex(cells, rf"^({grouped}|{ungrouped})$")).as_py():
        return None
    proof = rf"^[+-]?\d+{group}" if alone else rf"{group}.*({group}|{mark})"
    if not proven and not pc.any(pc.match_substring_regex(cells, proof)).as_py():
        return None
    bare = pc.replace_substring(pc.replace_substring(cells, separator, ""), decimal, ".")
    whole = _whole(bare)
    return whole if whole is not None or _has_code(bare) else _continuous(bare)


def _date(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Convert dates in the one format that fits all cells; None if two formats fit and give different dates."""
    if not pc.all(pc.match_substring_regex(cells, f"^{DATE}$")).as_py():
        return None
    fitting = [
        converted for converted in (_parse_dates(cells, pattern) for pattern in DATE_FORMATS) if converted is not None
    ]
    same = fitting and all(converted.equals(fitting[0]) for converted in fitting)
    return fitting[0] if same else None


def _parse_dates(cells: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray | None:
    timestamps = pc.strptime(cells, format=pattern, unit="s", error_is_null=True)
    return timestamps.cast(pa.date32()) if timestamps.null_count == cells.null_count else None
