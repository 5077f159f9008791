"""Options that several commands share, declared once in groups; a command takes a group as one parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, make_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, cast, get_type_hints

import typer

from sfumato.cli import console
from sfumato.errors import OptionError
from sfumato.job.request import READING, Reading, option_value, schema_of, source_of, split_names
from sfumato.languages import languages
from sfumato.methods.command_flags import COMMAND_FLAGS
from sfumato.params import require_choice

if TYPE_CHECKING:
    from sfumato.job.job import Job
    from sfumato.risk.knowledge import Precision
    from sfumato.schema.schema import Schema

FILE_HELP = (
    "CSV, TSV, JSON Lines, Parquet, Arrow, Excel, SPSS, Stata or SAS file, a pattern such as 'part-*.csv', or the URL "
    "of a database."
)
FILE = typer.Argument(..., metavar="FILE", help=FILE_HELP)
SCHEMA = typer.Option(None, "--schema", metavar="TOML", help="Schema file with the roles of the columns.")
ROLE = typer.Option(
    [],
    "--role",
    metavar="COLUMN=ROLE",
    help="Role of a column: identifier, quasi, sensitive, person, household, other or weight; repeatable.",
)
PERSON = typer.Option(
    None,
    "--person",
    metavar="COLUMN",
    help="Column that tells people apart who have several rows: every promise and risk then counts people. It is not "
    "released.",
)
HOUSEHOLD = typer.Option(
    None,
    "--household",
    metavar="COLUMN",
    help="Column that is equal for people who live together: the risk with the household is told. It is not released.",
)
KNOWS = typer.Option(
    [],
    "--knows",
    metavar="COLUMN=PRECISION",
    help="What an intruder knows of a column: a period such as year, a width, or a number of leading characters; "
    "repeatable.",
)
ENGINE_HELP = "Engine that does the work: auto, memory, duckdb for tables larger than memory, or spark for clusters."
MEMORY = typer.Option(
    None, "--memory", metavar="SIZE", help="Memory that the process keeps to, e.g. 4GB; for the engine duckdb."
)
BUNDLE_MEMORY = typer.Option(
    None,
    "--memory",
    metavar="SIZE",
    help="Memory for the release, e.g. 4GB; one that needs more is read and counted part by part.",
)
MASTER = typer.Option(
    None, "--master", metavar="URL", help="Cluster of the engine spark, e.g. spark://host:7077 or 'local[4]'."
)
LANGUAGE_HELP = "Language of the report and the README: en, de or fr."
SEED = typer.Option(None, "--seed", help="Seed for repeatable tests.")
SECRET_SEED = typer.Option(None, "--seed", help="For tests only, and secret: whoever knows it can undo random steps.")
JSON = typer.Option(False, "--json", help="Print JSON.")


def precisions(given: Sequence[str]) -> dict[str, Precision]:
    """Return what intruders know of columns, by COLUMN=PRECISION; a column name may contain "="."""
    known: dict[str, Precision] = {}
    for text in given:
        name, mark, precision = text.rpartition("=")
        if not mark or not name:
            raise OptionError(
                "--knows needs a column and a precision.", found=repr(text), fix="--knows birth_date=year"
            )
        try:
            known[name] = float(precision)
        except ValueError:
            known[name] = cast("Precision", precision)
    return known


@dataclass(frozen=True, kw_only=True)
class PlaceOptions:
    """Which table of a database is read."""

    table: str | None = typer.Option(
        None, "--table", metavar="NAME", help="Table to read, if FILE is the URL of a database."
    )
    query: str | None = typer.Option(
        None, "--query", metavar="SQL", help="Or: query to read, if FILE is the URL of a database."
    )


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Which engine does the work."""

    engine: str = typer.Option("auto", "--engine", help=ENGINE_HELP)
    memory: str | None = MEMORY
    master: str | None = MASTER


@dataclass(frozen=True, kw_only=True)
class RoleOptions:
    """Which roles the columns have."""

    schema: str | None = SCHEMA
    role: list[str] = ROLE
    quasi: list[str] = typer.Option(
        [],
        "--quasi",
        metavar="A,B,C",
        help="Quasi-identifiers: columns that others may know; patterns such as 'lab_*' are allowed. Other columns get "
        "a suggested role.",
    )
    sensitive: list[str] = typer.Option([], "--sensitive", metavar="A,B,C", help="Sensitive columns, or patterns.")
    other: list[str] = typer.Option(
        [],
        "--other",
        metavar="A,B,C",
        help="Columns that need no protection, or patterns; '*' stands for all the rest.",
    )

    person: str | None = PERSON
    household: str | None = HOUSEHOLD

    @property
    def roles(self) -> list[str]:
        """All roles as ``COLUMN=ROLE``."""
        lists = {"quasi": self.quasi, "sensitive": self.sensitive, "other": self.other}
        return [
            *roles_with_people(self.role, self.person, self.household),
            *(f"{name}={word}" for word, given in lists.items() for names in given for name in split_names(names)),
        ]

    @property
    def given(self) -> Schema:
        """The schema file, with the roles of the command line."""
        return schema_of(self.schema, self.roles)


