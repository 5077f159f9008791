"""``sfumato tree FILE COLUMN``: a generalization tree of a column, to edit."""

from __future__ import annotations

import io
from pathlib import Path

import typer

from sfumato.cli import console, source
from sfumato.errors import OptionError
from sfumato.params import require_choice
from sfumato.project.reading import READING


def command(
    *,
    file: str = source.FILE,
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
    table: str | None = source.TABLE,
    query: str | None = source.QUERY,
    separator: str | None = source.SEPARATOR,
    encoding: str | None = source.ENCODING,
    decimal: str | None = source.DECIMAL,
    missing: list[str] = source.MISSING,
    header: bool | None = source.HEADER,
    names: str | None = source.NAMES,
    sheet: str | None = source.SHEET,
) -> None:
    """Make a generalization tree of a column, to edit.

    Prints one line per value: the value, its group on each level, and * for all; columns are separated by semicolons,
    as in ARX. The file contains the values of the column, so keep it as secret as the table. Name it in a schema file:
    tree = "zip.csv".

    Example: sfumato tree patients.csv age --by steps --levels 5,10,50 -o age.csv
    """
    from sfumato.schema.tree_ways import WAYS, suggested_tree, usual_way

    reading = source.reading_of(separator, encoding, decimal, missing, header, names, sheet) or READING
    way = None if by is None else require_choice(by, name="--by", choices=WAYS)
    whole = source.source_of(file, reading, table=table, query=query).read()
    if column not in whole.names:
        from sfumato.schema.columns import nearest

        raise OptionError(f"There is no column {column!r} in the table.", found=nearest(column, whole.names))
    way = way or usual_way(whole, column)
    text = io.StringIO()
    tree = suggested_tree(whole, column, way, _numbers(levels))
    tree.write(text)
    console.say(f"· {tree.size:,} values of {column!r} in {tree.levels} levels, by {way}")
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
    from sfumato.table.write import write_whole

    write_whole(path, lambda file: file.write(text.encode()))
