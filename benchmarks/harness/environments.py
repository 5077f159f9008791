"""An environment for each rival, because their pins collide: made when it is first needed, outside the repository.

The folder is that of SFUMATO_BENCH_CACHE, or ``sfumato-benchmarks`` in the user's cache. What could not be installed is
remembered with its reason until the pins change or the folder is removed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

RIVALS = Path(__file__).resolve().parents[1] / "rivals.toml"
MINUTES = 10.0


class NotInstalledError(Exception):
    """A rival has no environment here, and why."""


def cache_folder() -> Path:
    """Return the folder of all environments."""
    given = os.environ.get("SFUMATO_BENCH_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else base / "sfumato-benchmarks"


def pins(rival: str) -> list[str]:
    """Return what is installed for a rival."""
    packages: list[str] = tomllib.loads(RIVALS.read_text(encoding="utf-8"))[rival]["install"]
    return packages


def interpreter(rival: str) -> Path:
    """Return the Python of a rival's environment; make it if there is none with these pins."""
    folder, wanted = cache_folder() / rival, "\n".join(pins(rival))
    python, ready, failed = folder / "bin" / "python", folder / "ready", folder / "failed"
    if ready.is_file() and ready.read_text() == wanted:
        return python
    if failed.is_file() and failed.read_text().startswith(f"{wanted}\n\n"):
        raise NotInstalledError(failed.read_text().split("\n\n", 1)[1])
    folder.mkdir(parents=True, exist_ok=True)
    reason = _install(folder, python, pins(rival))
    if reason:
        failed.write_text(f"{wanted}\n\n{reason}")
        raise NotInstalledError(reason)
    ready.write_text(wanted)
    return python


def _install(folder: Path, python: Path, packages: list[str]) -> str:
    """Install packages; return why they cannot be, or nothing."""
    ours = [sys.executable, "-m", "pip", "--python", str(python), "--quiet", "--disable-pip-version-check"]
    made = [sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)]
    for command in (made, [*ours, "install", *packages]):
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=60 * MINUTES, check=False)
        except subprocess.TimeoutExpired:
            return f"cannot be installed within {MINUTES:.0f} minutes"
        if ended.returncode:
            last = [line for line in ended.stderr.splitlines() if line.lower().startswith("error: ")] or [
                "error: pip failed"
            ]
            return f"cannot be installed: {last[-1][len('error: ') :][:160]}"
    return ""
