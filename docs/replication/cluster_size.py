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
COLUMNS = (4, 8, 16, 32, 64)
POWERS = (0.0, 1.0, 2.0)  # the i-th eigenvalue is i to minus this, before columns are standardised
SEEDS = (1, 2)
SIZES = tuple(round(20 * 2 ** (step / 2)) for step in range(10))  # 20 to 453


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
    return Point(matrix.shape[1], effective_dimension(points), smallest, expected_size(points))


def slopes(points: list[Point]) -> np.ndarray:
    """Return constant, exponent of the columns and exponent of the dimension of the best power law."""
    known = [point for point in points if point.size < ROWS]
    terms = np.array([[1.0, np.log(point.columns), np.log(point.dimension)] for point in known])
    return np.linalg.lstsq(terms, np.log([point.size for point in known]), rcond=None)[0]
