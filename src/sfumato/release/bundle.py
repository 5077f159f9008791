"""Write a release to a folder, with labels that say what its columns mean: all of it, or nothing.

The files are written to a hidden folder next to the target, flushed to disk, and put in place by one rename. After a
crash or on a full disk the folder holds the old release or the new one, never a mix. A failed write leaves no files.
The manifest is written last, with the SHA-256 of every other file.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import pyarrow as pa

from sfumato.errors import OptionError, ReadError, RequestError, warn
from sfumato.formats.arrow_files import write_parquet
from sfumato.formats.exports import EXPORTS, export, require_exportable
from sfumato.formats.raw_files import write_whole
from sfumato.formats.text import write_text
from sfumato.languages import ENGLISH, translate_lines
from sfumato.params import require_choice
from sfumato.plan.recount_sql import ReleasedRows, write_promises
from sfumato.release import target as place
from sfumato.release.manifest import BOX_MEAN, Manifest
from sfumato.release.target import CSV, MANIFEST, PARQUET, PROMISES, README
from sfumato.schema.columns import Role
from sfumato.table.intervals import BOX, high_name, is_interval, low_name, missing_name, original_name
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from sfumato.table.table import Table


class RenderedReport(Protocol):
    """The report of a release: a page, and all its numbers as JSON text."""

    @property
    def page(self) -> str:
        """The page."""

    @property
    def numbers(self) -> str:
        """The numbers."""


def released_labels(manifest: Manifest, released: Sequence[str]) -> dict[str, str]:
    """Return the labels of the released columns that have one; the ends of ranges say what they are."""
    known = {column.name: column.label for column in manifest.columns}
    labels = {name: _label(name, released, known, manifest.shifted) for name in released}
    return {name: label for name, label in labels.items() if label}


def _label(name: str, released: Sequence[str], known: dict[str, str], shifted: Sequence[str]) -> str:
    if name in known:
        return known[name]
    base = original_name(name, released, known)
    meaning = known.get(base) or base
    what = "shifted date" if base in shifted else "value"
    if name in (low_name(base), high_name(base)):
        end = "lower" if name == low_name(base) else "upper"
        return f"{meaning}: {end} end of the range that contains the {what}"
    if name == missing_name(base):
        return f"{meaning}: number of rows of the box without a value"
    return "number of the box: its rows share all ranges" if name == BOX else ""


def promises_in_sql(manifest: Manifest, *, in_parts: bool) -> str:
    """Return the promises of a release as queries that DuckDB runs in its folder."""
    rows = ReleasedRows(
        path=f"{PARQUET}/*.parquet" if in_parts else PARQUET,
        kinds={column.name: column.kind for column in manifest.released},
    )
    claims = [record.to_claim() for record in manifest.claims[: len(manifest.findings)]]
    return write_promises(list(zip_longest(manifest.findings, claims)), rows)


MOST_NAMES, LONGEST_NAME, STATA_NAME = 12, 60, 32  # columns on a line of the README, letters of a name, also in Stata


def write_readme(manifest: Manifest, language: str = ENGLISH) -> str:
    """Return what the columns mean, for an analyst who sees them first; whoever has the manifest writes the same."""
    told, names = [], [column.name for column in manifest.released]
    groups = _columns_by_meaning(manifest)
    for meaning, columns in groups.items():
        told += [f"- {_listed(columns)}: {meaning}"] if columns else []
    if BOX in names and not any(column.name == BOX for column in manifest.columns):
        told.append("- box: rows with the same number share all their ranges and sets; the number means nothing else.")
    method = _printable(manifest.method, LONGEST_NAME)
    left_out = "" if not manifest.suppressed else f"; {manifest.suppressed:,} rows were left out"
    lines = [
        f"A table of {manifest.rows_out:,} rows, anonymized by sfumato {manifest.version}, {method}{left_out}.",
        f"Promised: {_printable(manifest.guarantee, 1000)}. To recount this: sfumato verify FOLDER",
        f"or, with DuckDB alone, in the folder: duckdb < {PROMISES}",
        "",
        "Columns (codebook.csv has a line for each):",
        *told,
        "",
        *_ways_to_estimate(manifest, groups[RANGE]),
    ]
    text = "\n".join(lines) + "\n"
    return text if language == ENGLISH else translate_lines(text, language)


RANGE = (
    "released as two columns with _low and _high. The true value lies between them, both ends included. If there is a "
    "column with _missing, it counts the rows of the box without a value."
)
SHIFTED = "dates that were shifted first: the cell, or the range from _low to _high, holds the shifted date."
POOLED = "sampling weights: the mean weight of the box, and the range of its weights in _low and _high."


def _columns_by_meaning(manifest: Manifest) -> dict[str, list[str]]:
    """Return the columns of the original by what their released cells mean, each in one group."""
    names = {column.name for column in manifest.released}
    rest = [column.name for column in manifest.columns]

    def take(chosen: Callable[[str], bool]) -> list[str]:
        taken = [name for name in rest if chosen(name)]
        rest[:] = [name for name in rest if name not in taken]
        return taken

    sets, trees = set(manifest.sets) - set(manifest.nodes), set(manifest.nodes)
    return {
        SHIFTED: take(set(manifest.shifted).__contains__),
        "pseudonyms: the same person has the same one; they mean nothing else.": take(
            set(manifest.pseudonyms).__contains__
        ),
        POOLED: take(lambda name: name == manifest.weight and manifest.sampling_weights == BOX_MEAN),
        RANGE: take(lambda name: is_interval(name, names)),
        "not released.": take(lambda name: name not in names),
        "words of a tree: a word that stands for several values means one of them.": take(trees.__contains__),
        "changed by the method; a cell need not be that of the person, and guarantees no interval.": take(
            set(manifest.altered).__contains__
        ),
        "sets of categories: a|b means one of a and b, (missing) no value, (any) any value.": take(sets.__contains__),
        "generalized: the cell stands for a range or group that holds the true value.": take(
            (set(manifest.names(Role.QUASI)) - set(manifest.unaltered)).__contains__
        ),
        "exact: the cells of the original.": rest,
    }


def _ways_to_estimate(manifest: Manifest, ranges: Sequence[str]) -> list[str]:
    """Return how to estimate: a mean in other programs only where the means of the ends are its bounds."""
    names = {column.name for column in manifest.released}
    numbers = {column.name for column in manifest.columns if column.kind in (Kind.CONTINUOUS, Kind.WHOLE)}
    plain = [name for name in ranges if name.isidentifier() and name.isascii()]
    simple = [name for name in plain if name in numbers and missing_name(name) not in names]
    shown = next(iter(simple or plain), "x")
    lines = [f'Estimate, with an interval that holds the true value: sfumato estimate FOLDER "mean({shown})"']
    if not ranges:
        lines = ['Estimate: sfumato estimate FOLDER "STATISTIC" says for each statistic what can be concluded.']
    if not simple or manifest.weight is not None:
        return lines
    low, high = low_name(shown), high_name(shown)
    read = f'read.csv("{CSV}")' if CSV in manifest.files else f'arrow::read_parquet("{PARQUET}")'
    pandas = f'  pandas  pandas.read_parquet("{PARQUET}")[["{low}", "{high}"]].mean()'
    r = f'  R       colMeans({read}[c("{low}", "{high}")])'
    lines += ["Bounds of a mean over the released rows in other programs:", pandas, r]
    if CSV in manifest.files and len(high) <= STATA_NAME:
        lines += [f"  Stata   import delimited {CSV}, case(preserve)", f"          mean {low} {high}"]
    return lines


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return ", ".join(_printable(name, LONGEST_NAME) for name in names[:MOST_NAMES]) + more


def _printable(text: str, most: int) -> str:
    """Return text without line breaks and other signs by which a name could pass for a line of its own."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return shown if len(shown) <= most else f"{shown[:most]}…"


