"""Write the files that are generated: ``__init__.pyi``, the pages of the reference with the API, and the notebooks.

``make generated`` runs it; a test fails if one of the files is out of date.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import sfumato
from sfumato.measures.registry import MEASURES
from sfumato.methods.base import BUILT_IN, method_class

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from architecture_page import architecture_page, picture
from command_page import commands_page
from engine_parity import Parity, parity
from method_pages import measure_page, measures_page, method_page, methods_page
from notebook import notebook

REPOSITORY = Path(__file__).resolve().parents[2]
STUB = REPOSITORY / "src" / "sfumato" / "__init__.pyi"
HERE = Path(__file__).parent


def stub() -> str:
    """Return the stub file with the public names, for type checkers."""
    lines = ['"""The public names, for type checkers. Written by `make generated`."""', ""]
    modules = sorted((module, name) for name, module in sfumato.public_names().items())
    lines += [f"from {module} import {name} as {name}" for module, name in modules]
    lines += ["from sfumato.version import __version__ as __version__", ""]
    lines += ["__all__: list[str]", "", "def headings() -> dict[str, dict[str, str]]: ..."]
    lines += ["def public_names() -> dict[str, str]: ..."]
    return "\n".join(lines) + "\n"


def api_page() -> str:
    """Return the page with all public names, by what they are for; their docstrings are put in when it is built."""
    lines = ["Python", "======", "", "..", "   Written by `make generated` from the code; do not edit by hand.", ""]
    lines += [
        "All public names, by what they are for. Each is used as ``sf.NAME`` after ``import sfumato as sf``; its",
        "docstring is what is shown here and by ``help(sf.NAME)``. What is not named here is private and may change.",
        "",
        ".. currentmodule:: sfumato",
        "",
    ]
    for heading, names in sfumato.headings().items():
        lines += [heading, "-" * len(heading), ""]
        if heading == "Methods":
            lines += ["Each method is a class whose fields are its options, with one verb, ``release``.", ""]
        for name in sorted(names) if heading == "Methods" else names:
            lines += [*_directive(name, shows_members=heading != "Methods"), ""]
    return "\n".join([*lines, ".. automethod:: sfumato.methods.base.Method.release"]) + "\n"


def _directive(name: str, *, shows_members: bool) -> list[str]:
    public = getattr(sfumato, name)
    if not inspect.isclass(public):
        return [f".. autofunction:: {name}"]
    if issubclass(public, Exception):
        return [f".. autoexception:: {name}"]
    return [f".. autoclass:: {name}", *(["   :members:"] if shows_members else [])]


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
    for name in BUILT_IN:
        found = parity(name)
        lines.append(f"| `{name}` | exactly | {found.word} | {found.word} | {_in_blocks(name, found)} |")
    return "\n".join(lines) + "\n"


def _in_blocks(name: str, found: Parity) -> str:
    effect = method_class(name).block_effect
    text = effect if effect and found is Parity.APPROXIMATE else found.reason
    return f"{text[:1].upper()}{text[1:]}."


def tutorial_notebook(page: Path) -> str:
    """Return a tutorial as a notebook to download."""
    return json.dumps(notebook(page.read_text(encoding="utf-8")), indent=1, ensure_ascii=False) + "\n"


FILES: dict[Path, Callable[[], str]] = {
    STUB: stub,
    HERE / "api.rst": api_page,
    HERE / "methods.md": methods_page,
    HERE / "measures.md": measures_page,
    HERE / "engines.md": engines_page,
    HERE / "commands.md": commands_page,
    REPOSITORY / "docs" / "architecture.md": architecture_page,
    REPOSITORY / "docs" / "pictures" / "architecture.svg": picture,
}
FILES |= {HERE / "methods" / f"{name}.md": partial(method_page, name) for name in BUILT_IN}
FILES |= {HERE / "measures" / f"{name}.md": partial(measure_page, name) for name in MEASURES}
TUTORIALS = [page for page in sorted((REPOSITORY / "docs" / "tutorials").glob("*.md")) if page.stem != "index"]
FILES |= {page.with_suffix(".ipynb"): partial(tutorial_notebook, page) for page in TUTORIALS}


def write() -> None:
    """Write all files, and remove pages of methods and measures that are no more."""
    for path, make in FILES.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(make(), encoding="utf-8")
    for page in (*HERE.glob("methods/*.md"), *HERE.glob("measures/*.md")):
        if page not in FILES:
            page.unlink()


if __name__ == "__main__":
    write()
