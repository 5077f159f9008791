"""Pseudonyms, shifted dates and their secret keys: what is done to a table before its method sees it.

Neither protects by itself: the promises of the method hold for the prepared table, and the report says what was done.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import GuaranteeNotMet, OptionError, ReadError, SchemaError, warn
from sfumato.formats.raw_files import is_there, read_bytes, shorten_name
from sfumato.schema.columns import Column, DateShift, Role
from sfumato.schema.schema import FittedTable, Schema
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

# Secret keys, and what is derived from them: pseudonyms of identifiers, and the shift of each person's dates.
#
# A key is 256 bits from the operating system, in a file of its own that only its owner may read. It is never shown:
# not in a repr, a log, an error, a manifest or a report.


KEY_BYTES = 32  # 256 bits
PSEUDONYM_BYTES = 10  # 80 bits
PSEUDONYM = re.compile(r"[a-z2-7]{16}")  # the same in base 32
HEAD = "sfumato key 1: "  # before the key in its file
OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, repr=False)
class SecretKey:
    """A key for HMAC-SHA-256."""

    _secret: bytes

    @classmethod
    def random(cls) -> SecretKey:
        """Return a new key that is kept nowhere."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def create(cls, path: str | Path) -> SecretKey:
        """Make a new key and write it to a new file that only its owner may read."""
        file, reason = Path(path).expanduser(), ""
        new = cls.random()
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as out:
                out.write(f"{HEAD}{new._secret.hex()}\n")
                out.flush()
                os.fsync(out.fileno())
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "its name is not valid"
        if reason:
            raise OptionError(f"The key cannot be written to {shorten_name(file)}: {reason}.", fix="another file")
        return new

    @classmethod
    def read(cls, path: str | Path) -> SecretKey:
        """Read the key in a file; others must not be able to read it."""
        file = Path(path).expanduser()
        text = read_bytes(file).decode("ascii", errors="replace").strip()
        require_private(
            file, f"the key file {shorten_name(file)}", "chmod 600, and a new key if others may have read it"
        )
        if not re.fullmatch(f"{HEAD}[0-9a-f]{{{2 * KEY_BYTES}}}", text):
            raise ReadError(f"{shorten_name(file)} must be a key file that sfumato made.", found="something else")
        return cls(bytes.fromhex(text.removeprefix(HEAD)))

    def digest(self, purpose: str, value: str) -> bytes:
        """Return HMAC-SHA-256 of a value; digests for different purposes say nothing about each other."""
        return hmac.digest(self._secret, f"{purpose}\0{value}".encode(), "sha256")

    def __repr__(self) -> str:
        return "SecretKey(…)"

    def __reduce__(self) -> tuple[type, tuple[()]]:
        raise TypeError("a secret key is not copied to other processes or files")


def require_private(file: Path, what: str, fix: str) -> None:
    """Raise if others than its owner may read a file."""
    mode = file.stat().st_mode
    if os.name == "posix" and mode & OTHERS:
        raise ReadError(f"Nobody else may read {what}.", found=f"mode {stat.S_IMODE(mode):o}", fix=fix)


def is_key_there(path: str | Path) -> bool:
    """Return whether there is a file for the key."""
    return is_there(Path(path).expanduser())


def make_pseudonyms(cells: pa.ChunkedArray, key: SecretKey) -> pa.Array:
    """Return the pseudonym of each identifier, 80 bits in base 32; a missing identifier stays missing.

    The same identifier gets the same pseudonym wherever the key is the same, as a number or as text.
    """
    people = distinct_people(cells)
    digests = (key.digest("pseudonym", person)[:PSEUDONYM_BYTES] for person in people.names)
    texts = pa.array([base64.b32encode(digest).decode().lower() for digest in digests], pa.string())
    return texts.take(pa.array(people.codes, mask=people.codes < 0))


def day_shifts(cells: pa.ChunkedArray, key: SecretKey, days: int) -> np.ndarray:
    """Return the number of days by which the dates of each row are shifted: the same for all rows of a person.

    It is uniform over −days … days without 0. A row without an identifier is shifted for itself, by chance.
    """
    people = distinct_people(cells)
    digests = [key.digest(f"shift of dates by {days}", person) for person in people.names]
    digests += [secrets.token_bytes(KEY_BYTES) for _ in range(int((people.codes < 0).sum()))]
    # 256 random bits modulo 2·days: no outcome is likelier than another by more than 2⁻²⁴⁰
    numbers = np.array([int.from_bytes(digest) % (2 * days) - days for digest in digests], dtype=np.int64)
    numbers = numbers + (numbers >= 0)
    places = people.codes.copy()
    places[places < 0] = len(people.names) + np.arange(int((places < 0).sum()))
    return numbers[places] if numbers.size else np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, repr=False)
