"""Detect how a text file is written: encoding, separator, quote, padding, and whether its first line has names."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import OptionError, ReadError
from sfumato.formats.type_inference import NUMBER, is_value

SEPARATORS = ("\t", ";", "|", ",")  # on a tie the earlier one wins: a comma may be a decimal mark, a tab never is
SAMPLE_BYTES = 1 << 16
DECIMAL_COMMA = re.compile(r"[+-]?[\d.' ]*,\d+([eE][+-]?\d+)? ?[%€$£]?")  # also 1.234,56 €


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a text file is written: how cells are separated and quoted, and in which encoding."""

    separator: str
    quote: str | None  # None means that quotes are ordinary characters
    padded: bool  # whether a space that is not part of the cell follows each separator
    encoding: str = "utf-8"


def decode(raw: bytes, encoding: str, *, file: str, is_valid: bool) -> bytes:
    """Return the text as UTF-8 without a byte order mark; ``is_valid`` if the bytes are known to have the encoding."""
    if encoding == "utf-8" and (is_valid or _decodes(raw, encoding)):
        return raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.decode(encoding).removeprefix("\ufeff").encode("utf-8")
    except ValueError:  # also a UnicodeError
        pass  # the error contains the whole text, so the ReadError must not be chained to it
    raise ReadError(
        f"{file} is not text in the encoding {encoding}.",
        found=f"text that may be {_detect_encoding(raw, file=file)}",
        fix="leave the encoding out: it is detected",
    )


def encoding_of(raw: bytes, given: str | None, *, file: str) -> str:
    """Return the given encoding if it exists, or else the one that the bytes are written in."""
    return _require_encoding(given) if given else _detect_encoding(raw, file=file)


def _require_encoding(encoding: str) -> str:
    try:
        _ = "".encode(encoding)  # an error for codecs that are not of text, such as base64
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):
        pass
    raise OptionError(f"There is no encoding {encoding!r}.", fix="use 'utf-8', 'utf-16', 'cp1252' or 'latin-1'")


def _detect_encoding(raw: bytes, *, file: str) -> str:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    head = np.frombuffer(raw[:SAMPLE_BYTES] or b"\n", dtype=np.uint8)
    if not head.all():  # zero bytes: about every other byte in UTF-16, none in any other encoding
        low, high = (head[0::2] == 0).mean(), (head[1::2] == 0).mean() if head.size > 1 else 0.0
        if max(low, high) > 0.4 and min(low, high) < 0.1:
            return "utf-16-le" if high > low else "utf-16-be"
    control = (head < 32) & ~np.isin(head, [9, 10, 12, 13])
    if control.mean() > 0.01:
        raise ReadError(f"{file} is not text.", fix="read a CSV, TSV, Parquet or Arrow file")
    for encoding in ("utf-8", "cp1252"):
        if _decodes(raw, encoding):
            return encoding
    return "latin-1"  # every byte is valid in it


