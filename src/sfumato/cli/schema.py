"""``sfumato schema FILE`` and ``sfumato tree FILE COLUMN``: a schema file and a generalization tree, to edit."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import typer

from sfumato.cli import console, options
from sfumato.errors import OptionError
from sfumato.params import require_choice


@options.with_groups
def schema(
    *,
    file: str = options.FILE,
    roles: options.RoleOptions,
    place: options.PlaceOptions,
    engine: options.EngineOptions,
    reading: options.ReadingOptions,
    json: bool = options.JSON,
) -> None:
    """Print a schema file with a role for every column, to edit.

    Suggested roles have their reasons as comments. Dates and codes, such as postal codes and ICD-10, get a tree. The
    file contains names of columns and no cell. --schema of the other commands reads it.

    Example: sfumato schema patients.csv > schema.toml
    """
    from sfumato.job.inspect import open_for_inspection
    from sfumato.schema.schema import Schema
    from sfumato.schema.suggested_hierarchies import add_suggested_trees

    with open_for_inspection(options.job_of(file, reading, place, engine, schema=roles.given)) as opened:
        kinds = opened.survey.kinds
        columns = add_suggested_trees(opened.schema, opened.survey.sample.table).columns
    if json:
        console.show_json(
            [
                {"name": one.name, "role": one.role, "kind": kinds[one.name], "tree": one.tree, "reason": one.reason}
                for one in columns
            ]
        )
        return
    explained = (replace(one, reason=f"{kinds[one.name]}; {one.reason}".removesuffix("; ")) for one in columns)
    console.show_text(Schema(tuple(explained)).to_toml())


@options.with_groups
def tree(
    *,
    file: str = options.FILE,
    column: str = typer.Argument(..., metavar="COLUMN", help="Column of the table."),
    by: str | None = typer.Option(
        None,
        "--by",
        metavar="WAY",
        help="How values are grouped: steps of numbers, prefix of codes, calendar of dates, frequencies (rare values "
        "together), or values (each by itself, to edit). By default by the kind of the column.",
    ),
    levels: str | None = typer.Option(
        None,
        "--levels",
        metavar="A,B,C",
        help="Widths of steps, or numbers of rows below which values are rare; ascending. Chosen by default.",
    ),
    out: str | None = typer.Option(
        None, "-o", "--out", metavar="CSV", help="File to write; standard output by default."
    ),
    place: options.PlaceOptions,
    engine: options.EngineOptions,
    reading: options.ReadingOptions,
) -> None:
    """Make a generalization tree of a column, to edit.

    Prints one line per value: the value, its group on each level, and * for all; columns are separated by semicolons,
    as in ARX. The file contains the values of the column, so keep it as secret as the table. Name it in a schema file:
    tree = "zip.csv".

    Example: sfumato tree patients.csv age --by steps --levels 5,10,50 -o age.csv
    """
    from sfumato.job.inspect import open_for_inspection
    from sfumato.schema.suggested_hierarchies import TREE_KINDS, build_tree

    way = None if by is None else require_choice(by, name="--by", choices=TREE_KINDS)
    with open_for_inspection(options.job_of(file, reading, place, engine)) as opened:
        values = opened.values_of(column)
    way = way or values.usual_kind
    text = io.StringIO()
    suggested = build_tree(values, way, _numbers(levels))
    suggested.write(text)
    console.say(f"· {suggested.size:,} values of {column!r} in {suggested.levels} levels, by {way}")
    if out is None:
        console.show_text(text.getvalue())
    else:
        _write(Path(out).expanduser(), text.getvalue())
        console.say(f"· in a schema file: tree = {out!r}")


def _numbers(levels: str | None) -> list[float]:
    try:
        return [] if levels is None else [float(level) for level in levels.split(",")]
    except ValueError:
        pass
    raise OptionError("--levels must be numbers.", found=repr(levels), fix="--levels 5,10,50")


def _write(path: Path, text: str) -> None:
    from sfumato.formats.raw_files import write_whole

    write_whole(path, lambda file: file.write(text.encode()))
