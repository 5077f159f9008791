"""Tables with more columns than rows: the work is that of the rows, and correlations are still kept."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from scipy.spatial.distance import pdist

import sfumato as sf
from sfumato.engines.memory.engine import MemorySurvey
from sfumato.measures.privacy.attacks.noise_stripping import strip_noise
from sfumato.methods.components import parts, wide
from sfumato.methods.noise_rows import loadings
from sfumato.methods.shuffle import RankedColumn, shuffle_columns
from sfumato.methods.synthesize.max_entropy import fit_max_entropy
from sfumato.methods.synthesize.ranks import fit_copula, fit_latin_hypercube
from sfumato.methods.synthesize.variables import Codes, Numbers, Problem
from sfumato.randomness import Randomness
from sfumato.schema.schema import Schema
from sfumato.table.encoder import Encoder
from sfumato.table.table import Table

ROWS, COLUMNS = 100, 2500
PRODUCT = COLUMNS**2 * 8  # bytes of a product of columns by columns


def correlated_rows(columns=COLUMNS) -> np.ndarray:
    """Numbers with one common factor: each pair of columns has a correlation of ±0.8."""
    drawn = np.random.default_rng(0)
    signs = np.where(np.arange(columns) % 2, 1.0, -1.0)
    return 2.0 * drawn.normal(size=(ROWS, 1)) * signs + drawn.normal(size=(ROWS, columns))


def synthesize(fit, codes=0):
    rows = correlated_rows()
    variables = [
        Codes(np.digitize(column, [-1.0, 1.0]).astype(np.int64), 3, ordered=False, column=SimpleNamespace())
        if number < codes
        else Numbers(column, np.ones(ROWS, bool), -99.0, 99.0, None, SimpleNamespace())
        for number, column in enumerate(rows.T)
    ]
    sampler = fit(Problem(tuple(variables), 5, 2), np.random.default_rng(1))
    return rows[:, codes:], np.column_stack(sampler(ROWS, np.random.default_rng(2))[codes:])


def shuffle(codes=0):
    rows, generator = correlated_rows(), np.random.default_rng(1)
    places = rows.argsort(axis=0).argsort(axis=0)
    columns = [RankedColumn.of(own, np.zeros(ROWS, bool), generator) for own in places.T]
    sources = shuffle_columns(columns[2:], columns[:2], generator)
    return rows[:, 2:], np.column_stack([rows[own, place] for place, own in enumerate(sources, start=2)])


def add_noise(missing=0.0):
    """Replace the rows by white ones times the loadings, which have the correlations of the data."""
    rows = correlated_rows()
    incomplete = np.where(np.random.default_rng(5).random(rows.shape) < missing, np.nan, rows)
    root = loadings(incomplete)
    assert (root**2).sum(axis=0) == pytest.approx(np.nanvar(incomplete, axis=0))
    return rows, np.random.default_rng(6).normal(size=(ROWS, len(root))) @ root


WIDE = {
    "noise": add_noise,
    "noise with missing cells": lambda: add_noise(0.1),
    "copula": lambda: synthesize(fit_copula),
    "copula with codes": lambda: synthesize(fit_copula, 5),
    "latin hypercube": lambda: synthesize(fit_latin_hypercube),
    "maximum entropy": lambda: synthesize(fit_max_entropy),
    "maximum entropy with codes": lambda: synthesize(fit_max_entropy, 300),
    "shuffle": shuffle,
}


@pytest.mark.parametrize("name", WIDE)
def test_no_product_of_columns_is_made_and_correlations_are_kept(name):
    tracemalloc.start()
    before, after = WIDE[name]()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < PRODUCT
    own, other = (np.corrcoef(one[:, -20:], rowvar=False) for one in (before, after))
    assert np.abs(own - other).mean() < 0.15
    assert np.abs(own - np.eye(20)).mean() > 0.6  # control: independent columns would be seen
    assert not np.allclose(before, after)


def test_noise_of_wide_tables_is_stripped_as_from_narrow_ones():
    drawn = np.random.default_rng(3)
    shares = []
    for columns in (ROWS // 2, COLUMNS):
        rows = correlated_rows(columns)
        tracemalloc.start()
        found = strip_noise(rows, rows + drawn.normal(size=rows.shape), np.random.default_rng(4))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert columns < ROWS or peak < PRODUCT
        shares.append(found.share)
    assert shares[1] == pytest.approx(shares[0], abs=0.1) and shares[0] > 0.2


class TestComponentsOfWideTables:
    """Products of rows, a few columns at a time, give what the whole matrix gives."""

    ROWS, COLUMNS = 60, 900

    @staticmethod
    def table(missing=False):
        numbers = correlated_rows(TestComponentsOfWideTables.COLUMNS)[: TestComponentsOfWideTables.ROWS]
        cells = {f"x{place}": column for place, column in enumerate(numbers.T)}
        if missing:
            cells["x1"] = np.where(np.arange(len(numbers)) % 3 == 0, np.nan, cells["x1"])
            cells["sex"] = np.where(numbers[:, 0] > 0.0, "f", "m")
        return Table.from_arrow(pa.Table.from_pydict({k: pa.array(v, from_pandas=True) for k, v in cells.items()}))

    @staticmethod
    def released(method, table, monkeypatch, cells):
        monkeypatch.setattr(parts, "WIDE_CELLS", cells)
        monkeypatch.setattr(wide, "COLUMNS_AT_ONCE", 70)
        schema = Schema.for_table(table, dict.fromkeys(table.names, "quasi"))
        return method.plan(MemorySurvey(table), schema, Randomness(5)).transform(table, 0)

    def test_svd_swap_is_the_same(self, monkeypatch):
        table = self.table()
        both = [
            self.released(sf.SvdSwap(repair=False, logs="never"), table, monkeypatch, cells) for cells in (1, 10**9)
        ]
        in_parts, whole = (outcome.released.matrix(table.names) for outcome in both)
        assert in_parts == pytest.approx(whole, abs=1e-6)
        assert np.abs(whole - table.matrix(table.names)[both[0].origin]).mean() > 0.5  # control: rows are altered

    @pytest.mark.parametrize("method", [sf.SvdSwap(), sf.PartitionedIca(cluster_size=30, floor=20)])
    def test_correlations_are_kept_and_no_copy_of_the_matrix_is_made(self, method, monkeypatch):
        table = self.table(missing=True)
        self.released(method, table, monkeypatch, 1)  # what is imported and compiled once is not counted
        tracemalloc.start()
        released = self.released(method, table, monkeypatch, 1).released
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < table.rows * len(table.names) * 8 + 2_000_000
        before, after = (np.corrcoef(one.matrix([f"x{p}" for p in range(10, 30)]).T) for one in (table, released))
        assert np.abs(before - after).mean() < 0.15 and np.abs(before - np.eye(20)).mean() > 0.6
        known = ~np.isnan(released.numbers("x1"))  # what was drawn for missing numbers is related to other columns
        assert np.corrcoef(released.numbers("x1")[known], released.numbers("x3")[known])[0, 1] > 0.6
        assert set(released.arrow.column("sex").unique().to_pylist()) <= {"f", "m"}
        assert 5 <= released.arrow.column("x1").null_count <= 40

    def test_numbers_are_drawn_from_leading_components(self):
        matrix = correlated_rows(300)[:90]
        table = Table.from_arrow(pa.table({f"x{place}": column for place, column in enumerate(matrix.T)}))
        hidden = np.arange(90) % 3 == 0
        cells = pa.array(np.where(hidden, np.nan, matrix[:, 1]), from_pandas=True)
        table = Table.from_arrow(table.arrow.set_column(1, "x1", cells))
        encoder = Encoder.fit(table)
        block = wide.WideBlock(table, encoder, Randomness(3), 0)
        leading = wide.RowPoints.of(one.encode(table) for one in block.encoders).leading
        assert leading.T @ leading / 90 == pytest.approx(np.eye(leading.shape[1]), abs=1e-6)
        ((_, filled),) = block.filled(leading)
        drawn = filled[hidden, encoder.columns("x1")[0]]
        assert np.corrcoef(drawn, matrix[hidden, 1])[0, 1] > 0.6

    def test_points_have_the_distances_of_the_rows(self):
        matrix = correlated_rows(300)[:40]
        points = wide.RowPoints.of(iter(np.array_split(matrix, 7, axis=1))).points
        assert points.shape == (40, 39)
        assert pdist(points) == pytest.approx(pdist(matrix))