FORMATS = ("csv", "parquet", *(suffix.removeprefix(".") for suffix in EXPORTS))
DEFAULT_FORMATS = ("csv",)  # released.parquet is always written: it is the release of record
EMBEDDED, EMBEDDED_ROWS = b"sfumato.manifest", b"sfumato.rows"  # metadata of released.parquet
HASHED_ROWS = 100_000  # that are in memory as text at a time
PRIVATE = 0o700  # nobody else reads a bundle that is not complete


def write(
    table: Table,
    manifest: Manifest,
    report: Mapping[str, bytes],
    folder: str | Path,
    *,
    formats: Sequence[str] = DEFAULT_FORMATS,
    csv_formulas: str = "escape",
    language: str = ENGLISH,
) -> Path:
    """Write released rows, manifest and report into ``folder``, all or nothing, and return its absolute path.

    The folder must not exist, be empty, or contain an older bundle, which is then replaced as a whole and keeps its
    modes. A symbolic link stays, and the folder that it leads to is written. ``report`` maps the names of the files of
    the report to their contents. What one of the ``formats`` cannot hold gives a warning.
    """
    notes: list[str] = []
    fill = partial(fill_bundle, table, manifest, report, formats, csv_formulas)
    written = _put(lambda fresh: notes.extend(fill(fresh, language)), folder)
    _warn_of_formats(notes)
    return written


