"""``sfumato recommend FILE`` and ``sfumato methods``: a method for a table, and all methods with their options."""

from __future__ import annotations

from dataclasses import MISSING
from typing import Any

import typer

from sfumato.cli import console, options


@options.with_groups
def recommend(
    *,
    file: str = options.FILE,
    keep: list[str] = typer.Option(
        [], "--keep", metavar="STATISTIC", help='Statistic to keep accurate, e.g. "corr(age, income)"; repeatable.'
    ),
    k: int | None = typer.Option(None, "-k", "--k", help="Smallest number of records in a group; chosen by default."),
    l: int | None = typer.Option(None, "--l", help="Smallest number of different sensitive values in a group."),
    risk: float | None = typer.Option(
        None, "--risk", help="Accepted probability of picking the right one of k people, from which k follows."
    ),
    population: float | None = typer.Option(None, "--population", help="People among whom an intruder searches."),
    seconds: float = typer.Option(
        120.0, "--seconds", help="Time after which no further change is tried if the first choice fails its tests."
    ),
    roles: options.RoleOptions,
    place: options.PlaceOptions,
    engine: options.EngineOptions,
    reading: options.ReadingOptions,
    language: str = typer.Option("en", "--language", metavar="CODE", help="Language of the text: en, de or fr."),
    json: bool = options.JSON,
) -> None:
    """Recommend a method and its options.

    From the roles and kinds of the columns, the number of rows and the statistics to keep. Prints the command, the
    reasons, and the expected time, memory and widths of intervals, which are found by a trial on up to 4,000 rows. What
    is recommended passes its privacy tests on held-out people; if nothing does, the output begins by saying so.

    Example: sfumato recommend patients.csv --schema schema.toml --keep "corr(age, income)"
    """
    from sfumato.recommendation import recommend as recommending

    options.require_language(language)
    job = options.job_of(file, reading, place, engine, schema=roles.given)
    console.say_compiling()
    result = recommending.recommend(
        job.source,
        keep,
        schema=job.schema,
        k=k,
        l=l,
        risk=risk,
        population=population,
        seconds=seconds,
        engine=job.engine,
        file=file,
        arguments=[
            *_words("--schema", roles.schema),
            *(word for one in roles.roles for word in ("--role", one)),
            *_words("--table", place.table),
            *_words("--query", place.query),
            *reading.given.to_arguments(),
        ],
    )
    if json:
        console.show_json(result.to_plain())
    else:
        console.show_text(f"{result.text(language)}\n")


def _words(flag: str, value: str | None) -> list[str]:
    return [] if value is None else [flag, value]


def methods(
    *,
    name: str | None = typer.Argument(None, metavar="NAME", help="Method name; all methods by default."),
    json: bool = options.JSON,
) -> None:
    """List the methods, or explain one with all its options.

    Every option can be given to `sfumato release` as --option NAME=VALUE.

    Example: sfumato methods boxes
    """
    from sfumato.methods.base import METHODS, method_class
    from sfumato.report import terminal

    classes = [method_class(known) for known in ([name] if name is not None else METHODS)]
    if json:
        console.show_json([_describe(kind) for kind in classes])
    elif name is None:
        console.show(terminal.methods(classes))
    else:
        console.show(terminal.method(classes[0]))


def _describe(kind: Any) -> dict[str, Any]:
    """Return a method and its options as plain values."""
    from sfumato.params import options_of

    return {
        "name": kind.name,
        "class": kind.__name__,
        "summary": (kind.__doc__ or "").partition("\n\n")[0],
        "options": [
            {
                "name": one.name,
                "required": one.is_required,
                "default": None if one.default is MISSING else one.default,
                "value": one.declared.range.describe(one.declared.unit),
                "unit": one.declared.unit,
                "meaning": one.declared.meaning,
                "strengths": list(one.declared.strengths),
            }
            for one in options_of(kind)
        ],
    }
