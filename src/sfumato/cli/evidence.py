"""``sfumato evidence DIR``: one document for whoever decides about a release, to print and to sign."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli import console, options


def evidence(
    *,
    release: str = typer.Argument(..., metavar="DIR", help="Folder of the release."),
    recipient: str = typer.Option(..., "--recipient", metavar="TEXT", help="Who receives the release."),
    purpose: str = typer.Option(..., "--purpose", metavar="TEXT", help="What the recipient needs it for."),
    environment: str = typer.Option(
        "", "--environment", metavar="TEXT", help="Where it is used, and under which controls; asked for if not given."
    ),
    language: str = typer.Option("en", "--language", metavar="CODE", help="Language of the document: en, de or fr."),
    out: str = typer.Option(
        "evidence.html", "-o", "--out", metavar="FILE", help="File to write; an older one is replaced."
    ),
    memory: str | None = options.BUNDLE_MEMORY,
) -> None:
    """Write what was found about a release, mapped to what the law asks.

    One HTML page to print (PDF by the browser) and to sign: GDPR recital 26, the three criteria of WP216, HIPAA,
    ISO/IEC 27559, EMA policy 0070 and EDPB 01/2025. Every promise is recounted first. It is no legal advice. The table
    that the release was made of is not read, so no engine is needed.

    Example: sfumato evidence out --recipient "University X" --purpose "study Y" -o evidence.html
    """
    from sfumato.errors import OptionError
    from sfumato.release.read import read_assessed
    from sfumato.release.target import MANIFEST
    from sfumato.report.evidence import gather_evidence

    target = Path(out).expanduser().absolute()
    if any((around / MANIFEST).is_file() for around in target.parents):
        raise OptionError(
            "The evidence is no part of a release.", found="-o inside the folder of a release", fix="another folder"
        )
    folder = Path(release).expanduser()
    name = folder.resolve().name
    pack = gather_evidence(
        read_assessed(folder, memory=memory),
        recipient=recipient,
        purpose=purpose,
        place=environment,
        name=name,
        language=language,
    )
    console.say(
        f"· {len(pack.findings)} findings and {len(pack.questions)} questions to sign in {pack.write(target).name}"
    )
