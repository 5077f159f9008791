"""Who has rows in which of several linked tables, and groups of people within which the rows of a table are grouped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import CannotRelease, OptionError, SchemaError, SfumatoError, TableError
from sfumato.methods.recodings.recoding import RecodingPlan
from sfumato.plan.claims.groups import Diversity
from sfumato.plan.claims.rows import ColumnsAllowed
from sfumato.plan.plan import Claim, Outcome, Plan, format_count
from sfumato.schema.columns import Role
from sfumato.schema.pseudonyms import days_between, distinct_people
from sfumato.schema.schema import FittedTable, Schema
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.base import Method
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness


@contextmanager
def name_table(name: str) -> Iterator[None]:
    """Say in an error which table it is about."""
    refused: SfumatoError | None = None
    try:
        yield
    except SfumatoError as error:
        refused = error
    if refused is not None:
        raise type(refused)(f"Table {name!r}: {refused.message}", found=refused.found, fix=refused.fix)


def people_of_rows(table: Table, person: str) -> list[str]:
    """Return who each row belongs to, as text that is the same in all tables."""
    people = distinct_people(table.arrow.column(person))
    return [people.names[code] for code in people.codes]


def relate_dates(fitted: Mapping[str, FittedTable], person: str, index: str) -> dict[str, FittedTable]:
    """Return the tables with days since the index date of each person in place of all other dates."""
    holders = [name for name, one in fitted.items() if index in one.table.names]
    if len(holders) != 1 or fitted[holders[0]].table.kinds[index] is not Kind.DATE:
        raise SchemaError(
            f"The index date must be a column of dates in one of the tables, and {index!r} is not.",
            found=f"such a column in {len(holders)} tables",
        )
    source = fitted[holders[0]].table
    dates = dict(zip(people_of_rows(source, person), source.arrow.column(index).to_pylist(), strict=True))
    if source.arrow.column(index).null_count or len(dates) < source.rows:
        raise SchemaError("Every person must have one index date.", found="none, or several rows", fix="another column")
    related = {}
    for name, one in fitted.items():
        changed = [c for c, kind in one.table.kinds.items() if kind is Kind.DATE and (c, name) != (index, holders[0])]
        table = one.table
        for column in changed:
            starts = pa.array(
                [dates.get(who) for who in people_of_rows(table, person)], source.arrow.column(index).type
            )
            place = table.arrow.column_names.index(column)
            days = days_between(starts, table.arrow.column(column))
            table = Table(table.arrow.set_column(place, column, days), {**table.kinds, column: Kind.WHOLE})
        columns = tuple(
            replace(c, kind=None, domain=None, tree=None) if c.name in changed else c for c in one.schema.columns
        )
        related[name] = FittedTable(table, Schema(columns))
    return related


@dataclass(frozen=True, repr=False)
class LinkedPeople:
    """Linked tables with their schemas, one of which has one row for each person."""

    tables: Mapping[str, FittedTable]
    person: str
    root: str  # name of the table with one row for each person
    names: tuple[str, ...]  # of the people, in the order of that table
    places: Mapping[str, NDArray[np.int64]]  # other table → place in ``names`` of the person of each row

    @classmethod
    def of(cls, tables: Mapping[str, FittedTable], person: str) -> LinkedPeople:
        """Find the table with one row for each person, and whose the rows of the others are."""
        owners = {name: people_of_rows(one.table, person) for name, one in tables.items()}
        root = find_people_table(owners)
        places = {name: place for place, name in enumerate(owners[root])}
        rows = {name: np.array([places[one] for one in own], np.int64) for name, own in owners.items() if name != root}
        return cls(tables, person, root, tuple(owners[root]), rows)

    @property
    def others(self) -> tuple[str, ...]:
        """The tables in which a person may have any number of rows."""
        return tuple(self.places)

    def counts(self) -> NDArray[np.int64]:
        """Return the number of rows of each person in each of the other tables; shape (people, tables)."""
        return np.column_stack([np.bincount(own, minlength=len(self.names)) for own in self.places.values()])

    def with_plain_names(self) -> dict[str, Table]:
        """Return the tables with people as the same text in all of them."""
        named = {}
        for name, one in self.tables.items():
            who = pa.array(self.names if name == self.root else [self.names[place] for place in self.places[name]])
            place = one.table.names.index(self.person)
            named[name] = Table(one.table.arrow.set_column(place, self.person, who), one.table.kinds)
        return named

    def dimensions(self, table: str) -> int:
        """Return the number of quasi-identifiers of a table."""
        return len(self.tables[table].schema.names(Role.QUASI))


def find_people_table(owners: Mapping[str, Sequence[str]]) -> str:
    """Return the table with one row for each person and with all people of the others; raise if there is none."""
    for name, own in owners.items():
        if not own:
            raise TableError(f"Table {name!r} must have rows.", found="none")
    single = [name for name, own in owners.items() if len(set(own)) == len(own)]
    repeated = {name: len(own) - len(set(own)) for name, own in owners.items() if name not in single}
    if not single:
        raise TableError(
            "One of the linked tables must have one row for each person.",
            found=", ".join(f"{count:,} more rows than people in {name!r}" for name, count in repeated.items()),
            fix="a table of the people, without repeated rows",
        )
    absent = {name: _count_strangers(name, owners) for name in single}
    best = min(single, key=lambda name: sum(absent[name].values()))
    if absent[best]:
        raise TableError(
            f"Every person of a linked table must have a row in {best!r}, which has one row for each person.",
            found=", ".join(
                f"{format_count(count, 'person')} of {name!r} without one" for name, count in absent[best].items()
            ),
            fix="add or remove these people; keys are compared as text, so 7 and 07 are different"
            + (f"; or remove repeated rows from {', '.join(map(repr, repeated))}" if repeated else ""),
        )
    return best


SAME = (
    0.9  # share of rows that agree with the table of people: such a column is about the person, not another of its name
)


def require_consistent(people: LinkedPeople) -> None:
    """Raise if a table is there twice, or if it contradicts what the table of people says about the same people."""
    root = people.tables[people.root].table
    for name, places in people.places.items():
        table = people.tables[name].table
        shared = [column for column in table.names if column in root.names and column != people.person]
        differing = {column: _count_differing(root, table, column, places) for column in shared}
        if len(places) == len(people.names) and set(table.names) == set(root.names) and not any(differing.values()):
            raise OptionError(
                "Linked tables must be different tables.",
                found=f"the same rows in {people.root!r} and {name!r}",
                fix="leave one of them out",
            )
        wrong = {column: count for column, count in differing.items() if 0 < count <= (1.0 - SAME) * len(places)}
        if wrong:
            raise TableError(
                f"What {people.root!r} and {name!r} both say about a person must be the same.",
                found=", ".join(f"{format_count(count, 'row')} with another {one!r}" for one, count in wrong.items()),
                fix=f"correct these rows, or rename the column in {name!r} if it means something else",
            )


def _count_differing(root: Table, table: Table, column: str, places: NDArray[np.int64]) -> int:
    """Return how many rows of a table have another cell than their person in the table of people."""
    hers = root.arrow.column(column).to_pylist()
    own = table.arrow.column(column).to_pylist()
    return sum(one != hers[place] for one, place in zip(own, places.tolist(), strict=True))


def _count_strangers(name: str, owners: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return how many people of other tables are not in this one, by table; without those that have none."""
    strangers = {other: len(set(own).difference(owners[name])) for other, own in owners.items()}
    return {other: count for other, count in strangers.items() if count}


