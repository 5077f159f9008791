"""Draw the rooms of the package, storey by storey, from the import contract and their docstrings."""

from __future__ import annotations

import ast
import textwrap
import tomllib
from html import escape
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "src" / "sfumato"
WIDTH, LINE, GAP, MARGIN = 960, 17, 10, 24  # pixels
CHARACTER = 6.3  # average width of a character, in pixels

# the way of a release through the rooms: what happens there, in order
WAY = (
    ("job", "checks the request and opens the source"),
    ("sources", "reads the rows"),
    ("schema", "gives every column a role"),
    ("engines", "answer the survey"),
    ("methods", "make a plan from it"),
    ("engines", "route, transform and shuffle the rows"),
    ("plan", "claims are counted on the released rows"),
    ("measures", "attack the release, if asked"),
    ("release", "writes all files or none"),
    ("report", "shows what was found"),
)


def storeys() -> list[list[str]]:
    """Return the rooms of each storey, the highest first, as the import contract lists them."""
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return [[room.strip().removeprefix("sfumato.") for room in layer.split("|")] for layer in contracts[0]["layers"]]


def doors() -> list[str]:
    """Return the imports that run upward, as the contract lists them."""
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return list(contracts[0]["ignore_imports"])


def purpose(room: str) -> str:
    """Return the first sentence of a room's docstring."""
    folder = SOURCE / room
    file = folder / "__init__.py" if folder.is_dir() else SOURCE / f"{room}.py"
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n\n")[0].replace("\n", " ")


def picture() -> str:
    """Return the drawing: one row of boxes per storey; a room imports only what is below it."""
    parts: list[str] = []
    top = MARGIN
    for rooms in storeys():
        width = (WIDTH - 2 * MARGIN - GAP * (len(rooms) - 1)) / len(rooms)
        texts = [textwrap.wrap(purpose(room), int((width - 24) / CHARACTER)) for room in rooms]
        height = 30 + LINE * max(map(len, texts))
        for position, (room, lines) in enumerate(zip(rooms, texts, strict=True)):
            parts += _box(room, lines, MARGIN + position * (width + GAP), top, width, height)
        top += height + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + MARGIN - GAP}" role="img" '
        'aria-label="The rooms of the package, storey by storey" font-family="system-ui, sans-serif">'
    )
    ground = f'<rect width="{WIDTH}" height="{top + MARGIN - GAP}" fill="#fbf9f5"/>'
    return "\n".join([head, ground, *parts, "</svg>"]) + "\n"


def _box(room: str, lines: list[str], left: float, top: float, width: float, height: float) -> list[str]:
    steps = [str(number) for number, (name, _) in enumerate(WAY, 1) if name == room]
    fill = "#efe6d8" if steps else "#ffffff"
    parts = [
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{height:.0f}" rx="6" fill="{fill}" '
        'stroke="#8c7a5f"/>',
        f'<text x="{left + 12:.0f}" y="{top + 20:.0f}" font-size="14" font-weight="600" fill="#2b2620">{room}</text>',
    ]
    if steps:
        label = " · ".join(steps)
        parts.append(
            f'<text x="{left + width - 12:.0f}" y="{top + 20:.0f}" font-size="13" text-anchor="end" '
            f'fill="#7a5c2e">step {label}</text>'
        )
    parts += [
        f'<text x="{left + 12:.0f}" y="{top + 38 + LINE * number:.0f}" font-size="12.5" fill="#4a4238">'
        f"{escape(line)}</text>"
        for number, line in enumerate(lines)
    ]
    return parts


def architecture_page() -> str:
    """Return the page about the architecture."""
    way = [f"{number}. **{room}** {text}" for number, (room, text) in enumerate(WAY, 1)]
    rooms = [f"| `{room}` | {purpose(room)} |" for storey in storeys() for room in storey]
    return "\n".join(
        [
            "# The house",
            "",
            "Written by `make generated` from the code; do not edit by hand.",
            "",
            "Each box is a room: a folder or a file of `src/sfumato`. A room imports only rooms below it, and a test",
            "holds this, imports for types included. The coloured rooms are the way of a release.",
            "",
            "![The rooms of the package, storey by storey](pictures/architecture.svg)",
            "",
            "## The way of a release",
            "",
            *way,
            "",
            "A method knows no engine and an engine knows no method: they meet in `plan`. Memory is the reference; the",
            "other engines run the same plan in blocks.",
            "",
            "## The rooms",
            "",
            "| room | purpose |",
            "|---|---|",
            *rooms,
            "",
            "## The doors that open upward",
            "",
            "These imports run upward, when a verb of the public interface is called:",
            "",
            *[f"- `{door}`" for door in doors()],
            "",
        ]
    )
