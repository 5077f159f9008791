"""Read and write schema files: TOML with one table, or only a role, per column.

Paths of trees are relative to the folder of the file. An example::

    [columns]
    income = "sensitive"

    [columns.age]
    role = "quasi"
    domain = [0, 120]
    tree = "steps:5,10,50"

    [columns.education]
    role = "quasi"
    order = ["primary", "secondary", "tertiary"]
    tree = "trees/education.csv"

    [columns.age.words]
    young = [-inf, -inf, 25, 35]

    [columns.patient_id]
    role = "identifier"
    pseudonym = true
    label = "Number of the record"

    [columns.admitted]
    role = "quasi"
    shift = {by = "patient_id", days = 180}
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.errors import ReadError, SchemaError
from sfumato.formats.raw_files import content, write_whole
from sfumato.schema.columns import Column, Role, nearest

KEYS = ("role", "kind", "order", "domain", "tree", "words", "label", "pseudonym", "shift")
PSEUDONYM = "pseudonym"  # in place of a role: an identifier that is released as a pseudonym
BUILT_IN = re.compile(r"(calendar|prefix)$|steps:")  # trees that are not read from a file
HEAD = """\
# Roles: identifier (removed), quasi (protected), sensitive (kept, its diversity is protected), other (kept),
# weight (kept, and used by statistics).
"""


def read_columns(path: str | Path) -> tuple[Column, ...]:
    """Read the columns of a TOML file; paths of trees are relative to its folder."""
    file_path = Path(path).expanduser()
    content = toml_content(file_path)
    unknown = [key for key in content if key != "columns"]
    if unknown or not isinstance(content.get("columns"), dict):
        raise SchemaError(
            f"{file_path.name} must have a table [columns] and no other entry.",
            found=", ".join(map(repr, unknown)) or "no table [columns]",
        )
    return columns_of(content["columns"], folder=file_path.parent)


def columns_of(columns: Mapping[str, Any], *, folder: Path | None = None) -> tuple[Column, ...]:
    """Return columns from a mapping of column to role, or to a mapping with the entries of a schema file."""
    if not isinstance(columns, Mapping):
        raise SchemaError(
            "A schema must be a Schema, a mapping of columns to roles, or the path of a schema file.",
            found=type(columns).__name__,
        )
    return tuple(_column(name, entry, folder) for name, entry in columns.items())


def write_columns(columns: Iterable[Column], path: str | Path) -> None:
    """Write columns as TOML, completely or not at all.

    Reasons become comments, and paths of trees become relative to the folder of the file.
    """
    file_path = Path(path).expanduser()
    text = columns_text(columns, file_path.parent)
    write_whole(file_path, lambda file: file.write(text.encode("utf-8")))


def columns_text(columns: Iterable[Column], folder: Path) -> str:
    """Return columns as the text of a TOML file in this folder."""
    return HEAD + "".join(_entry(column, folder) for column in columns)


def toml_content(file_path: Path, *, what: str = "schema file") -> dict[str, Any]:
    """Return the content of a TOML file; errors quote nothing of it."""
    where, refused = "", None
    try:
        return tomllib.loads(content(file_path).decode("utf-8"))
    except ReadError as error:
        refused = error
    except UnicodeDecodeError:
        where = "text that is not UTF-8"
    except tomllib.TOMLDecodeError as error:
        where = "a syntax error " + str(error).rpartition("(")[2].strip(
            ")"
        )  # "at line 3, column 5", without the text at that place
    except (ValueError, RecursionError):
        where = "a number with too many digits, or values nested too deeply"
    if refused is not None:
        raise SchemaError(f"The {what} cannot be read.", found=refused.message.rstrip("."), fix=refused.fix)
    fix = "`sfumato schema FILE > schema.toml` writes one" if what == "schema file" else None
    raise SchemaError(f"{file_path.name} must be TOML.", found=where, fix=fix)


def _column(name: str, entry: Any, folder: Path | None) -> Column:
    if isinstance(entry, Column):
        return replace(entry, name=name)
    if entry == PSEUDONYM:
        return Column(name=name, role=Role.IDENTIFIER, pseudonym=True)
    if isinstance(entry, str):
        return Column(name=name, role=Role(entry) if entry in list(Role) else entry)  # type: ignore[arg-type]
    if not isinstance(entry, Mapping):
        raise SchemaError(f"The entry of column {name!r} must be a role or a table.", found=type(entry).__name__)
    for key in entry:
        if key not in KEYS:
            raise SchemaError(f"Column {name!r} has an unknown entry {key!r}.", found=nearest(key, KEYS))
    if "role" not in entry:
        raise SchemaError(f"Column {name!r} must have a role.", fix=f"role = one of {', '.join(Role)}")
    tree = entry.get("tree")
    if tree is not None and not isinstance(tree, str | Path):
        raise SchemaError(f"The tree of column {name!r} must be the path of a file.", found=type(tree).__name__)
    return Column(
        name=name,
        role=entry["role"],
        kind=entry.get("kind"),
        order=entry.get("order", ()),
        domain=entry.get("domain"),
        tree=None if tree is None else _resolved_tree(str(tree), folder),
        words=entry.get("words", {}),
        label=entry.get("label", ""),
        pseudonym=entry.get("pseudonym", False),
        shift=entry.get("shift"),
    )


def _resolved_tree(tree: str, folder: Path | None) -> str:
    return tree if folder is None or BUILT_IN.match(tree) else str(folder / tree)


def _entry(column: Column, folder: Path) -> str:
    reason = re.sub(r"[^ -~\u00a0-\ud7ff]+", " ", column.reason)  # a comment must stay on one line
    comment = f"  # {reason}" if reason else ""
    lines = [f"[columns.{toml_key(column.name)}]", f"role = {toml_text(column.role)}{comment}"]
    if column.kind is not None:
        lines.append(f"kind = {toml_text(column.kind)}")
    if column.order:
        lines.append(f"order = [{', '.join(map(toml_text, column.order))}]")
    if column.domain is not None:
        lines.append(f"domain = [{column.domain[0]!r}, {column.domain[1]!r}]")
    if column.tree is not None:
        tree = column.tree if BUILT_IN.match(column.tree) else os.path.relpath(column.tree, folder)
        lines.append(f"tree = {toml_text(tree)}")
    if column.label:
        lines.append(f"label = {toml_text(column.label)}")
    if column.pseudonym:
        lines.append("pseudonym = true")
    if column.shift is not None:
        lines.append(f"shift = {{by = {toml_text(column.shift.by)}, days = {column.shift.days}}}")
    if column.words:
        lines += ["", f"[columns.{toml_key(column.name)}.words]"]
        lines += [f"{toml_key(word)} = [{', '.join(map(repr, corners))}]" for word, corners in column.words.items()]
    return "\n" + "\n".join(lines) + "\n"


def toml_key(name: str) -> str:
    """Format a key of a TOML file, with quotes if it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_text(name)


def toml_text(text: str) -> str:
    """Format a TOML basic string, with quotes, backslashes and control characters escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda sign: f"\\u{ord(sign[0]):04x}", escaped) + '"'
