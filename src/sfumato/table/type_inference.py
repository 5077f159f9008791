"""What the cells of a text column are: whole numbers, numbers, booleans, days, moments, or words.

Every cell of a column is looked at, never a sample of them, and a column is what *all* its cells are. Words stay words
when in doubt: 02139 is a postal code and no number, and 03/04/2020 is two different days.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.table.dialect import NUMBER

# A cell of any column that says one of these is missing.
MARKS = frozenset(
    [
        "",
        "NA",
        "N/A",
        "n/a",
        "NaN",
        "nan",
        "NAN",
        "-nan",
        "-NaN",
        "null",
        "NULL",
        "Null",
        "?",
        ".",
        "<NA>",
        "#N/A",
        "#NA",
        "NaT",
    ]
)
# These too, where everything else in the column is a number or a date.
FAINT_MARKS = frozenset(
    [
        "-",
        "--",
        "*",
        "**",
        ":",
        "..",
        "...",
        "na",
        "None",
        "n.a.",
        "k.A.",
        "#VALUE!",
        "#DIV/0!",
        "#REF!",
        "#NUM!",
        "#NULL!",
    ]
)
DAY_FORMATS = ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y")
DAY = r"(\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{4}/\d{1,2}/\d{1,2})"
VALUE = re.compile(rf"{NUMBER.pattern}|\d{{4}}-\d\d?-\d\d?([ T]\d.*)?|{DAY}")
PROBE = 100  # cells that are tried before a whole column is
LONGEST_WHOLE = 18  # digits that always fit 64 bits


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """How cells are written in a file."""

    marks: Collection[str] | None = None  # cells that are missing, as the user said; None: the usual ones
    decimal: str | None = None  # the decimal mark, as the user said; None: a point, or else a comma
    commas_separate: bool = True  # whether commas separate cells, so that a quoted 1,234 is no 1.234


def typed(column: pa.ChunkedArray, spelling: Spelling) -> pa.ChunkedArray:
    """The column as what all its cells are; words stay as they are, missing cells become null."""
    marks = MARKS if spelling.marks is None else {"", *spelling.marks}
    words = _without(column, marks)
    if words.null_count == len(words):
        return words
    found = _plain(words) if spelling.decimal in (None, ".") else None
    if found is None:
        found = _rare(words, spelling)
    return words if found is None else found


def is_value(cell: str) -> bool:
    """Whether a cell by itself is a number, a day, a moment or the mark of a missing value, and so no column's name."""
    return cell in MARKS - {""} or VALUE.fullmatch(cell) is not None


def _without(column: pa.ChunkedArray, marks: Collection[str]) -> pa.ChunkedArray:
    listed, null = pa.array(sorted(marks), column.type), pa.scalar(None, column.type)
    chunks = []
    for part in column.chunks:
        chunk = pa.concat_arrays([part]) if part.offset else part  # a copy, for Arrow 17 spoils a slice here
        missing = pc.is_in(chunk, value_set=listed)
        chunks.append(pc.if_else(missing, null, chunk) if pc.any(missing).as_py() else chunk)
    return pa.chunked_array(chunks, column.type)


def _attempt(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    """The column as this type, or None. A cast that fails is slow, so cells from all over the column go first."""
    try:
        if len(column) > PROBE:
            column.take(pa.array(range(0, len(column), len(column) // PROBE))).cast(kind)
        return column.cast(kind)
    except pa.ArrowInvalid:  # it quotes the cell, and ends here
        return None


def _plain(words: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Numbers with a decimal point, true and false, ISO days and moments."""
    first: str = words.drop_null()[0].as_py()
    found = None
    if first[:1].isdigit() or first[:1] in "+-.iI":
        found = _whole(words)
        if found is None and not _too_long(words):
            found = _continuous(words)
        if found is None and first[:1].isdigit():
            found = _moment(words)
    elif first.lower() in ("true", "false") and not _any_of(words, ["0", "1"]):
        found = _attempt(words, pa.bool_())
    return found


def _whole(words: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Whole numbers in decimal digits; none if any starts with a needless zero, for then it is a code."""
    found = _attempt(words, pa.int64())
    if found is None:
        return None
    led_by_zero = pc.and_(pc.starts_with(words, "0"), pc.greater(pc.binary_length(words), 1))
    return None if pc.any(led_by_zero).as_py() else found


def _continuous(words: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Numbers; none if no cell is finite, for "inf" and nothing else is a word."""
    found = _attempt(words, pa.float64())
    return found if found is not None and pc.any(pc.is_finite(found)).as_py() else None


def _too_long(words: pa.ChunkedArray) -> bool:
    """Whether some cell is digits only and led by zero, or more digits than a number of 64 bits keeps: a code, then."""
    return bool(pc.any(pc.match_substring_regex(words, rf"^-?(0\d+|\d{{{LONGEST_WHOLE + 1},}})$")).as_py())


def _any_of(words: pa.ChunkedArray, cells: Collection[str]) -> bool:
    return bool(pc.any(pc.is_in(words, value_set=pa.array(list(cells), words.type))).as_py())


def _moment(words: pa.ChunkedArray) -> pa.ChunkedArray | None:
    for kind in (pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.timestamp("ns")):
        found = _attempt(words, kind)
        if found is not None:
            return found
    return None


def _rare(words: pa.ChunkedArray, spelling: Spelling) -> pa.ChunkedArray | None:
    """Numbers and days in a spelling that is seldom met: padded, with a decimal comma, with faint marks of missing."""
    attempts = (
        _plain if spelling.decimal in (None, ".") else None,
        _day,
        _with_comma if spelling.decimal == "," or (spelling.decimal is None and not spelling.commas_separate) else None,
    )
    marks = FAINT_MARKS if spelling.marks is None else frozenset()
    for attempt in attempts:
        # a probe of a few cells keeps columns of words from being gone through again and again
        if attempt and _on(words.drop_null().slice(0, PROBE), marks, attempt) is not None:
            found = _on(words, marks, attempt)
            if found is not None:
                return found
    return None


def _on(
    words: pa.ChunkedArray, marks: Collection[str], attempt: Callable[[pa.ChunkedArray], pa.ChunkedArray | None]
) -> pa.ChunkedArray | None:
    cells = _without(pc.utf8_trim_whitespace(words), {"", *marks})
    return attempt(cells) if cells.null_count < len(cells) else None


def _with_comma(words: pa.ChunkedArray) -> pa.ChunkedArray | None:
    if pc.any(pc.match_substring(words, ".")).as_py():
        return None  # 1.234,5 or 1.5 beside 1,5: not understood
    whole = _whole(words)
    if whole is not None or _too_long(words):
        return whole
    return _continuous(pc.replace_substring(words, ",", ".", max_replacements=1))


def _day(words: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Days in the one format that fits all cells; none if two formats do, for then they are different days."""
    if not pc.all(pc.match_substring_regex(words, f"^{DAY}$")).as_py():
        return None
    fitting = [found for found in (_parsed(words, pattern) for pattern in DAY_FORMATS) if found is not None]
    same = fitting and all(found.equals(fitting[0]) for found in fitting)
    return fitting[0] if same else None


def _parsed(words: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray | None:
    moments = pc.strptime(words, format=pattern, unit="s", error_is_null=True)
    return moments.cast(pa.date32()) if moments.null_count == words.null_count else None
