"""What a release is made of: input, roles, method, options and target, from the command line or from a project file."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import OptionError
from sfumato.languages import ENGLISH, languages
from sfumato.params import require_choice

if TYPE_CHECKING:
    from sfumato.job.job import AssessmentWishes, Job
    from sfumato.methods.base import Method
    from sfumato.release.privacy_budget import PrivacyBudget
    from sfumato.schema.columns import Column
    from sfumato.schema.schema import FittedTable, Schema
    from sfumato.sources.base import Destination, TableSource
    from sfumato.sources.database import Database


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read a file, as given on the command line."""

    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    missing: Sequence[str] = ()
    header: bool | None = None
    names: str | None = None  # separated by commas; quotes enclose a name with a comma
    sheet: str | None = None  # of a workbook
    skip: int | None = None  # lines before the table
    header_rows: int | None = None  # lines of names, which are joined
    derive: Sequence[str] = ()  # rules of derived columns

    @property
    def options(self) -> dict[str, Any]:
        """What was given, as :func:`sfumato.read` takes it; the rest is detected."""
        names = None if self.names is None else split_names(self.names)
        given = vars(self) | {"missing": tuple(self.missing) or None, "names": names}
        given |= {"derive": tuple(self.derive) or None}
        return {name: value for name, value in given.items() if value is not None}

    def to_arguments(self) -> list[str]:
        """Return what was given as arguments of a command."""
        given = [("--separator", self.separator), ("--encoding", self.encoding), ("--decimal", self.decimal)]
        given += [("--missing", text) for text in self.missing]
        given += [("--names", self.names), ("--sheet", self.sheet)]
        lines = {"--skip": self.skip, "--header-rows": self.header_rows}
        given += [(flag, str(number)) for flag, number in lines.items() if number is not None]
        given += [("--derive", rule) for rule in self.derive]
        header = [] if self.header is None else ["--header" if self.header else "--no-header"]
        return [word for flag, value in given if value is not None for word in (flag, value)] + header


READING = Reading()  # everything is detected


def is_url(text: str) -> bool:
    """Return whether this is the URL of a database."""
    from sfumato.sources.base import SCHEMES, scheme_of

    return scheme_of(text) in SCHEMES


def source_of(file: str, reading: Reading, *, table: str | None = None, query: str | None = None) -> TableSource:
    """Return the file, or the table of a database, with how to read it."""
    if is_url(file):
        return database(file, table=table, query=query)
    if table is not None or query is not None:
        raise OptionError("--table and --query need the URL of a database.", found="a file", fix="leave them out")
    return file_source(file, reading)


def database(url: str, *, table: str | None, query: str | None = None, replace: bool = False) -> Database:
    """Return a table of a database; a password in the URL is refused, because others see it in the process list."""
    from sfumato.sources.database import Database

    if re.match(r"[A-Za-z0-9+]+://[^/@]*:[^/@]+@", url) or re.search(r"[?&]password=", url):
        raise OptionError(
            "A password must not be on the command line, where others can see it.",
            fix="PGPASSWORD in the environment, ~/.pgpass, or a service file",
        )
    return Database(url, table=table, query=query, replace=replace)


def file_source(file: str, reading: Reading) -> TableSource:
    """Return the file with how to read it."""
    from sfumato.formats.text import TextOptions
    from sfumato.sources.files import FileSource

    given = reading.options
    rules = given.pop("derive", ())
    source = FileSource(file, TextOptions(**given))
    if not rules:
        return source
    from sfumato.sources.derived_columns import source_with

    return source_with(source, rules)


def split_names(names: str) -> tuple[str, ...]:
    """Split names that are separated by commas; quotes enclose a name with a comma."""
    return tuple(next(csv.reader([names], skipinitialspace=True), []))


def schema_of(schema: str | Schema | None, roles: Sequence[str]) -> Schema:
    """Return the schema, or that in a file, with the roles of the command line."""
    from sfumato.schema.columns import Role
    from sfumato.schema.schema import Schema

    chosen = {
        name: Role(require_choice(role, name=f"The role of {name!r}", choices=[str(known) for known in Role]))
        for name, role in map(_role, roles)
    }
    return Schema.of(schema).with_roles(chosen)


def _role(text: str) -> tuple[str, str]:
    """Split ``COLUMN=ROLE``; a column name may contain "="."""
    name, mark, role = text.rpartition("=")
    if not mark or not name:
        raise OptionError("--role needs a column and a role.", found=repr(text), fix="--role income=sensitive")
    return name, role


AUTO = "auto"  # in place of a method: the recommended one
DEFAULT_METHOD = "boxes"


