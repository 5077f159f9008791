"""Values that many rows share: which ones are atoms, and that an encoder with atoms gives back what it was given."""

from __future__ import annotations

from collections import Counter
from statistics import median

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from sfumato.table.encoded_columns import NUMBER
from sfumato.table.encoder import Encoder
from sfumato.table.facts import MASS_NEIGHBOURS, MASS_RATIO, MASS_ROWS, MASS_SHARE, point_masses
from sfumato.table.table import Table

draw = np.random.default_rng(0)
POSITIVE = draw.lognormal(3, 1, 1000)


def slow_atoms(numbers):
    counts = sorted(Counter(numbers).items())
    found = []
    for place, (value, count) in enumerate(counts):
        around = [
            other
            for _, other in counts[max(0, place - MASS_NEIGHBOURS) : place]
            + counts[place + 1 : place + 1 + MASS_NEIGHBOURS]
        ]
        if (
            len(counts) > 1
            and count >= max(MASS_ROWS, MASS_SHARE * len(numbers))
            and count >= MASS_RATIO * median(around)
        ):
            found.append(value)
    return tuple(found)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 60)), max_size=6))
def test_atoms_are_those_of_the_slow_twin(runs):
    numbers = np.array([float(value) for value, length in runs for _ in range(length)])
    assert point_masses(numbers) == slow_atoms(numbers.tolist())


@pytest.mark.parametrize(
    ("numbers", "atoms"),
    [
        (np.append(POSITIVE, np.zeros(4000)), (0.0,)),
        (np.append(POSITIVE, np.zeros(60)), (0.0,)),
        (np.append(POSITIVE, np.zeros(20)), ()),  # not common
        (np.concatenate([POSITIVE, np.zeros(900), np.full(300, -9.0)]), (-9.0, 0.0)),
        (np.minimum(POSITIVE, 60.0), (60.0,)),  # top-coded
        (draw.normal(0.9, 0.2, 2000).round(1), ()),  # rounded: every value is common
        (draw.integers(18, 90, 5000), ()),
        (draw.poisson(1.5, 5000), ()),
        (np.append(draw.poisson(3.0, 500) + 1, np.zeros(2000)), (0.0,)),  # a count with too many zeros
        (np.full(100, 7.0), ()),  # a constant
        (np.array([0.0] * 9 + [1.5]), ()),  # few rows
        (np.zeros(0), ()),
    ],
)
def test_atoms_are_common_and_stand_out(numbers, atoms):
    assert point_masses(np.asarray(numbers, dtype=float)) == atoms


def mixture(rows=400, missing=0):
    wage = np.where(np.arange(rows) % 5, 0.0, draw.lognormal(10, 1, rows))
    cells = pa.array([None if row < missing else float(cell) for row, cell in enumerate(wage)])
    return Table.from_arrow(pa.table({"wage": cells, "x": draw.normal(size=rows)}))


@pytest.mark.parametrize("missing", [0, 30])
def test_a_mixture_is_a_number_and_indicators_and_comes_back(missing):
    table = mixture(missing=missing)
    code = Encoder.fit(table, atoms=True)
    wage, matrix = code.numbers[0], code.encode(table)
    assert wage.atoms == (0.0,) and wage.logged and code.width == (4 if missing else 3)
    assert code.columns("wage").tolist() == list(range(wage.width))
    known = wage.states(matrix) == NUMBER
    assert np.array_equal(known, table.numbers("wage") > 0.0)
    assert matrix[known, 0].mean() == pytest.approx(0.0, abs=1e-12) and matrix[known, 0].std() == pytest.approx(1.0)
    again = code.decode(matrix)
    assert np.allclose(again.numbers("wage"), table.numbers("wage"), equal_nan=True)
    assert Encoder.fit(table).numbers[0].atoms == ()  # control: only if wanted


def test_the_largest_positive_indicator_decides():
    table = Table.from_arrow(pa.table({"x": np.concatenate([POSITIVE, np.zeros(900), np.full(300, -9.0)])}))
    code = Encoder.fit(table, atoms=True)
    scores = np.array([[0.3, -1.0, -0.2], [0.3, 0.1, 0.2], [0.3, 0.4, 0.2]])
    assert code.numbers[0].states(scores).tolist() == [NUMBER, 1, 0]
    assert code.natural(scores)[1:, 0].tolist() == [0.0, -9.0]


def test_numbers_of_fewer_than_five_people_are_never_decoded():
    numbers = np.zeros(500)
    numbers[:4] = 771.0, 772.0, 773.0, 774.0
    code = Encoder.fit(Table.from_arrow(pa.table({"x": numbers})), atoms=True)
    assert set(code.natural(np.random.default_rng(1).normal(size=(100, code.width)))[:, 0]) == {0.0}
    numbers[4] = 775.0  # control: five people
    code = Encoder.fit(Table.from_arrow(pa.table({"x": numbers})), atoms=True)
    assert len(set(code.natural(np.random.default_rng(1).normal(size=(100, code.width)))[:, 0])) > 10


def test_ends_of_a_range_of_few_numbers_are_nobodys_own():
    numbers = np.zeros(500)
    numbers[:6] = np.arange(1.0, 7.0) ** 2
    code = Encoder.fit(Table.from_arrow(pa.table({"x": numbers})), atoms=True).numbers[0]
    assert (code.low, code.high) == (11.0, 18.0)
