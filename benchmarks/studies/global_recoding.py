"""Granularity of Generalize beside exhaustive global recoding: the same trees, k and largest share of suppressed rows.

    python benchmarks/studies/global_recoding.py [words of the tables to run]

Exhaustive global recoding tries every combination of one level per tree and takes the one with the largest granularity
that suppresses at most a share β. It is written here by itself and shares no code with the package. ARX's Adult table
is looked for in SFUMATO_DATA, or shared/data beside the repository; the accidents are a made table with the shape of
the public records of fatal accidents.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import sfumato as sf

FOLDER = Path(os.environ.get("SFUMATO_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
SHARES = (0.01, 0.05, 0.1)


@dataclass(frozen=True)
class Task:
    """A table of texts, and the path from each value of a column up to the root of its tree."""

    table: pd.DataFrame
    paths: Mapping[str, Mapping[str, tuple[str, ...]]]

    def below(self, column: str) -> dict[str, int]:
        """Return the number of values below each node."""
        nodes: dict[str, set[str]] = {}
        for value in self.table[column].unique():
            for node in self.paths[column][value]:
                nodes.setdefault(node, set()).add(value)
        return {node: len(values) for node, values in nodes.items()}

    def granularity(self, released: pd.DataFrame) -> float:
        """Return 1 − the mean share of the values that cells leave open, as a share of the largest possible one."""
        sizes = {column: self.table[column].nunique() for column in self.table}
        left = sum((released[column].map(self.below(column)).mean() - 1.0) / sizes[column] for column in sizes)
        return float(1.0 - left / sum(1.0 - 1.0 / size for size in sizes.values()))


def adult() -> Task | None:
    folder = FOLDER / "arx"
    if not folder.is_dir():
        return None
    table = pd.read_csv(folder / "adult.csv", sep=";", dtype=str)
    paths = {}
    for column in table:
        lines = (folder / f"adult_hierarchy_{column}.csv").read_text(encoding="utf-8").splitlines()
        paths[column] = {line.split(";")[0]: tuple(line.split(";")) for line in lines}
    return Task(table, paths)


def accidents() -> Task:
    """20,000 made accidents: age, race, month, day, sex, origin, state and injury."""
    draw, rows = np.random.default_rng(7), 20_000
    state = np.minimum(draw.geometric(0.06, rows) - 1, 50)
    columns = {
        "age": np.minimum(draw.gamma(3.2, 12.0, rows).astype(int), 99),
        "race": np.minimum(draw.zipf(2.2, rows) - 1, 19),
        "month": draw.integers(0, 12, rows),
        "day": draw.integers(0, 31, rows),
        "sex": (draw.random(rows) < 0.7).astype(int),
        "origin": np.minimum(draw.geometric(np.where(state < 4, 0.6, 0.9)) - 1, 8),
        "state": state,
        "injury": np.minimum(draw.geometric(0.5, rows) - 1, 7),
    }
    widths = {
        "age": (5, 10, 20, 40),
        "race": (4,),
        "month": (3, 6),
        "day": (8, 16),
        "sex": (),
        "origin": (3,),
        "state": (13, 26),
        "injury": (2, 4),
    }
    table = pd.DataFrame({name: [f"{name} {one}" for one in values] for name, values in columns.items()})
    paths = {
        name: {
            f"{name} {one}": (f"{name} {one}", *(f"{name} {one // width}×{width}" for width in widths[name]), "*")
            for one in np.unique(values).tolist()
        }
        for name, values in columns.items()
    }
    return Task(table, paths)


def exhaustive(task: Task, k: int) -> dict[float, float]:
    """Return the largest granularity of all combinations of levels, for each share of suppressed rows."""
    codes, losses = [], []
    for column in task.table:
        paths = [task.paths[column][value] for value in task.table[column]]
        below, size = task.below(column), task.table[column].nunique()
        levels = [[path[level] for path in paths] for level in range(len(paths[0]))]
        codes.append([pd.factorize(np.array(level))[0].astype(np.int64) for level in levels])
        losses.append([(np.mean([below[node] for node in level]) - 1.0) / size for level in levels])
    most = sum(1.0 - 1.0 / task.table[column].nunique() for column in task.table)
    best: dict[float, float] = {}
    combinations = itertools.product(*(range(len(column)) for column in codes))
    with_loss = [
        (sum(column[level] for column, level in zip(losses, levels, strict=True)), levels) for levels in combinations
    ]
    for loss, levels in sorted(with_loss):
        if len(best) == len(SHARES):
            break
        key = np.zeros(len(task.table), dtype=np.int64)
        for column, level in zip(codes, levels, strict=True):
            key = pd.factorize(key * (int(column[level].max()) + 1) + column[level])[0].astype(np.int64)
        sizes = np.bincount(key)
        suppressed = sizes[sizes < k].sum() / len(key)
        for share in SHARES:
            if suppressed <= share:
                best.setdefault(share, 1.0 - loss / most)
    return best


def ours(task: Task, k: int, beta: float) -> tuple[float, float, float, float]:
    """Return the granularity of all rows and of the released rows, the share of suppressed rows, and the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        schema = {}
        for column, paths in task.paths.items():
            file = Path(folder) / f"{column}.csv"
            file.write_text("\n".join(";".join(path) for path in paths.values()), encoding="utf-8")
            schema[column] = {"role": "quasi", "tree": str(file), "kind": "nominal"}
        begun = time.process_time()
        release = sf.Generalize(k=k, beta=beta).release(task.table, schema=schema)
        seconds = time.process_time() - begun
    frame = release.to_pandas()
    groups = frame.groupby(list(task.table)).size()
    if groups.min() < k:
        raise SystemExit(f"a group of {groups.min()} rows")
    told = release.manifest.notes["granularity"]
    return told, task.granularity(frame), 1.0 - len(frame) / len(task.table), seconds


def main(words: list[str]) -> None:
    for name, make in (("adult", adult), ("accidents", accidents)):
        if words and name not in words:
            continue
        task = make()
        if task is None:
            print(f"{name}: left out, no real tables here")
            continue
        for k in (5, 20):
            best = exhaustive(task, k)
            for beta in SHARES:
                reached, released, suppressed, seconds = ours(task, k, beta)
                print(
                    f"{name}, k = {k}, β = {beta}: {reached:.4f} (released rows {released:.4f}, "
                    f"suppressed {suppressed:.4f}), exhaustive {best[beta]:.4f}, {seconds:.1f} s of processor"
                    + ("" if reached >= best[beta] - 1e-6 else "  BELOW"),
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
