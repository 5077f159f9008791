"""Write the files that are generated from the code: ``__init__.pyi`` and the reference pages of methods and engines.

``make generated`` runs it; a test fails if one of the files is out of date.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import sfumato
from sfumato.methods.registry import METHODS, method_class
from sfumato.params import options_of

sys.path.insert(0, str(Path(__file__).parent))

from engine_parity import Parity, parity

REPOSITORY = Path(__file__).resolve().parents[2]
STUB = REPOSITORY / "src" / "sfumato" / "__init__.pyi"
METHODS_PAGE = Path(__file__).parent / "methods.md"
ENGINES_PAGE = Path(__file__).parent / "engines.md"


def stub() -> str:
    """Return the stub file with the public names, for type checkers."""
    lines = ['"""The public names, for type checkers. Written by `make generated`."""', ""]
    modules = sorted((module, name) for name, module in sfumato.public_names().items())
    lines += [f"from {module} import {name} as {name}" for module, name in modules]
    lines += ["from sfumato.version import __version__ as __version__", ""]
    lines += ["NAMES: dict[str, str]", "__all__: list[str]", "", "def public_names() -> dict[str, str]: ..."]
    return "\n".join(lines) + "\n"


def methods_page() -> str:
    """Return the page with every method and all its options, as Markdown."""
    lines = ["# Methods and their options", "", "Written by `make generated` from the code; do not edit by hand."]
    lines += ["Terms are defined in the [glossary](../glossary.md).", ""]
    for name in METHODS:
        kind = method_class(name)
        text = inspect.getdoc(kind) or ""
        summary = text.partition("\nParameters\n")[0].partition("\nExamples\n")[0].strip()
        summary = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", summary)
        lines += [f"## {kind.__name__}", "", f"On the command line: `--method {name}`.", "", summary, ""]
        lines += ["| option | value | meaning |", "|---|---|---|"]
        for one in options_of(kind):
            lines.append(f"| `{one.name}` | {one.range_and_default} | {one.declared.meaning} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def engines_page() -> str:
    """Return the page that says which method runs on which engine, exactly or approximately."""
    lines = ["# Methods and engines", "", "Written by `make generated` from the code; do not edit by hand.", ""]
    lines += [
        "The memory engine holds the whole table and is the reference. DuckDB and Spark work on tables that are larger",
        "than memory, in blocks; a table of a database is read by the memory engine or by DuckDB, whichever fits it.",
        "*Exactly* means that a release in blocks has the same rows as one in memory. *Approximately* means that it",
        "differs as the last column says; promises are counted on all released rows in either case.",
        "A method that needs the whole table is refused by DuckDB and Spark before any work.",
        "",
        "A table that fits into one block is released by DuckDB and Spark as it is by memory. What this page says was",
        "seen: each method released the same table whole, planned from a sample, and in blocks.",
        "",
        "| method | memory | DuckDB | Spark | in blocks |",
        "|---|---|---|---|---|",
    ]
    for name in METHODS:
        found = parity(name)
        lines.append(f"| `{name}` | exactly | {found.word} | {found.word} | {_in_blocks(name, found)} |")
    return "\n".join(lines) + "\n"


def _in_blocks(name: str, found: Parity) -> str:
    said = method_class(name).in_blocks
    text = said if said and found is Parity.APPROXIMATE else found.reason
    return f"{text[:1].upper()}{text[1:]}."


FILES = {STUB: stub, METHODS_PAGE: methods_page, ENGINES_PAGE: engines_page}

if __name__ == "__main__":
    for path, make in FILES.items():
        path.write_text(make(), encoding="utf-8")
