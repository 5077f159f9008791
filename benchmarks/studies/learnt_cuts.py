"""Cuts that a small neural network proposes, against the search at the same time (XK §V).

    python benchmarks/studies/learnt_cuts.py [seconds a case, default 20]

A network learns what a cell will cost once it is cut into boxes, from its records, pressures and shape, and a cell is
cut where the sum of the two predicted costs is least. It is learnt from trees that a search found:

- *shipped*: on other tables, before; the time of learning does not count;
- *own*: on the table itself, within the time: a third of it for a search to learn from, the rest for the search that
  starts from the cuts of the network.

Both then search for the rest of the time. The present search starts from the greedy cuts, with all the time. All are
measured by the same cost, the sum of the weighted widths of all boxes, k = 5, on tables that no network has seen.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.csv
from sklearn.neural_network import MLPRegressor

from sfumato.methods.boxes.partition_kernels import PartitionProblem, split
from sfumato.methods.boxes.search import CutMoves, search
from sfumato.methods.boxes.search_branch_kernels import box_costs
from sfumato.methods.boxes.search_objective import LinearJudge, linear_fitness
from sfumato.methods.partition import BoxPartition
from sfumato.methods.search_budget import SearchBudget

K, AXES = 5, 4
PLACES = (0.25, 0.35, 0.45, 0.5, 0.55, 0.65, 0.75)  # where a cell may be cut, as shares of its records
SMALL = 16 * K  # a cell of fewer records is cut by the kernel, which tries all cuts
SEARCHES = 4  # islands, and the seeds of each measurement


def gaussian(rows: int, seed: int) -> np.ndarray:
    mix = np.random.default_rng(seed).normal(size=(AXES, AXES))
    return np.random.default_rng(seed + 100).normal(size=(rows, AXES)) @ mix


def skewed(rows: int, seed: int) -> np.ndarray:
    return np.exp(0.7 * gaussian(rows, seed) / np.sqrt(AXES))


def clustered(rows: int, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    centres = draw.normal(scale=4.0, size=(12, AXES))
    return centres[draw.integers(12, size=rows)] + draw.normal(size=(rows, AXES)) * draw.uniform(0.2, 1.5, AXES)


def census() -> np.ndarray | None:
    folder = Path(os.environ.get("SFUMATO_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    file = folder / "casc" / "census.csv"
    if not file.is_file():
        return None
    table = pyarrow.csv.read_csv(file).select(["AGI", "FEDTAX", "PTOTVAL", "FICA"])
    return np.column_stack([column.to_numpy().astype(float) for column in table.columns])


TRAINING = [(make, rows, seed) for make in (gaussian, skewed, clustered) for rows, seed in ((1000, 1), (3000, 2))]


def held_out() -> Iterator[tuple[str, np.ndarray]]:
    for make in (gaussian, skewed, clustered):
        yield f"{make.__name__} 2,000", make(2000, 11)
    real = census()
    if real is not None:
        yield "Census 1,080", real


def problem_of(values: np.ndarray) -> PartitionProblem:
    """Means of all columns are kept, each in standard deviations."""
    values = np.ascontiguousarray((values - values.mean(axis=0)) / values.std(axis=0))
    rows, axes = values.shape
    return PartitionProblem(
        values=values,
        weights=np.ones((rows, axes), np.float32),
        set_start=np.zeros(0, np.int64),
        set_words=0,
        scale=np.ptp(values, axis=0),
        protected=np.zeros((rows, 0)),
        separation=np.zeros(0),
        k=K,
        l=1,
        lookahead=6,
        median=False,
    )


@dataclass
class Tree:
    """A partition while it is made."""

    problem: PartitionProblem
    order: np.ndarray
    begins: np.ndarray
    cuts: np.ndarray

    @classmethod
    def empty(cls, problem: PartitionProblem) -> Tree:
        rows = len(problem.values)
        return cls(problem, np.arange(rows), np.zeros(rows, np.bool_), np.zeros((rows, 4)))

    def cut_greedily(self, first: int, last: int) -> None:
        split(self.problem, self.order, self.begins, self.cuts, np.empty((2, 0)), first, last, 0)

    def boxes(self) -> BoxPartition:
        self.begins[0] = True
        return BoxPartition(self.order, np.append(np.flatnonzero(self.begins), len(self.order)), self.cuts)


def greedy(problem: PartitionProblem) -> BoxPartition:
    tree = Tree.empty(problem)
    tree.cut_greedily(0, len(tree.order))
    return tree.boxes()


def searched(problem: PartitionProblem, start: BoxPartition, seconds: float, seed: int) -> BoxPartition:
    if seconds <= 0.0:
        return start
    generators = np.random.default_rng(seed).spawn(SEARCHES)
    judge = LinearJudge(problem, float(len(problem.values)))
    budget = SearchBudget(seconds=seconds)
    return search(start, problem, judge, overlap="none", budget=budget, generators=generators).boxes


def cost(problem: PartitionProblem, boxes: BoxPartition) -> float:
    return CutMoves(problem).cost(boxes, linear_fitness(problem.weights))


def features(values: np.ndarray) -> np.ndarray:
    """Describe a cell: its records, and of each axis, the widest first, its width and how its records are spread."""
    ordered = np.sort(values, axis=0)
    wide = np.maximum(ordered[-1] - ordered[0], 1e-12)
    quarter = ordered[(np.array([0.1, 0.25, 0.5, 0.75, 0.9]) * (len(values) - 1)).astype(int)]
    shape = np.sort((quarter - ordered[0]) / wide, axis=0)
    axes = np.argsort(-wide)
    logs = np.log(wide[axes])
    spread = (quarter[3] - quarter[1])[axes] / wide[axes]
    return np.concatenate([[np.log(len(values) / K)], logs - logs.mean(), spread, shape[:, axes].T.ravel()])


def unit(values: np.ndarray) -> float:
    """Return what the cost of a cell grows with: records times the geometric mean of the widths of one box."""
    wide = np.maximum(np.ptp(values, axis=0), 1e-12)
    return float(len(values) * np.exp(np.log(wide).mean()) * (K / len(values)) ** (1.0 / AXES))


def examples(problem: PartitionProblem, boxes: BoxPartition) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells of a tree, described, and the logarithms of what they cost, in their unit."""
    costs = np.zeros(len(boxes.order) + 1)
    costs[boxes.starts[1:]] = box_costs(problem, linear_fitness(problem.weights), boxes.order, boxes.starts)
    total = np.cumsum(costs)
    described, known = [], []
    for start in boxes.starts[1:-1]:
        first, last = boxes.cuts[start, 2:].astype(int)
        for begin, end in ((first, start), (start, last)):
            if end - begin >= 4 * K:
                values = problem.values[boxes.order[begin:end]]
                described.append(features(values))
                known.append(np.log(max(total[end] - total[begin], 1e-12) / unit(values)))
    return np.array(described), np.array(known)


