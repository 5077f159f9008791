"""Means and covariances are compared to rounding, however far from zero a column lies and however rows are cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.plan.claims.kept_statistics import BothMoments, MomentsKept
from sfumato.plan.plan import Evidence
from sfumato.table.table import Table

COLUMNS = ("x", "y", "z")
CLAIM = MomentsKept(columns=COLUMNS)


def evidence(original: np.ndarray, released: np.ndarray) -> Evidence:
    released_table, original_table = (
        Table.from_arrow(pa.table(dict(zip(COLUMNS, matrix.T, strict=True)))) for matrix in (released, original)
    )
    return Evidence(released_table, original_table, np.arange(len(released)))


def numbers(rows: int, seed: int, offset: float) -> np.ndarray:
    """Columns that correlate, of three sizes, far from zero."""
    draw = np.random.default_rng(seed)
    matrix = draw.normal(size=(rows, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]])
    return (matrix + offset) * np.array([1.0, 1e-6, 1e5])


def obvious_error(original: np.ndarray, released: np.ndarray) -> float:
    """The same in extended precision, one number after the other."""
    before, after = original.astype(np.longdouble), released.astype(np.longdouble)
    mean = before.mean(axis=0)
    scale = np.sqrt(((before - mean) ** 2).mean(axis=0))
    errors = list(np.abs(after.mean(axis=0) - mean) / scale)
    for i in range(3):
        for j in range(3):
            pairs = [
                ((matrix[:, i] - matrix[:, i].mean()) * (matrix[:, j] - matrix[:, j].mean())).mean()
                for matrix in (before, after)
            ]
            errors.append(abs(pairs[1] - pairs[0]) / scale[i] / scale[j])
    return float(max(errors))


@given(
    rows=st.integers(20, 200),
    seed=st.integers(0, 99),
    offset=st.sampled_from([0.0, 10.0, -1e4, 1e7]),
    change=st.sampled_from([0.0, 1e-8, 1e-3]),
    parts=st.integers(1, 6),
    is_sorted=st.booleans(),
)
def test_any_blocks_give_the_error_of_the_whole(rows, seed, offset, change, parts, is_sorted):
    original = numbers(rows, seed, offset)
    draw = np.random.default_rng(seed)
    released = original[draw.permutation(rows)]
    released += change * released.std(axis=0)
    part = np.sort(draw.integers(parts, size=rows)) if is_sorted else draw.integers(parts, size=rows)
    if is_sorted:  # blocks whose means differ
        original, released = np.sort(original, axis=0), np.sort(released, axis=0)
    blocks = [CLAIM.tally(evidence(original[part == number], released[part == number])) for number in range(parts)]
    total = blocks[0]
    for position in draw.permutation(np.arange(1, parts)):
        total = CLAIM.merge(total, blocks[position])
    whole = CLAIM.tally(evidence(original, released))
    assert total.largest_error == pytest.approx(whole.largest_error, abs=1e-10)
    assert total.largest_error == pytest.approx(obvious_error(original, released), abs=1e-10)
    assert CLAIM.finding(total).held is CLAIM.finding(whole).held


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e7])
def test_the_tolerance_means_what_it_says(offset):
    original = numbers(500, 1, offset)
    wrong = original + 3e-9 * original.std(axis=0)
    for claim, held in ((CLAIM, False), (MomentsKept(columns=COLUMNS, tolerance=1e-8), True)):
        halves = [claim.tally(evidence(original[rows], wrong[rows])) for rows in (slice(0, 100), slice(100, 500))]
        assert claim.finding(claim.merge(*halves)).held is held
        assert claim.measure(evidence(original, original[::-1])).held


def test_a_constant_column_is_held_against_its_own_size():
    original = np.column_stack([np.arange(10.0), np.full(10, 1e6), np.arange(10.0) % 3])
    assert CLAIM.measure(evidence(original, original[::-1])).held
    wrong = original.copy()
    wrong[:, 1] += 1.0
    assert not CLAIM.measure(evidence(original, wrong)).held


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_number_that_is_none_breaks_the_promise_in_any_block(odd):
    original = numbers(40, 2, 0.0)
    wrong = original.copy()
    wrong[3, 1] = odd
    tallies = [BothMoments.of(original[:20], wrong[:20]), BothMoments.of(original[20:], wrong[20:])]
    assert not CLAIM.finding(CLAIM.merge(*tallies)).held
    assert not CLAIM.finding(CLAIM.merge(*tallies[::-1])).held


def test_a_merge_that_forgets_a_block_is_seen():
    original = numbers(40, 3, 0.0)
    wrong = original.copy()
    wrong[20:] += 1.0
    tallies = [BothMoments.of(original[:20], wrong[:20]), BothMoments.of(original[20:], wrong[20:])]
    assert CLAIM.finding(tallies[0]).held and not CLAIM.finding(CLAIM.merge(*tallies)).held
