"""Read formats whose readers crash on damaged files in a process of their own, so that a crash becomes an error.

Arrow's readers of IPC files and of JSON trust what they read, and so do those of workbooks and of statistics packages:
a damaged length or a deeply nested value ends the whole process. The child process therefore reads the bytes, checks
every offset, code and text, and hands back a clean Arrow stream. Nothing is written to disk, and no cell can appear in
a message: of the child only its exit code is used, the names of columns that are not valid, and its own errors.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.errors import ReadError, warn
from sfumato.machine import available_memory
from sfumato.processes import python_command, python_environment
from sfumato.table.kinds import invalid_columns

NOT_VALID, NOT_READABLE, NO_MEMORY, REFUSED = 4, 5, 6, 7  # exit codes of the child; all others: it crashed
NOTES = b"sfumato notes"  # for the user, in the metadata of a table that a reader returns
MEMORY_SHARE = 0.8  # of the free memory that the reader of an untrusted file may take


def read_isolated(
    raw: bytes, reader: Callable[..., pa.Table], *, file: str, what: str, memory: int | None = None, **options: Any
) -> pa.Table:
    """Read bytes in a child process, with a function at the top of a module and its ``options``.

    The table comes back as an Arrow stream, not as a pickled message: a damaged file may have confused the child. It
    takes no more than ``memory`` bytes, if that is given.
    """
    command = python_command(__name__, reader.__module__, reader.__qualname__, json.dumps(options), str(memory or 0))
    done = None
    with contextlib.suppress(OSError):  # also a child that ends before it has read everything
        done = subprocess.run(
            command, input=raw, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=python_environment(), check=False
        )
    if done is None:
        raise ReadError(f"{file} cannot be read: its reader could not be started.", fix="convert it to Parquet or CSV")
    if done.returncode == 0:
        return pa.ipc.open_stream(done.stdout).read_all()
    if done.returncode == NOT_VALID:
        raise invalid_cells(json.loads(done.stdout), file=file)
    if done.returncode == REFUSED:
        said = json.loads(done.stdout)
        raise ReadError(f"{file}: {said['message']}", found=said["found"], fix=said["fix"])
    if done.returncode == NO_MEMORY or (done.returncode < 0 and memory is not None):
        raise ReadError(
            f"{file} is a broken {what} file, or takes far more memory than its size tells.",
            fix="write it again, or as CSV",
        )
    raise ReadError(f"{file} is a broken {what} file.", fix="write the file again")


def invalid_cells(names: list[str], *, file: str) -> ReadError:
    """Return the error for columns whose cells are not valid."""
    return ReadError(
        f"The cells of {file} must be valid: text in UTF-8, and values that fit their type.",
        found=f"cells that are not in {', '.join(map(repr, names))}",
        fix="write the file again, with text converted to UTF-8",
    )


def with_notes(table: pa.Table, notes: list[str]) -> pa.Table:
    """Return the table with notes for the user; they name columns and counts, and quote no cell."""
    return table.replace_schema_metadata({NOTES: json.dumps(notes)} if notes else None)


def say_notes(table: pa.Table, file: str) -> None:
    """Warn of what a reader noted."""
    for note in json.loads((table.schema.metadata or {}).get(NOTES, b"[]")):
        warn(f"{file}: {note}")


def _limit_resources(memory: int) -> None:
    """Keep a reader that a file makes greedy from taking the memory of the machine; where the system allows it.

    ``memory`` is what it may take, in bytes; 0 means most of what is free.
    """
    with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump of the memory would contain cells
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        most = int(MEMORY_SHARE * available_memory())
        resource.setrlimit(resource.RLIMIT_AS, (used + min(memory or most, most),) * 2)


def _child(module: str, reader: str, options: str, memory: str, raw: bytes, out: Any) -> int:
    """Read the bytes, write a clean Arrow stream, and return the exit code."""
    _limit_resources(int(memory))
    try:
        table = getattr(import_module(module), reader)(raw, **json.loads(options))
        wrong = invalid_columns(table)
        if wrong:
            out.write(json.dumps(wrong).encode())
            return NOT_VALID
        clean = pa.BufferOutputStream()
        with pa.ipc.new_stream(clean, table.schema) as stream:
            stream.write_table(table)
        out.write(clean.getvalue())
    except MemoryError:
        return NO_MEMORY
    except ReadError as error:  # of this package: it quotes no cell
        out.write(json.dumps({"message": error.message, "found": error.found, "fix": error.fix}).encode())
        return REFUSED
    except BaseException:  # whatever the reader raises (a panic of Rust is no Exception), the file is broken
        return NOT_READABLE
    return 0


if __name__ == "__main__":
    code = _child(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.stdin.buffer.read(), sys.stdout.buffer)
    sys.stdout.flush()
    os._exit(code)
