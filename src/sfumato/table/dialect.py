"""How a text file writes its table: encoding, separator, quote, padding. Told from the bytes, and overridable."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TextIO

import numpy as np

from sfumato.errors import OptionError, ReadError

SEPARATORS = ("\t", ";", "|", ",")  # on a tie the earlier one: a comma may be a decimal mark, a tab never is
SAMPLE_BYTES = 1 << 16
NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How cells are told apart."""

    separator: str
    quote: str | None  # None: quotes are ordinary characters
    padded: bool  # a space follows each separator and belongs to no cell


def decoded(raw: bytes, encoding: str | None, *, file: str) -> bytes:
    """The text as UTF-8 without a byte order mark."""
    encoding = _checked(encoding) if encoding else _encoding_of(raw, file=file)
    if encoding == "utf-8":
        return raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.decode(encoding).removeprefix("\ufeff").encode("utf-8")
    except UnicodeError:
        pass  # the error holds the whole text: leave it behind before raising
    raise ReadError(f"{file} is not text in the encoding {encoding}.", fix="name the encoding it was written in")


def _checked(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        pass
    raise OptionError(f"There is no encoding {encoding!r}.", fix="'utf-8', 'utf-16', 'cp1252' or 'latin-1'")


def _encoding_of(raw: bytes, *, file: str) -> str:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    head = np.frombuffer(raw[:SAMPLE_BYTES] or b"\n", dtype=np.uint8)
    if not head.all():  # a zero byte: every other one in UTF-16, none in any other text
        low, high = (head[0::2] == 0).mean(), (head[1::2] == 0).mean() if head.size > 1 else 0.0
        if max(low, high) > 0.4 and min(low, high) < 0.1:
            return "utf-16-le" if high > low else "utf-16-be"
    control = (head < 32) & ~np.isin(head, [9, 10, 12, 13])
    if control.mean() > 0.01:
        raise ReadError(f"{file} is not text.", fix="a CSV, TSV, Parquet or Arrow file")
    for encoding in ("utf-8", "cp1252"):
        if _decodes(raw, encoding):
            return encoding
    return "latin-1"  # every byte has a meaning in it


def _decodes(raw: bytes, encoding: str) -> bool:
    """Whether the bytes are text in this encoding, looked at piece by piece so that no second copy stands in memory."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for start in range(0, len(raw), 1 << 20):
            decoder.decode(raw[start : start + (1 << 20)])
        decoder.decode(b"", final=True)
    except UnicodeError:
        return False
    return True


def dialect_of(text: bytes, separator: str | None, *, file: str) -> Dialect:
    """The dialect that the head of the text tells, and that all its quotes bear out."""
    if separator is not None and (len(separator.encode()) != 1 or separator in '"\r\n'):
        raise OptionError("separator must be one character, such as ',' ';' '\\t' or '|'.")
    sample = text[:SAMPLE_BYTES]
    whole = len(sample) == len(text)
    head = sample.decode("utf-8", errors="ignore")
    quote = '"' if b'"' in text else _single_quote(head, separator)
    chosen = separator or _separator_of(head, quote, whole=whole)
    dialect = Dialect(separator=chosen, quote=quote, padded=_is_padded(head, chosen, quote))
    return _with_sound_quotes(text, dialect, file=file)


def _is_padded(head: str, separator: str, quote: str | None) -> bool:
    """Whether a space follows every separator that stands between cells."""
    bare = re.sub(f"{quote}[^{quote}]*{quote}", f"{quote}{quote}", head) if quote else head
    following = set(re.findall(rf"{re.escape(separator)}([^{re.escape(separator)}\r\n])", bare))
    return following == {" "}


def _single_quote(head: str, separator: str | None) -> str | None:
    """The single quote, where all that there are enclose whole cells; an apostrophe does not."""
    ends = re.escape(separator) if separator else "".join(map(re.escape, SEPARATORS))
    whole_cell = re.findall(rf"(?:^|[{ends}]) ?'[^'\r\n]*'(?=$|[{ends}\r\n])", head, flags=re.MULTILINE)
    return "'" if len(whole_cell) > 1 and 2 * len(whole_cell) == head.count("'") else None


def _separator_of(head: str, quote: str | None, *, whole: bool) -> str:
    """The separator that splits every line alike, and into cells that read as numbers where it can."""
    best, best_score = "", (0.0, 0.0, 0)
    for candidate in SEPARATORS:
        records = _records(head, candidate, quote, whole=whole)
        if not records or len(records[0]) == 1:
            continue
        alike = sum(len(record) == len(records[0]) for record in records) / len(records)
        cells = [cell for record in records for cell in record]
        numbers = sum(NUMBER.fullmatch(cell.strip()) is not None for cell in cells) / len(cells)
        score = (alike, numbers, len(records[0]))
        if score > best_score:
            best, best_score = candidate, score
    # one column: any separator that never occurs will do, and only a comma could be a decimal mark
    return best or next((mark for mark in SEPARATORS if mark not in head), "\x1f")


def _records(head: str, separator: str, quote: str | None, *, whole: bool) -> list[list[str]]:
    """The lines of the sample, split; the last is left out when the sample may have cut it."""
    records: list[list[str]] = []
    try:
        records.extend(record for record in _reader(io.StringIO(head, newline=""), separator, quote, True) if record)
    except csv.Error:  # a cell longer than the module's limit: the sample ends before it
        return records
    return records if whole or len(records) == 1 else records[:-1]


def _reader(lines: TextIO, separator: str, quote: str | None, padded: bool) -> Any:
    if quote is None:
        return csv.reader(lines, delimiter=separator, skipinitialspace=padded, quoting=csv.QUOTE_NONE)
    return csv.reader(lines, delimiter=separator, skipinitialspace=padded, quotechar=quote)


def _with_sound_quotes(text: bytes, dialect: Dialect, *, file: str) -> Dialect:
    """Refuse a quote that is never closed; read quotes as ordinary characters where none of them opens a cell.

    In sound text the quotes open and close in turn (a doubled quote closes and opens again), so it is enough to look at
    the byte before each opening one and after each closing one.
    """
    if dialect.quote is None:
        return dialect
    content = np.frombuffer(text, dtype=np.uint8)
    places = np.flatnonzero(content == ord(dialect.quote))
    if places.size == 0:
        return replace(dialect, quote=None)
    quote, borders = ord(dialect.quote), [ord(dialect.separator), 10, 13]
    before, after = content[places - 1], content[(places + 1) % content.size]
    opens_cell = np.isin(before, borders) | (dialect.padded & (before == 32)) | (places == 0)
    closes_cell = np.isin(after, borders) | (places == content.size - 1)
    if not opens_cell.any():
        return replace(dialect, quote=None)
    opening = np.arange(places.size) % 2 == 0
    sound = np.where(opening, opens_cell | (before == quote), closes_cell | (after == quote))
    if places.size % 2 or not sound.all():
        if dialect.quote == "'":
            return replace(dialect, quote=None)  # apostrophes after all
        wrong = places[-1] if sound.all() else places[np.argmin(sound)]
        line = 1 + int(np.count_nonzero(content[:wrong] == 10))
        raise ReadError(
            f"Every quote in {file} must be closed at the end of its cell.",
            found=f"a quote that is not, at or before line {line:,}",
            fix="close it; a quote inside a quoted cell is written twice",
        )
    return dialect


def widths(text: bytes, dialect: Dialect) -> Iterator[tuple[int, int]]:
    """The number of cells of each record with the line it ends on; slow, for the first record or for an error."""
    lines = io.TextIOWrapper(io.BytesIO(text), encoding="utf-8", newline="")
    rows = _reader(lines, dialect.separator, dialect.quote, dialect.padded)
    try:
        for record in rows:
            if record:
                yield len(record), rows.line_num
    except csv.Error:  # a cell longer than the module's limit
        return