def divide_people(
    counts: NDArray[np.int64], tables: Sequence[str], *, k: int, facts: int | None, generator: np.random.Generator
) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Divide people by the number of their rows in each table, counted up to ``facts``, into parts of at least k.

    Return these people, and those whose numbers are rare together with as many others as it takes: for whatever one of
    them has, k of them have as much. The latter are to become one group.
    """
    known = counts if facts is None else np.minimum(counts, facts)
    _, labels = np.unique(known, axis=0, return_inverse=True)
    labels = labels.reshape(-1)
    parts = [np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1)]
    pool = np.concatenate([np.zeros(0, np.int64), *(part for part in parts if len(part) < k)])
    parts = [part for part in parts if len(part) >= k]
    if len(pool) and facts is None:
        raise CannotRelease(
            f"All rows of a person must be as many as those of {k - 1} others.",
            found=f"{format_count(len(pool), 'person')} with rare numbers of rows",
            fix="facts=1 or facts=2, for an intruder who knows few rows of a person",
        )
    while len(pool):
        wanted = _find_shortage(known, pool, k, facts or 0)
        if wanted is None:
            break
        fitting = [part[(known[part] >= wanted.rows).all(axis=1)] for part in parts]
        order = sorted(range(len(parts)), key=lambda place: (known[parts[place][0]].sum(), -len(parts[place])))
        place = next((place for place in order if len(fitting[place])), None)
        if place is None:
            raise _too_few(known, tables, wanted, k)
        part = parts.pop(place)
        taken = part if len(part) < wanted.people + k else generator.permutation(fitting[place])[: wanted.people]
        rest = np.setdiff1d(part, taken)
        parts += [rest] if len(rest) else []
        pool = np.concatenate([pool, taken])
    return parts, pool


@dataclass(frozen=True)
class _Shortage:
    """How many more people a pool needs who have at least so many rows in each table."""

    rows: tuple[int, ...]
    people: int


def _find_shortage(known: NDArray[np.int64], pool: NDArray[np.int64], k: int, facts: int) -> _Shortage | None:
    """Return what an intruder may know of some of these people, but of fewer than k; None if there is nothing."""
    for rows in product(range(facts + 1), repeat=known.shape[1]):
        having = int((known[pool] >= rows).all(axis=1).sum()) if sum(rows) <= facts else 0
        if 0 < having < k:
            return _Shortage(rows, k - having)
    return None


def _too_few(known: NDArray[np.int64], tables: Sequence[str], wanted: _Shortage, k: int) -> CannotRelease:
    people = int((known >= wanted.rows).all(axis=1).sum())
    having = " and ".join(
        f"{format_count(n, 'row')} in {name!r}" for name, n in zip(tables, wanted.rows, strict=True) if n
    )
    return CannotRelease(
        f"At least k = {k:,} people must have {having or 'a row'}, if one has.",
        found=format_count(people, "person"),
        fix="a smaller k, or facts=1" if sum(wanted.rows) > 1 else "a smaller k, or release without that table",
    )


def pool_smallest(
    parts: Sequence[NDArray[np.int64]], pool: NDArray[np.int64]
) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Return the parts without the smallest, whose people join the pool; with one part left, it is that one."""
    ordered = sorted(parts, key=len)
    taken = 1 if len(pool) else 2
    return ordered[taken:], np.concatenate([pool, *ordered[:taken]])


