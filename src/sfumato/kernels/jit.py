"""The one way in which kernels are compiled, and a cache that forgets them all when one of them changes.

numba keeps a compiled function as long as the file that defines it stays the same. What it calls in other files is
compiled into it all the same, so after an update an old kernel could go on inside a new one. Therefore the cache holds
a fingerprint of all kernels, and is emptied where it differs.
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
    """Compile a function when it is first called, without the interpreter's lock, and keep what was compiled."""
    if function is None:
        return lambda given: jit(given, **options)
    kernel = njit(cache=True, nogil=True, **options)(function)
    if kernel is not function:  # as it is where NUMBA_DISABLE_JIT says so
        forget_stale(Path(kernel.stats.cache_path))
    return kernel


@cache
def fingerprint() -> str:
    """What the kernels of this installation are, in short."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"\0".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()


@cache
def forget_stale(folder: Path) -> None:
    """Empty a cache that other kernels have filled; once in a process. numba takes only folders that can be written."""
    stamp = folder / STAMP
    if stamp.is_file() and stamp.read_text() == fingerprint():
        return
    for file in (*folder.glob("*.nbi"), *folder.glob("*.nbc")):
        file.unlink(missing_ok=True)  # another process may be doing the same
    written = stamp.with_name(f"{STAMP}.{os.getpid()}")
    written.write_text(fingerprint())
    written.replace(stamp)
