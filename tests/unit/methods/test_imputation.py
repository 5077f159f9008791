"""Numbers that are drawn for rows without one have the distribution and the relations of the others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.methods.matrix import MANY, impute
from sfumato.table.encoder import Encoder
from sfumato.table.table import Table

draw = np.random.default_rng(4)
X = draw.normal(size=3000)
WAGE = np.where(draw.random(3000) < 0.7, 0.0, np.exp(0.8 * X + 0.6 * draw.normal(size=3000)))
TABLE = Table.from_arrow(pa.table({"wage": WAGE, "x": X, "c": draw.choice(["a", "b"], 3000)}))


def relation(matrix, rows):
    return np.corrcoef(matrix[rows, 0], matrix[rows, 2])[0, 1]


def test_drawn_numbers_are_related_to_other_columns_as_known_ones_are():
    code = Encoder.fit(TABLE, atoms=True)
    matrix = code.encode(TABLE)
    filled, known = impute(matrix, code, np.random.default_rng(1)), WAGE > 0.0
    assert relation(filled, ~known) == pytest.approx(relation(matrix, known), abs=0.05)
    assert relation(matrix, np.full(3000, True)) < 0.6 * relation(matrix, known)  # control: with the mean instead
    assert filled[~known, 0].std() == pytest.approx(1.0, abs=0.1)
    assert np.array_equal(filled[known], matrix[known]) and np.array_equal(filled[:, 1:], matrix[:, 1:])


@pytest.mark.parametrize("rows, off", [(150, 0.4), (1500, 0.2)])  # few rows: a ridge leaves part of the variance out
def test_in_very_many_columns_drawn_numbers_keep_their_relations(rows, off):
    shared = draw.normal(size=(rows, 1))
    numbers = shared + draw.normal(size=(rows, MANY + 1))
    missing = draw.random(rows) < 0.5
    cells = {f"x{place}": pa.array(column) for place, column in enumerate(numbers.T)}
    table = Table.from_arrow(pa.table(cells | {"y": pa.array(shared[:, 0], mask=missing)}))
    code = Encoder.fit(table)
    filled = impute(code.encode(table), code, np.random.default_rng(1))[:, code.columns("y")[0]]
    assert np.corrcoef(filled[missing], shared[missing, 0])[0, 1] > 0.95
    assert filled[missing].std() == pytest.approx(filled[~missing].std(), rel=off)


def test_a_table_without_atoms_and_missing_numbers_is_left_alone():
    table = TABLE.select(["x", "c"])
    code = Encoder.fit(table, atoms=True)
    matrix = code.encode(table)
    assert impute(matrix, code, np.random.default_rng(1)) is matrix


@pytest.mark.parametrize("known", [0, 1, 2])
def test_few_known_numbers_are_no_trouble(known):
    column = pa.array([1.0 + row if row < known else None for row in range(30)], pa.float64())
    table = Table.from_arrow(pa.table({"y": column, "x": X[:30]}))
    code = Encoder.fit(table)
    assert np.isfinite(impute(code.encode(table), code, np.random.default_rng(1))).all()
