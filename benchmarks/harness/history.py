"""What was measured when, on which machine: a line of JSON for each case, and whether a case became worse.

The machine is known by its processor and memory only: neither its name nor a path of it is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from harness.case import Case

HISTORY = Path(__file__).resolve().parents[1] / "history.jsonl"
LOSS = 1.2  # times as much as before
COMPARED = 5  # of the last runs on the same machine
BUSY = 0.5  # programs that ran besides; above this, seconds on the clock say little
Record = Mapping[str, Any]


def machine() -> dict[str, Any]:
    """Return what the machine is, and a short name for it that tells no more."""
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    known = {
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory": round(pages / 1e9),
    }
    return known | {"fingerprint": hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:12]}


def _processor() -> str:
    """Return the model of the processor, as the system calls it."""
    try:
        told = subprocess.run(["lscpu"], capture_output=True, text=True, check=False, env={"LC_ALL": "C"}).stdout
    except OSError:
        return platform.processor()
    models = [line.split(":", 1)[1].strip() for line in told.splitlines() if line.startswith("Model name")]
    return models[0] if models else platform.processor()


def line(case: str, contenders: Sequence[Record], *, is_quick: bool, load: float) -> dict[str, Any]:
    """Return what is kept of a measured case."""
    try:
        ours = version("sfumato")
    except PackageNotFoundError:
        ours = "in development"
    return {
        "case": case,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "quick": is_quick,
        "load": round(load, 1),
        "machine": machine(),
        "python": platform.python_version(),
        "sfumato": ours,
        "contenders": list(contenders),
    }


def read(history: Path = HISTORY) -> list[dict[str, Any]]:
    """Return all lines, the oldest first."""
    if not history.is_file():
        return []
    return [json.loads(text) for text in history.read_text(encoding="utf-8").splitlines() if text]


def append(found: Record, history: Path = HISTORY) -> None:
    """Add a line."""
    with history.open("a", encoding="utf-8") as file:
        file.write(json.dumps(found, allow_nan=False) + "\n")


def latest(lines: Iterable[Record]) -> dict[str, Record]:
    """Return the newest line of each case; a quick run counts only where there is no full one."""
    newest: dict[str, Record] = {}
    for one in lines:
        before = newest.get(one["case"])
        if before is None or before["quick"] or not one["quick"]:
            newest[one["case"]] = one
    return newest


def median_of(contenders: Sequence[Record], name: str, figure: str) -> float | None:
    """Return a figure of a contender, if it was measured."""
    for one in contenders:
        if one["name"] == name and figure in one.get("figures", {}):
            return float(one["figures"][figure]["median"])
    return None


def losses(case: Case, now: Record, before: Sequence[Record]) -> list[str]:
    """Say which figures of ours are more than a fifth worse than in the last runs on the same machine.

    Seconds depend on what else runs. So a loss of time counts only if it is seen in the seconds themselves and relative
    to every rival and limit of the same run.
    """
    same = [one for one in before if _is_alike(one, now)][-COMPARED:]
    if not same:
        return []
    ours = [one.name for one in case.contenders if one.rival is None and not one.is_limit]
    others = [one.name for one in case.contenders if one.name not in ours]
    found = []
    for name in ours:
        for figure, shown in case.all_figures.items():
            if shown.is_higher_better is None:
                continue
            changes = _changes(now, same, name, figure, [None, *others] if figure == "processor" else [None])
            worse = [1.0 / change if shown.is_higher_better else change for change in changes if change > 0.0]
            if worse and min(worse) > LOSS:
                found.append(f"{now['case']}: {shown.title} of {name} is {min(worse):.2f} times as bad as before")
    return found


def _is_alike(one: Record, now: Record) -> bool:
    """Return whether two lines can be compared."""
    same_machine = one["machine"]["fingerprint"] == now["machine"]["fingerprint"]
    return bool(same_machine and one["case"] == now["case"] and one["quick"] == now["quick"])


def _changes(
    now: Record, before: Sequence[Record], name: str, figure: str, others: Sequence[str | None]
) -> list[float]:
    """Return how many times as large a figure is as before, by itself and relative to each of the others."""
    found = []
    for other in others:
        values = [_relative(one["contenders"], name, figure, other) for one in (*before, now)]
        earlier, new = [value for value in values[:-1] if value], values[-1]
        if earlier and new:
            found.append(new / statistics.median(earlier))
    return found


def _relative(contenders: Sequence[Record], name: str, figure: str, other: str | None) -> float | None:
    """Return a figure, or its ratio to that of another contender."""
    value = median_of(contenders, name, figure)
    base = 1.0 if other is None else median_of(contenders, other, figure)
    return value / base if value is not None and base else None