def fill_bundle(
    table: Table,
    manifest: Manifest,
    report: Mapping[str, bytes],
    formats: Sequence[str],
    csv_formulas: str,
    fresh: Path,
    language: str = ENGLISH,
) -> list[str]:
    """Write all files of a bundle into a new folder, and return what formats cannot hold."""
    notes: list[str] = []
    write_whole(fresh / PARQUET, partial(write_parquet, with_manifest(table.arrow, manifest)))
    if "csv" in formats:
        write_whole(fresh / CSV, lambda file: write_text(table.arrow, file, ",", csv_formulas))
    labels = released_labels(manifest, table.names)
    for name in (f"released.{format}" for format in formats if f".{format}" in EXPORTS):
        notes.extend(export(table, fresh / name, labels).notes)
        place.force_to_disk(fresh / name)
    _seal(fresh, manifest, report, language)
    return notes


def write_linked(
    parts: Mapping[str, Callable[[Path], list[str]]],
    report: Mapping[str, bytes],
    names: str,
    finish: Callable[[Path], str],
    folder: str | Path,
) -> Path:
    """Write several bundles into one folder, each into its own, all or nothing.

    ``report`` are the files about all of them. ``names`` is a manifest that names the tables: it is there first, so
    that a killed writer's files are known to be its own. ``finish`` returns the final one.
    """
    notes: list[str] = []

    def fill(fresh: Path) -> None:
        write_whole(fresh / MANIFEST, partial(_write_content, names.encode()))
        for name, fill_part in parts.items():
            (fresh / name).mkdir()
            notes.extend(fill_part(fresh / name))
            place.force_to_disk(fresh / name)
        for name, content in report.items():
            write_whole(fresh / name, partial(_write_content, content))
        write_whole(fresh / MANIFEST, partial(_write_content, finish(fresh).encode()))

    written = _put(fill, folder)
    _warn_of_formats(notes)
    return written


def _warn_of_formats(notes: Sequence[str]) -> None:
    if notes:
        warn(f"What the rows look like elsewhere (released.parquet is exact): {' '.join(dict.fromkeys(notes))}")


def with_manifest(rows: pa.Table, manifest: Manifest) -> pa.Table:
    """Return the rows with their manifest as metadata, which a Parquet file keeps wherever it is copied to."""
    alone = replace(manifest, files={})  # checksums are those of the files of a folder
    return rows.replace_schema_metadata({EMBEDDED: alone.to_json(), EMBEDDED_ROWS: rows_sha256(rows)})


def embedded_manifest(file: Path, rows: pa.Table) -> str | None:
    """Return the manifest in the metadata of a Parquet file; None without one, or if it is that of other rows.

    A program that changes rows may keep the metadata, so the manifest is bound to the cells.
    """
    import pyarrow.parquet as pq

    found: Mapping[bytes, bytes] = {}
    with contextlib.suppress(pa.ArrowException, OSError, ValueError):
        found = pq.read_schema(file).metadata or {}
    if EMBEDDED not in found or found.get(EMBEDDED_ROWS, b"").decode(errors="replace") != rows_sha256(rows):
        return None
    return found[EMBEDDED].decode(errors="replace")


def rows_sha256(rows: pa.Table) -> str:
    """Return the SHA-256 of the cells and names as text, whatever the types of Arrow that hold them."""
    digest = hashlib.sha256()
    for first in range(0, rows.num_rows, HASHED_ROWS):
        text = io.BytesIO()
        write_text(rows.slice(first, HASHED_ROWS), text, ",", "keep")
        digest.update(text.getvalue())
    return digest.hexdigest()


def check_formats(formats: str | Sequence[str] | None, *, in_parts: bool = False) -> tuple[str, ...]:
    """Return the formats of the released rows; raise if one is unknown or cannot be written here.

    Formats of other programs are added to released.csv; "parquet" alone leaves it out.
    """
    if formats is None:
        return () if in_parts else DEFAULT_FORMATS
    given = [formats] if isinstance(formats, str) else list(formats)
    for format in given:
        require_choice(format, name="A format of the released rows", choices=FORMATS)
    others_only = all(f".{format}" in EXPORTS for format in given)
    chosen = tuple(dict.fromkeys([*(DEFAULT_FORMATS if others_only and not in_parts else ()), *given]))
    for format in chosen:
        if f".{format}" in EXPORTS:
            require_exportable(f".{format}")
    if in_parts and set(chosen) - {"parquet"}:
        raise OptionError(
            "Rows in parts are written as Parquet only.",
            found=f"the formats {', '.join(chosen)}",
            fix="--format parquet, or the engine 'memory' if the table fits",
        )
    return chosen


