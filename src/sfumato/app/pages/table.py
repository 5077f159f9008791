"""The second and the third step: choose the roles, kinds and trees of the columns, and see the risks of the table."""

from __future__ import annotations

import csv
import datetime
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import Response

from sfumato.app.choices import Message
from sfumato.app.pages.frame import (
    Form,
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
from sfumato.app.record_tasks import MapAssociations
from sfumato.app.tasks import ALPHA, Examine, MeasureRisks, ShownTree, ShowTree, ShowValues
from sfumato.errors import OptionError, RequestError, SchemaError
from sfumato.params import require_choice
from sfumato.schema.columns import DAYS, NAMING, Column, DateShift, Role
from sfumato.schema.hierarchies import Tree
from sfumato.schema.schema import Schema
from sfumato.schema.suggested_hierarchies import TREE_KINDS
from sfumato.table.kinds import Kind

# The second step: what the columns are, and their roles, which are changed for many columns at once.


MEANINGS = {  # what each role does, as buttons say it
    Role.QUASI: "protect it: others may know it",
    Role.SENSITIVE: "release it: it is what an intruder wants to learn",
    Role.OTHER: "release it as it is",
    Role.IDENTIFIER: "remove it: it names a person",
    Role.PERSON: "remove it, and count people by it: a person has several rows",
    Role.HOUSEHOLD: "remove it, and tell the risk of people who live together",
    Role.WEIGHT: "a sampling weight",
}
FUNCTIONS = {  # by which a column can be computed from another one
    "years": "age at a day",
    "year": "year of a date",
    "steps": "number in steps of",
    "prefix": "first characters",
}
ROLE_NAMES = {
    Role.QUASI: "quasi-identifier",
    Role.SENSITIVE: "sensitive",
    Role.OTHER: "other",
    Role.IDENTIFIER: "identifier",
    Role.PERSON: "person",
    Role.HOUSEHOLD: "household",
    Role.WEIGHT: "weight",
}


async def show_columns(request: Request) -> Response:
    """Show all columns."""
    job = await ask_for_columns(request)
    if job.state != "done":
        return show_progress(request, job)
    return render_page(
        request,
        "columns.html.j2",
        found=columns_of(job),
        warnings=job.warnings,
        meanings=MEANINGS,
        names=ROLE_NAMES,
        kinds=list(Kind),
        derived=source_of(request).reading.derive,
        functions=FUNCTIONS,
        today=datetime.date.today().isoformat(),
    )


async def change_roles(request: Request) -> Response:
    """Give the chosen columns a role, or a kind."""
    job, form = await ask_for_columns(request), await form_of(request)
    if job.state != "done":
        return redirect_to("/columns")
    schema = columns_of(job).schema
    names = [schema.columns[position].name for position in form.positions("column", len(schema.columns))]
    if form.one("action") == "kind":
        return await _change_kind(request, form, schema, names)
    role = Role(require_choice(form.one("role"), name="The role", choices=list(map(str, Role))))
    history = visitor_of(request).history
    if names:
        message = Message(
            "role {role} for {column}" if len(names) == 1 else "role {role} for {columns} columns",
            {"role": Message(ROLE_NAMES[role]), "column": names[0], "columns": len(names)},
        )
        history.change(message, schema=with_role(history.now.schema, names, role))
    return redirect_to("/columns")


async def _change_kind(request: Request, form: Form, schema: Schema, names: Sequence[str]) -> Response:
    """Give the chosen columns a kind, if their cells can be read as that."""
    word = require_choice(form.one("kind"), name="The kind", choices=("", *map(str, Kind)))
    history, kind = visitor_of(request).history, Kind(word) if word else None
    if not names:
        return redirect_to("/columns")
    columns = {column.name: column for column in history.now.schema.columns}
    for name in names:
        columns[name] = replace(columns.get(name, schema[name]), kind=kind, order=())
    message = Message(
        "kind {kind} for {column}" if len(names) == 1 else "kind {kind} for {columns} columns",
        {"kind": Message(word or "detected"), "column": names[0], "columns": len(names)},
    )
    await _change_schema(request, message, Schema(tuple(columns.values())))
    return redirect_to("/columns")


async def _change_schema(request: Request, message: Message, schema: Schema) -> None:
    """Change the schema, unless the table does not fit it: then an error says why, and the choices stay."""
    trial = await ask_worker(request, Examine(source=source_of(request), schema=schema))
    if trial.failure is not None:
        raise SchemaError(trial.failure.message, found=trial.failure.found, fix=trial.failure.fix)
    visitor_of(request).history.change(message, schema=schema)


async def show_column(request: Request) -> Response:
    """Show all about one column: its kind, the order of its values, its label, pseudonyms and shifted dates."""
    job = await ask_for_columns(request)
    if job.state != "done":
        return show_progress(request, job)
    overview, place = columns_of(job), request.query_params.get("column", "")
    column = _column(overview.schema.columns, place)
    kind = next(one.kind for one in overview.inspection.columns if one.name == column.name)
    values: tuple[str, ...] | None = column.order or None
    if kind in (Kind.NOMINAL, Kind.ORDERED) and values is None:
        asked = ShowValues(source=source_of(request), schema=visitor_of(request).choices.schema, column=column.name)
        found = await ask_worker(request, asked)
        if not found.is_over:
            return show_progress(request, found)
        values = found.result
    others, pair = [one.name for one in overview.schema.columns if one.name != column.name], None
    if (known := request.query_params.get("known", "")) and known != place:
        told = await ask_worker(
            request, MapAssociations(source=source_of(request), schema=visitor_of(request).choices.schema)
        )
        if not told.is_over or told.failure is not None:
            return show_progress(request, told)
        pair = told.result.pair(_column(overview.schema.columns, known), column.name, place=known)
    return render_page(
        request, "column.html.j2", pair=pair, column=column, kind=kind, kinds=list(Kind), values=values, others=others,
        position=place, names=ROLE_NAMES, meanings=MEANINGS, days=DAYS,
    )  # fmt: skip


async def change_column(request: Request) -> Response:
    """Change what is declared about one column."""
    job, form = await ask_for_columns(request), await form_of(request)
    if job.state != "done":
        return redirect_to("/columns")
    schema = columns_of(job).schema
    column = _column(schema.columns, form.one("column"))
    word = require_choice(form.one("kind"), name="The kind", choices=("", *map(str, Kind)))
    order = tuple(line.strip() for line in form.one("order").splitlines() if line.strip())
    by = _column([one for one in schema.columns if one.name != column.name], form.one("by")) if form.one("by") else None
    chosen = replace(
        column,
        kind=Kind(word) if word else None,
        order=order if word == Kind.ORDERED else (),
        label=form.one("label"),
        pseudonym=bool(form.one("pseudonym")) and column.role in NAMING,
        facts=form.number("facts") if form.one("pseudonym") and column.role is Role.PERSON else None,
        shift=None if by is None else DateShift.of({"by": by.name, "days": form.number("days") or DAYS}, column.name),
    )
    known = visitor_of(request).choices.schema
    others = tuple(one for one in known.columns if one.name != column.name)
    await _change_schema(request, Message("about {column}", {"column": column.name}), Schema((*others, chosen)))
    return redirect_to("/columns")


def with_role(schema: Schema, names: Sequence[str], role: Role) -> Schema:
    """Return the schema with a role for these columns; unlike on the command line, a name is never a pattern."""
    columns = {column.name: column for column in schema.columns}
    for name in names:
        known = columns.get(name, Column(name=name, role=role))
        names_people = role in NAMING  # only such a column can be a pseudonym
        facts = known.facts if role is Role.PERSON else None
        columns[name] = replace(known, role=role, reason="", pseudonym=known.pseudonym and names_people, facts=facts)
    return Schema(tuple(columns.values()))


# Generalization trees: suggested, drawn, and edited by grouping values or as text.
#
# A tree holds the values of its column, so it is shown only when the visitor asks for it, and stored in the private
# folder. Errors name counts and no value.


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
        way=require_choice(way, name="The way", choices=("", *TREE_KINDS)),
        levels=_levels(levels),
    )
    job = await ask_worker(request, task)
    if job.state != "done":
        return show_progress(request, job)
    tree: ShownTree = job.result
    drawn = draw_branches(tree.lines) if len(tree.lines) <= MOST_DRAWN else None
    place = request.query_params.get("column", "")
    return render_page(
        request, "tree.html.j2", column=column, position=place, tree=tree, drawn=drawn, ways=TREE_KINDS, levels=levels
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
    chosen = replace(column, tree=None if tree is None else _store_tree(request, column.name, tree))
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
    branches, start = [], 0
    for row in range(1, len(lines) + 1):
        if row == len(lines) or lines[row][level] != lines[start][level]:
            branches.append(
                DrawnBranch(
                    name=lines[start][level],
                    level=level,
                    values=tuple(range(first + start, first + row)),
                    below=draw_branches(lines[start:row], level - 1, first + start) if level else (),
                )
            )
            start = row
    return tuple(branches)


def _column(columns: Sequence[Column], given: str) -> Column:
    place = position(given, len(columns))
    if place is None:
        raise RequestError(
            "There is no such column.", found=f"{len(columns)} columns", fix="a link on the page of columns"
        )
    return columns[place]


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


def _store_tree(request: Request, column: str, tree: Tree) -> str:
    """Store a tree under a name made of its content, so that undo finds the one before."""
    out = io.StringIO()
    tree.write(out)
    content = out.getvalue().encode()
    folder = visitor_of(request).folder / "trees"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / f"tree-{hashlib.sha256(column.encode() + content).hexdigest()[:12]}.csv"
    file.write_bytes(content)
    return str(file)


# The third step: the re-identification risk of the original table.


MOST_SETS = 25  # sets of columns that are listed


async def show_risks(request: Request) -> Response:
    """Show the risks."""
    choices = visitor_of(request).choices
    task = MeasureRisks(source=source_of(request), schema=choices.schema, population=choices.population)
    job = await ask_worker(request, task)
    if job.state != "done":
        return show_progress(request, job)
    return render_page(request, "risks.html.j2", risks=job.result, alpha=ALPHA, most=MOST_SETS)


async def change_population(request: Request) -> Response:
    """Choose the population."""
    population = (await form_of(request)).number("population")
    job = await ask_for_columns(request)
    rows = columns_of(job).inspection.rows if job.state == "done" else 1
    if population is not None and population < rows:
        raise OptionError(
            "The population must include the people of the table.",
            found=f"population {population:,}, {rows:,} rows",
            fix="a population of at least the number of rows; or leave the field empty",
        )
    message = Message("population {people}" if population is not None else "no population", {"people": population or 0})
    visitor_of(request).history.change(message, population=population)
    return redirect_to("/risks")
