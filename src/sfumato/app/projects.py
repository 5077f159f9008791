"""Projects of the page: what was chosen, as a project file of the command line with its trees beside it.

A project is saved by its owner, as an archive, or after each change into a private folder, if the visitor allows it.
It holds names of columns and the values in edited trees, but no row. Opened projects come from anywhere: of what they
say, only the way of reading, the columns, the method and its options are taken, and no path in them is followed.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import os
import shutil
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from sfumato.app.choices import Choices, Source
from sfumato.errors import ReadError, RequestError
from sfumato.formats.raw_files import BROKEN_ARCHIVE, write_whole
from sfumato.job.project_files import project_text, read_project
from sfumato.job.request import READING, Reading, Request
from sfumato.schema.columns import BUILT_IN, toml_text
from sfumato.schema.schema import Schema

FILE, TREES, PAGE = "project.toml", "trees", "page.toml"
MOST_BYTES = 20_000_000  # of a project, unpacked
MOST_MEMBERS = 500
MOST_LISTED = 50  # saved projects


@dataclass(frozen=True, kw_only=True)
class OpenedProject:
    """What is taken from a project file."""

    name: str  # of its table
    reading: Reading | None
    choices: Choices


def write_project(source: Source, choices: Choices, home: Path, **others: Any) -> str:
    """Return the project file, as it stands in the folder ``home``, which the paths of trees are relative to."""
    request = Request(
        input=str(home / source.name),
        target=str(home / "out"),
        method=choices.method,
        options=choices.options,
        columns=choices.schema,
        reading=None if source.reading == READING else source.reading,
        formats=() if choices.formats == ("csv",) else choices.formats,
    )
    return project_text(replace(request, **others), home)


def tree_files(schema: Schema) -> dict[str, Path]:
    """Return the trees that the visitor edited, by their paths beside the project file."""
    paths = [Path(column.tree) for column in schema.columns if column.tree and os.sep in column.tree]
    return {f"{TREES}/{path.name}": path for path in paths}


def pack_project(source: Source, choices: Choices, home: Path) -> bytes:
    """Return the project as an archive: its file, what only the page knows, and the trees."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(FILE, write_project(source, choices, home))
        archive.writestr(PAGE, _page_text(source, choices))
        for name, path in tree_files(choices.schema).items():
            archive.write(path, name)
    return out.getvalue()


def _page_text(source: Source, choices: Choices) -> str:
    """Return what a project file has no place for: the statistics to keep, and the population."""
    lines = [f"name = {toml_text(source.name)}", f"saved = {datetime.datetime.now().isoformat(timespec='seconds')}"]
    lines += [f"keep = [{', '.join(map(toml_text, choices.keep))}]"]
    lines += [] if choices.population is None else [f"population = {choices.population}"]
    return "# Of the page: what only `sfumato app` knows of this project.\n" + "\n".join(lines) + "\n"


def unpack_project(content: bytes, room: Path) -> None:
    """Write a project file, or the files of an archive that the page made, into a new folder; nothing else."""
    if not content.startswith(b"PK"):
        _require_small(len(content))
        (room / FILE).write_bytes(content)
        return
    problem = ""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {one.filename: one for one in archive.infolist() if _is_ours(one.filename)}
            _require_small(sum(one.file_size for one in members.values()), len(archive.infolist()))
            (room / TREES).mkdir(mode=0o700)
            for name, member in members.items():
                (room / name).write_bytes(archive.read(member))
    except BROKEN_ARCHIVE:
        problem = "a broken archive"
    if not problem and not (room / FILE).exists():
        problem = "an archive without a project file"
    if problem:
        raise ReadError("A project must be a project file, or the archive that the page made.", found=problem)


def _is_ours(name: str) -> bool:
    """Whether a member of an archive belongs to a project: no path leads out of its folder."""
    folder, _, last = name.rpartition("/")
    is_tree = folder == TREES and last.endswith(".csv") and not last.startswith(".") and "\\" not in last
    return name in (FILE, PAGE) or (is_tree and last.isprintable())


def _require_small(size: int, members: int = 1) -> None:
    if size > MOST_BYTES or members > MOST_MEMBERS:
        raise ReadError("A project must be small.", found=f"more than {MOST_BYTES // 10**6} MB, or many files")


def open_project(folder: Path, trees: Path, *, file: str = FILE) -> OpenedProject:
    """Read the project in a folder; its trees are copied to ``trees``, and no other path in it is followed."""
    request = read_project(str(folder / file))
    page = _read_page(folder / PAGE)
    options = dict(request.options)
    kept = options.pop("keep", None) if isinstance(options.get("keep"), list) else None
    keep = page.get("keep", kept if kept is not None else [])
    population = page.get("population")
    return OpenedProject(
        name=str(page.get("name") or Path(request.input or file).name),
        reading=_reading(request.reading),
        choices=Choices(
            schema=_own_trees(request.columns or Schema(()), folder, trees),
            population=population if isinstance(population, int) and population > 0 else None,
            keep=tuple(map(str, keep if isinstance(keep, list) else [keep])),
            method=request.method,
            options=options,
            formats=tuple(map(str, request.formats)) or ("csv",),
        ),
    )


