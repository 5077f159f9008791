"""``sfumato assess FILE DIR``: what a release gives away of its people, and what it keeps of their relations."""

from __future__ import annotations

import sys

import typer

from sfumato.cli import console


def command(
    *,
    file: str = typer.Argument(..., metavar="FILE", help="The original table."),
    release: str = typer.Argument(..., metavar="DIR", help="The release's folder, or a file of released rows."),
    reference: str | None = typer.Option(
        None, "--reference", metavar="FILE", help="Other people of the same population; attacks need them."
    ),
    seed: int | None = typer.Option(None, "--seed", help="For tests: which rows are drawn for an attack."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Measure privacy and utility of a release against its original."""
    from sfumato.measures.assess import assess
    from sfumato.release.read import read_release
    from sfumato.table.read import read

    console.say_compiling()
    assessment = assess(read(file), read_release(release), None if reference is None else read(reference), seed=seed)
    sys.stdout.write(assessment.to_json() if json else f"{assessment}\n")
