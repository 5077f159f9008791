"""What is done to a table before its method sees it: identifiers become pseudonyms, and dates are shifted by person.

Neither protects by itself: the promises of the method hold for the prepared table, and the report says what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.errors import CannotRelease, GuaranteeNotMet, OptionError, SchemaError, warn
from sfumato.methods.claims import DatesShifted, Pseudonyms
from sfumato.schema.columns import DateShift, Role
from sfumato.schema.schema import FittedTable, Schema
from sfumato.table.kinds import Kind
from sfumato.table.secret_keys import SecretKey, day_shifts, distinct_people, is_key_there, pseudonyms

if TYPE_CHECKING:
    from sfumato.methods.base import Method
    from sfumato.methods.claims import Claim
    from sfumato.schema.columns import Column
    from sfumato.table.table import Table

DAY = 86_400  # seconds
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
CALENDAR_DAYS, LAST_DAY = 719_162, 2_932_897  # from 1970-01-01 back to the year 1, and on to the year 10000


@dataclass(frozen=True, repr=False)
class Prepared:
    """What was done to a table before its method saw it; by default nothing."""

    pseudonyms: tuple[str, ...] = ()
    repeated: int = 0  # people with several rows, in a column of pseudonyms
    shifted: DatesShifted | None = None

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        """The promises about pseudonyms and shifted dates."""
        made = tuple(Pseudonyms(column=name, one_row_each=not self.repeated) for name in self.pseudonyms)
        return (*made, self.shifted) if self.shifted else made

    @property
    def shifted_columns(self) -> tuple[str, ...]:
        """Columns whose dates were shifted."""
        return self.shifted.columns if self.shifted else ()

    def require_kept(self, unaltered: Sequence[str]) -> None:
        """Raise unless the released pseudonyms are exactly those of the rows that they stand beside."""
        lost = [name for name in self.pseudonyms if name not in unaltered]
        if lost:
            raise CannotRelease(
                "A pseudonym must stay with its row.",
                found=f"{', '.join(map(repr, lost))} altered or removed by the method",
                fix="another method, or remove the identifier",
            )


def pseudonym_columns(schema: Schema) -> tuple[str, ...]:
    """Return the identifiers that are released as pseudonyms."""
    return tuple(column.name for column in schema.columns if column.pseudonym)


def shifted_columns(schema: Schema) -> tuple[str, ...]:
    """Return the columns whose dates are shifted."""
    return tuple(column.name for column in schema.columns if column.shift is not None)


def needs_preparation(schema: Schema) -> bool:
    """Return whether the schema asks for pseudonyms or shifted dates."""
    return bool(pseudonym_columns(schema) or shifted_columns(schema))


def prepared_source(
    method: Method, opened: Any, key: str | Path | None, change: Callable[[Any, Callable[..., FittedTable]], Any]
) -> tuple[Any, Prepared]:
    """Return the opened source with pseudonyms and shifted dates, if its schema asks for them, and what was done.

    ``change`` is how the engine replaces the table of a source.
    """
    if not needs_preparation(opened.schema):
        if key is not None:
            raise OptionError("A key is for pseudonyms and shifted dates.", found="neither", fix="leave the key out")
        return opened, Prepared()
    require_possible(method, opened.schema, key)
    done: list[Prepared] = []

    def work(fitted: FittedTable) -> FittedTable:
        table, made = prepare(fitted, key_in(key))
        done.append(made)
        return table

    return change(opened, work), done[0]


def require_possible(method: Method, schema: Schema, key: str | Path | None) -> None:
    """Raise before any work if the method or a missing key rules out what the schema asks for."""
    named = pseudonym_columns(schema)
    if named and key is None:
        raise OptionError(
            f"Pseudonyms in {', '.join(map(repr, named))} need a secret key.",
            found="no key",
            fix="--key FILE (in Python key='FILE'); the file is made if it does not exist",
        )
    if named and not method.one_row_per_person:
        raise CannotRelease(
            "A pseudonym belongs to a person, so the rows must stay those of people.",
            found=f"method {method.name!r}, which mixes people or alters every column",
            fix="a method that generalizes, such as boxes, or remove the identifier",
        )


def key_in(path: str | Path | None) -> SecretKey:
    """Return the key in a file, which is made if it does not exist; without a file a key that is kept nowhere."""
    if path is None:
        return SecretKey.random()
    if is_key_there(path):
        return SecretKey.read(path)
    made = SecretKey.create(path)
    warn(
        f"A new secret key was written to {Path(path).name}. Keep it apart from the release: whoever has it can test "
        "which pseudonym belongs to an identifier, and without it later tables cannot be linked."
    )
    return made


def prepare(fitted: FittedTable, key: SecretKey) -> tuple[FittedTable, Prepared]:
    """Return the table as the method sees it, with pseudonyms in the role "other" and shifted dates; verify both."""
    table, schema, repeated, shifted = fitted.table, fitted.schema, 0, None
    dated = [column for column in schema.columns if column.shift is not None]
    if dated:
        table, shifted = _shifted(table, dated, key)
    for name in pseudonym_columns(schema):
        made = pseudonyms(fitted.table.arrow.column(name), key)
        repeated += _repeated(fitted.table, name, made)
        table = _with(table, name, made, Kind.TEXT)
    seen = Schema(tuple(map(_as_seen, schema.columns)))
    return FittedTable(table, seen), Prepared(pseudonym_columns(schema), repeated, shifted)


def _as_seen(column: Column) -> Column:
    """Return a column as the method sees it; shifted dates may lie outside the declared domain."""
    if column.pseudonym:
        return replace(column, role=Role.OTHER, pseudonym=False, kind=None, domain=None)
    return column if column.shift is None else replace(column, shift=None, domain=None)


def require_one_row_each(prepared: Prepared, claims: Sequence[Claim[Any]]) -> None:
    """Raise if people have several rows although a promise about groups counts rows.

    k rows that look alike may then be those of fewer than k people, and the rows of one person, which the pseudonym
    links, together show more than each of them.
    """
    if prepared.repeated and any(claim.kind == "privacy" for claim in claims):
        raise CannotRelease(
            "With pseudonyms every person must have one row: promises count rows, not people.",
            found=f"{prepared.repeated:,} people with several rows",
            fix="one row for each person, or remove the identifier",
        )


def _repeated(table: Table, name: str, made: pa.Array) -> int:
    """Return how many people have several rows; raise if two people share a pseudonym."""
    codes = distinct_people(table.arrow.column(name)).codes
    rows = np.bincount(codes[codes >= 0])
    if len(made.unique().drop_null()) != rows.size or made.null_count != int((codes < 0).sum()):
        raise GuaranteeNotMet(f"No two people may share a pseudonym in {name!r}.", fix="another key")
    return int((rows > 1).sum())


def _shifted(table: Table, columns: Sequence[Column], key: SecretKey) -> tuple[Table, DatesShifted]:
    """Return the table with all dates of a person shifted by the same days, and what was verified about it."""
    shift = _one_shift(columns)
    table.require([shift.by])
    dates = [column.name for column in columns]
    wrong = [name for name in dates if table.kinds[name] is not Kind.DATE]
    if wrong:
        raise SchemaError(f"Only dates are shifted, but {', '.join(map(repr, wrong))} has none.", fix="kind = 'date'")
    people = distinct_people(table.arrow.column(shift.by)).codes
    shifts = day_shifts(table.arrow.column(shift.by), key, shift.days)
    before = [table.arrow.column(name).combine_chunks() for name in dates]
    after = [_moved(cells, shifts, name) for cells, name in zip(before, dates, strict=True)]
    _require_kept(before, after, people, shift.days)
    for name, cells in zip(dates, after, strict=True):
        table = _with(table, name, cells, Kind.DATE)
    kept = int(people.max(initial=-1)) + 1
    return table, DatesShifted(columns=tuple(dates), by=shift.by, days=shift.days, people=kept)


def _one_shift(columns: Sequence[Column]) -> DateShift:
    """Return the shift of all columns, which must be the same: otherwise the distances between dates would change."""
    found = {column.shift for column in columns if column.shift is not None}
    if len(found) != 1:
        raise SchemaError(
            "All dates must be shifted by the same column and the same number of days.",
            found=f"{len(found)} different shifts",
            fix='the same shift = {by = "patient_id", days = 180} for all of them',
        )
    return found.pop()


def _moved(cells: pa.Array, shifts: np.ndarray, name: str) -> pa.Array:
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


def _with(table: Table, name: str, cells: pa.Array, kind: Kind) -> Table:
    place = table.arrow.column_names.index(name)
    return replace(table, arrow=table.arrow.set_column(place, name, cells), kinds={**table.kinds, name: kind})
