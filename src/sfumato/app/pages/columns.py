"""The second step: what the columns are, and their roles, which are changed for many columns at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from sfumato.app.choices import Message
from sfumato.app.pages.frame import (
    ask_for_columns,
    columns_of,
    form_of,
    redirect_to,
    render_page,
    show_progress,
    visitor_of,
)
from sfumato.params import require_choice
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema

MEANINGS = {  # what each role does, as buttons say it
    Role.QUASI: "protect it: others may know it",
    Role.SENSITIVE: "release it: it is what an intruder wants to learn",
    Role.OTHER: "release it as it is",
    Role.IDENTIFIER: "remove it: it names a person",
    Role.WEIGHT: "a sampling weight",
}
ROLE_NAMES = {
    Role.QUASI: "quasi-identifier",
    Role.SENSITIVE: "sensitive",
    Role.OTHER: "other",
    Role.IDENTIFIER: "identifier",
    Role.WEIGHT: "weight",
}


async def show_columns(request: Request) -> Response:
    """Show all columns."""
    job = await ask_for_columns(request)
    if job.state != "done":
        return show_progress(request, job)
    return render_page(
        request, "columns.html.j2", found=columns_of(job), warnings=job.warnings, meanings=MEANINGS, names=ROLE_NAMES
    )


async def change_roles(request: Request) -> Response:
    """Give the chosen columns a role."""
    job, form = await ask_for_columns(request), await form_of(request)
    if job.state != "done":
        return redirect_to("/columns")
    schema = columns_of(job).schema
    role = Role(require_choice(form.one("role"), name="The role", choices=list(map(str, Role))))
    names = [schema.columns[position].name for position in form.positions("column", len(schema.columns))]
    history = visitor_of(request).history
    if names:
        message = Message(
            "role {role} for {column}" if len(names) == 1 else "role {role} for {columns} columns",
            {"role": Message(ROLE_NAMES[role]), "column": names[0], "columns": len(names)},
        )
        history.change(message, schema=_with_role(history.now.schema, names, role))
    return redirect_to("/columns")


def _with_role(schema: Schema, names: Sequence[str], role: Role) -> Schema:
    """Return the schema with a role for these columns; unlike on the command line, a name is never a pattern."""
    columns = {column.name: column for column in schema.columns}
    for name in names:
        known = columns.get(name, Column(name=name, role=role))
        columns[name] = replace(known, role=role, reason="")
    return Schema(tuple(columns.values()))
