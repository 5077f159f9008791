"""``sfumato compare FILE -o DIR``: many methods at several strengths, and a map of their risk and utility."""

from __future__ import annotations

import typer

from sfumato.cli import console, source
from sfumato.project.reading import READING, listed


def command(
    *,
    file: str = source.FILE,
    out: str = typer.Option(
        ..., "-o", "--out", metavar="DIR", help="Folder for the map; an interrupted comparison goes on there."
    ),
    methods: str | None = typer.Option(
        None, "--methods", metavar="A,B,C", help="Methods to compare; all by default. See `sfumato methods`."
    ),
    strengths: int = typer.Option(3, "--strengths", min=1, metavar="N", help="Strengths per method."),
    holdout: float = typer.Option(
        0.5, "--holdout", metavar="SHARE", help="Share of the rows that is held out and never released."
    ),
    jobs: int | None = typer.Option(
        None, "--jobs", min=1, metavar="N", help="Processes; one per processor by default."
    ),
    schema: str | None = source.SCHEMA,
    role: list[str] = source.ROLE,
    quasi: list[str] = source.QUASI,
    sensitive: list[str] = source.SENSITIVE,
    other: list[str] = source.OTHER,
    table: str | None = source.TABLE,
    query: str | None = source.QUERY,
    separator: str | None = source.SEPARATOR,
    encoding: str | None = source.ENCODING,
    decimal: str | None = source.DECIMAL,
    missing: list[str] = source.MISSING,
    header: bool | None = source.HEADER,
    names: str | None = source.NAMES,
    sheet: str | None = source.SHEET,
    seed: int | None = typer.Option(None, "--seed", help="Seed for repeatable tests."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Compare methods by risk and utility.

    A part of the rows is held out. Every method releases the other part, and each release is assessed against the
    people who were held out. Writes comparison.json and report.html with the map into DIR; neither contains a cell.
    A comparison that was interrupted goes on where it stopped.

    Example: sfumato compare patients.csv --schema schema.toml -o map --methods boxes,mdav,noise,pica --strengths 3
    """
    from sfumato.comparison.compare import compare
    from sfumato.comparison.folder import REPORT, require_folder
    from sfumato.comparison.trials import trials_of

    chosen = None if methods is None else list(listed(methods))
    trials_of(chosen, strengths)  # a mistake is said before the table is read
    require_folder(out)
    reading = source.reading_of(separator, encoding, decimal, missing, header, names, sheet) or READING
    given = source.source_of(file, reading, table=table, query=query)
    fitted = source.fitted_source(given, schema=schema, roles=source.given_roles(role, quasi, sensitive, other))
    source.say_roles(fitted.schema)
    console.say_progress("sfumato.comparison")
    console.say_compiling()
    try:
        found = compare(fitted, chosen, strengths=strengths, holdout=holdout, into=out, jobs=jobs, seed=seed)
    except (KeyboardInterrupt, SystemExit):  # Ctrl-C, or a signal to end
        console.say("· interrupted; the same command goes on where it stopped")
        raise
    console.say(f"· the map is in {out}/{REPORT}")
    with console.after(f"the comparison is complete in {out}"):
        if json:
            console.show_json(found.to_plain())
        else:
            console.show_text(f"{found}\n")
