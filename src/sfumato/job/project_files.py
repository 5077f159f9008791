"""Project files: TOML with the input, the schema, the method, its options and the target of a release.

Every release into a folder writes the project file that makes it again, next to the folder: it may hold what must not
be published, such as declared ranges and paths. Paths are relative to the folder of the file. There is no seed in it.

    input = "patients.csv"
    target = "out"
    method = "boxes"

    [options]
    k = 5
    keep = ["corr(age, income)"]

    [reading]
    separator = ";"

    [columns.age]
    role = "quasi"
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from sfumato.errors import OptionError, RequestError
from sfumato.job.request import Reading, Request
from sfumato.params import require_choice
from sfumato.schema.columns import columns_of, toml_content, toml_key, toml_text
from sfumato.sources.base import may_name_table, scheme_of

HEAD = "# A project of sfumato: `sfumato run` makes this release again. Not part of the release; it may hold secrets.\n"
PATHS = ("input", "target", "schema", "reference", "key", "ledger", "budget")
TEXTS = (
    "input",
    "target",
    "method",
    "schema",
    "table",
    "query",
    "into",
    "reference",
    "engine",
    "master",
    "memory",
    "key",
    "ledger",
    "budget",
)
OTHERS = {
    "replace": bool,
    "assess": bool,
    "holdout": float,
    "require": list,
    "earlier": list,
    "csv_formulas": str,
    "language": str,
    "formats": list,
    "rows_not_people": bool,
}
TABLES = ("options", "reading", "columns")
NOTHING = "null"  # an option that is switched off, as in --option set_names=null: TOML has no word for it


def read_project(file: str) -> Request:
    """Read a project file; paths in it become relative to the current folder."""
    from sfumato.schema.schema import Schema

    path = Path(file).expanduser()
    content = toml_content(path, what="project file")
    for key in content:
        require_choice(key, name=f"An entry of {path.name}", choices=(*TEXTS, *OTHERS, *TABLES))
    given = {key: value for key, value in content.items() if key not in TABLES}
    for key, value in given.items():
        _require_type(key, value, OTHERS.get(key, str), path.name)
    given |= {key: _from(path.parent, given[key]) for key in _paths(given, path.parent)}
    given |= {"earlier": [_from(path.parent, str(one)) for one in given.get("earlier", ())]}
    for name in TABLES:
        _require_type(name, content.get(name, {}), dict, path.name)
    columns = content.get("columns")
    return Request(
        **given,
        options={name: None if value == NOTHING else value for name, value in content.get("options", {}).items()},
        reading=_reading(content.get("reading", {}), path.name),
        columns=None if columns is None else Schema(columns_of(columns, folder=path.parent)),
    )


def write_project(request: Request) -> str:
    """Write the project file of a release next to its folder, and return what happened, as a sentence.

    Another file with this name is left alone.
    """
    from sfumato.formats.raw_files import write_whole

    if scheme_of(request.target or ""):
        return "no project file was written, because the release is not in a folder of this machine"
    target = Path(request.target or "").expanduser().absolute()
    file = target.with_name(f"{target.name}.toml")
    if os.path.lexists(file) and not _is_project(file):
        return f"no project file was written, because {file.name} is another file"
    try:
        text = project_text(request, file.parent).encode()
        write_whole(file, lambda out: out.write(text), mode=0o600)  # paths and columns are nobody else's concern
    except OptionError as error:  # the release itself is complete
        return f"no project file was written: {error.message}"
    return f"project file {os.path.relpath(file)}: sfumato run makes this release again"


def _is_project(file: Path) -> bool:
    try:
        return file.read_bytes().startswith(HEAD.encode())
    except OSError:  # a folder, a file of somebody else
        return False


def project_text(request: Request, folder: Path) -> str:
    """Return the text of the project file in this folder."""
    given = {name: getattr(request, name) for name in (*TEXTS, *OTHERS)}
    given |= {name: _to(folder, given[name]) for name in _paths(given, Path())}
    given |= {"earlier": [_to(folder, one) for one in given["earlier"]]}
    lines = [f"{name} = {_toml(value)}" for name, value in given.items() if value not in (None, (), [])]
    if request.options:
        lines += ["", "[options]", *(f"{toml_key(name)} = {_toml(value)}" for name, value in request.options.items())]
    if request.reading is not None:
        read = {one.name: getattr(request.reading, one.name) for one in fields(request.reading)}
        lines += [
            "",
            "[reading]",
            *(f"{name} = {_toml(value)}" for name, value in read.items() if value not in (None, ())),
        ]
    schema = "" if request.columns is None else "\n" + request.columns.to_toml(folder)
    return HEAD + "\n".join(lines) + "\n" + schema


def _require_type(key: str, value: Any, kind: type, file: str) -> None:
    fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
    if not fits:
        words = {str: "a text", bool: "true or false", float: "a number", list: "a list", dict: "a table"}
        raise RequestError(f"{key!r} in {file} must be {words[kind]}.", found=type(value).__name__)


def _reading(given: Mapping[str, Any], file: str) -> Reading | None:
    known = [one.name for one in fields(Reading)]
    for key in given:
        require_choice(key, name=f"An entry of [reading] in {file}", choices=known)
    return Reading(**given) if given else None


def _paths(given: Mapping[str, Any], folder: Path) -> list[str]:
    """Return which entries are paths from this folder; the input may be a table that a cluster knows by its name."""
    is_on_cluster = given.get("engine") == "spark" or given.get("master") is not None
    names = [name for name in PATHS if given.get(name) is not None]
    return [name for name in names if not (name == "input" and is_on_cluster and may_name_table(given[name], folder))]


def _from(folder: Path, path: str) -> str:
    return path if scheme_of(path) else os.path.relpath(folder / Path(path).expanduser())


def _to(folder: Path, path: str) -> str:
    return path if scheme_of(path) else os.path.relpath(Path(path).expanduser().absolute(), folder)


def _toml(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_key(str(name))} = {_toml(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return toml_text(NOTHING)
    return repr(value) if isinstance(value, int | float) else toml_text(str(value))
