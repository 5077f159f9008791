"""Recode beside an exhaustive search of all combinations of levels, and local recoding by the same loss.

    python benchmarks/studies/recoding.py [global] [local]

The exhaustive search is written here by itself and shares no code with the package: it tries every combination of one
level per tree, suppresses the groups of fewer than k rows (at most a share of the rows), and counts a suppressed row as
one that tells nothing. For each row it also notes the cheapest combination of nodes that holds k rows: no recoding,
global or local, can lose less, because the rows of a group lie in the nodes that they are released as. ARX's Adult
table is looked for in SFUMATO_DATA, or shared/data beside the repository.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import sfumato as sf

FOLDER = Path(os.environ.get("SFUMATO_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data") / "arx"
K, LIMIT = 5, 0.05


@dataclass(frozen=True)
class Task:
    """The table, and the path from each value up to the root of its tree."""

    table: pd.DataFrame
    paths: dict[str, dict[str, list[str]]]

    def leaves(self, column: str, *, in_table: bool) -> dict[str, int]:
        """Return the number of leaves below each node: all of the tree, or those that occur in the table."""
        present = set(self.table[column]) if in_table else set(self.paths[column])
        below: dict[str, set[str]] = {}
        for value in present:
            for node in self.paths[column][value]:
                below.setdefault(node, set()).add(value)
        return {node: len(values) for node, values in below.items()}

    def granularity(self, released: pd.DataFrame, *, in_table: bool = False) -> float:
        """Return 1 − the mean share of the leaves that cells leave open, as a share of the largest (as ARX)."""
        lost = most = 0.0
        for column in self.table:
            leaves = self.leaves(column, in_table=in_table)
            size = max(leaves.values())
            kept = (released[column].map(leaves) - 1.0).sum() / size
            lost += (kept + (len(self.table) - len(released)) * (1.0 - 1.0 / size)) / len(self.table)
            most += 1.0 - 1.0 / size
        return 1.0 - lost / most


def adult() -> Task:
    table = pd.read_csv(FOLDER / "adult.csv", sep=";", dtype=str)
    paths = {}
    for column in table:
        lines = (FOLDER / f"adult_hierarchy_{column}.csv").read_text(encoding="utf-8").splitlines()
        paths[column] = {line.split(";")[0]: line.split(";") for line in lines}
    return Task(table, paths)


def schema_of(task: Task) -> dict[str, dict[str, str]]:
    return {
        column: {"role": "quasi", "tree": str(FOLDER / f"adult_hierarchy_{column}.csv"), "kind": "nominal"}
        for column in task.table
    }


@dataclass(frozen=True)
class Best:
    """Granularity by the leaves of the trees (False) and of the table (True)."""

    reached: dict[bool, float]  # by one combination of levels for all rows
    bound: dict[bool, float]  # by the best combination for each row, as if the others would follow it


def exhaustive(task: Task, k: int, limit: float) -> Best:
    """Return the largest granularity of all combinations of levels, and what none can exceed."""
    table = task.table.groupby(list(task.table), observed=True).size().reset_index(name="rows")
    rows = table.pop("rows").to_numpy()
    codes, losses = [], {True: [], False: []}
    for column in table:
        nodes = [
            [task.paths[column][value][level] for value in table[column]] for level in range(_height(task, column))
        ]
        codes.append([pd.factorize(np.array(level))[0].astype(np.int64) for level in nodes])
        for in_table, of_columns in losses.items():
            leaves = task.leaves(column, in_table=in_table)
            size = max(leaves.values())
            of_columns.append([np.array([(leaves[node] - 1.0) / size for node in level]) for level in nodes])
    most = {one: sum(levels[-1][0] for levels in of_columns) for one, of_columns in losses.items()}
    best = {True: -np.inf, False: -np.inf}
    least = {one: np.full(len(rows), np.inf) for one in losses}
    for levels in itertools.product(*(range(len(column)) for column in codes)):
        key = np.zeros(len(rows), dtype=np.int64)
        for column, level in zip(codes, levels, strict=True):
            key = key * (int(column[level].max()) + 1) + column[level]
        groups = np.unique(key, return_inverse=True)[1]
        kept = np.bincount(groups, weights=rows)[groups] >= k
        is_allowed = rows[~kept].sum() <= limit * rows.sum()
        for one, of_columns in losses.items():
            lost = sum(column[level] for column, level in zip(of_columns, levels, strict=True))
            least[one][kept] = np.minimum(least[one][kept], lost[kept])
            if not is_allowed:
                continue
            mean = (rows[kept] @ lost[kept] + rows[~kept].sum() * most[one]) / rows.sum()
            best[one] = max(best[one], 1.0 - mean / most[one])
    return Best(best, {one: 1.0 - rows @ lost / rows.sum() / most[one] for one, lost in least.items()})


def _height(task: Task, column: str) -> int:
    return len(next(iter(task.paths[column].values())))


def run(task: Task, **options: object) -> None:
    begun = time.process_time()
    release = sf.Recode(k=K, **options).release(task.table, schema=schema_of(task))
    seconds = time.process_time() - begun
    frame = release.to_pandas()
    smallest = frame.groupby(list(task.table)).size().min()
    by_tree, by_table = (task.granularity(frame, in_table=one) for one in (False, True))
    print(
        f"Recode({', '.join(f'{name}={value!r}' for name, value in options.items())}): granularity {by_tree:.4f} by "
        f"the leaves of the trees, {by_table:.4f} by those of the table; smallest group {smallest}, "
        f"suppressed {1 - len(frame) / len(task.table):.4f}, {seconds:.1f} s of processor",
        flush=True,
    )


def main(words: list[str]) -> None:
    if not FOLDER.is_dir():
        print("left out, no real tables here")
        return
    task = adult()
    if not words or "global" in words:
        best = exhaustive(task, K, LIMIT)
        print(
            f"exhaustive search: {best.reached[False]:.4f} by the leaves of the trees, {best.reached[True]:.4f} by "
            f"those of the table; no recoding is above {best.bound[False]:.4f} and {best.bound[True]:.4f}"
        )
        run(task, suppress=LIMIT)
        run(task, suppress=LIMIT)  # once compiled
    if not words or "local" in words:
        run(task, kind="local", search=1.0)
        run(task, kind="local")


if __name__ == "__main__":
    main(sys.argv[1:])
