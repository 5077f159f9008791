"""People before and behind rows: pseudonyms and shifted dates, who has several rows, and promises that count people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import CannotRelease, OptionError, SchemaError
from sfumato.plan.claims.groups import KAnonymity
from sfumato.plan.claims.risk import HouseholdRisk
from sfumato.plan.claims.rows import DatesShifted, Pseudonyms, SharedHistory
from sfumato.plan.plan import FAULT, format_count
from sfumato.plan.questions import GroupSizesOf, MissingIn
from sfumato.randomness import Randomness
from sfumato.schema.columns import Role
from sfumato.schema.pseudonyms import Preparation, SecretKey, prepare, read_or_create_key
from sfumato.schema.recognition.names import identifier_by_name
from sfumato.schema.recognition.roles import identifiers_of_people
from sfumato.schema.schema import FittedTable, Schema

if TYPE_CHECKING:
    from sfumato.engines.base import Session, Work
    from sfumato.methods.base import Method
    from sfumato.plan.plan import Claim


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


def prepare_source(
    method: Method,
    opened: Any,
    key: str | Path | SecretKey | None,
    change: Callable[[Any, Callable[..., FittedTable]], Any],
) -> tuple[Any, Prepared]:
    """Return the opened source with pseudonyms and shifted dates, if its schema asks for them, and what was done.

    ``change`` is how the engine replaces the table of a source.
    """
    if not opened.schema.needs_preparation:
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


def require_possible(method: Method, schema: Schema, key: str | Path | SecretKey | None) -> None:
    """Raise before any work if the method or a missing key rules out what the schema asks for."""
    named = schema.pseudonym_columns
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


def require_unlinked(prepared: Prepared) -> None:
    """Raise if pseudonyms would link the rows of a person over the releases of a ledger: they tell who is new."""
    if prepared.pseudonyms:
        raise CannotRelease(
            "With a ledger nothing may link the rows of a person over releases.",
            found=f"pseudonyms in {', '.join(map(repr, prepared.pseudonyms))}",
            fix="remove the identifier",
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
            fix="one row for each person, or the role person for the column of pseudonyms",
        )


FEWEST_PEOPLE = 10  # an identifier with at most this many values is the number of no person
ROWS_PER_PERSON = 10  # nor is one with more rows per value than this, unless its name says so


def find_repeated(session: Session[Any, Any], source: Any, randomness: Randomness) -> dict[str, int]:
    """Return how many values of each removed identifier occur in several rows, if the identifier tells people apart."""
    if not source.schema.names(Role.IDENTIFIER):
        return {}
    names = identifiers_of_people(source.schema.columns, source.kinds)
    if not names:
        return {}
    sizes, missing = {name: GroupSizesOf((name,)) for name in names}, {name: MissingIn(name) for name in names}
    answers = session.survey(source.only(names), randomness).ask([*sizes.values(), *missing.values()])
    repeated = {}
    for name in names:
        groups, empty = answers[sizes[name]], answers[missing[name]]
        several = int(groups.groups[groups.sizes > 1].sum()) - (empty > 1)
        fewest = FEWEST_PEOPLE if identifier_by_name(name) else max(FEWEST_PEOPLE, source.rows // ROWS_PER_PERSON)
        if several and groups.count - (empty > 0) > fewest:
            repeated[name] = several
    return repeated


def require_people(repeated: Mapping[str, int]) -> None:
    """Raise if removed identifiers repeat: k rows that look alike may be those of fewer than k people."""
    if repeated:
        raise CannotRelease(
            "Every row must be another person, or a column must tell people apart: several rows of one person may "
            "otherwise be a group of their own.",
            found=", ".join(f"{count:,} values of {name!r} in several rows" for name, count in repeated.items()),
            fix=f"the role person for {next(iter(repeated))!r} (--person {next(iter(repeated))}, in Python "
            f"schema={{{next(iter(repeated))!r}: 'person'}}), so that promises count people; or say that rows are to "
            "be counted (--rows-not-people, in Python rows_not_people=True)",
        )


def count_people(session: Session[Any, Any], source: Any, randomness: Randomness) -> int | None:
    """Return the number of people, if a column tells them apart."""
    if source.schema.person is None:
        return None
    question = GroupSizesOf((source.schema.person,))
    return session.survey(source.only([source.schema.person]), randomness).ask([question])[question].count


def require_enough_people(method: Method, people: int | None) -> None:
    k = getattr(method, "k", None)
    if people is not None and isinstance(k, int) and people < k:
        raise CannotRelease(
            f"The table must have the rows of at least k = {k:,} people.",
            found=format_count(people, "person"),
            fix="a smaller k",
        )


def promise_to_people(claims: Sequence[Claim[Any]], person: str | None) -> tuple[Claim[Any], ...]:
    """Return the promises, about people if a column tells them apart."""
    return tuple(claims) if person is None else tuple(claim.count_people(person) for claim in claims)


def promise_history(claims: Sequence[Claim[Any]], schema: Schema) -> tuple[SharedHistory, ...]:
    """Return what is promised about all rows of a person together, if released pseudonyms link them."""
    if schema.person is None or not schema[schema.person].links_rows:
        return ()
    return tuple(
        SharedHistory(k=claim.k, columns=claim.columns, column=schema.person, facts=schema[schema.person].facts)
        for claim in claims
        if isinstance(claim, KAnonymity)
    )


def tell_households(claims: Sequence[Claim[Any]], schema: Schema) -> tuple[HouseholdRisk, ...]:
    """Return the measure of household risk, if a column has that role and a promise makes groups."""
    homes = schema.names(Role.HOUSEHOLD)
    if len(homes) > 1:
        raise SchemaError("At most one column may have the role household.", found=", ".join(map(repr, homes)))
    groups = next((claim.columns for claim in claims if isinstance(claim, KAnonymity)), None)
    if not homes or groups is None:
        return ()
    return (HouseholdRisk(columns=groups, household=homes[0], person=schema.person),)


def require_no_person(work: Work, person: str | None) -> None:
    """Raise if a method released the column that tells people apart, which it can see to count them."""
    if person is not None and person in work.released.kinds:
        raise CannotRelease(f"The column {person!r} tells people apart, so it must not be released.", fix=FAULT)