@dataclass(frozen=True)
class CostModel:
    """A network of two layers, with its inputs standardised."""

    centre: np.ndarray
    scale: np.ndarray
    network: MLPRegressor

    @classmethod
    def learn(cls, described: np.ndarray, known: np.ndarray) -> CostModel:
        centre, scale = described.mean(axis=0), described.std(axis=0) + 1e-9
        network = MLPRegressor(hidden_layer_sizes=(32, 16), max_iter=300, early_stopping=True, random_state=0)
        return cls(centre, scale, network.fit((described - centre) / scale, known))

    def costs(self, cells: list[np.ndarray]) -> np.ndarray:
        described = (np.array([features(cell) for cell in cells]) - self.centre) / self.scale
        return np.exp(self.network.predict(described)) * np.array([unit(cell) for cell in cells])

    def accuracy(self, described: np.ndarray, known: np.ndarray) -> float:
        return float(self.network.score((described - self.centre) / self.scale, known))


def learnt_cuts(problem: PartitionProblem, model: CostModel, until: float) -> BoxPartition:
    """Cut cells where the network expects the least cost; small ones, and what is left in the end, greedily."""
    tree, waiting = Tree.empty(problem), [(0, len(problem.values))]
    while waiting:
        first, last = waiting.pop()
        rows = tree.order[first:last].copy()
        if len(rows) < SMALL or time.monotonic() > until:
            tree.cut_greedily(first, last)
            continue
        ways, cells = [], []
        for axis in range(AXES):
            along = rows[np.argsort(problem.values[rows, axis], kind="stable")]
            for place in sorted({K * round(share * len(rows) / K) for share in PLACES}):
                ways.append((axis, place, along))
                cells += [problem.values[along[:place]], problem.values[along[place:]]]
        both = model.costs(cells).reshape(-1, 2).sum(axis=1)
        axis, place, along = ways[int(np.argmin(both))]
        tree.order[first:last] = along
        middle = problem.values[along[place - 1 : place + 1], axis].mean()
        tree.begins[first + place], tree.cuts[first + place] = True, (axis, middle, first, last)
        waiting += [(first, first + place), (first + place, last)]
    return tree.boxes()