def _decodes(raw: bytes, encoding: str) -> bool:
    """Return whether the bytes are valid in this encoding, checked piecewise to avoid a second copy in memory."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for start in range(0, len(raw), 1 << 20):
            decoder.decode(raw[start : start + (1 << 20)])
        decoder.decode(b"", final=True)
    except UnicodeError:
        return False
    return True


def detect_dialect(text: bytes, separator: str | None, *, file: str) -> Dialect:
    """Detect the dialect from the start of the text, and check all quotes against it."""
    if separator is not None and (len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0'):
        raise OptionError("separator must be one character, such as ',' ';' '\\t' or '|'.")
    sample = text[:SAMPLE_BYTES]
    whole = len(sample) == len(text)
    head = sample.decode("utf-8", errors="ignore")
    quote = '"' if b'"' in text else _single_quote(head, separator)
    chosen = separator or _separator_of(head, quote, whole=whole)
    dialect = Dialect(separator=chosen, quote=quote, padded=_is_padded(head, chosen, quote))
    return _check_quotes(text, dialect, file=file)


def _is_padded(head: str, separator: str, quote: str | None) -> bool:
    """Return whether a space follows every separator between cells."""
    bare = re.sub(f"{quote}[^{quote}]*{quote}", f"{quote}{quote}", head) if quote else head
    following = set(re.findall(rf"{re.escape(separator)}([^{re.escape(separator)}\r\n])", bare))
    return following == {" "}


def _single_quote(head: str, separator: str | None) -> str | None:
    """Return the single quote if all of its occurrences enclose whole cells, which apostrophes do not; else None."""
    ends = re.escape(separator) if separator else "".join(map(re.escape, SEPARATORS))
    whole_cell = re.findall(rf"(?:^|[{ends}]) ?'[^'\r\n]*'(?=$|[{ends}\r\n])", head, flags=re.MULTILINE)
    return "'" if len(whole_cell) > 1 and 2 * len(whole_cell) == head.count("'") else None


def _separator_of(head: str, quote: str | None, *, whole: bool) -> str:
    """Return the separator that splits every line into the same number of cells, with the most numbers on a tie."""
    best, best_score = "", (0.0, 0.0, 0)
    for candidate in SEPARATORS:
        records = _records(head, candidate, quote, whole=whole)
        if not records or len(records[0]) == 1:
            continue
        if best and candidate == "," and best_score[0] == 1.0 and _has_decimal_commas_only(head, best, quote):
            continue
        equal_widths = sum(len(record) == len(records[0]) for record in records) / len(records)
        cells = [cell for record in records for cell in record]
        numbers = sum(NUMBER.fullmatch(cell.strip()) is not None for cell in cells) / len(cells)
        score = (equal_widths, numbers, len(records[0]))
        if score > best_score:
            best, best_score = candidate, score
    # one column: any separator that does not occur works; a comma comes last because it may be a decimal mark
    return best or next((mark for mark in SEPARATORS if mark not in head), "\x1f")


def _has_decimal_commas_only(head: str, separator: str, quote: str | None) -> bool:
    """Return whether every comma stands in a number, if this is the separator: it then separates no cells."""
    cells = (cell for record in _records(head, separator, quote, whole=True) for cell in record if "," in cell)
    return all(DECIMAL_COMMA.fullmatch(cell.strip()) for cell in cells)


def _records(head: str, separator: str, quote: str | None, *, whole: bool) -> list[list[str]]:
    """Split the lines of the sample; the last one is left out if the sample may have cut it."""
    records: list[list[str]] = []
    try:
        records.extend(record for record in _reader(io.StringIO(head, newline=""), separator, quote, True) if record)
    except csv.Error:  # a cell longer than the limit of the csv module: use the records before it
        return records
    return records if whole or len(records) == 1 else records[:-1]


def _reader(lines: TextIO, separator: str, quote: str | None, padded: bool) -> Any:
    if quote is None:
        return csv.reader(lines, delimiter=separator, skipinitialspace=padded, quoting=csv.QUOTE_NONE)
    return csv.reader(lines, delimiter=separator, skipinitialspace=padded, quotechar=quote)


def _check_quotes(text: bytes, dialect: Dialect, *, file: str) -> Dialect:
    """Raise on a quote that is never closed; treat quotes as ordinary characters if none of them opens a cell.

    In well-formed text quotes open and close in turn, and a doubled quote closes and opens again. It is therefore
    enough to check the byte before each opening quote and the byte after each closing one.
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
    well_formed = np.where(opening, opens_cell | (before == quote), closes_cell | (after == quote))
    if places.size % 2 or not well_formed.all():
        if dialect.quote == "'":
            return replace(dialect, quote=None)  # they are apostrophes
        wrong = places[-1] if well_formed.all() else places[np.argmin(well_formed)]
        line = 1 + int(np.count_nonzero(content[:wrong] == 10))
        raise ReadError(
            f"Every quote in {file} must be closed at the end of its cell.",
            found=f"a quote that is not closed, at or before line {line:,}",
            fix="close the quote, or double it if it is part of a quoted cell",
        )
    return dialect


def without_padding(text: bytes, dialect: Dialect) -> bytes:
    """Return the text without spaces before quotes: the parser recognises a quote only directly after the separator."""
    if not (dialect.padded and dialect.quote):
        return text
    between, mark = dialect.separator.encode(), dialect.quote.encode()
    return text.replace(between + b" " + mark, between + mark)


def widths(text: bytes, dialect: Dialect) -> Iterator[tuple[int, int]]:
    """Yield the number of cells of each record and the line that it ends on.

    This is slow. It is used for the first record and for error messages.
    """
    lines = io.TextIOWrapper(io.BytesIO(text), encoding="utf-8", newline="")
    rows = _reader(lines, dialect.separator, dialect.quote, dialect.padded)
    try:
        for record in rows:
            if record:
                yield len(record), rows.line_num
    except csv.Error:  # a cell longer than the limit of the csv module
        return


# Decide whether the first line of a text file contains column names. In doubt it is not used as names.
#
# A row of data that is mistaken for names would be published: names are in every output. The first line is therefore
# used only if it differs from the rows below it in a way that a person's cells do not. If that is not certain, a
# warning says so; if the line looks like data, the user must decide.


