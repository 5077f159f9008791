"""The compilation of kernels, with a cache that is cleared when any kernel changes.

numba caches a compiled function until the file that defines it changes. Functions that it calls in other files are
compiled into it, so after an update an old version of them could remain in use. The cache therefore contains a
fingerprint of all kernels and is cleared if that differs.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit

STAMP = "kernels.fingerprint"


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function on its first call, to run without the global interpreter lock, and cache the result."""
    if function is None:
        return lambda given: jit(given, **options)
    kernel = njit(cache=True, nogil=True, **options)(function)
    if kernel is not function:  # with NUMBA_DISABLE_JIT numba returns the function itself
        forget_stale(Path(kernel.stats.cache_path))
    return kernel


@cache
def fingerprint() -> str:
    """Return a hash of all kernel files of this installation."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"\0".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()


@cache
def forget_stale(folder: Path) -> None:
    """Clear a cache that was filled by other kernels, once per process. numba uses only folders that are writable."""
    stamp = folder / STAMP
    if stamp.is_file() and stamp.read_text() == fingerprint():
        return
    for file in (*folder.glob("*.nbi"), *folder.glob("*.nbc")):
        file.unlink(missing_ok=True)  # another process may be doing the same
    written = stamp.with_name(f"{STAMP}.{os.getpid()}")
    written.write_text(fingerprint())
    written.replace(stamp)
