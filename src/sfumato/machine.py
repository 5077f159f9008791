"""The machine: its memory and processors, how a run divides the memory, and the progress of long work."""

from __future__ import annotations

import logging
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import OptionError

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
UNKNOWN = 4 * 10**9  # bytes that are assumed where the system does not tell
CONTROL_GROUP = Path("/sys/fs/cgroup")


def memory_from(text: str | int) -> int:
    """Return an amount of memory in bytes, such as ``"4GB"`` or ``"512 MiB"``; a number is in bytes.

    >>> memory_from("400MB")
    400000000
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(text))
    if isinstance(text, bool) or not match or match[2].upper() not in UNITS or float(match[1]) <= 0:
        raise OptionError("memory must be an amount such as '4GB' or '512MB'.", found=repr(text))
    return int(float(match[1]) * UNITS[match[2].upper()])


def available_memory() -> int:
    """Return the bytes that this process can still use: what the system has free, within the limit of its container."""
    free = _meminfo()
    limit, used = (_number(CONTROL_GROUP / name) for name in ("memory.max", "memory.current"))
    if limit is not None:
        left = max(limit - (used or 0), 0)
        return left if free is None else min(free, left)
    return UNKNOWN if free is None else free


def processors() -> int:
    """Return the number of processors that this process may use."""
    try:
        return max(len(os.sched_getaffinity(0)), 1)
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def _meminfo() -> int | None:
    try:
        match = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        except (AttributeError, OSError, ValueError):
            return None
    return int(match[1]) * 1024 if match else None


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # no control group, or "max"
        return None


# How the memory of a run is divided: between DuckDB, the sample, the blocks in work, and what Python itself needs.


OWN = 350 * 10**6  # bytes that the libraries take before a row is read
LEAST = 100 * 10**6  # bytes left for rows, however small the limit is
CELL = 8  # bytes of a cell in a matrix
COPIES = 40  # cells that a method holds for one cell of a block: matrices, weights, sorted copies, released columns
LEAST_BLOCK, MOST_BLOCK = 20_000, 2_000_000  # rows of a block
LEAST_SAMPLE, USUAL_SAMPLE = 20_000, 400_000  # rows of the sample
SAMPLED = 1_000  # rows of the sample for each block, so that the largest block is hardly a tenth larger than wanted
BATCH_CELLS = 1 << 21  # cells that are read together


@dataclass(frozen=True)
class MemoryBudget:
    """Amounts of memory, in bytes and rows, for a table with this many columns."""

    total: int  # bytes that the whole process may use
    columns: int
    workers: int  # blocks that are in work at the same time
    most_rows: int = MOST_BLOCK  # of a block

    @property
    def rows_bytes(self) -> int:
        """Bytes for rows, apart from those of the libraries."""
        return max(self.total - OWN, LEAST)

    @property
    def database(self) -> int:
        """Bytes for DuckDB."""
        return max(self.rows_bytes // 3, LEAST)

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        rows = self.rows_bytes * 2 // 3 // (self.workers * CELL * COPIES * max(self.columns, 1))
        return min(max(rows, LEAST_BLOCK), self.most_rows)

    def sample_rows(self, blocks: int) -> int:
        """Rows of the sample, from which a table is cut into so many blocks."""
        rows = self.rows_bytes // 8 // (CELL * 6 * max(self.columns, 1))
        return min(max(rows, LEAST_SAMPLE), max(USUAL_SAMPLE, SAMPLED * blocks))

    @property
    def batch_rows(self) -> int:
        """Rows that are read together."""
        return max(BATCH_CELLS // max(self.columns, 1), 1024)


log = logging.getLogger("sfumato")

FIRST, NEXT = 3.0, 5.0  # seconds before the first message, and between messages


class LoggedProgress:
    """Work that is counted in steps; short work says nothing."""

    def __init__(self, what: str, steps: int) -> None:
        self.what, self.steps, self.done = what, max(steps, 1), 0.0
        self._start = time.monotonic()
        self._next = self._start + FIRST

    def add(self, steps: float = 1) -> None:
        """Note that these steps are done, and tell now and then how far the work is."""
        self.reach(self.done + steps)

    def reach(self, done: float) -> None:
        """Note how many steps are done in all; the number never falls."""
        self.done = max(self.done, done)
        now = time.monotonic()
        if now >= self._next and 0.0 < self.done < self.steps:
            self._next = now + NEXT
            left = (now - self._start) * (self.steps - self.done) / self.done
            log.info("%s: %.0f %%, about %s to go", self.what, 100.0 * self.done / self.steps, _duration(left))


def _duration(seconds: float) -> str:
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"
