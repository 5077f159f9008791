"""``sfumato recommend FILE``: a method with its options, the reasons, the command and the cost."""

from __future__ import annotations

import typer

from sfumato.cli import console, source
from sfumato.project.reading import READING, reading_words, schema_of


def command(
    *,
    file: str = source.FILE,
    keep: list[str] = typer.Option(
        [], "--keep", metavar="STATISTIC", help='Statistic to keep accurate, e.g. "corr(age, income)"; repeatable.'
    ),
    k: int | None = typer.Option(None, "-k", "--k", help="Smallest number of records in a group; chosen by default."),
    l: int | None = typer.Option(None, "--l", help="Smallest number of different sensitive values in a group."),
    population: float | None = typer.Option(None, "--population", help="People among whom an intruder searches."),
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
    """Recommend a method and its options.

    From the roles and kinds of the columns, the number of rows and the statistics to keep. Prints the command, the
    reasons, and the expected time, memory and widths of intervals, which are found by a trial on up to 4,000 rows.

    Example: sfumato recommend patients.csv --schema schema.toml --keep "corr(age, income)"
    """
    from sfumato.engines.registry import engine_for
    from sfumato.recommendation.recommend import recommend

    reading = source.reading_of(separator, encoding, decimal, missing, header, names, sheet)
    given = source.source_of(file, reading or READING, table=table, query=query)
    roles = source.given_roles(role, quasi, sensitive, other)
    console.say_compiling()
    found = recommend(
        given,
        keep,
        schema=schema_of(schema, roles),
        k=k,
        l=l,
        population=population,
        engine=engine_for(engine, given, memory=memory),
        file=file,
        arguments=[
            *_words("--schema", schema),
            *(word for one in roles for word in ("--role", one)),
            *_words("--table", table),
            *_words("--query", query),
            *reading_words(reading),
        ],
    )
    if json:
        console.show_json(found.to_plain())
    else:
        console.show_text(f"{found}\n")


def _words(flag: str, value: str | None) -> list[str]:
    return [] if value is None else [flag, value]
