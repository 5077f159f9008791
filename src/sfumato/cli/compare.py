"""``sfumato compare FILE -o DIR``: many methods at several strengths, and a map of their risk and utility."""

from __future__ import annotations

import typer

from sfumato.cli import console, options
from sfumato.job.request import split_names


@options.with_groups
def compare(
    *,
    file: str = options.FILE,
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
    earlier: list[str] = typer.Option(
        [],
        "--earlier",
        metavar="DIR",
        help="Count also who fits a person in this earlier release and in each new one; repeatable.",
    ),
    language: str = typer.Option("en", "--language", metavar="CODE", help="Language of the map: en, de or fr."),
    jobs: int | None = typer.Option(
        None, "--jobs", min=1, metavar="N", help="Processes; one per processor by default."
    ),
    roles: options.RoleOptions,
    place: options.PlaceOptions,
    reading: options.ReadingOptions,
    engine: options.EngineOptions,
    seed: int | None = options.SEED,
    json: bool = options.JSON,
) -> None:
    """Compare methods by risk and utility.

    A part of the rows is held out. Every method releases the other part, and each release is assessed against the
    people who were held out. Writes comparison.json and report.html with the map into DIR; neither contains a cell.
    A comparison that was interrupted goes on where it stopped. A table that its engine does not hold in memory is
    compared by a random part of its rows.

    Example: sfumato compare patients.csv --schema schema.toml -o map --methods boxes,mdav,noise,pica --strengths 3
    """
    from sfumato.comparison import compare as comparing
    from sfumato.comparison.attempts import trials_of
    from sfumato.comparison.compare import REPORT, require_folder
    from sfumato.job.inspect import open_for_inspection

    chosen = None if methods is None else list(split_names(methods))
    trials_of(chosen, strengths)  # validate before the table is read
    options.require_language(language)
    require_folder(out)
    with open_for_inspection(options.job_of(file, reading, place, engine, schema=roles.given)) as opened:
        fitted, rows = opened.part, opened.survey.rows
    options.say_roles(fitted.schema)
    if fitted.table.rows < rows:
        console.say(f"· {fitted.table.rows:,} random rows of {rows:,} are compared")
    console.say_progress("sfumato.comparison")
    console.say_compiling()
    try:
        result = comparing.compare(
            fitted,
            chosen,
            strengths=strengths,
            holdout=holdout,
            earlier=earlier,
            into=out,
            language=language,
            jobs=jobs,
            seed=seed,
        )
    except (KeyboardInterrupt, SystemExit):  # Ctrl-C, or a signal to end
        console.say("· interrupted; the same command goes on where it stopped")
        raise
    console.say(f"· the map is in {out}/{REPORT}")
    with console.after(f"the comparison is complete in {out}"):
        if json:
            console.show_json(result.to_plain())
        else:
            console.show_text(f"{result}\n")
