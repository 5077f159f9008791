"""Generalization trees: suggested, drawn, and edited by grouping values or as text.

A tree holds the values of its column, so it is shown only when the visitor asks for it, and stored in the private
folder. Errors name counts and no value.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import Response

from sfumato.app.choices import Message
from sfumato.app.pages.frame import (
    ask_for_columns,
    ask_worker,
    columns_of,
    form_of,
    position,
    redirect_to,
    render_page,
    show_progress,
    source_of,
    visitor_of,
)
from sfumato.app.tasks import ShownTree, ShowTree
from sfumato.errors import RequestError, SchemaError
from sfumato.params import require_choice
from sfumato.schema.columns import Column
from sfumato.schema.hierarchy import Tree
from sfumato.schema.tree_ways import WAYS

MOST_DRAWN = 400  # values of a tree that are drawn


@dataclass(frozen=True, kw_only=True)
class DrawnBranch:
    """A node of a drawn tree, with the nodes below it and the positions of its values."""

    name: str
    level: int
    values: tuple[int, ...]
    below: tuple[DrawnBranch, ...]


async def show_tree(request: Request) -> Response:
    """Draw the tree of a column: the chosen one, or a suggestion."""
    job = await ask_for_columns(request)
    if job.state != "done":
        return show_progress(request, job)
    column = _column(columns_of(job).schema.columns, request.query_params.get("column", ""))
    way, levels = request.query_params.get("way", ""), request.query_params.get("levels", "")
    task = ShowTree(
        source=source_of(request),
        schema=visitor_of(request).choices.schema,
        column=column.name,
        way=require_choice(way, name="The way", choices=("", *WAYS)),
        levels=_levels(levels),
    )
    job = await ask_worker(request, task)
    if job.state != "done":
        return show_progress(request, job)
    tree: ShownTree = job.result
    drawn = draw_branches(tree.lines) if len(tree.lines) <= MOST_DRAWN else None
    place = request.query_params.get("column", "")
    return render_page(
        request, "tree.html.j2", column=column, position=place, tree=tree, drawn=drawn, ways=WAYS, levels=levels
    )


async def change_tree(request: Request) -> Response:
    """Choose a tree, an edited one, or none."""
    job, form = await ask_for_columns(request), await form_of(request)
    if job.state != "done":
        return redirect_to("/columns")
    column = _column(columns_of(job).schema.columns, form.one("column"))
    history, action = visitor_of(request).history, form.one("action")
    tree, message = None, Message("no tree for {column}", {"column": column.name})
    if action != "remove":
        tree = Tree.of(_lines(form.one("text")), name="tree")
        if action == "group":
            tree = group_values(tree, form.positions("value", tree.size), form.one("group"), form.number("level") or 1)
        message = Message("tree for {column}", {"column": column.name})
    chosen = replace(column, tree=None if tree is None else _stored(request, column.name, tree))
    schema = history.now.schema
    others = tuple(one for one in schema.columns if one.name != column.name)
    history.change(message, schema=replace(schema, columns=(*others, chosen)))
    return redirect_to(f"/tree?column={form.one('column')}" if tree is not None else "/columns")


def group_values(tree: Tree, values: Sequence[int], name: str, level: int) -> Tree:
    """Return the tree with values in one group of this name on a level; above it they follow the first of them.

    >>> tree = Tree.of([("a", "a", "*"), ("b", "b", "*"), ("c", "c", "*")])
    >>> group_values(tree, [0, 2], "a or c", 1).lines
    [('a', 'a or c', '*'), ('c', 'a or c', '*'), ('b', 'b', '*')]
    """
    if not values or not name:
        raise RequestError("A group needs at least one value, and a name.")
    if not 1 <= level < tree.levels:
        raise SchemaError(f"The level must be from 1 to {tree.levels - 1}.", found=str(level))
    lines = tree.lines if level < tree.levels - 1 else [(*line, line[-1]) for line in tree.lines]
    above = lines[values[0]][level + 1 :]
    return Tree.of([(*line[:level], name, *above) if row in set(values) else line for row, line in enumerate(lines)])


def draw_branches(lines: Sequence[Sequence[str]], level: int | None = None, first: int = 0) -> tuple[DrawnBranch, ...]:
    """Return the nodes of a tree from its lines, the highest level first; subtrees are contiguous."""
    level = len(lines[0]) - 1 if level is None else level
    found, start = [], 0
    for row in range(1, len(lines) + 1):
        if row == len(lines) or lines[row][level] != lines[start][level]:
            found.append(
                DrawnBranch(
                    name=lines[start][level],
                    level=level,
                    values=tuple(range(first + start, first + row)),
                    below=draw_branches(lines[start:row], level - 1, first + start) if level else (),
                )
            )
            start = row
    return tuple(found)


def _column(columns: Sequence[Column], given: str) -> Column:
    found = position(given, len(columns))
    if found is None:
        raise RequestError(
            "There is no such column.", found=f"{len(columns)} columns", fix="a link on the page of columns"
        )
    return columns[found]


def _levels(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(one) for one in text.replace(";", ",").split(",") if one.strip())
    except ValueError:
        pass
    raise RequestError("Levels must be numbers, separated by commas.", fix="5, 10, 50")


def _lines(text: str) -> list[tuple[str, ...]]:
    """Read the lines of an edited tree; browsers send the ends of lines in another way, also those in values."""
    lines = None
    try:
        rows = csv.reader(io.StringIO(text.replace("\r\n", "\n")), delimiter=";")
        lines = [tuple(cell.strip() for cell in line) for line in rows if line]
    except csv.Error:
        pass
    if not lines:
        raise SchemaError("A tree must have lines: value;group;…;*", found="none that can be read")
    return lines


def _stored(request: Request, column: str, tree: Tree) -> str:
    """Store a tree under a name made of its content, so that undo finds the one before."""
    out = io.StringIO()
    tree.write(out)
    content = out.getvalue().encode()
    folder = visitor_of(request).folder / "trees"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / f"tree-{hashlib.sha256(column.encode() + content).hexdigest()[:12]}.csv"
    file.write_bytes(content)
    return str(file)
