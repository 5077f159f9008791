"""Several tables of the same people: one release in which k people share what the tables tell together.

People are divided by the tables that they have rows in, then the method groups them by the table with one row for each
person, in groups of more than k. The rows of every other table are grouped within each of these groups, so that k
people share a row of the one and a row of the other. Everything is recounted over the join of the released tables.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.base import engine_for
from sfumato.errors import CannotRelease, OptionError, PromiseError, SchemaError
from sfumato.job.job import Job
from sfumato.job.linked_groups import (
    GroupedPeople,
    LinkedPeople,
    choose_group_size,
    divide_people,
    name_table,
    pool_smallest,
    relate_dates,
    require_consistent,
)
from sfumato.job.release import make_release, warn_of_suggestions
from sfumato.job.request import schema_of
from sfumato.params import require_int
from sfumato.randomness import Randomness
from sfumato.release.destination import Folder, destination_of
from sfumato.release.linked import LinkedRelease, group_columns, link_releases
from sfumato.release.target import NAMES, NUMBERS, REPORT
from sfumato.schema.columns import DateShift, Role, columns_of, is_pattern, toml_content
from sfumato.schema.pseudonyms import SecretKey, make_pseudonyms, read_or_create_key
from sfumato.schema.schema import FittedTable, Schema
from sfumato.sources.frames import as_table
from sfumato.table.groups import group_labels
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.job.request import Request
    from sfumato.methods.base import Method
    from sfumato.release.release import Release

log = logging.getLogger("sfumato")
TABLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")  # it becomes the name of a folder


@dataclass(frozen=True, repr=False)
class LinkedTables:
    """Tables of the same people, to be released together.

    One of them has one row for each person; the others have any number of rows for each. Keys are replaced by
    pseudonyms, the same in all tables: fresh ones in every release, or keyed ones if ``release`` is given a key.

    Parameters
    ----------
    tables : mapping of str to table, path or data frame
        At least two tables by name. The names become those of folders.
    person : str
        The column that tells people apart, in every table. Its values may be numbers in one table and text in another.
    facts : int or None, default 1
        How many rows of the other tables an intruder may know about a person, besides her row in the table of people:
        at least k people fit these rows together. With 1, two rows may fit fewer people. None: all her rows. More than
        1 makes wider boxes: all rows that a group of people has in a table then become one box.
    group_size : int, optional
        People in a group of the table of people, at least k. More people make wider boxes there, and narrower ones in
        the other tables. By default the size with the narrowest boxes on average, by a rule of thumb.
    index_date : str, optional
        A date in the table of people. All other dates become the number of days since this date of the person; the
        column itself keeps its role. Intervals between the dates of a person stay as they are, before the method.
    shift_days : int, optional
        Shift all dates of a person, in all tables, by the same random number of days, up to this many to either side,
        before the method. The shift guarantees nothing: intervals stay as they are.

    Examples
    --------
    >>> import sfumato as sf
    >>> patients = {"id": [1, 2, 3, 4], "birth": [1950, 1951, 1980, 1982]}
    >>> visits = {"id": [1, 2, 2, 3, 4], "year": [2020, 2021, 2023, 2020, 2022]}
    >>> tables = sf.LinkedTables({"patients": patients, "visits": visits}, person="id")
    >>> roles = {"patients": {"birth": "quasi"}, "visits": {"year": "quasi"}}
    >>> release = sf.Boxes(k=2).release(tables, schema=roles)
    >>> release
    LinkedRelease(patients: 4 rows, visits: 5 rows; at least 2 people fit any 1 row of a person and her cells)
    >>> estimate = release.tables["visits"].estimate("mean(year)")
    >>> bool(estimate.low <= 2021.2 <= estimate.high)
    True
    """

    tables: Mapping[str, Any]
    person: str
    facts: int | None = 1
    group_size: int | None = None
    index_date: str | None = None
    shift_days: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.tables, Mapping) or len(self.tables) < 2:
            count = len(self.tables) if isinstance(self.tables, Mapping) else type(self.tables).__name__
            raise OptionError(
                "Linked tables are at least two tables, by name.",
                found=f"{count}",
                fix="the role person for a single table with several rows for each person",
            )
        require_table_names(list(self.tables))
        if not isinstance(self.person, str):
            raise OptionError(
                "The column that tells people apart must be given by its name.", fix='person="patient_id"'
            )
        for name, least in (("facts", 1), ("group_size", 1), ("shift_days", 1)):
            if getattr(self, name) is not None:
                require_int(getattr(self, name), name=name, at_least=least)
        if self.index_date is not None and self.shift_days is not None:
            raise OptionError("Dates become relative to an index date, or they are shifted.", found="both")

    def __repr__(self) -> str:
        return f"LinkedTables({', '.join(self.tables)}, person={self.person!r})"

    def release_with(
        self,
        method: Method,
        *,
        schema: Any = None,
        engine: Any = "auto",
        into: Any = None,
        key: str | Path | None = None,
        seed: int | None = None,
        rows_not_people: bool = False,
        ledger: str | Path | None = None,
        budget: Any = None,
        assess: bool = False,
    ) -> LinkedRelease:
        """Release the tables together; see :meth:`sfumato.Boxes.release` and :func:`sfumato.release_and_assess`."""
        _require_possible(method, self, engine, ledger=ledger, budget=budget, rows_not_people=rows_not_people)
        destination = destination_of(into)
        if destination is not None:
            if not isinstance(destination, Folder):
                raise OptionError("Linked tables are written into a folder.", found=type(destination).__name__)
            destination.require_free()
        people = LinkedPeople.of(self._fit(schema), self.person)
        require_consistent(people)
        released = Linking(self, method, people, read_or_create_key(key), seed).release()
        released = add_report(released, people if assess else None)
        if destination is not None:
            released.write(destination.path, formats=destination.formats, csv_formulas=destination.csv_formulas)
        return released

    def _fit(self, schema: Any) -> dict[str, FittedTable]:
        """Return all tables with roles, with the key as the person, and with the dates as they are asked for."""
        given = schemas_of(schema, list(self.tables))
        fitted = {}
        for name, table in self.tables.items():
            with name_table(name):
                fitted[name] = self._fit_table(as_table(table), given[name], told=name in (schema or ()))
        return fitted if self.index_date is None else relate_dates(fitted, self.person, self.index_date)

    def _fit_table(self, table: Table, given: Schema, *, told: bool) -> FittedTable:
        if self.person not in table.names:
            raise SchemaError(f"Every table must have the column {self.person!r}.", found=f"{len(table.names)} others")
        if self.person in given and given[self.person].role not in (Role.PERSON, Role.IDENTIFIER):
            raise SchemaError(
                f"The column {self.person!r} tells people apart.", found=f"role {given[self.person].role}", fix="person"
            )
        if set(given.names(Role.PERSON)) - {self.person}:
            raise SchemaError(f"The person is {self.person!r} in every table.", found="another column with that role")
        fitted = FittedTable.of(table, given.with_roles({self.person: Role.PERSON}))
        warn_of_suggestions(fitted.schema, given if told else None)
        dated = [name for name, kind in fitted.table.kinds.items() if kind is Kind.DATE]
        shift = None if self.shift_days is None else DateShift.of({"by": self.person, "days": self.shift_days}, "")
        columns = (
            replace(one, shift=shift) if shift is not None and one.name in dated else one
            for one in fitted.schema.columns
        )
        return FittedTable(fitted.table, Schema(tuple(columns)))


def require_table_names(names: Sequence[str]) -> None:
    """Raise unless the names differ, on every system, and can be those of folders."""
    wrong = [name for name in names if not isinstance(name, str) or not TABLE_NAME.fullmatch(name) or name in NAMES]
    if wrong:
        raise OptionError(
            "The name of a table becomes that of a folder: letters, digits, and _ . - in between.",
            found=f"{len(wrong)} other names",
            fix='names such as "visits"',
        )
    if len({name.lower() for name in names}) < len(names):
        raise OptionError("Linked tables must have different names.", found="one name twice", fix="rename a table")


def schemas_of(given: Any, names: Sequence[str]) -> dict[str, Schema]:
    """Return the schema of each table, from a mapping by table or from a file with ``[tables.NAME.columns]``."""
    folder = None
    if isinstance(given, str | Path):
        path = Path(given).expanduser()
        content, folder = toml_content(path), path.parent
        tables = content.get("tables")
        if set(content) != {"tables"} or not isinstance(tables, Mapping):
            raise SchemaError(f"{path.name} must have one table [tables.NAME.columns] for each linked table.")
        given = {name: one.get("columns", {}) if isinstance(one, Mapping) else one for name, one in tables.items()}
    if given is not None and not isinstance(given, Mapping):
        raise SchemaError("The schema of linked tables maps each table to its schema.", found=type(given).__name__)
    unknown = [name for name in given or {} if name not in names]
    if unknown:
        raise SchemaError(
            f"There is no table {unknown[0]!r}.",
            found=f"tables {', '.join(map(repr, names))}",
            fix='schema={"patients": {"age": "quasi"}, "visits": {"year": "quasi"}}',
        )
    found = {name: (given or {}).get(name) for name in names}
    return {
        name: Schema(columns_of(one, folder=folder)) if folder and isinstance(one, Mapping) else Schema.of(one)
        for name, one in found.items()
    }


def names_of_files(files: Sequence[str]) -> list[str]:
    """Return the names of the tables in files: visits for data/visits.csv.gz."""
    names = [Path(file).name.partition(".")[0] for file in files]
    require_table_names(names)
    return names


def require_linked_request(request: Request, person: str | None) -> None:
    """Raise if a command about several files lacks something, or asks for what linked tables do not have."""
    if person is None:
        raise OptionError(
            "Several files are linked tables, so a column must tell people apart.",
            found="no --person",
            fix="--person COLUMN; or quotes around a pattern such as 'part-*.csv', which is one table",
        )
    if request.target is None:
        raise OptionError("A release needs a folder to write to.", found="none", fix="-o out")
    refused = "reference holdout require into replace table query pseudonyms shift_dates by rows_not_people"
    others = "earlier master memory"
    given = [f"--{name.replace('_', '-')}" for name in f"{refused} {others}".split() if getattr(request, name)]
    if given or request.method == "auto":
        raise OptionError(
            "Linked tables are released without these options.",
            found=", ".join([*given, *(["--method auto"] if request.method == "auto" else [])]),
            fix="leave them out; keys become pseudonyms anyway, and --days N shifts all dates",
        )


def roles_of_tables(
    schemas: Mapping[str, Schema], roles: Sequence[str], tables: Mapping[str, Table]
) -> dict[str, Schema]:
    """Return the schemas with roles of the command line: ``visits.year=quasi``, or ``year=quasi`` for every table."""
    chosen: dict[str, list[str]] = {name: [] for name in tables}
    for given in roles:
        column, _, role = given.rpartition("=")
        table, _, rest = column.partition(".")
        if table in tables and rest:
            chosen[table].append(f"{rest}={role}")
            continue
        having = [name for name, one in tables.items() if is_pattern(column) or column in one.names]
        if not having:
            raise SchemaError(f"No table has the column {column!r}.", found=f"tables {', '.join(map(repr, tables))}")
        for name in having:
            chosen[name].append(given)
    return {name: schema_of(schemas[name], chosen[name]) for name in tables}


def add_report(release: LinkedRelease, people: LinkedPeople | None) -> LinkedRelease:
    """Return the release with its common report; ``people`` are the tables as they were, if they are to be compared."""
    from sfumato.measures.privacy.attacks.joining import assess_joining
    from sfumato.report.html import Report

    if people is not None:
        before = people.with_plain_names()
        known = {name: one.schema.names(Role.QUASI) for name, one in people.tables.items()}
        release = replace(release, assessment=assess_joining(release, before, known))
    report = Report.of_linked(release)
    return replace(release, report={REPORT: report.page.encode(), NUMBERS: report.numbers.encode()})


def _require_possible(method: Method, tables: LinkedTables, engine: Any, **refused: Any) -> None:
    """Raise before any work if something is asked for that linked tables do not have."""
    given = [name for name, value in refused.items() if value]
    if given:
        raise OptionError("Linked tables are released without it.", found=", ".join(given), fix="leave it out")
    if not engine_for(engine, tables).in_memory:
        raise OptionError(
            "Linked tables are released in memory.", found=f"engine {engine_for(engine).name!r}", fix="engine='memory'"
        )
    k = getattr(method, "k", None)
    if not isinstance(k, int) or not method.one_row_per_person:
        raise CannotRelease(
            "Linked tables need a method that makes groups of k rows and keeps each row that of its person.",
            found=f"method {method.name!r}",
            fix="boxes, mdav, suppress, or recode with kind='local'",
        )
    if tables.group_size is not None and tables.group_size < k:
        raise OptionError(f"A group must have at least k = {k:,} people.", found=f"group_size {tables.group_size:,}")


@dataclass(frozen=True, repr=False)
class Linking:
    """The work of one release of linked tables."""

    tables: LinkedTables
    method: Method
    people: LinkedPeople
    key: SecretKey
    seed: int | None

    def release(self) -> LinkedRelease:
        """Release all tables, with larger groups of people until every promise holds in all of them."""
        counts, k = self.people.counts(), self._k
        facts, generator = self.tables.facts, Randomness(self.seed).stream("people with rare numbers of rows")
        parts, pool = divide_people(counts, self.people.others, k=k, facts=facts, generator=generator)
        sizes = [self._first_size(part, counts) for part in parts]
        is_possible = False
        while True:
            try:
                return self._release_groups(parts, sizes, pool)
            except PromiseError:
                if len(parts) + bool(len(pool)) == 1 and sizes[:1] in ([], [len(self.people.names)]):
                    raise
            if not is_possible:  # raises if not even one group of all people keeps the promises
                self._release_groups([], [], np.arange(len(self.people.names)))
                is_possible = True
            if all(size >= len(part) for size, part in zip(sizes, parts, strict=True)):
                parts, pool = pool_smallest(parts, pool)
                sizes = [self._first_size(part, counts) for part in parts]
            else:
                sizes = [min(2 * size, len(part)) for size, part in zip(sizes, parts, strict=True)]
            log.info("promises do not hold in all tables: trying larger groups of people")

    @property
    def _k(self) -> int:
        return int(getattr(self.method, "k"))  # noqa: B009  (methods declare their own options)

    def _first_size(self, part: NDArray[np.int64], counts: NDArray[np.int64]) -> int:
        """Return how many of these people to put into a group of the table of people."""
        if self.tables.group_size is not None:
            return min(self.tables.group_size, len(part))
        if self.tables.facts != 1:
            return self._k  # all rows of a group are one box, which is narrowest for few people
        has_rows = counts[part].sum(axis=0).tolist()
        there = [name for name, rows in zip(self.people.others, has_rows, strict=True) if rows]
        own, others = self.people.dimensions(self.people.root), [self.people.dimensions(name) for name in there]
        return choose_group_size(len(part), self._k, own, others)

    def _release_groups(
        self, parts: list[NDArray[np.int64]], sizes: list[int], pool: NDArray[np.int64]
    ) -> LinkedRelease:
        every = [*parts, *([pool] if len(pool) else [])]
        part_of = np.empty(len(self.people.names), dtype=np.int64)
        for number, part in enumerate(every):
            part_of[part] = number
        names = self._pseudonyms(self.people.root)
        grouped = GroupedPeople(
            self.people.person,
            dict(zip(names, part_of.tolist(), strict=True)),
            tuple(every_size := [*sizes, *([len(pool)] if len(pool) else [])]),
            min(every_size),
        )
        fitted = self.people.tables[self.people.root]
        root = self._release_table(self.people.root, fitted, grouped, facts=None)
        groups = self._groups_of_people(root, dict(zip(names, part_of.tolist(), strict=True)))
        made = {self.people.root: root}
        made |= {name: self._release_rows(name, groups) for name in self.people.others}
        return link_releases(
            {name: made[name] for name in self.people.tables},
            person=self.people.person,
            people=self.people.root,
            k=self._k,
            facts=self.tables.facts,
            index_date=self.tables.index_date,
        )

    def _pseudonyms(self, table: str) -> list[str]:
        cells = self.people.tables[table].table.arrow.column(self.people.person)
        names: list[str] = make_pseudonyms(cells, self.key).to_pylist()
        return names

    def _groups_of_people(self, root: Release, part_of: Mapping[str, int]) -> dict[str, int]:
        """Return the group of each released person: she shares the cells and the tables of its people."""
        assert root.manifest is not None
        names = root.table.arrow.column(self.people.person).to_pylist()
        cells = group_labels(root.table, group_columns(root.manifest)).tolist()
        pairs = [(part_of[name], cell) for name, cell in zip(names, cells, strict=True)]
        numbers = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
        return {name: numbers[pair] for name, pair in zip(names, pairs, strict=True)}

    def _release_rows(self, name: str, groups: Mapping[str, int]) -> Release:
        """Release the rows of a table that people have several rows in, within groups of people."""
        fitted, owners = self.people.tables[name], self._pseudonyms(name)
        kept = np.array([owner in groups for owner in owners], dtype=bool)
        source, hidden = self._with_sensitive(name, fitted)
        source = source if kept.all() else FittedTable(source.table.take(np.flatnonzero(kept)), source.schema)
        rows = Counter(groups[owner] for owner in owners if owner in groups)
        numbers = {group: number for number, group in enumerate(rows)}
        group_of = {owner: numbers[groups[owner]] for owner in owners if owner in groups}
        is_one_box = self.tables.facts != 1
        sizes = tuple(rows.values()) if is_one_box else (self._k,) * len(rows)
        grouped = GroupedPeople(self.people.person, group_of, sizes, self._k, hidden, count_rows=is_one_box)
        released = self._release_table(name, source, grouped, facts=self.tables.facts)
        assert released.manifest is not None
        columns = tuple(column for column in released.manifest.columns if column.name not in hidden)
        return replace(released, manifest=replace(released.manifest, columns=columns, rows_in=len(owners)))

    def _with_sensitive(self, name: str, fitted: FittedTable) -> tuple[FittedTable, tuple[str, ...]]:
        """Return a table with the sensitive columns of its people, so that they stay diverse given one of its rows."""
        root = self.people.tables[self.people.root]
        columns = [column for column in root.schema.columns if column.role is Role.SENSITIVE]
        table, schema = fitted.table, fitted.schema
        rows = root.table.take(self.people.places[name])
        for column in columns:
            hidden = f"{self.people.root}: {column.name}"
            table = Table(
                table.arrow.append_column(hidden, rows.arrow.column(column.name)),
                {**table.kinds, hidden: rows.kinds[column.name]},
            )
            schema = Schema((*schema.columns, replace(column, name=hidden)))
        return FittedTable(table, schema), tuple(f"{self.people.root}: {column.name}" for column in columns)

    def _release_table(self, name: str, fitted: FittedTable, groups: GroupedPeople, *, facts: int | None) -> Release:
        person = replace(fitted.schema[self.people.person], pseudonym=True, facts=facts)
        columns = tuple(person if one.name == person.name else one for one in fitted.schema.columns)
        log.info("table %s", name)
        with name_table(name):
            return make_release(
                Job.of(
                    FittedTable(fitted.table, Schema(columns)),
                    engine="memory",
                    method=self.method,
                    key=self.key,
                    seed=self.seed,
                    make_plan=partial(groups.plan, self.method),
                )
            )
