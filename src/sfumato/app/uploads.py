"""Files of visitors: sent ones, counted while they arrive and never expanded blindly, and those of the named folder."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import OptionError, ReadError
from sfumato.formats.raw_files import FORMATS, unpacked_size
from sfumato.report.summary import amount

EXPANDED = 8  # a compressed file may grow to this multiple of the limit of uploads
CHUNK = 1 << 20
LONGEST_NAME = 200  # bytes
FILES = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json", ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".gz")
ENDINGS = FILES + tuple(suffix for one in FORMATS for suffix in one.suffixes)


class TooLarge(OptionError):
    """The upload is larger than the server takes."""


def safe_name(given: str) -> str:
    """Return a name for a file from one that a visitor gave: no folder, no hidden file, no sign that shells know.

    >>> safe_name("../../etc/passwd"), safe_name("Patienten 2024 (neu).csv"), safe_name("")
    ('passwd.csv', 'Patienten_2024_neu.csv', 'table.csv')
    """
    last = re.split(r"[/\\]", given)[-1]
    clean = re.sub(r"[^\w.-]+", "_", last, flags=re.ASCII).strip("._-") or "table"
    clean = re.sub(r"_+(?=\.)", "", clean)[-80:].lstrip("._-")
    return clean if clean.lower().endswith(ENDINGS) else f"{clean}.csv"


def shown_name(given: str) -> str:
    """Return the name of an upload as its owner knows it, which the page, the command and the script show.

    The file is stored under its safe name. A name that could be anything but that of a file beside the schema is
    replaced by the safe one too: one with control characters, a hidden one, or one without an ending of a table.

    >>> shown_name("C:\\\\Daten\\\\Größe 2024 (neu).csv"), shown_name("-rf.csv"), shown_name("passwd")
    ('Größe 2024 (neu).csv', 'rf.csv', 'passwd.csv')
    """
    last = re.split(r"[/\\]", given)[-1].strip()
    plain = last.isprintable() and not last.startswith((".", "-", "~")) and len(last.encode()) <= LONGEST_NAME
    return last if plain and last.lower().endswith(ENDINGS) else safe_name(given)


async def receive(chunks: AsyncIterator[bytes], target: Path, *, most: int, declared: str) -> None:
    """Write an upload to a new file; stop reading, and remove the file, as soon as it is too large."""
    if declared.isdigit() and int(declared) > most:
        raise _too_large(most)
    size, complete = 0, False
    try:
        with target.open("xb") as file:
            async for chunk in chunks:
                size += len(chunk)
                if size > most:
                    raise _too_large(most)
                file.write(chunk)
        complete = True
    finally:
        if not complete:  # too large, or the visitor has gone
            target.unlink(missing_ok=True)


def require_expandable(file: Path, most: int) -> None:
    """Raise if a compressed file would expand to more than the limit; nothing of it is kept while it is counted."""
    size = unpacked_size(file, most)
    if size > most:
        raise ReadError(
            f"A compressed file must not expand to more than {amount(most)}.",
            found=f"at least {amount(size)}",
            fix="unpack it, or start the page with a larger --max-upload",
        )


def _too_large(most: int) -> TooLarge:
    return TooLarge(
        f"An upload must not be larger than {amount(most)}.",
        fix="a path below --folder, a larger --max-upload, or the command line",
    )


# Files below the folder that the command names; nothing outside of it can be reached, also not by links.


MOST = 500  # files that are listed
DEEPEST = 6  # folders below the named one


@dataclass(frozen=True)
class NamedFolder:
    """A folder whose tables may be opened by path."""

    path: Path

    def find(self, given: str) -> Path:
        """Return the file at a path relative to the folder; raise if it leads outside, or if there is no file."""
        file: Path | None = None
        try:
            root = self.path.resolve(strict=True)
            file = (root / given).resolve(strict=True)
            inside = file.is_relative_to(root) and file.is_file()
        except (OSError, ValueError, RuntimeError):  # it does not exist, its name is not valid, or links in a circle
            inside = False
        if file is None or not inside:
            raise ReadError(
                "The path must lead to a file below the folder that the command names.",
                fix="choose one of the listed files",
            )
        return file

    def _is_inside(self, file: Path) -> bool:
        """Whether a file of the folder may be opened: a link must not lead outside."""
        return not file.is_symlink() or file.resolve().is_relative_to(self.path.resolve())

    def tables(self) -> list[str]:
        """Return the relative paths of files that may be tables."""
        paths: list[str] = []
        for folder, folders, files in os.walk(self.path):
            here = Path(folder).relative_to(self.path)
            folders[:] = sorted(one for one in folders if not one.startswith(".")) if len(here.parts) < DEEPEST else []
            paths += [
                (here / one).as_posix()
                for one in sorted(files)
                if one.lower().endswith(ENDINGS) and not one.startswith(".") and self._is_inside(Path(folder, one))
            ]
            if len(paths) >= MOST:
                break
        return paths[:MOST]
