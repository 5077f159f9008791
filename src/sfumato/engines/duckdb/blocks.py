"""Rows routed to blocks: one Arrow file for each block, in the workspace."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.errors import OptionError
from sfumato.machine import processors
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

T = TypeVar("T")
Item = TypeVar("Item")
HELD_BYTES = 1 << 26  # rows that wait to be written, for all blocks together


@dataclass(frozen=True, repr=False)
class BlockFiles:
    """The original rows, block by block."""

    folder: Path
    kinds: Mapping[str, Kind]
    rows: NDArray[np.int64]  # number of rows of each block

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Numbers of the blocks that have rows."""
        return np.flatnonzero(self.rows)

    def read(self, number: int) -> Table:
        """Return the original rows of a block."""
        with pa.memory_map(str(_path(self.folder, number))) as file:
            arrow = pa.ipc.open_stream(file).read_all()
        return Table(arrow, self.kinds)


def route_rows(
    tables: Iterable[tuple[NDArray[np.uint64], Table]],
    route: Callable[[Table, NDArray[np.uint64]], NDArray[np.int64]],
    count: int,
    folder: Path,
    on_rows: Callable[[int], None],
) -> BlockFiles:
    """Write each row to the file of its block; ``on_rows`` is called with the number of rows written."""
    folder.mkdir(mode=0o700)
    files = _BlockWriter(folder, count)
    kinds: Mapping[str, Kind] = {}
    failure = ""
    try:
        for table, ordered, starts in _ahead(partial(_order, route, count), tables):
            kinds = table.kinds
            for number in np.flatnonzero(np.diff(starts)):
                files.add(int(number), ordered.slice(starts[number], starts[number + 1] - starts[number]))
            files.write_if_full()
            on_rows(table.rows)
        files.close()
    except OSError as error:
        failure = error.strerror or type(error).__name__
    finally:
        files.abandon()
    if failure:
        raise OptionError(f"Temporary rows cannot be written: {failure}.", fix="free space on the disk of the target")
    return BlockFiles(folder, kinds, files.rows)


def _order(
    route: Callable[[Table, NDArray[np.uint64]], NDArray[np.int64]], count: int, rows: tuple[NDArray[np.uint64], Table]
) -> tuple[Table, pa.Table, NDArray[np.int64]]:
    """Return a batch, its rows in the order of their blocks, and where each block starts."""
    keys, table = rows
    block_of = route(table, keys)
    order = np.argsort(block_of, kind="stable")
    return table, table.arrow.take(pa.array(order)), np.searchsorted(block_of[order], np.arange(count + 1))


def _ahead(work: Callable[[Item], T], items: Iterable[Item]) -> Iterator[T]:
    """Yield the results in order; as many items as there are processors are worked on while a result is used."""
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(processors()) as pool:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > processors():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class _BlockWriter:
    """Rows that wait for their file, and the open files.

    Slices of a batch are small, so they are collected and written together. A file is open only while it is written:
    there may be more blocks than files that a process may open.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.rows = np.zeros(count, dtype=np.int64)
        self._folder = folder
        self._waiting: dict[int, list[pa.Table]] = {}
        self._bytes = 0
        self._files: dict[int, Any] = {}

    def add(self, number: int, rows: pa.Table) -> None:
        self._waiting.setdefault(number, []).append(rows)
        self._bytes += rows.nbytes
        self.rows[number] += rows.num_rows

    def write_if_full(self) -> None:
        if self._bytes > HELD_BYTES:
            self._write()

    def close(self) -> None:
        self._write()
        for writer, file in self._files.values():
            writer.close()
            file.close()
        self._files = {}

    def abandon(self) -> None:
        for _, file in self._files.values():
            file.close()

    def _write(self) -> None:
        for number, waiting in self._waiting.items():
            rows = pa.concat_tables(waiting).combine_chunks()
            if number not in self._files:
                file = pa.OSFile(str(_path(self._folder, number)), "wb")
                self._files[number] = pa.ipc.new_stream(file, rows.schema), file
            self._files[number][0].write_table(rows)
        self._waiting, self._bytes = {}, 0


def _path(folder: Path, number: int) -> Path:
    return folder / f"block-{number:06d}.arrows"
