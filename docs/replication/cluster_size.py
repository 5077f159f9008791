"""Write cluster-size.md: the smallest private cluster size, by dimension and eigenvalues.

    python docs/replication/cluster_size.py [folder of the real tables]

The folder contains ``nhanes/``. By default it is SFUMATO_DATA, or shared/data next to the repository. Without the table
the page is not changed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.engines.memory.engine import MemorySurvey
from sfumato.kernels.prediction import prediction, prediction_from_others
from sfumato.methods.components.clusters import NEIGHBOURS, effective_dimension, expected_size, measures_below
from sfumato.methods.spectral.pica import PicaPlan
from sfumato.randomness import Randomness
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.table import Table
from spectral import LABORATORY, folder, nhanes

PAGE = Path(__file__).with_name("cluster-size.md")
ROWS = 1000
COLUMNS = (4, 12, 36)
POWERS = (0.0, 2.0)  # the i-th eigenvalue is i to minus this, before columns are standardised
SEEDS = (1,)
SIZES = (50, 100, 140, 200, 280, 400)


@dataclass(frozen=True)
class Point:
    """One table, and the smallest size at which no measure is below the reference."""

    columns: int
    dimension: float
    size: int  # ROWS if no smaller one is private
    expected: int


def drawn(columns: int, power: float, seed: int) -> np.ndarray:
    """Return normal rows whose covariance has these eigenvalues in random directions."""
    draw = np.random.default_rng(seed)
    axes = np.linalg.qr(draw.normal(size=(columns, columns)))[0]
    return draw.normal(size=(ROWS, columns)) * np.arange(1.0, columns + 1) ** (-power / 2) @ axes.T


def examine(matrix: np.ndarray, seed: int) -> Point:
    table = Table.from_arrow(pa.table({f"x{place}": column for place, column in enumerate(matrix.T)}))
    schema = Schema(tuple(Column(name=name, role=Role.QUASI) for name in table.names))
    setup = sf.PartitionedIca(logs="never").setup(MemorySurvey(table), schema, Randomness(seed))
    points = setup.encoder.encode(table)
    scale = np.sqrt(setup.encoder.width)
    reference = prediction_from_others(points / scale, NEIGHBOURS)
    smallest = ROWS
    for size in SIZES:
        method = sf.PartitionedIca(cluster_size=size, floor=max(2, size // 4), logs="never")
        rows = setup.encoder.encode(PicaPlan(setup, method, size).transform(table, 0).released)
        if not measures_below(prediction(points / scale, rows / scale, NEIGHBOURS), reference):
            smallest = size
            break
    dimension = effective_dimension(points)
    return Point(matrix.shape[1], dimension, smallest, expected_size(dimension))


def lines(found: dict[str, list[Point]]) -> str:
    """Return the table: one line for each kind of table, with the sizes of all seeds."""
    head = "| table | columns | effective dimension | expected | smallest private |\n|---|---:|---:|---:|---:|"
    rows = [
        f"| {name} | {points[0].columns} | {np.mean([one.dimension for one in points]):.1f} "
        f"| {np.mean([one.expected for one in points]):.0f} "
        f"| {', '.join('none' if one.size == ROWS else str(one.size) for one in points)} |"
        for name, points in found.items()
    ]
    return "\n".join([head, *rows])


def main() -> None:
    warnings.simplefilter("ignore")  # seeds are fixed here, so that the page can be made again
    data = folder()
    if data is None:
        print("the real table was not found; cluster-size.md is not changed")
        return
    found = {
        f"{columns} normal columns, a = {power:g}": [examine(drawn(columns, power, seed), seed) for seed in SEEDS]
        for columns in COLUMNS
        for power in POWERS
    }
    whole = nhanes(data).select(list(LABORATORY)).matrix(LABORATORY)
    rows = np.random.default_rng(1).permutation(len(whole))
    found["NHANES, 13 laboratory values"] = [
        examine(whole[rows[place * ROWS : (place + 1) * ROWS]], seed) for place, seed in enumerate(SEEDS)
    ]
    near = [
        max(one.size, one.expected) / min(one.size, one.expected)
        for points in found.values()
        for one in points
        if one.size < ROWS
    ]
    page = TEXT.format(
        table=lines(found),
        rows=f"{ROWS:,}",
        tried=", ".join(map(str, SIZES)),
        near=f"{sum(ratio <= 2.0 for ratio in near)} of {len(near)}",
    )
    PAGE.write_text(page, encoding="utf-8")
    print(f"wrote {PAGE.name}")


TEXT = """\
# The size of clusters, by dimension and eigenvalues

T. A. Lasko, *Spectral Anonymization of Data* (MIT, 2007), called TL, §5.2.3: the smallest private clusters of
partitioned ICA swapping have 200 rows on NHANES; that the size depends on the dimension and on the eigenvalues is
suspected and "not investigated". A formula without free parameters says which size to expect
([theory](../theory/spectral.md#which-size-to-expect)); `cluster_size="auto"` starts from it. Written by
`docs/replication/cluster_size.py`; do not edit by hand.

Tables of {rows} people: normal columns whose covariance has the eigenvalues 1, 2^−a, 3^−a, … in random directions, and
laboratory values of NHANES. Columns are standardised, which changes the eigenvalues; the *effective dimension* is
(Σλ)² ÷ Σλ² of those of the released matrix. *smallest private* is the first of the sizes {tried} at which none of TL's
three measures is below that of the table without the person.

{table}

The expected size is within a factor of two of the measured one for {near} of the tables for which one was found.

CONCLUSION
"""


if __name__ == "__main__":
    main()