def _read_page(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # there is none: the project is one of the command line
        return {}


def _reading(given: Reading | None) -> Reading | None:
    """Return the way of reading, with tuples in place of lists."""
    if given is None:
        return None
    values = {one.name: getattr(given, one.name) for one in fields(given)}
    for name in ("missing", "derive"):
        listed = [values[name]] if isinstance(values[name], str) else values[name]
        if not isinstance(listed, list | tuple) or not all(isinstance(one, str) for one in listed):
            raise RequestError(f"{name!r} of a project must be a list of texts.", found=type(listed).__name__)
        values[name] = tuple(listed)
    for name in ("skip", "header_rows", "header"):
        if not isinstance(values[name], int | None):
            raise RequestError(f"{name!r} of a project must be a number.", found=type(values[name]).__name__)
    for name in ("separator", "encoding", "decimal", "names", "sheet"):
        if not isinstance(values[name], str | None):
            raise RequestError(f"{name!r} of a project must be a text.", found=type(values[name]).__name__)
    return Reading(**values)


def _own_trees(schema: Schema, folder: Path, trees: Path) -> Schema:
    """Return the schema with the trees of the project copied to ``trees``; a tree anywhere else is left out."""
    columns = [replace(one, tree=_own_tree(one.tree, folder, trees)) for one in schema.columns]
    return replace(schema, columns=tuple(columns))


def _own_tree(tree: str | None, folder: Path, trees: Path) -> str | None:
    if tree is None or BUILT_IN.match(tree):
        return tree
    try:
        path = Path(tree).resolve(strict=True)
        inside = path.is_relative_to(folder.resolve()) and path.is_file() and path.suffix == ".csv"
    except (OSError, RuntimeError, ValueError):
        inside = False
    if not inside:
        return None
    content = path.read_bytes()
    trees.mkdir(mode=0o700, exist_ok=True)
    target = trees / f"tree-{hashlib.sha256(content).hexdigest()[:12]}.csv"
    target.write_bytes(content)
    return str(target)


# Saved projects: one private folder each, named by the checksum of its table, so that it is found again.


@dataclass(frozen=True)
class SavedProject:
    """The folder of a saved project."""

    folder: Path

    def write(self, source: Source, choices: Choices, home: Path) -> None:
        """Save the project; each file is there completely or not at all, and only its owner can read it."""
        trees = self.folder / TREES
        for one in (self.folder.parent, self.folder, trees):
            one.mkdir(mode=0o700, parents=True, exist_ok=True)
            one.chmod(0o700)
        for name, path in tree_files(choices.schema).items():
            _write(self.folder / name, path.read_bytes())
        _write(self.folder / FILE, write_project(source, choices, home).encode())
        _write(self.folder / PAGE, _page_text(source, choices).encode())

    @property
    def name(self) -> str:
        """The name of its table."""
        return str(_read_page(self.folder / PAGE).get("name", "?"))

    @property
    def saved(self) -> str:
        """When it was saved."""
        moment = _read_page(self.folder / PAGE).get("saved")
        return moment.strftime("%Y-%m-%d %H:%M") if isinstance(moment, datetime.datetime) else ""

    @property
    def mark(self) -> str:
        """What it is called in addresses."""
        return self.folder.name


def _write(file: Path, content: bytes) -> None:
    write_whole(file, lambda out: out.write(content), mode=0o600)


@dataclass(frozen=True)
class SavedProjects:
    """All saved projects of this user."""

    folder: Path

    @classmethod
    def of_user(cls) -> SavedProjects:
        """Return those in the folder where the system keeps data of programs."""
        given = os.environ.get("XDG_DATA_HOME") or os.environ.get("LOCALAPPDATA")
        return cls((Path(given) if given else Path.home() / ".local" / "share") / "sfumato" / "projects")

    def of_table(self, file: Path) -> SavedProject:
        """Return the place of the project of a table, by its content; it may not exist yet."""
        with file.open("rb") as opened:
            return SavedProject(self.folder / hashlib.file_digest(opened, "sha256").hexdigest()[:32])

    def find(self, mark: str) -> SavedProject | None:
        """Return a saved project by its mark."""
        return next((one for one in self if one.mark == mark), None)

    def forget(self, mark: str) -> None:
        """Remove a saved project."""
        found = self.find(mark)
        if found is not None:
            shutil.rmtree(found.folder, ignore_errors=True)

    def __iter__(self) -> Iterator[SavedProject]:
        try:
            folders = sorted(self.folder.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
        except OSError:  # nothing was saved
            return iter(())
        return iter([SavedProject(one) for one in folders if (one / FILE).is_file()][:MOST_LISTED])
