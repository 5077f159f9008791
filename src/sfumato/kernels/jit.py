"""The compilation of kernels, with a cache that is cleared when any kernel changes.

numba caches a compiled function until the file that defines it changes. Functions that it calls in other files are
compiled into it, so after an update an old version of them could remain in use. The cache therefore contains a
fingerprint of all kernels and is cleared if that differs.

Where no folder can be written, or the disk is full, kernels are compiled in every process, and a warning says so once.
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
    """Compile a function on its first call, to run without the global interpreter lock, and cache the result.

    ``forceinline=True`` suits small functions that inner loops call: a call that is not inlined counts the references
    of every array that it passes, which may take longer than the function itself.
    """
    if function is None:
        return lambda given: jit(given, **options)
    compiled = njit(nogil=True, **options)(function)
    if compiled is function:  # as it is where NUMBA_DISABLE_JIT says so
        return compiled
    try:
        compiled.enable_caching()
        forget_stale(Path(compiled.stats.cache_path))
    except (OSError, RuntimeError):  # RuntimeError: numba found no folder that it can write
        warn_uncached()
        return njit(nogil=True, **options)(function)
    _keep_if_possible(compiled)
    return compiled


@cache
def warn_uncached() -> None:
    """Say once that compiled kernels cannot be kept."""
    from sfumato.errors import warn

    warn(
        "Compiled kernels cannot be kept, because no cache folder can be written: they are compiled in every process, "
        "which takes about half a minute. Set NUMBA_CACHE_DIR to a folder that can be written."
    )


def _keep_if_possible(compiled: Any) -> None:
    """Let a full disk be no reason to fail: what cannot be kept is used all the same."""
    save = compiled._cache.save_overload

    def saved(*arguments: Any) -> None:
        try:
            save(*arguments)
        except OSError:
            warn_uncached()

    compiled._cache.save_overload = saved


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