def write_parts(
    parts: Path,
    manifest: Manifest,
    report: Mapping[str, bytes],
    folder: str | Path,
    sums: Mapping[str, str],
    language: str = ENGLISH,
) -> Path:
    """Move a folder of parts of the released rows, with manifest and report, into ``folder``, all or nothing.

    ``parts`` must be on the same disk as ``folder``; ``sums`` are the SHA-256 of its files, by name. There is no
    released.csv: rows in parts are too many for one file.
    """

    def fill(fresh: Path) -> None:
        parts.rename(fresh / PARQUET)
        _seal(fresh, manifest, report, language, **{f"{PARQUET}/{name}": digits for name, digits in sums.items()})

    return _put(fill, folder)


def write_copies(files: Sequence[Path], manifest: Manifest, report: Mapping[str, bytes], folder: str | Path) -> Path:
    """Write copies of the parts of a release, with manifest and report, into ``folder``, all or nothing."""

    def fill(fresh: Path) -> None:
        (fresh / PARQUET).mkdir()
        for number, file in enumerate(files):
            shutil.copyfile(file, fresh / PARQUET / place.part_name(number))
        _seal(fresh, manifest, report, ENGLISH)

    return _put(fill, folder)


def _put(fill: Callable[[Path], None], folder: str | Path) -> Path:
    """Fill a hidden folder next to the target, and put it in place by one rename."""
    target = place.resolve_folder(folder)
    place.sweep(target)
    require_target(folder)
    failure = ""
    try:
        with place.parents_of(target), place.fresh_sibling(target) as fresh:
            mode = stat.S_IMODE(fresh.stat().st_mode)
            fresh.chmod(PRIVATE)
            fill(fresh)
            place.keep_modes(fresh, target, mode)
            place.force_to_disk(fresh)
            place.put_in_place(fresh, target)
            with contextlib.suppress(OSError):  # already in place; only the time of the flush is uncertain
                place.force_to_disk(target.parent)
    except OSError as error:
        failure = error.strerror or type(error).__name__
    if failure:
        raise OptionError(
            f"{target.name} cannot be written: {failure}.", fix="another folder, or free space on the disk"
        )
    return Path(folder).expanduser().absolute()


def require_target(folder: str | Path) -> None:
    """Raise unless a bundle can be written to this folder without losing other files."""
    target = place.resolve_folder(folder)
    failure = ""
    try:
        _require_replaceable(target)
        place.require_writable(target)
    except OSError as error:  # a name that is too long, a folder that cannot be searched
        failure = error.strerror or type(error).__name__
    if failure:
        raise OptionError(f"The release cannot be written there: {failure}.", fix="another folder")


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _seal(fresh: Path, manifest: Manifest, files: Mapping[str, bytes], language: str, **known: str) -> None:
    """Write the other files of a bundle next to its rows, the manifest last; ``known`` checksums are not repeated."""
    for name, content in files.items():
        write_whole(fresh / name, partial(_write_content, content))
    promises = promises_in_sql(manifest, in_parts=(fresh / PARQUET).is_dir())
    write_whole(fresh / PROMISES, partial(_write_content, promises.encode()))
    sums = {name: known.get(name) or sha256(fresh / name) for name in place.files_in(fresh)}
    readme = write_readme(replace(manifest, files=sums), language)
    write_whole(fresh / README, partial(_write_content, readme.encode()))
    bound = replace(manifest, files={**sums, README: sha256(fresh / README)})
    write_whole(fresh / MANIFEST, partial(_write_content, bound.to_json().encode()))


def _write_content(content: bytes, file: BinaryIO) -> None:
    file.write(content)


def _require_replaceable(target: Path) -> None:
    """Raise if replacing the target would lose other files."""
    if not target.exists():
        return
    if not target.is_dir():
        raise RequestError(f"{target.name!r} must be a folder.", found="a file", fix="a folder, such as -o out")
    there = {path.name for path in target.iterdir()}
    if there and not _is_bundle(target):
        raise RequestError(
            f"The folder {target.name!r} must be empty or contain an older release.",
            found=f"other files: {len(there)}",
            fix=f"a new folder, such as -o {target.name}/release",
        )
    others = place.other_files(target)
    if others:
        raise RequestError(
            f"The folder {target.name!r} is replaced as a whole, so it must contain only a release.",
            found=f"{len(others)} other files",
            fix="move them, or choose another folder",
        )


def _is_bundle(folder: Path) -> bool:
    if place.linked_tables(folder):
        return True
    try:
        Manifest.from_json((folder / MANIFEST).read_bytes().decode(errors="replace"))
    except (OSError, ReadError):
        return False
    return True
