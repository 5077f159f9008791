"""``sfumato release FILE -o DIR``: anonymize a table, verify the result and write it."""

from __future__ import annotations

import json as json_values
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli import console, source
from sfumato.cli.search import watched
from sfumato.errors import OptionError
from sfumato.params import require_choice

if TYPE_CHECKING:
    from sfumato.measures.assess import Assessment
    from sfumato.release.destination import Destination
    from sfumato.release.release import Release
    from sfumato.report.summary import Summary


def command(
    *,
    file: str = source.FILE,
    out: str = typer.Option(
        ...,
        "-o",
        "--out",
        metavar="DIR",
        help="Folder to write to; an older release in it is replaced. Or the URL of a database, with --into.",
    ),
    table: str | None = source.TABLE,
    query: str | None = source.QUERY,
    into: str | None = typer.Option(None, "--into", metavar="TABLE", help="Table to write, if -o is a URL."),
    replace: bool = typer.Option(False, "--replace", help="Replace the table that --into names, if it exists."),
    method: str = typer.Option("boxes", "--method", help="Method name: boxes, generalize, …; see `sfumato methods`."),
    k: int | None = typer.Option(None, "--k", help="Smallest number of records in a group."),
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
    seed: int | None = typer.Option(
        None, "--seed", help="For tests only, and secret: whoever knows it can undo random steps."
    ),
    engine: str = source.ENGINE,
    master: str | None = typer.Option(
        None, "--master", metavar="URL", help="Cluster of the engine spark, e.g. spark://host:7077 or 'local[4]'."
    ),
    memory: str | None = source.MEMORY,
    csv_formulas: str = typer.Option(
        "escape",
        "--csv-formulas",
        metavar="keep|escape",
        help="Text in released.csv that spreadsheets take for a formula (= + - @): put ' before it, or keep it.",
    ),
    separator: str | None = source.SEPARATOR,
    encoding: str | None = source.ENCODING,
    decimal: str | None = source.DECIMAL,
    missing: list[str] = source.MISSING,
    header: bool | None = source.HEADER,
    names: str | None = source.NAMES,
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Anonymize a table, verify the result and write it.

    Writes released.parquet, released.csv, manifest.json, report.html and report.json into DIR, all or nothing.
    """
    from sfumato.engines.registry import engine_for
    from sfumato.methods.registry import make_method
    from sfumato.pipeline import release_and_assess
    from sfumato.release.destination import Folder

    require_choice(csv_formulas, name="--csv-formulas", choices=("keep", "escape"))
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
    for one in require:
        require_choice(one, name="--require", choices=("assessment",))
    anonymizer = make_method(method, **chosen)
    destination = _destination(out, into, replace=replace)
    destination.require_free()
    reading = source.Reading(
        separator=separator, encoding=encoding, decimal=decimal, missing=missing, header=header, names=names
    )
    console.say_progress()
    judges = bool(assess or require or reference is not None or holdout is not None)
    given_source = source.source_of(file, reading, table=table, query=query)
    chosen_engine = engine_for(engine, given_source, memory=memory, master=master)
    if chosen_engine.name != "memory" or not isinstance(destination, Folder):
        console.say_compiling()
        options: dict[str, Any] = {"schema": source.schema_of(schema, role), "seed": seed}
        options |= {"engine": chosen_engine, "into": destination}
        with watched(anonymizer) as anonymizer:
            if judges:
                others = reference and source.table(reference, reading)
                made = release_and_assess(
                    anonymizer, given_source, others, holdout=holdout, require=bool(require), **options
                )
                made_there, judged = made.release, made.assessment
            else:
                made_there, judged = anonymizer.release(given_source, **options), None
        show_written(made_there, into or out, judged, as_json=json)
        return
    fitted = source.fitted_source(given_source, schema=schema, roles=role)
    source.say_roles(fitted.schema)
    console.say_compiling()
    others = reference and source.table(reference, reading)
    judged = None
    with watched(anonymizer) as anonymizer:
        if judges:
            made = release_and_assess(anonymizer, fitted, others, holdout=holdout, seed=seed, require=bool(require))
            released, judged = made.release, made.assessment
            if holdout is not None:
                console.say(f"· {judged.reference_rows:,} rows held out as the reference and not released")
        else:
            released = anonymizer.release(fitted, seed=seed, engine=chosen_engine)
    write_and_show(released, out, judged, as_json=json, csv_formulas=csv_formulas)


def write_and_show(
    released: Release, out: str, judged: Assessment | None = None, *, as_json: bool, csv_formulas: str = "escape"
) -> None:
    """Write the bundle; print how columns are released, the findings and the kept statistics."""
    from sfumato.report.html import Report
    from sfumato.report.summary import summarize

    summary = summarize(released)
    folder = released.write(out, report=Report.of(released, summary), csv_formulas=csv_formulas)
    console.say(f"· written to {out}")
    with console.after(f"the release is complete in {out}"):
        _show(released, folder, summary, judged, as_json=as_json)


def _destination(out: str, into: str | None, *, replace: bool) -> Destination:
    """Return the folder, or the table of a database, that the release is written to."""
    from sfumato.release.destination import Folder

    if source.is_url(out):
        return source.database(out, table=into, replace=replace)
    if into is not None or replace:
        raise OptionError("--into and --replace need -o with the URL of a database.", found="a folder")
    return Folder(out)


def show_written(released: Release, out: str, judged: Assessment | None = None, *, as_json: bool) -> None:
    """Print what :func:`write_and_show` prints, of a release that its engine has written."""
    from sfumato.report.summary import summarize

    console.say(f"· written to {out}")
    with console.after(f"the release is complete in {out}"):
        _show(released, Path(out).expanduser().absolute(), summarize(released), judged, as_json=as_json)


def _show(released: Release, folder: Path, summary: Summary, judged: Assessment | None, *, as_json: bool) -> None:
    from sfumato.report import terminal

    manifest = released.manifest
    assert manifest is not None
    searches, rules = released.diagnostics.searches, released.diagnostics.rules
    if as_json:
        shown = {"folder": str(folder), "manifest": manifest, "estimates": summary.estimates}
        shown |= {"usefulness": summary.usefulness}
        console.show_json(shown | {"searches": searches, "rules": rules, "assessment": judged and judged.to_plain()})
        return
    parts = [terminal.treatments(manifest), terminal.findings(released.findings)]
    parts += [terminal.estimates(summary.estimates)] if summary.estimates else []
    parts += [terminal.usefulness(summary.usefulness)] if summary.usefulness.concerns else []
    parts += [terminal.searches(searches)] if searches else []
    parts += [terminal.rules(rules)] if rules else []
    parts += [terminal.assessment(judged)] if judged else []
    for part in parts:
        console.show(part, "")


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
    try:
        return name, json_values.loads(value)
    except (ValueError, RecursionError):
        return name, value
