"""Pseudonyms and shifted dates in a release: when they are possible, and what is promised about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import CannotRelease, OptionError
from sfumato.plan.claims.rows import DatesShifted, Pseudonyms
from sfumato.schema.pseudonyms import (
    Preparation,
    needs_preparation,
    prepare,
    pseudonym_columns,
    read_or_create_key,
)

if TYPE_CHECKING:
    from sfumato.methods.base import Method
    from sfumato.plan.claim import Claim
    from sfumato.schema.schema import FittedTable, Schema


@dataclass(frozen=True, repr=False)
class Prepared(Preparation):
    """What was done to a table before its method saw it, and the promises about it."""

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        """The promises about pseudonyms and shifted dates."""
        named = tuple(Pseudonyms(column=name, one_row_each=not self.repeated) for name in self.pseudonyms)
        if self.shifted is None:
            return named
        columns, shift = self.shifted.columns, self.shifted.shift
        return (*named, DatesShifted(columns=columns, by=shift.by, days=shift.days, people=self.shifted.people))

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
        table, preparation = prepare(fitted, read_or_create_key(key))
        done.append(Prepared(preparation.pseudonyms, preparation.repeated, preparation.shifted))
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
