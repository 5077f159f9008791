"""What a run has found so far, kept in a file so that a run can go on where it stopped."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.trial import GOOD, Outcome

CHUNK = 50  # seeds that a worker tries at once; a chunk that was interrupted is tried again


@dataclass
class State:
    """Counts by method and verdict, the chunks that are done, and everything that went wrong."""

    done: set[int] = field(default_factory=set)  # numbers of chunks
    counts: dict[str, dict[str, int]] = field(default_factory=dict)  # method → verdict → tables
    refusals: dict[str, int] = field(default_factory=dict)  # reason → tables
    failures: list[dict[str, Any]] = field(default_factory=list)
    processor_seconds: float = 0.0
    wall_seconds: float = 0.0

    @classmethod
    def read(cls, path: Path) -> State:
        """Read a state; a file that does not exist is an empty one."""
        if not path.exists():
            return cls()
        record = json.loads(path.read_text(encoding="utf-8"))
        return cls(**(record | {"done": set(record["done"])}))

    def write(self, path: Path) -> None:
        """Write the state, completely or not at all."""
        text = json.dumps(vars(self) | {"done": sorted(self.done)}, indent=1, ensure_ascii=False)
        whole = path.with_name(path.name + ".part")
        whole.write_text(text, encoding="utf-8", errors="backslashreplace")
        os.replace(whole, path)  # noqa: PTH105

    def add(self, chunk: int, outcomes: list[Outcome]) -> None:
        """Add the outcomes of a chunk."""
        self.done.add(chunk)
        for one in outcomes:
            verdicts = self.counts.setdefault(one.method, {})
            verdicts[one.verdict] = verdicts.get(one.verdict, 0) + 1
            self.processor_seconds += one.seconds
            if one.verdict == "refused":
                reason = one.detail.split(":")[0]
                self.refusals[reason] = self.refusals.get(reason, 0) + 1
            elif one.verdict not in GOOD:
                self.failures.append(vars(one) | {"again": f"python tests/fuzz/run.py --seed {one.seed}"})

    @property
    def tables(self) -> int:
        return sum(sum(verdicts.values()) for verdicts in self.counts.values())

    def summary(self) -> str:
        """The state as a few lines of text."""
        lines = [f"{'method':<16}{'held':>8}{'refused':>9}{'wrong':>7}"]
        for method, verdicts in sorted(self.counts.items()):
            wrong = sum(times for verdict, times in verdicts.items() if verdict not in GOOD)
            lines.append(f"{method:<16}{verdicts.get('held', 0):>8}{verdicts.get('refused', 0):>9}{wrong:>7}")
        speed = self.tables / self.processor_seconds if self.processor_seconds else 0.0
        lines.append(
            f"{self.tables:,} tables, {len(self.failures):,} wrong, {self.processor_seconds:,.0f} s of processor "
            f"({speed:.0f} tables per second and core), {self.wall_seconds:,.0f} s of time"
        )
        return "\n".join(lines)