def train(seconds: float) -> tuple[CostModel, int]:
    """Learn from the trees of searches on other tables."""
    parts = []
    for make, rows, seed in TRAINING:
        problem = problem_of(make(rows, seed))
        parts.append(examples(problem, searched(problem, greedy(problem), seconds, seed)))
    described, known = (np.concatenate(side) for side in zip(*parts, strict=True))
    return CostModel.learn(described, known), len(known)


def compare(name: str, values: np.ndarray, shipped: CostModel, seconds: float) -> list[float]:
    """Return the costs of the search, and of both networks with a search, as multiples of the greedy cost."""
    problem = problem_of(values)
    base = cost(problem, greedy(problem))
    found = []
    for seed in range(SEARCHES):
        plain = cost(problem, searched(problem, greedy(problem), seconds, seed))
        begun = time.monotonic()
        start = learnt_cuts(problem, shipped, begun + seconds / 2.0)
        left = seconds - (time.monotonic() - begun)
        other = cost(problem, searched(problem, start, left, seed))
        begun = time.monotonic()
        first = searched(problem, greedy(problem), seconds / 3.0, seed)
        own = learnt_cuts(problem, CostModel.learn(*examples(problem, first)), begun + 0.8 * seconds)
        last = searched(problem, own, seconds - (time.monotonic() - begun), seed)
        found.append([plain, other, min(cost(problem, first), cost(problem, last)), cost(problem, start)])
    means = np.mean(found, axis=0) / base
    print(f"| {name} | {means[3]:.3f} | {means[0]:.3f} | {means[1]:.3f} | {means[2]:.3f} |", flush=True)
    return [float(one) for one in means]


def main(seconds: float) -> None:
    warnings.simplefilter("ignore")
    small = problem_of(gaussian(200, 5))
    searched(small, greedy(small), 0.2, 0)  # compiles, or loads what was compiled
    shipped, count = train(seconds)
    test = problem_of(gaussian(1500, 7))
    accuracy = shipped.accuracy(*examples(test, searched(test, greedy(test), seconds / 2.0, 1)))
    print(f"learnt from {count} cells; explains {accuracy:.0%} of the variance of cells of another table")
    print(f"cost after {seconds:g} s, k = {K}, as a multiple of the greedy one; means of {SEARCHES} seeds\n")
    print("| table | network alone | search | shipped network, then search | own network, then search |")
    print("|---|---:|---:|---:|---:|")
    rows = [compare(name, values, shipped, seconds) for name, values in held_out()]
    wins = sum(min(row[1], row[2]) < row[0] for row in rows)
    print(f"\na network is better than the search alone on {wins} of {len(rows)} tables")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0)