class People:
    """The different identifiers of a column as texts, and the number of each row's; −1 if it is missing."""

    names: list[str]
    codes: np.ndarray


def distinct_people(cells: pa.ChunkedArray) -> People:
    """Return the people that a column of identifiers tells apart; 7, 7.0 and "7" are the same."""
    if pt.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if pt.is_floating(cells.type):
        numbers = cells.drop_null().to_numpy()
        cells = cells.cast(pa.int64()) if (numbers == np.rint(numbers)).all() else cells
    texts = cells.cast(pa.string()).combine_chunks()
    unique = texts.unique().drop_null()
    names = [unicodedata.normalize("NFC", text) for text in unique.to_pylist()]
    same = {name: number for number, name in enumerate(dict.fromkeys(names))}
    numbers = np.array([same[name] for name in names], dtype=np.int64)
    codes = pc.fill_null(pc.index_in(texts, value_set=unique), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return People(list(same), np.where(codes >= 0, numbers[codes], -1) if numbers.size else codes)


def collision_probability(people: int) -> float:
    """Return the probability that any two of so many people would have got the same pseudonym: at most n(n−1)/2⁸¹."""
    return min(1.0, people * (people - 1) / 2.0 ** (8 * PSEUDONYM_BYTES + 1))


DAY = 86_400  # seconds
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
CALENDAR_DAYS, LAST_DAY = 719_162, 2_932_897  # from 1970-01-01 back to the year 1, and on to the year 10000


@dataclass(frozen=True, repr=False)
class ShiftedDates:
    """Columns whose dates were shifted, and the people whose dates they are."""

    columns: tuple[str, ...]
    shift: DateShift
    people: int


@dataclass(frozen=True, repr=False)
class Preparation:
    """What was done to a table before its method saw it; by default nothing."""

    pseudonyms: tuple[str, ...] = ()
    repeated: int = 0  # people with several rows, in a column of pseudonyms
    shifted: ShiftedDates | None = None


def read_or_create_key(path: str | Path | SecretKey | None) -> SecretKey:
    """Return the key in a file, which is made if it does not exist; without a file a key that is kept nowhere."""
    if isinstance(path, SecretKey):
        return path
    if path is None:
        return SecretKey.random()
    if is_key_there(path):
        return SecretKey.read(path)
    new = SecretKey.create(path)
    warn(
        f"A new secret key was written to {Path(path).name}. Keep it apart from the release: whoever has it can test "
        "which pseudonym belongs to an identifier, and without it later tables cannot be linked."
    )
    return new


def prepare(fitted: FittedTable, key: SecretKey) -> tuple[FittedTable, Preparation]:
    """Return the table as the method sees it, with pseudonyms in the role "other" and shifted dates; verify both."""
    table, schema, repeated, shifted = fitted.table, fitted.schema, 0, None
    dated = [column for column in schema.columns if column.shift is not None]
    if dated:
        table, shifted = _shift_dates(table, dated, key)
    for name in schema.pseudonym_columns:
        cells = make_pseudonyms(fitted.table.arrow.column(name), key)
        repeated += _count_repeated(fitted.table, name, cells)
        table = _replace_cells(table, name, cells, Kind.TEXT)
    seen = Schema(tuple(map(_column_after, schema.columns)), schema.person)
    return FittedTable(table, seen), Preparation(schema.pseudonym_columns, repeated, shifted)


def _column_after(column: Column) -> Column:
    """Return a column as the method sees it; shifted dates may lie outside the declared domain."""
    if column.pseudonym:
        return replace(column, role=Role.OTHER, pseudonym=False, facts=None, kind=None, domain=None)
    return column if column.shift is None else replace(column, shift=None, domain=None)


def _count_repeated(table: Table, name: str, pseudonyms: pa.Array) -> int:
    """Return how many people have several rows; raise if two people share a pseudonym."""
    codes = distinct_people(table.arrow.column(name)).codes
    rows = np.bincount(codes[codes >= 0])
    if len(pseudonyms.unique().drop_null()) != rows.size or pseudonyms.null_count != int((codes < 0).sum()):
        raise GuaranteeNotMet(f"No two people may share a pseudonym in {name!r}.", fix="another key")
    return int((rows > 1).sum())


def _shift_dates(table: Table, columns: Sequence[Column], key: SecretKey) -> tuple[Table, ShiftedDates]:
    """Return the table with all dates of a person shifted by the same days, and what was verified about it."""
    shift = _require_one_shift(columns)
    table.require([shift.by])
    dates = [column.name for column in columns]
    wrong = [name for name in dates if table.kinds[name] is not Kind.DATE]
    if wrong:
        raise SchemaError(f"Only dates are shifted, but {', '.join(map(repr, wrong))} has none.", fix="kind = 'date'")
    people = distinct_people(table.arrow.column(shift.by)).codes
    shifts = day_shifts(table.arrow.column(shift.by), key, shift.days)
    before = [table.arrow.column(name).combine_chunks() for name in dates]
    after = [_move_days(cells, shifts, name) for cells, name in zip(before, dates, strict=True)]
    _require_kept(before, after, people, shift.days)
    for name, cells in zip(dates, after, strict=True):
        table = _replace_cells(table, name, cells, Kind.DATE)
    return table, ShiftedDates(tuple(dates), shift, people=int(people.max(initial=-1)) + 1)


def _require_one_shift(columns: Sequence[Column]) -> DateShift:
    """Return the shift of all columns, which must be the same: otherwise the distances between dates would change."""
    shifts = {column.shift for column in columns if column.shift is not None}
    if len(shifts) != 1:
        raise SchemaError(
            "All dates must be shifted by the same column and the same number of days.",
            found=f"{len(shifts)} different shifts",
            fix='the same shift = {by = "patient_id", days = 180} for all of them',
        )
    return shifts.pop()


def _move_days(cells: pa.Array, shifts: np.ndarray, name: str) -> pa.Array:
    """Return dates or timestamps moved by days; raise where the calendar ends."""
    per_day = _per_day(cells.type)
    moved = _numbers(cells) + shifts * per_day
    missing = cells.is_null().to_numpy(zero_copy_only=False)
    if not ((moved[~missing] // per_day > -CALENDAR_DAYS) & (moved[~missing] // per_day < LAST_DAY)).all():
        raise SchemaError(f"The shifted dates of {name!r} must be in the years 1 to 9999.", fix="fewer days")
    whole = pa.int32() if pt.is_date32(cells.type) else pa.int64()
    return pa.array(np.where(missing, 0, moved), pa.int64(), mask=missing).cast(whole).cast(cells.type)


def _numbers(cells: pa.Array) -> np.ndarray:
    whole = pa.int32() if pt.is_date32(cells.type) else pa.int64()
    numbers: np.ndarray = cells.cast(whole).cast(pa.int64()).fill_null(0).to_numpy()
    return numbers


def _per_day(kind: pa.DataType) -> int:
    """Return how many units of an Arrow type are a day."""
    return 1 if pt.is_date32(kind) else DAY * PER_SECOND[getattr(kind, "unit", "ms")]


def days_between(starts: pa.Array, ends: pa.ChunkedArray) -> pa.Array:
    """Return the number of whole days from one date to another, rounded down; missing where one of them is."""
    first, last = (_numbers(cells) // _per_day(cells.type) for cells in (starts, ends.combine_chunks()))
    missing = pc.or_(starts.is_null(), ends.combine_chunks().is_null()).to_numpy(zero_copy_only=False)
    return pa.array(last - first, pa.int64(), mask=missing)


def _require_kept(before: Sequence[pa.Array], after: Sequence[pa.Array], people: np.ndarray, days: int) -> None:
    """Raise unless all dates of a person moved by the same days, so that the distances between them are unchanged."""
    least, most = np.full(people.max(initial=-1) + 1, days + 1), np.full(people.max(initial=-1) + 1, -days - 1)
    fine = True
    for old, new in zip(before, after, strict=True):
        moved, rest = np.divmod(_numbers(new) - _numbers(old), _per_day(old.type))
        present = old.is_valid().to_numpy(zero_copy_only=False)
        known = present & (people >= 0)
        np.minimum.at(least, people[known], moved[known])
        np.maximum.at(most, people[known], moved[known])
        apart = (moved[present] != 0) & (np.abs(moved[present]) <= days)
        fine &= bool(old.is_valid().equals(new.is_valid()) and not rest[present].any() and apart.all())
    if not fine or (least < most).any():
        raise GuaranteeNotMet(
            "All dates of a person must be shifted by the same days.", fix="report this: it is a fault"
        )


def _replace_cells(table: Table, name: str, cells: pa.Array, kind: Kind) -> Table:
    place = table.arrow.column_names.index(name)
    return replace(table, arrow=table.arrow.set_column(place, name, cells), kinds={**table.kinds, name: kind})
