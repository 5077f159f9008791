"""``sfumato release FILE -o DIR``: anonymize a table, verify the result and write it."""

from __future__ import annotations

from typing import Any

import typer

from sfumato.cli import source
from sfumato.cli.perform import perform
from sfumato.errors import OptionError
from sfumato.project.reading import listed
from sfumato.project.request import Request, option_value


def command(
    *,
    file: str | None = source.OPTIONAL_FILE,
    out: str | None = typer.Option(
        None,
        "-o",
        "--out",
        metavar="DIR",
        help="Folder to write to; an older release in it is replaced. Or the URL of a database, with --into.",
    ),
    table: str | None = source.TABLE,
    query: str | None = source.QUERY,
    into: str | None = typer.Option(None, "--into", metavar="TABLE", help="Table to write, if -o is a URL."),
    replace: bool = typer.Option(False, "--replace", help="Replace the table that --into names, if it exists."),
    method: str | None = typer.Option(
        None,
        "--method",
        help="Method by name or class: boxes (default), generalize, Noise, …; see `sfumato methods`. auto: the one "
        "that `sfumato recommend` names.",
    ),
    k: int | None = typer.Option(None, "-k", "--k", help="Smallest number of records in a group."),
    l: int | None = typer.Option(None, "--l", help="Smallest number of different sensitive values in a group."),
    keep: list[str] = typer.Option(
        [], "--keep", metavar="STATISTIC", help='Statistic to keep accurate, e.g. "corr(age, income)"; repeatable.'
    ),
    suppress: float | None = typer.Option(
        None, "--suppress", help="Largest share of rows that may be left out, from 0 to 1."
    ),
    edges: str | None = typer.Option(None, "--edges", help="Where the faces of boxes are placed: hull or cells."),
    epsilon: float | None = typer.Option(
        None,
        "--epsilon",
        help="Smallest difference that counts as a different value, for --l; for quantiles: error of ranks.",
    ),
    search: float | None = typer.Option(
        None,
        "--search",
        metavar="SECONDS",
        help="Time to search for better boxes or groups; Ctrl-C keeps the best.",
    ),
    overlap: str | None = typer.Option(
        None, "--overlap", help="Whether boxes may overlap after a search: none or allowed."
    ),
    rule: list[str] = typer.Option(
        [], "--rule", metavar="RULE", help='Expert rule, e.g. "income matters most when age is young"; repeatable.'
    ),
    population: float | None = typer.Option(None, "--population", help="Size of the population, for generalize."),
    beta: float | None = typer.Option(
        None, "--beta", help="Largest share of rows that may match fewer than k people, for generalize."
    ),
    assess: bool = typer.Option(False, "--assess", help="Also assess the release, including correct matches."),
    reference: str | None = typer.Option(
        None, "--reference", metavar="FILE", help="Assess against these people of the same population, not in FILE."
    ),
    holdout: float | None = typer.Option(
        None, "--holdout", metavar="SHARE", help="Or: assess against a random share of the rows, which is not released."
    ),
    require: list[str] = typer.Option(
        [], "--require", metavar="WHAT", help="Write nothing unless this passes: assessment (implies --assess)."
    ),
    answer: list[str] = typer.Option(
        [],
        "--answer",
        metavar="COLUMN=ANSWER",
        help="For safe-harbor: what to do with a column: keep, remove, year, three-digits or age-90; repeatable.",
    ),
    option: list[str] = typer.Option(
        [], "--option", metavar="NAME=VALUE", help="Any option of the method; repeatable."
    ),
    schema: str | None = source.SCHEMA,
    role: list[str] = source.ROLE,
    quasi: list[str] = source.QUASI,
    sensitive: list[str] = source.SENSITIVE,
    other: list[str] = source.OTHER,
    project: str | None = typer.Option(
        None,
        "--project",
        metavar="TOML",
        help="Take input, schema, method, options and target from a project file; what is given here counts more.",
    ),
    seed: int | None = typer.Option(
        None, "--seed", help="For tests only, and secret: whoever knows it can undo random steps."
    ),
    engine: str | None = source.ENGINE_OR_NONE,
    master: str | None = typer.Option(
        None, "--master", metavar="URL", help="Cluster of the engine spark, e.g. spark://host:7077 or 'local[4]'."
    ),
    memory: str | None = source.MEMORY,
    csv_formulas: str | None = typer.Option(
        None,
        "--csv-formulas",
        metavar="keep|escape",
        help="Text in released.csv that spreadsheets take for a formula (= + - @): escape it (default), or keep it.",
    ),
    format: list[str] = typer.Option(
        [],
        "--format",
        metavar="FORMAT",
        help="Format of the released rows besides Parquet: csv (default), sav (SPSS), dta (Stata), xpt (SAS), xlsx; "
        "repeatable.",
    ),
    pseudonyms: list[str] = typer.Option(
        [], "--pseudonyms", metavar="COLUMN", help="Release an identifier as keyed pseudonyms; repeatable."
    ),
    key: str | None = typer.Option(
        None,
        "--key",
        metavar="FILE",
        help="Secret key of pseudonyms and shifted dates; made if it does not exist. Keep it apart from the release.",
    ),
    shift_dates: list[str] = typer.Option(
        [],
        "--shift-dates",
        metavar="A,B,C",
        help="Shift all dates of a person by the same random number of days, before the method. No guarantee.",
    ),
    by: str | None = typer.Option(
        None, "--by", metavar="COLUMN", help="Column that tells people apart: --shift-dates."
    ),
    days: int | None = typer.Option(None, "--days", help="Largest shift to either side, for --shift-dates; 180."),
    separator: str | None = source.SEPARATOR,
    encoding: str | None = source.ENCODING,
    decimal: str | None = source.DECIMAL,
    missing: list[str] = source.MISSING,
    header: bool | None = source.HEADER,
    names: str | None = source.NAMES,
    sheet: str | None = source.SHEET,
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Anonymize a table, verify the result and write it.

    Writes released.parquet, released.csv, manifest.json, codebook.csv, report.html and report.json into DIR, all or
    nothing. Next to it, and no part of the release, is DIR.toml, the project file that makes the same release again
    (`sfumato run DIR.toml`).

    Example: sfumato release patients.csv -o out -k 5 --quasi age,zip --sensitive diagnosis --keep "mean(age)"
    """
    from sfumato.project.files import read_project

    given: dict[str, Any] = {
        "k": k,
        "l": l,
        "keep": list(keep) or None,
        "suppress": suppress,
        "edges": edges,
        "epsilon": epsilon,
    }
    given |= {"search": search, "overlap": overlap, "rules": list(rule) or None}
    given |= {"population": population, "beta": beta, "answers": dict(map(_answer, answer)) or None}
    chosen = {name: value for name, value in given.items() if value is not None} | dict(map(_option, option))
    request = Request(
        input=file,
        target=out,
        method=method,
        options=chosen,
        schema=schema,
        roles=source.given_roles(role, quasi, sensitive, other),
        reading=source.reading_of(separator, encoding, decimal, missing, header, names, sheet),
        table=table,
        query=query,
        into=into,
        replace=replace or None,
        assess=assess or None,
        reference=reference,
        holdout=holdout,
        require=require,
        engine=engine,
        master=master,
        memory=memory,
        csv_formulas=csv_formulas,
        formats=tuple(format),
        pseudonyms=_columns(pseudonyms),
        shift_dates=_columns(shift_dates),
        by=by,
        days=days,
        key=key,
    )
    if project is not None:
        request = request.over(read_project(project))
    perform(request, seed=seed, as_json=json)


def _columns(given: list[str]) -> tuple[str, ...]:
    return tuple(name for names in given for name in listed(names))


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
