"""What this machine has: memory that may be used, and processors."""

from __future__ import annotations

import os
import re
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