@dataclass(frozen=True, kw_only=True)
class Request:
    """A release as it was asked for; None stands for what was not given."""

    input: str | None = None
    target: str | None = None
    method: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    schema: str | None = None  # path of a schema file
    columns: Schema | None = None  # or the schema itself
    roles: Sequence[str] = ()  # COLUMN=ROLE
    reading: Reading | None = None
    table: str | None = None
    query: str | None = None
    into: str | None = None
    replace: bool | None = None
    assess: bool | None = None
    reference: str | None = None
    holdout: float | None = None
    require: Sequence[str] = ()
    earlier: Sequence[str] = ()  # folders of releases of the same people that were given away before
    engine: str | None = None
    master: str | None = None
    memory: str | None = None
    csv_formulas: str | None = None
    formats: Sequence[str] = ()  # of the released rows, besides Parquet
    pseudonyms: Sequence[str] = ()  # identifiers that are released as pseudonyms
    shift_dates: Sequence[str] = ()  # columns whose dates are shifted
    by: str | None = None  # column that tells people apart, for shift_dates
    days: int | None = None  # largest shift
    key: str | None = None  # file of the secret key
    ledger: str | None = None  # private file that knows what earlier releases told about whom
    budget: str | None = None  # file of the privacy budget
    budget_epsilon: float | None = None  # of a new budget
    budget_delta: float | None = None
    language: str | None = None  # of the report and the README
    rows_not_people: bool | None = None  # whether promises may count rows although people have several

    def over(self, other: Request) -> Request:
        """Return this request with what only the other one gives; options are merged."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        given = {name: value for name, value in given.items() if value not in (None, (), [], {})}
        if self.schema is not None:
            other = replace(other, columns=None)
        return replace(other, **(given | {"options": {**other.options, **self.options}}))

    def to_job(self, *, seed: int | None = None) -> Job:
        """Validate everything before any work, and return the job; it has no method if that is to be recommended."""
        from sfumato.job.job import Job
        from sfumato.release.bundle import check_formats

        file, target = self._required()
        _require_original(Path(file))
        require_choice(self.csv_formulas or "escape", name="--csv-formulas", choices=("keep", "escape"))
        if self.language is not None:
            require_choice(self.language, name="--language", choices=languages())
        for one in self.require:
            require_choice(one, name="--require", choices=("assessment",))
        method = None if self.method == AUTO else self.make_method()
        destination = self._destination(target)
        destination.require_free()
        for flag, private in (("--key", self.key), ("--ledger", self.ledger), ("--budget", self.budget)):
            _require_apart(flag, private, target)
        check_formats(self.formats or None)
        job = Job.of(
            source_of(file, self.reading or READING, table=self.table, query=self.query),
            schema=self.roles_schema,
            method=method,
            engine=self.engine or "auto",
            memory=self.memory,
            master=self.master,
            into=destination,
            assessment=self._assessment(seed),
            key=self.key,
            rows_not_people=bool(self.rows_not_people),
            ledger=self.ledger,
            budget=self._open_budget(),
            seed=seed,
        )
        self._require_plain(job)
        return job

    def _open_budget(self) -> PrivacyBudget | None:
        """Return the privacy budget, which is made if its file does not exist; None if none is asked for."""
        if self.budget is None:
            if self.budget_epsilon is not None or self.budget_delta is not None:
                raise OptionError("--budget-epsilon and --budget-delta are for --budget.", fix="--budget FILE")
            return None
        from sfumato.release.privacy_budget import PrivacyBudget

        return PrivacyBudget(self.budget, epsilon=self.budget_epsilon, delta=self.budget_delta)

    def make_method(self) -> Method:
        """Return the method with its options."""
        from sfumato.methods.base import make_method

        return make_method(self.method or DEFAULT_METHOD, **self.options)

    def _required(self) -> tuple[str, str]:
        if self.input is None:
            raise OptionError(
                "A release needs an input.", found="none", fix="sfumato release FILE -o DIR, or --project"
            )
        if self.target is None:
            raise OptionError("A release needs a folder to write to.", found="none", fix="-o out")
        return self.input, self.target

    def _destination(self, target: str) -> Destination:
        """Return the folder, or the table of a database, that the release is written to."""
        from sfumato.release.destination import Folder, folder_of

        if is_url(target):
            if self.into is None:
                raise OptionError(
                    "-o with the URL of a database needs the name of the new table.",
                    found="no --into",
                    fix="--into TABLE",
                )
            return database(target, table=self.into, replace=bool(self.replace))
        if self.into is not None or self.replace:
            raise OptionError("--into and --replace need -o with the URL of a database.", found="a folder")
        formats, formulas = tuple(self.formats) or None, self.csv_formulas or "escape"
        return folder_of(Folder(target, formats, formulas, language=self.language or ENGLISH))

    def _assessment(self, seed: int | None) -> AssessmentWishes | None:
        """Return how the release is assessed; None if it is not. The reference is read."""
        from sfumato.job.job import AssessmentWishes, read_earlier
        from sfumato.measures.assess import ComparisonOptions

        if not (self.assess or self.require or self.earlier or self.reference is not None or self.holdout is not None):
            return None
        return AssessmentWishes(
            reference=None if not self.reference else file_source(self.reference, self.reading or READING).read(),
            holdout=self.holdout,
            options=ComparisonOptions(seed=seed),
            require=bool(self.require),
            earlier=read_earlier(self.earlier),
        )

    def _require_plain(self, job: Job) -> None:
        """Raise if something is asked for that only a release in memory into a folder has."""
        from sfumato.release.destination import Folder

        if job.engine.in_memory and isinstance(job.destination, Folder):
            return
        asked = {"--pseudonyms": self.pseudonyms, "--shift-dates": self.shift_dates, "--format": self.formats}
        given = [flag for flag, value in asked.items() if value]
        if given:
            raise OptionError(
                f"{', '.join(given)}: this is done only in memory, into a folder.",
                found="a database or a store" if job.engine.in_memory else f"engine {job.engine.name!r}",
                fix="--engine memory and -o DIR",
            )

    def prepare(self, fitted: FittedTable) -> FittedTable:
        """Return the table with the pseudonyms and shifted dates that are asked for in its schema."""
        schema = fitted.schema
        for one in (*self.pseudonyms, *self.shift_dates):
            _ = schema[one]  # raises if there is no such column
        if self.shift_dates and self.by is None:
            raise OptionError("--shift-dates needs the column that tells people apart.", fix="--by COLUMN")
        if (self.by is not None or self.days is not None) and not self.shift_dates:
            raise OptionError("--by and --days are for --shift-dates.", fix="--shift-dates COLUMNS")
        columns = tuple(self._prepare_column(column) for column in schema.columns)
        return replace(fitted, schema=replace(schema, columns=columns))

    def for_project_file(self, schema: Schema) -> Request:
        """Return the request as a project file keeps it: with the schema that was used, in place of roles."""
        done: dict[str, Any] = {"roles": (), "pseudonyms": (), "shift_dates": (), "by": None, "days": None}
        return replace(self, schema=None, columns=schema, **done)

    def _prepare_column(self, column: Column) -> Column:
        from sfumato.schema.columns import DAYS, DateShift, Role

        if column.name in self.pseudonyms:
            role = column.role if column.role is Role.PERSON else Role.IDENTIFIER
            return replace(column, role=role, pseudonym=True, reason="")
        if column.name in self.shift_dates:
            return replace(column, shift=DateShift(by=self.by or "", days=self.days or DAYS))
        return column

    @property
    def roles_schema(self) -> Schema:
        """The schema, with the roles of the command line."""
        return schema_of(self.columns if self.schema is None else self.schema, self.roles)


def option_value(text: str) -> Any:
    """Return the value of an option of a method that was given as text: as JSON if possible, otherwise as it is.

    >>> option_value("0.5"), option_value("[1, 2]"), option_value("rank")
    (0.5, [1, 2], 'rank')
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _require_apart(flag: str, private: str | None, target: str) -> None:
    """Raise if a private file would be in the folder of the release."""
    if private is None:
        return
    reason = ""
    try:
        place = Path(private).expanduser().resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, no home, a null character
        reason = "it is not a valid path"
    if reason:
        raise OptionError(f"The file of {flag} cannot be kept there: {reason}.", fix=f"{flag} with the path of a file")
    if place.is_relative_to(Path(target).expanduser().resolve()):
        raise OptionError(
            f"The file of {flag} must not be in the folder of the release.", fix=f"{flag} with another folder"
        )


def _require_original(file: Path) -> None:
    """Raise if the input is a release, or the rows of one."""
    from sfumato.formats.raw_files import shorten_name
    from sfumato.release.target import MANIFEST, PARQUET

    folder = file if file.is_dir() else file.parent
    is_rows = file.is_dir() or file.stem == Path(PARQUET).stem
    if is_rows and (folder / MANIFEST).is_file() and (folder / PARQUET).exists():
        raise OptionError(
            f"{shorten_name(file)} is a release already.",
            found=f"{MANIFEST} of a release",
            fix="give the table that it was made from; `sfumato estimate` and `sfumato assess` read releases",
        )
