"""Draw the way of a release and the rooms of the package, from the import contract and the rooms' docstrings."""

from __future__ import annotations

import ast
import textwrap
import tomllib
from html import escape
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "src" / "sfumato"
WIDTH, MARGIN, GAP = 960, 24, 6  # pixels
LINE = 17  # height of a line of text
CHARACTER = 7.2  # width of a character of 12.5 pixels in a wide font, so that no text leaves its box
LABELS = 118  # width of the column with the names of the floors
INK, SOFT, EDGE, PAPER = "#2b2620", "#5a5044", "#8c7a5f", "#fbf9f5"


class Step(NamedTuple):
    """A step of the way of a release: the room that does it, and what it does."""

    room: str
    text: str


WAY = (
    Step("job", "checks the whole request before any work"),
    Step("sources", "read the rows; schema gives each column a role"),
    Step("engines", "answer the survey: counts, extremes, a random sample"),
    Step("methods", "turn the survey into a plan"),
    Step("engines", "run the plan in blocks, and shuffle the rows"),
    Step("plan", "recounts every claim on the released rows"),
    Step("release", "writes all files, or none if a claim is broken"),
    Step("report", "shows the result, and measures of it if asked"),
)


class Floor(NamedTuple):
    """Neighbouring storeys with one purpose, up to the storey of the named room."""

    name: str
    down_to: str
    colour: str


FLOORS = (
    Floor("entrances", "recommendation", "#dfe8e6"),
    Floor("one request", "report", "#f3e3c8"),
    Floor("work on rows", "measures", "#efd9cf"),
    Floor("the result", "release", "#f3e3c8"),
    Floor("decisions", "risk", "#e4e6cf"),
    Floor("the contract", "plan", "#f0d089"),
    Floor("meaning", "schema", "#e6dfec"),
    Floor("data", "table", "#dbe4ee"),
    Floor("foundations", "errors", "#e9e6e0"),
)


def storeys() -> list[list[str]]:
    """Return the rooms of each storey, the highest first, as the import contract lists them."""
    return [[room.strip().removeprefix("sfumato.") for room in layer.split("|")] for layer in _contract()["layers"]]


def doors() -> list[str]:
    """Return the imports that run upward, as the contract lists them."""
    return list(_contract()["ignore_imports"])


def _contract() -> dict[str, list[str]]:
    found = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    return dict(found)