def choose_group_size(people: int, k: int, dimensions: int, others: Sequence[int]) -> int:
    """Return how many people to group so that boxes are narrow on average, as shares of the range of their columns.

    K of n people in d columns that fill the space take (K ÷ n)^(1/d) of the range of each; k of the K people, in a
    table with e columns, (k ÷ K)^(1/e) of it.
    """
    sizes = np.unique(np.geomspace(k, max(k, people), 200).round().astype(np.int64))
    width = dimensions * (sizes / people) ** (1.0 / max(dimensions, 1))
    for columns in others:
        width = width + columns * (k / sizes) ** (1.0 / max(columns, 1))
    return int(sizes[np.argmin(width)])


@dataclass(frozen=True, repr=False)
class GroupedPeople:
    """Groups of people, by their pseudonyms, and the k with which the rows of each group are grouped."""

    person: str
    group_of: Mapping[str, int]
    sizes: tuple[int, ...]
    k: int  # what is promised, at most the smallest of the sizes
    hidden: tuple[str, ...] = ()  # columns of another table that are counted and not released
    count_rows: bool = False  # whether the sizes are rows and not people: all rows of a group become one

    def plan(self, method: Method, survey: Survey, schema: Schema, randomness: Randomness) -> Plan:
        """Plan for each k that occurs, from all rows, so that the same columns are released for every group."""
        options: dict[str, Any] = {}
        search = getattr(method, "search", None)
        if search is not None:  # the time is that of all groups together
            number = len(self.sizes)
            options["search"] = search / number if isinstance(search, int | float) else search.split(number)
        made: Any = method  # it has k, as was checked
        base = replace(made, k=self.k, **options).plan(survey, schema, randomness)
        if isinstance(base, RecodingPlan):
            raise OptionError(
                "Linked tables need a method that groups the rows of some people by themselves.",
                found=f"method {method.name!r} with these options, which recodes all rows in the same way",
                fix="boxes, mdav, suppress, or recode with kind='local'",
            )
        counted = Schema(schema.columns) if self.count_rows else schema
        plans = {k: replace(made, k=k, **options).plan(survey, counted, randomness) for k in set(self.sizes)}
        return PlanWithinGroups(self, base, plans)


@dataclass(frozen=True, repr=False)
class PlanWithinGroups(Plan):
    """The plan of a method, run within each group of people by itself."""

    people: GroupedPeople
    base: Plan  # whose promises the others keep, too
    plans: Mapping[int, Plan]  # by k, which is all in which they differ

    @property
    def blocks(self) -> int:
        return len(self.people.sizes)

    @property
    def numbered(self) -> tuple[str, ...]:
        return self.base.numbered

    @property
    def notes(self) -> Mapping[str, Any]:
        return self.base.notes

    def route(self, rows: Table, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        names = rows.arrow.column(self.people.person).to_pylist()
        return np.array([self.people.group_of[name] for name in names], dtype=np.int64)

    def transform(self, block: Table, number: int) -> Outcome:
        made = self.plans[self.people.sizes[number]].transform(block, number)
        shown = [name for name in made.released.names if name not in self.people.hidden]
        return replace(made, released=made.released.select(shown))

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        return tuple(one for claim in self.base.claims for one in self._without_hidden(claim))

    def _without_hidden(self, claim: Claim[Any]) -> Iterator[Claim[Any]]:
        """Yield the claim as it holds without the hidden columns: they are counted from the original."""
        hidden = self.people.hidden
        if isinstance(claim, ColumnsAllowed):
            yield replace(claim, names=tuple(name for name in claim.names if name not in hidden))
        elif getattr(claim, "column", None) not in hidden:
            yield claim
        elif isinstance(claim, Diversity):
            yield replace(claim, hidden=True)
