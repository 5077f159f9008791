"""``sfumato release FILE -o DIR``: anonymize a table, verify the result and write it."""

from __future__ import annotations

import json as json_values
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli import console, source
from sfumato.cli.search import watched
from sfumato.errors import OptionError

if TYPE_CHECKING:
    from sfumato.measures.assess import Assessment
    from sfumato.release.release import Release


def command(
    *,
    file: str = source.FILE,
    out: str = typer.Option(
        ..., "-o", "--out", metavar="DIR", help="Folder to write to; an older release in it is replaced."
    ),
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
        None, "--search", metavar="SECONDS", help="Time to search for narrower boxes; Ctrl-C keeps the best so far."
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
    seed: int | None = typer.Option(None, "--seed", help="For tests only: anyone who knows it can undo random steps."),
    engine: str = typer.Option("auto", "--engine", help="Engine that does the work: auto or memory."),
    separator: str | None = source.SEPARATOR,
    encoding: str | None = source.ENCODING,
    decimal: str | None = source.DECIMAL,
    missing: list[str] = source.MISSING,
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Anonymize a table, verify the result and write it.

    Writes released.parquet, released.csv, manifest.json and report.html into DIR, all or nothing.
    """
    from sfumato.engines.registry import engine_for
    from sfumato.methods.registry import make_method

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
    anonymizer, chosen_engine = make_method(method, **chosen), engine_for(engine)
    fitted = source.fitted(
        file, schema=schema, roles=role, separator=separator, encoding=encoding, decimal=decimal, missing=missing
    )
    source.say_roles(fitted.schema)
    console.say_progress()
    console.say_compiling()
    others = reference and source.table(
        reference, separator=separator, encoding=encoding, decimal=decimal, missing=missing
    )
    judged = None
    with watched(anonymizer) as anonymizer:
        if assess or reference is not None or holdout is not None:
            from sfumato.pipeline import release_and_assess

            made = release_and_assess(anonymizer, fitted, others, holdout=holdout, seed=seed)
            released, judged = made.release, made.assessment
            if holdout is not None:
                console.say(f"· {judged.reference_rows:,} rows held out as the reference and not released")
        else:
            released = anonymizer.release(fitted, seed=seed, engine=chosen_engine)
    write_and_show(released, out, judged, as_json=json)


def write_and_show(released: Release, out: str, judged: Assessment | None = None, *, as_json: bool) -> None:
    """Write the bundle; print how columns are released, the findings and the kept statistics."""
    from sfumato.report import html, terminal
    from sfumato.report.summary import summarize

    summary, manifest = summarize(released), released.manifest
    assert manifest is not None
    folder = released.write(out, report=html.render(released, summary))
    console.say(f"· written to {out}")
    searches, rules = released.diagnostics.searches, released.diagnostics.rules
    if as_json:
        shown = {"folder": str(folder), "manifest": manifest, "estimates": summary.estimates}
        console.show_json(shown | {"searches": searches, "rules": rules, "assessment": judged and judged.to_plain()})
        return
    parts = [terminal.treatments(manifest), terminal.findings(released.findings)]
    parts += [terminal.estimates(summary.estimates)] if summary.estimates else []
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
    except ValueError:
        return name, value