def purpose(room: str) -> str:
    """Return the first sentence of a room's docstring."""
    folder = SOURCE / room
    file = folder / "__init__.py" if folder.is_dir() else SOURCE / f"{room}.py"
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ").replace("``", "`")


def picture() -> str:
    """Return the drawing: the way of a release above, the rooms below, one row of boxes per storey."""
    way, top = _draw_way(MARGIN)
    house, bottom = _draw_house(top + 26)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom:.0f}" role="img" '
        'aria-label="The way of a release, and the rooms of the package" font-family="system-ui, sans-serif">'
    )
    paper = f'<rect width="{WIDTH}" height="{bottom:.0f}" fill="{PAPER}"/>'
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0 8 4 0 8z" fill="{EDGE}"/></marker></defs>'
    )
    return "\n".join([head, arrow, paper, *way, *house, "</svg>"]) + "\n"


def _draw_way(top: float) -> tuple[list[str], float]:
    """Draw the steps in two rows, with arrows between them; return the parts and the lower end."""
    parts = [_text(MARGIN, top + 12, "The way of a release", size=16, bold=True)]
    top += 26
    columns, space = len(WAY) // 2, 26
    width = (WIDTH - 2 * MARGIN - space * (columns - 1)) / columns
    texts = [textwrap.wrap(step.text, int((width - 20) / CHARACTER)) for step in WAY]
    height = 34 + LINE * max(map(len, texts))
    for number, (step, lines) in enumerate(zip(WAY, texts, strict=True)):
        row, column = divmod(number, columns)
        left, upper = MARGIN + column * (width + space), top + row * (height + 24)
        parts += _box(left, upper, width, height, _floor_of(step.room).colour)
        parts.append(_text(left + 10, upper + 21, f"{number + 1}  {step.room}", size=14, bold=True))
        parts += [_text(left + 10, upper + 40 + LINE * at, line) for at, line in enumerate(lines)]
        if column:
            parts.append(_arrow(f"M{left - space + 1:.0f} {upper + height / 2:.0f} H{left - 2:.0f}"))
    middle, last = top + height + 12, WIDTH - MARGIN - width / 2
    first = MARGIN + width / 2
    parts.append(_arrow(f"M{last:.0f} {top + height:.0f} V{middle:.0f} H{first:.0f} V{top + height + 22:.0f}"))
    return parts, top + 2 * height + 24


def _draw_house(top: float) -> tuple[list[str], float]:
    """Draw the storeys with the floors that they belong to; return the parts and the lower end."""
    parts = [_text(MARGIN, top + 12, "The rooms: each imports only rooms below it", size=16, bold=True)]
    top += 26
    floor_top, left = top, MARGIN + LABELS
    for rooms in storeys():
        floor = _floor_of(rooms[0])
        width = (WIDTH - MARGIN - left - GAP * (len(rooms) - 1)) / len(rooms)
        texts = [_lines_beside(room, width) for room in rooms]
        height = 14 + LINE * max(map(len, texts))
        for position, (room, lines) in enumerate(zip(rooms, texts, strict=True)):
            parts += _room(room, lines, left + position * (width + GAP), top, width, height, floor.colour)
        top += height + GAP
        if floor.down_to in rooms:
            middle = (floor_top + top - GAP) / 2
            parts += [
                f'<path d="M{left - 10} {floor_top + 2:.0f} V{top - GAP - 2:.0f}" stroke="{EDGE}" stroke-width="2"/>',
                _text(MARGIN, middle + 4, floor.name, size=13, bold=True, colour=SOFT),
            ]
            top += GAP
            floor_top = top
    return parts, top + MARGIN - 2 * GAP


def _lines_beside(room: str, width: float) -> list[str]:
    """Wrap the purpose of a room to the space beside its name, or below it in a narrow box."""
    if width > WIDTH / 2:
        return textwrap.wrap(purpose(room), int((width - 160) / CHARACTER))
    return ["", *textwrap.wrap(purpose(room), int((width - 20) / CHARACTER))]


def _room(room: str, lines: list[str], left: float, top: float, width: float, height: float, fill: str) -> list[str]:
    beside = left + 150 if lines[0] else left + 10
    parts = _box(left, top, width, height, fill)
    parts.append(_text(left + 10, top + 20, room, size=14, bold=True))
    parts += [_text(beside, top + 20 + LINE * at, line) for at, line in enumerate(lines) if line]
    return parts


def _floor_of(room: str) -> Floor:
    order = [name for storey in storeys() for name in storey]
    return next(floor for floor in FLOORS if order.index(room) <= order.index(floor.down_to))


def _box(left: float, top: float, width: float, height: float, fill: str) -> list[str]:
    place = f'x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return [f'<rect {place} rx="6" fill="{fill}" stroke="{EDGE}"/>']


def _text(left: float, base: float, text: str, *, size: float = 12.5, bold: bool = False, colour: str = INK) -> str:
    weight = ' font-weight="600"' if bold else ""
    place = f'x="{left:.0f}" y="{base:.0f}"'
    plain = escape(text.replace("`", ""))
    return f'<text {place} font-size="{size}"{weight} fill="{colour}">{plain}</text>'


def _arrow(path: str) -> str:
    return f'<path d="{path}" fill="none" stroke="{EDGE}" stroke-width="1.5" marker-end="url(#arrow)"/>'


def architecture_page() -> str:
    """Return the page about the architecture."""
    way = [f"{number}. **{step.room}** {step.text}" for number, step in enumerate(WAY, 1)]
    rooms = [f"| `{room}` | {purpose(room)} |" for storey in storeys() for room in storey]
    return "\n".join(
        [
            "# Architecture",
            "",
            "Written by `make generated` from the code; do not edit by hand.",
            "",
            "A *room* is a folder or a file of `src/sfumato`. A room imports only rooms below it, for types as well,",
            "and a test checks this. Steps and rooms of the same floor have the same colour.",
            "",
            "![The way of a release, and the rooms of the package](pictures/architecture.svg)",
            "",
            "## The way of a release",
            "",
            *way,
            "",
            "Methods and engines do not know each other: both know only `plan`. A method asks a survey and returns a",
            "plan; an engine answers surveys and runs plans. So every method runs on every engine, unless it needs the",
            "whole table at once. The memory engine is the reference; the others run the same plan in blocks.",
            "",
            "## The rooms",
            "",
            "| room | purpose |",
            "|---|---|",
            *rooms,
            "",
            "## Imports that run upward",
            "",
            "They are made when a verb of the public interface is called: `Method.release` runs a job, `Release.write`",
            "renders the report, `Release.evidence` the evidence, and a notebook shows a table, a release or an",
            "assessment.",
            "",
            *[f"- `{door}`" for door in doors()],
            "",
            "The reasons are in decisions [0001](decisions/0001-architecture.md) and",
            "[0013](decisions/0013-contracts.md); [contributing](contributing.md) says how to add a method.",
            "",
        ]
    )
