"""``sfumato verify DIR``: recount the promises of a bundle, and compare its files with their checksums."""

from __future__ import annotations

import typer

from sfumato.cli import console


def command(
    *,
    folder: str = typer.Argument(..., metavar="DIR", help="Folder of a release."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Verify a release that was written or received.

    Compares every file with its checksum and recounts every promise on the released rows. Promises that need the
    original were verified when the release was made, and are listed as such. Ends with 1 if a promise does not hold,
    and with 3 if a file was changed.

    Example: sfumato verify out
    """
    from sfumato.release.read import verify_bundle
    from sfumato.report import terminal

    checked = verify_bundle(folder)
    if json:
        console.show_json(checked)
    else:
        console.show(terminal.bundle(checked))
    checked.require_held()
