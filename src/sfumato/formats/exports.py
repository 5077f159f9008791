"""Write a table: text, Parquet and Arrow, and for SPSS (.sav), Stata (.dta), SAS (.xpt) and Excel (.xlsx).

Categories are written as codes 1, 2, … with their names as value labels, where the format has such labels. Nothing is
lost in silence: whatever a format cannot hold is named in the notes that are returned.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import OptionError
from sfumato.formats.arrow_files import write_arrow, write_parquet
from sfumato.formats.raw_files import require_packages, write_whole
from sfumato.formats.statistics_files import write_statistics
from sfumato.formats.text import as_text, write_text
from sfumato.formats.workbooks import write_workbook
from sfumato.params import require_choice
from sfumato.table.intervals import HIGH, LOW, MISSING_COUNT
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

MOST_CATEGORIES = 250  # of a column that is written as codes with labels
ASCII_SIGNS = r"[^A-Za-z0-9_]"  # that a name in Stata or SAS must not contain
PADDED = (".sav", ".xpt")  # formats that fill text up with spaces, so that those at its end are lost
EXACT_WHOLE = 2**53  # larger whole numbers are not exact as floating-point numbers
# words that a column must not be called in SPSS or Stata
RESERVED = frozenset(["all", "and", "by", "byte", "double", "eq", "float", "ge", "gt", "if", "in", "int", "le", "long"])
RESERVED |= {"lt", "ne", "not", "or", "str", "strl", "to", "using", "with"}


@dataclass(frozen=True, kw_only=True)
class ExportFormat:
    """What a format can hold."""

    suffix: str
    program: str
    modules: tuple[str, ...] = ("pyreadstat", "pandas")  # that write it
    extra: str = "stats"
    name_bytes: int = 0  # longest name of a column; 0: any name
    name_signs: str = r"\W"  # signs that a name must not contain
    label_bytes: int = 0  # longest label of a column
    value_label_bytes: int = 0  # longest label of a value; 0: there are none
    text_bytes: int = 32_767  # longest text of a cell
    first_day: datetime.date = datetime.date.min  # of its calendar


FIRST_GREGORIAN = datetime.date(1582, 10, 15)
SPSS = ExportFormat(
    suffix=".sav", program="SPSS", name_bytes=64, label_bytes=256, value_label_bytes=120, first_day=FIRST_GREGORIAN
)
STATA = ExportFormat(
    suffix=".dta",
    program="Stata",
    name_bytes=32,
    name_signs=ASCII_SIGNS,
    label_bytes=80,
    value_label_bytes=32_000,
    text_bytes=2_045,
    first_day=datetime.date(100, 1, 1),
)
SAS = ExportFormat(
    suffix=".xpt", program="SAS", name_bytes=32, name_signs=ASCII_SIGNS, label_bytes=256, first_day=FIRST_GREGORIAN
)
EXCEL = ExportFormat(
    suffix=".xlsx",
    program="Excel",
    modules=("xlsxwriter",),
    extra="excel",
    label_bytes=32_767,
    first_day=datetime.date(1900, 3, 1),  # Excel takes 1900 for a leap year
)
EXPORTS = {one.suffix: one for one in (SPSS, STATA, SAS, EXCEL)}


@dataclass(frozen=True, kw_only=True)
class Exported:
    """How a table was written: names of columns that had to be changed, and notes on what the format cannot hold."""

    names: Mapping[str, str] = field(default_factory=dict)  # column → its name in the file, if they differ
    notes: tuple[str, ...] = ()


def require_exportable(suffix: str) -> ExportFormat:
    """Return the format; raise unless the packages that write it are installed."""
    chosen = EXPORTS[suffix]
    require_packages(chosen.extra, list(chosen.modules), doing=f"Writing {chosen.suffix} files")
    return chosen


def export(table: Table, path: Path, labels: Mapping[str, str]) -> Exported:
    """Write a table in the format of the extension of ``path``; ``labels`` say what columns mean.

    A column whose name had to be changed keeps it as its label, if it has no other.
    """
    chosen = require_exportable(path.suffix)
    _require_room(table, chosen)
    columns: dict[str, pa.ChunkedArray] = {}
    codes: dict[str, Mapping[int, str]] = {}
    notes: list[str] = []
    for name in table.names:
        exported = _fit_column(table.arrow.column(name), table.kinds[name], chosen)
        columns[name] = exported.cells
        codes |= {name: exported.codes} if exported.codes else {}
        notes += [f"{name!r} {note}" for note in exported.notes]
    names = file_names(table.names, chosen)
    renamed = {name: new for name, new in names.items() if name != new}
    if renamed:
        listed = ", ".join(f"{name!r} is called {new!r}" for name, new in renamed.items())
        notes.append(f"names must be short and plain: {listed}")
    labels = dict(zip(renamed, renamed, strict=True)) | {name: label for name, label in labels.items() if label}
    short = {name: _cut(labels[name], chosen.label_bytes) for name in table.names if name in labels}
    if any(short[name] != labels[name] for name in short):
        notes.append(f"labels are cut to {chosen.label_bytes} bytes; the codebook has them in full")
    arrow = pa.table(list(columns.values()), names=list(names.values()))
    labels = {names[name]: label for name, label in short.items()}
    _write_file(arrow, path, labels, {names[name]: values for name, values in codes.items()})
    return Exported(names=renamed, notes=tuple(f"{path.name}: {note}." for note in notes))


@dataclass(frozen=True, repr=False)
class ExportedColumn:
    """A column as a format can hold it."""

    cells: pa.ChunkedArray
    codes: Mapping[int, str] = field(default_factory=dict)  # value labels
    notes: tuple[str, ...] = ()


def _fit_column(cells: pa.ChunkedArray, kind: Kind, chosen: ExportFormat) -> ExportedColumn:
    """Return a column as the format can hold it."""
    if pt.is_temporal(cells.type):
        return _moments(cells, chosen)
    if pt.is_integer(cells.type):
        ends = pc.min_max(cells)
        if max(abs(ends["min"].as_py() or 0), abs(ends["max"].as_py() or 0)) > EXACT_WHOLE:
            return ExportedColumn(cells.cast(pa.string()), notes=("is text, because its numbers have too many digits",))
        return ExportedColumn(cells.cast(pa.int64()))
    if pt.is_decimal(cells.type) or pt.is_floating(cells.type):
        numbers = cells.cast(pa.float64())
        finite = pc.if_else(pc.is_finite(numbers), numbers, pa.scalar(None, pa.float64()))
        infinite = finite.null_count - numbers.null_count
        return ExportedColumn(finite, notes=("is missing where a number is infinite",) if infinite else ())
    if pt.is_boolean(cells.type):
        return ExportedColumn(cells if chosen.suffix == ".xlsx" else cells.cast(pa.int32()))
    texts = as_text(cells)
    coded = _code_categories(cells, texts, chosen) if kind in (Kind.NOMINAL, Kind.ORDERED) else None
    if coded is not None:
        return coded
    no_labels = kind is Kind.ORDERED or (kind is Kind.NOMINAL and chosen.value_label_bytes > 0)
    notes = ("is text, without value labels or an order",) if no_labels else ()
    return ExportedColumn(texts, notes=notes + _lost_signs(texts, chosen))


def _lost_signs(texts: pa.ChunkedArray, chosen: ExportFormat) -> tuple[str, ...]:
    """Return what is lost of text: no format tells empty text from a missing value, and some pad text with spaces."""
    empty = pc.any(pc.equal(texts, "")).as_py()
    spaces = chosen.suffix in PADDED and pc.any(pc.ends_with(texts, " ")).as_py()
    notes = ("is missing where a text is empty",) if empty else ()
    return (*notes, "has no spaces at the end of texts") if spaces else notes


def _code_categories(cells: pa.ChunkedArray, texts: pa.ChunkedArray, chosen: ExportFormat) -> ExportedColumn | None:
    """Return categories as codes from 1 with value labels; None if the format cannot hold these labels."""
    if pt.is_dictionary(cells.type) and cells.num_chunks:
        values = cells.unify_dictionaries().chunk(0).dictionary.cast(pa.string())
    else:
        values = pc.unique(texts).drop_null().sort()
    longest = pc.max(pc.binary_length(values)).as_py() or 0
    if not len(values) or len(values) > MOST_CATEGORIES or longest > chosen.value_label_bytes:
        return None
    codes = pc.add(pc.index_in(texts, value_set=values), 1).cast(pa.int32())
    spaces = chosen.suffix in PADDED and pc.any(pc.ends_with(values, " ")).as_py()
    notes = ("has no spaces at the end of labels",) if spaces else ()
    return ExportedColumn(codes, codes=dict(enumerate(values.to_pylist(), 1)), notes=notes)


def _moments(cells: pa.ChunkedArray, chosen: ExportFormat) -> ExportedColumn:
    """Return dates, or timestamps without a time zone; those outside the calendar of the program are text."""
    notes: tuple[str, ...] = ()
    if pt.is_timestamp(cells.type):
        if cells.type.tz:
            notes = ("is in UTC, without a time zone",)
            cells = pc.cast(cells, pa.timestamp("us", tz="UTC"), safe=False).cast(pa.int64())
        cells = pc.cast(cells, pa.timestamp("us"), safe=False)
        thousandths = pc.cast(pc.cast(cells, pa.timestamp("ms"), safe=False), pa.timestamp("us"))
        if chosen.suffix in (".xlsx", ".dta") and not pc.all(pc.equal(cells, thousandths)).as_py():
            notes = (*notes, "is cut to milliseconds")
            cells = thousandths
    first = pc.min(cells).as_py()
    day = first.date() if isinstance(first, datetime.datetime) else first
    if day is not None and day < chosen.first_day:
        return ExportedColumn(
            pc.strftime(cells, "%Y-%m-%d") if pt.is_date(cells.type) else cells.cast(pa.string()),
            notes=(*notes, f"is text, because {chosen.program} has no dates before {chosen.first_day}"),
        )
    return ExportedColumn(cells, notes=notes)


def file_names(names: Sequence[str], chosen: ExportFormat) -> dict[str, str]:
    """Return the name of each column in the file: plain, short, and different even if case does not count.

    The ends ``_low``, ``_high`` and ``_missing`` stay, so that ranges are recognised.
    """
    if not chosen.name_bytes:
        return {name: name for name in names}
    bases, taken = {}, set[str]()
    ends = {name: next((end for end in (LOW, HIGH, MISSING_COUNT) if name.endswith(end)), "") for name in names}
    for base in dict.fromkeys(name.removesuffix(ends[name]) for name in names):
        plain, most = _plain_name(base, chosen), chosen.name_bytes - len(MISSING_COUNT)
        new, number = _cut(plain, most, mark=""), 2
        while new.lower() in taken:
            new, number = f"{_cut(plain, most - len(str(number)) - 1, mark='')}_{number}", number + 1
        taken |= {new.lower() + end for end in ("", LOW, HIGH, MISSING_COUNT)}
        bases[base] = new
    return {name: bases[name.removesuffix(ends[name])] + ends[name] for name in names}


def _plain_name(name: str, chosen: ExportFormat) -> str:
    if chosen.name_signs == r"\W":
        plain = re.sub(chosen.name_signs, "_", name)
    else:  # letters without accents
        signs = (sign for sign in unicodedata.normalize("NFKD", name) if not unicodedata.combining(sign))
        plain = re.sub(chosen.name_signs, "_", "".join(signs))
    return plain if plain[:1].isalpha() and plain.lower() not in RESERVED else f"v{plain}"


def _cut(text: str, most: int, mark: str = "…") -> str:
    raw = text.encode()
    return text if len(raw) <= most else raw[: most - len(mark.encode())].decode(errors="ignore") + mark


def _require_room(table: Table, chosen: ExportFormat) -> None:
    """Raise if the format cannot hold the table at all."""
    rows, columns = (1_048_575, 16_384) if chosen.suffix == ".xlsx" else (2**31 - 1, 32_767)
    if table.rows > rows or len(table.names) > columns:
        raise OptionError(
            f"A {chosen.suffix} file holds at most {rows:,} rows and {columns:,} columns.",
            found=f"{table.rows:,} rows and {len(table.names):,} columns",
            fix="the formats csv and parquet",
        )
    for name in table.names:
        cells = table.arrow.column(name)
        if pt.is_string(cells.type) and (pc.max(pc.binary_length(cells)).as_py() or 0) > chosen.text_bytes:
            raise OptionError(
                f"A cell of a {chosen.suffix} file holds at most {chosen.text_bytes:,} bytes of text.",
                found=f"longer text in column {name!r}",
                fix="the formats csv and parquet",
            )


def _write_file(arrow: pa.Table, path: Path, labels: Mapping[str, str], codes: Mapping[str, Mapping[int, str]]) -> None:
    failed = False
    try:
        if path.suffix == ".xlsx":
            write_workbook(arrow, path, labels)
        else:
            write_statistics(arrow, path, labels, codes)
    except (OSError, MemoryError):
        raise
    except Exception:  # the error of a package may quote a cell
        failed = True
    if failed:
        raise OptionError(f"The rows cannot be written as {path.name}.", fix="the formats csv and parquet")


FORMULAS = ("keep", "escape")


def write(arrow: pa.Table, path: str | Path, *, formulas: str = "escape") -> None:
    """Write an Arrow table in the format of the file extension: .csv, .tsv, .parquet, .arrow or .feather.

    In text files a missing cell is empty, so it is read back as missing. An empty string is read back as missing too.
    Spreadsheets take text that begins with = + - @ for a formula: "escape" puts an apostrophe before such text and such
    column names in text files, "keep" writes them unchanged. Numbers and other formats are always exact.
    """
    require_choice(formulas, name="formulas", choices=FORMULAS)
    target = Path(path).expanduser()
    writers: dict[str, Callable[[pa.Table, BinaryIO], None]] = {
        ".csv": lambda arrow, file: write_text(arrow, file, ",", formulas),
        ".tsv": lambda arrow, file: write_text(arrow, file, "\t", formulas),
        ".parquet": write_parquet,
        ".arrow": write_arrow,
        ".feather": write_arrow,
    }
    writer = writers.get(target.suffix.lower())
    if writer is None:
        known = ", ".join(writers)
        raise OptionError(f"The file must have one of the extensions {known}.", found=repr(target.suffix))
    write_whole(target, lambda file: writer(arrow, file))
