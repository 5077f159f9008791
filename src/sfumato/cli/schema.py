"""``sfumato schema FILE``: a schema file to start from."""

from __future__ import annotations

import typer

from sfumato.cli import console, source
from sfumato.project.reading import READING, schema_of


def command(
    *,
    file: str = source.FILE,
    schema: str | None = source.SCHEMA,
    role: list[str] = source.ROLE,
    quasi: list[str] = source.QUASI,
    sensitive: list[str] = source.SENSITIVE,
    other: list[str] = source.OTHER,
    table: str | None = source.TABLE,
    query: str | None = source.QUERY,
    engine: str = source.ENGINE,
    memory: str | None = source.MEMORY,
    separator: str | None = source.SEPARATOR,
    encoding: str | None = source.ENCODING,
    decimal: str | None = source.DECIMAL,
    missing: list[str] = source.MISSING,
    header: bool | None = source.HEADER,
    names: str | None = source.NAMES,
    sheet: str | None = source.SHEET,
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Print a schema file with a role for every column, to edit.

    Suggested roles have their reasons as comments. Dates and codes, such as postal codes and ICD-10, get a tree. The
    file contains names of columns and no cell. --schema of the other commands reads it.

    Example: sfumato schema patients.csv > schema.toml
    """
    from dataclasses import replace

    from sfumato.engines.registry import engine_for
    from sfumato.examination import examined
    from sfumato.schema.schema import Schema
    from sfumato.schema.suggested_trees import with_suggested_trees

    reading = source.reading_of(separator, encoding, decimal, missing, header, names, sheet) or READING
    given = source.source_of(file, reading, table=table, query=query)
    roles = source.given_roles(role, quasi, sensitive, other)
    with examined(given, schema_of(schema, roles), engine_for(engine, given, memory=memory)) as opened:
        kinds = opened.survey.kinds
        columns = with_suggested_trees(opened.schema, opened.survey.sample.table).columns
    if json:
        console.show_json(
            [
                {"name": one.name, "role": one.role, "kind": kinds[one.name], "tree": one.tree, "reason": one.reason}
                for one in columns
            ]
        )
        return
    told = (replace(one, reason=f"{kinds[one.name]}; {one.reason}".removesuffix("; ")) for one in columns)
    console.show_text(Schema(tuple(told)).to_toml())