LETTERS_OF_NOBODY = 2  # a cell of so few letters, such as x or ID, describes nobody
USUAL = 0.5  # share of the cells of a column from which their appearance is the usual one
SHOWN_ROWS = 1000  # rows whose appearance is compared

COLUMN_STYLE = re.compile(r"[a-z][a-z0-9_.]*")  # as programs write names of columns


@dataclass(frozen=True)
class Pattern:
    """How a cell is written, without what differs between people; only cells with some digits have a pattern."""

    digits: int  # fewest digits
    length: int  # fewest characters
    masks: tuple[tuple[str, str], ...]  # what is replaced, and by what

    def of(self, cells: pa.Array) -> pa.Array:
        """Return the patterns of cells."""
        for differing, mask in self.masks:
            cells = pc.replace_substring_regex(cells, differing, mask)
        return cells


LITERAL = Pattern(digits=1, length=2, masks=((r"\p{Nd}+", "0"),))  # patient_001: the letters are those of all
MASKED = Pattern(digits=2, length=4, masks=((r"\p{Nd}", "0"), (r"[A-Z]", "A"), (r"[a-z]", "a")))  # AB-1234

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
    if any(_shares_pattern(cell, column, LITERAL) for cell, column in named):
        return Header.DATA
    if any(_shares_pattern(cell, column, MASKED) for cell, column in named):
        return Header.UNCLEAR
    typed = [cell for cell, column in named if not is_text(column)]
    proofs = [cell for cell in typed if not WITHOUT_VALUE.fullmatch(cell) or _has_word(cell)]
    recurring = any(column.index(cell).as_py() >= 0 for cell, column in named)
    if len(set(proofs)) > 1:
        return Header.NAMES
    if recurring:
        return Header.UNCLEAR if proofs else Header.DATA
    words = sum(_has_word(cell) for cell in first)
    doubts = len(typed) - len(proofs) + sum(_may_be_data(cell, column) for cell, column in named if cell not in typed)
    if words == len(named) or (proofs and words > doubts):
        return Header.NAMES
    # text above numbers is a name, so a doubt may stand beside each word; without it, two words must outweigh each
    enough = words >= doubts if proofs else words >= max(1, 2 * doubts)
    return Header.PROBABLY_NAMES if enough else Header.UNCLEAR


def _shares_pattern(cell: str, column: pa.ChunkedArray, pattern: Pattern) -> bool:
    """Return whether a first cell has the pattern of most of the cells below it, as patient_001 has of patient_002."""
    digits = sum(sign.isdigit() for sign in cell)
    if digits < pattern.digits or len(cell) < pattern.length:
        return False
    below = pc.utf8_trim_whitespace(column.slice(0, SHOWN_ROWS)).drop_null().combine_chunks()
    below = below.filter(pc.not_equal(below, ""))
    alike = pc.equal(pattern.of(below), pattern.of(pa.array([cell], below.type))[0])
    return bool((pc.sum(alike).as_py() or 0) > USUAL * len(below))


def _has_word(cell: str) -> bool:
    """Return whether a cell is made of words of column names: all of them, or one if _ or capitals join them.

    A single letter is such a word: it describes nobody, and as a value it would recur in its column.
    """
    if len(cell) == 1 and cell.isalpha():
        return True
    joined = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part).lower().strip("_") for part in re.split(r"[^\w]+", cell)]
    return all(WORDS.intersection(re.split(r"[_\d]+", part)) for part in joined if part) and any(joined)


def _may_be_data(cell: str, column: pa.ChunkedArray) -> bool:
    """Return whether a first cell may be a value: no word of column names, and not written as names of columns are.

    A name in lower case, without spaces, is that of a column if most of the cells below it look different.
    """
    if _has_word(cell) or len(cell) <= LETTERS_OF_NOBODY:
        return False
    if not COLUMN_STYLE.fullmatch(cell):
        return True
    below = pc.utf8_trim_whitespace(column.slice(0, SHOWN_ROWS)).to_pylist()
    looks = [_appearance(other) for other in below if other]
    return not looks or looks.count(_appearance(cell)) >= USUAL * len(looks)


def _appearance(cell: str) -> tuple[bool, ...]:
    """Return how a text looks: how it begins, whether it is in capitals, and whether it has spaces and digits."""
    start = cell[:1]
    has_digits = any(sign.isdigit() for sign in cell)
    return start.isupper(), start.islower(), cell.isupper(), " " in cell, has_digits, "_" in cell
