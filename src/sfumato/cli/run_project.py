"""``sfumato run [PROJECT]``: make the release that a project file describes."""

from __future__ import annotations

import typer

from sfumato.cli.perform import perform

PROJECT = "sfumato.toml"


def command(
    *,
    project: str = typer.Argument(PROJECT, metavar="[PROJECT]", help="Project file."),
    seed: int | None = typer.Option(
        None, "--seed", help="For tests only, and secret: whoever knows it can undo random steps."
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Make the release that a project file describes.

    Every release into a folder writes such a file next to it, with its input, schema, method, options and target.

    Example: sfumato run out.toml
    """
    from sfumato.project.files import read_project

    perform(read_project(project), seed=seed, as_json=json)
