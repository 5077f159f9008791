"""Write the files that are generated from the code: ``__init__.pyi`` and the reference page of methods.

``make generated`` runs it; a test fails if one of the files is out of date.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import sfumato
from sfumato.methods.registry import METHODS, method_class
from sfumato.params import options_of

REPOSITORY = Path(__file__).resolve().parents[2]
STUB = REPOSITORY / "src" / "sfumato" / "__init__.pyi"
METHODS_PAGE = Path(__file__).parent / "methods.md"


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


FILES = {STUB: stub, METHODS_PAGE: methods_page}

if __name__ == "__main__":
    for path, make in FILES.items():
        path.write_text(make(), encoding="utf-8")