def roles_with_people(roles: list[str], person: str | None, household: str | None) -> list[str]:
    """Return roles as ``COLUMN=ROLE``, with those of the columns that tell people and households apart."""
    given = {"person": person, "household": household}
    return [*roles, *(f"{name}={role}" for role, name in given.items() if name is not None)]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How a file is read."""

    separator: str | None = typer.Option(
        None, "--separator", help="Character between cells; detected automatically by default."
    )
    encoding: str | None = typer.Option(
        None, "--encoding", help="Encoding of a text file; detected automatically by default."
    )
    decimal: str | None = typer.Option(
        None, "--decimal", help='Decimal mark, "." or ","; detected automatically by default.'
    )
    missing: list[str] = typer.Option(
        [], "--missing", metavar="TEXT", help="Text of a missing value, in addition to the usual ones; repeatable."
    )
    header: bool | None = typer.Option(
        None,
        "--header/--no-header",
        help="Whether the first line contains column names; detected automatically by default.",
    )
    names: str | None = typer.Option(
        None,
        "--names",
        metavar="A,B,C",
        help="Names of all columns; the first line is then data unless --header is given.",
    )
    sheet: str | None = typer.Option(
        None, "--sheet", metavar="NAME", help="Sheet of a workbook, by name or number; the first one by default."
    )
    skip: int | None = typer.Option(
        None, "--skip", metavar="N", min=0, help="Leave out this many lines before the table, such as titles."
    )
    header_rows: int | None = typer.Option(
        None, "--header-rows", metavar="N", min=1, help="Number of lines of column names, which are joined by _."
    )
    derive: list[str] = typer.Option(
        [],
        "--derive",
        metavar="RULE",
        help='A column computed from another, such as "age = years(birth_date, 2026-01-01)"; repeatable.',
    )

    @property
    def given(self) -> Reading:
        """How to read a file, as a record."""
        return Reading(**vars(self) | {"missing": tuple(self.missing), "derive": tuple(self.derive)})

    @property
    def given_or_none(self) -> Reading | None:
        """The same; None if nothing was given."""
        return None if self.given == READING else self.given


TYPES = {"whole": int | None, "number": float | None, "text": str | None, "texts": list[str], "answers": list[str]}
MethodOptions: Any = make_dataclass(
    "MethodOptions",
    [
        (
            one.option,
            TYPES[one.value],
            typer.Option([] if one.is_repeated else None, *one.flags, metavar=one.metavar, help=one.help),
        )
        for one in COMMAND_FLAGS
    ],
    frozen=True,
    kw_only=True,
)


def chosen_options(flags: Any, others: Sequence[str]) -> dict[str, Any]:
    """Return the options of a method that were given, by their flags or as ``NAME=VALUE``."""
    given = {one.option: _value(getattr(flags, one.option), one.value) for one in COMMAND_FLAGS}
    return {name: value for name, value in given.items() if value not in (None, [], {})} | dict(map(_option, others))


def _value(given: Any, kind: str) -> Any:
    return dict(map(_answer, given)) if kind == "answers" else list(given) if kind == "texts" else given


def _answer(text: str) -> tuple[str, str]:
    """Split ``COLUMN=ANSWER``; a column name may contain "="."""
    name, mark, answer = text.rpartition("=")
    if not mark or not name:
        raise OptionError("--answer needs a column and an answer.", found=repr(text), fix="--answer notes=remove")
    return name, answer


def _option(text: str) -> tuple[str, Any]:
    """Split ``NAME=VALUE``; the value is read as JSON (0.5, true, [1, 2]) if possible, otherwise as text."""
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise OptionError("--option needs a name and a value.", found=repr(text), fix="--option others=0.2")
    if name == "seed":
        raise OptionError("A seed is not an option of a method.", found="--option seed", fix="--seed")
    return name, option_value(value)


def job_of(
    file: str,
    reading: ReadingOptions,
    place: PlaceOptions,
    engine: EngineOptions | None = None,
    *,
    schema: Schema | None = None,
) -> Job:
    """Return the job that looks at a table; without the options of an engine it is done in memory."""
    from sfumato.job.job import Job

    chosen = {"engine": "memory"} if engine is None else vars(engine)
    return Job.of(source_of(file, reading.given, **vars(place)), schema=schema, **chosen)


def require_language(code: str) -> None:
    """Raise unless reports can be written in a language."""
    require_choice(code, name="--language", choices=languages())


def say_roles(schema: Schema) -> None:
    """Print the suggested roles with their reasons, so that the user sees what is protected and what is not."""
    for column in schema.columns:
        if column.reason:
            console.say(f"· {column.name}: {column.role} ({column.reason})")


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of its groups in place of the parameters that take them.

    A group is a dataclass, whose fields are options or other groups.
    """
    hints = get_type_hints(command)

    @wraps(command)
    def run(**given: Any) -> None:
        command(**{name: _collect(name, hints[name], given) for name in inspect.signature(command).parameters})

    declared = [(one.name, hints[one.name], one.default) for one in inspect.signature(command).parameters.values()]
    options = list(_expand(declared))
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, kind, default in options
    ]
    run.__dict__.pop("__wrapped__")  # whose parameters are other ones
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {name: kind for name, kind, _ in options}
    return run


def _expand(declared: Sequence[tuple[str, Any, Any]]) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, type and declaration of all options, those of groups in place of the group."""
    for name, kind, default in declared:
        if is_dataclass(kind):
            hints = get_type_hints(kind)
            yield from _expand([(one.name, hints[one.name], one.default) for one in fields(kind)])
        else:
            yield name, kind, default


def _collect(name: str, kind: Any, given: Mapping[str, Any]) -> Any:
    """Return the value of a parameter; a group is made of its options."""
    if not is_dataclass(kind):
        return given[name]
    hints = get_type_hints(kind)
    return kind(**{one.name: _collect(one.name, hints[one.name], given) for one in fields(kind)})  # type: ignore[operator]
