"""``sfumato release FILE -o DIR``: anonymize a table, verify the result and write it."""

from __future__ import annotations

import json as encoding_of_values
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
    out: str = typer.Option(..., "-o", "--out", metavar="DIR", help="Folder to write; replaced if it is a release."),
    method: str = typer.Option("boxes", "--method", help="The method's word."),
    k: int | None = typer.Option(None, "--k", help="Rows that must look alike, at least."),
    l: int | None = typer.Option(None, "--l", help="Values of a protected column in each group, at least."),
    keep: list[str] = typer.Option(
        [], "--keep", metavar="STATISTIC", help='Stays accurate, e.g. "corr(age, income)"; repeatable.'
    ),
    suppress: float | None = typer.Option(None, "--suppress", help="Share of rows that may be left out."),
    edges: str | None = typer.Option(None, "--edges", help="How the faces of boxes lie: hull or cells."),
    epsilon: float | None = typer.Option(None, "--epsilon", help="How far apart two values count as two."),
    search: float | None = typer.Option(
        None, "--search", metavar="SECONDS", help="Time to look for narrower boxes; Ctrl-C keeps what it found."
    ),
    overlap: str | None = typer.Option(None, "--overlap", help="May boxes overlap after a search: none or allowed."),
    rule: list[str] = typer.Option(
        [], "--rule", metavar="RULE", help='What an expert knows: "income matters most when age is young"; repeatable.'
    ),
    population: float | None = typer.Option(None, "--population", help="People among whom to hide."),
    beta: float | None = typer.Option(None, "--beta", help="Share of people who may be hidden among fewer."),
    assess: bool = typer.Option(False, "--assess", help="Measure it where it is made, right matches included."),
    reference: str | None = typer.Option(
        None, "--reference", metavar="FILE", help="Other people of the same population, to assess against."
    ),
    holdout: float | None = typer.Option(
        None, "--holdout", metavar="SHARE", help="Or: share of the rows to hold out, not released, and assess against."
    ),
    option: list[str] = typer.Option([], "--option", metavar="NAME=VALUE", help="Any other option; repeatable."),
    schema: str | None = source.SCHEMA,
    role: list[str] = source.ROLE,
    seed: int | None = typer.Option(None, "--seed", help="For tests: whoever knows it can undo the order of rows."),
    engine: str = typer.Option("auto", "--engine", help="Where the work is done: auto or memory."),
    separator: str | None = source.SEPARATOR,
    encoding: str | None = source.ENCODING,
    decimal: str | None = source.DECIMAL,
    missing: list[str] = source.MISSING,
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Anonymize FILE and write released.parquet, released.csv, manifest.json and report.html into DIR."""
    from sfumato.engines.registry import engine_for
    from sfumato.methods.registry import make_method

    given = {"k": k, "l": l, "keep": list(keep) or None, "suppress": suppress, "edges": edges, "epsilon": epsilon}
    given |= {"search": search, "overlap": overlap, "rules": list(rule) or None}
    given |= {"population": population, "beta": beta}
    chosen = {name: value for name, value in given.items() if value is not None} | dict(map(_option, option))
    anonymizer, where = make_method(method, **chosen), engine_for(engine)
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
            released = anonymizer.release(fitted, seed=seed, engine=where)
    write_and_show(released, out, judged, as_json=json)


def write_and_show(released: Release, out: str, judged: Assessment | None = None, *, as_json: bool) -> None:
    """Write the bundle, and print what was promised, what was found, and the statistics that were kept."""
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


def _option(words: str) -> tuple[str, Any]:
    """A name and a value, which is read as JSON (0.5, true, [1, 2]) or else as a word."""
    name, mark, value = words.partition("=")
    if not mark or not name:
        raise OptionError("--option needs a name and a value.", found=repr(words), fix="--option others=0.2")
    if name == "seed":
        raise OptionError("A seed is no option of a method.", fix="--seed")
    try:
        return name, encoding_of_values.loads(value)
    except ValueError:
        return name, value
