"""Bases: the matrix comes back, scores are white, and independent sources are found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kurtosis

from sfumato.methods.components.bases import independent, invariant, principal, unmixing

DRAW = np.random.default_rng(0)
MATRICES = {
    "tall": DRAW.normal(size=(200, 5)) @ DRAW.normal(size=(5, 5)) + 7,
    "wide": DRAW.normal(size=(6, 30)),
    "collinear": np.repeat(DRAW.normal(size=(50, 2)), 3, axis=1),
    "with a constant column": np.column_stack([DRAW.normal(size=(50, 3)), np.full(50, 4.0)]),
    "constant": np.full((9, 3), 2.5),
    "one row": np.array([[1.0, 2.0]]),
    "with an outlier": np.vstack([DRAW.normal(size=(80, 4)), np.full((1, 4), 1e4)]),
}


def build(name, matrix):
    if name == "independent":
        return independent(matrix, np.random.default_rng(1))
    return principal(matrix) if name == "principal" else invariant(matrix)


@pytest.mark.parametrize("shape", MATRICES)
@pytest.mark.parametrize("name", ["principal", "invariant", "independent"])
def test_the_matrix_comes_back_and_scores_are_white(name, shape):
    matrix = MATRICES[shape]
    basis = build(name, matrix)
    assert np.allclose(basis.matrix(basis.scores), matrix, rtol=1e-9, atol=1e-9 * np.abs(matrix).max())
    assert np.allclose(basis.scores.mean(axis=0), 0.0, atol=1e-9)
    assert np.allclose(basis.scores.T @ basis.scores / len(matrix), np.eye(basis.rank), atol=1e-9)


@pytest.mark.parametrize(
    ("shape", "rank"), [("tall", 5), ("wide", 5), ("collinear", 2), ("with a constant column", 3), ("constant", 0)]
)
def test_there_are_as_many_scores_as_the_matrix_has_rank(shape, rank):
    assert principal(MATRICES[shape]).rank == rank


def test_principal_scores_are_ordered_by_what_they_load():
    lengths = np.linalg.norm(principal(MATRICES["tall"]).loadings, axis=1)
    assert (np.diff(lengths) <= 0).all()


def test_mixed_independent_sources_are_found_again():
    draw = np.random.default_rng(3)
    sources = np.column_stack([draw.uniform(-1, 1, 4000), draw.laplace(size=4000), draw.exponential(size=4000)])
    mixed = sources @ np.array([[1.0, 1.0, 0.0], [0.5, -0.5, 1.0], [0.5, 0.0, -1.0]])
    basis = independent(mixed, draw)
    agreement = np.abs(np.corrcoef(basis.scores.T, sources.T)[:3, 3:])
    assert (agreement.max(axis=0) > 0.98).all()
    # control: principal components do not find them
    plain = np.abs(np.corrcoef(principal(mixed).scores.T, sources.T)[:3, 3:])
    assert plain.max(axis=0).min() < 0.95


def test_components_that_few_rows_cannot_tell_stay_principal():
    wide = np.random.default_rng(5).normal(size=(100, 90))  # 90 components of 100 rows
    basis, plain = independent(wide, np.random.default_rng(1)), principal(wide)
    assert np.allclose(basis.scores[:, 60:], plain.scores[:, 60:])
    assert not np.allclose(basis.scores[:, :60], plain.scores[:, :60])
    small = np.random.default_rng(5).normal(size=(40, 30))  # a few components are all rotated, however few the rows
    turned = independent(small, np.random.default_rng(1)).scores
    assert not np.isclose(turned, principal(small).scores).all(axis=0).any()
    tall = MATRICES["tall"]  # with rows enough all of them are rotated
    scores = principal(tall).scores
    assert np.allclose(build("independent", tall).scores, scores @ unmixing(scores, np.random.default_rng(1)).rotation)


def test_unmixing_says_how_it_ended():
    draw = np.random.default_rng(4)
    clear = principal(draw.uniform(-1, 1, (3000, 3))).scores
    assert unmixing(clear, draw).converged
    noise = principal(draw.normal(size=(300, 20))).scores
    found = unmixing(noise, draw)
    assert found.rounds <= 100
    assert np.allclose(found.rotation.T @ found.rotation, np.eye(20), atol=1e-9)


def test_invariant_coordinates_set_an_outlier_apart():
    basis = invariant(MATRICES["with an outlier"])
    tails = kurtosis(basis.scores, axis=0)
    assert tails[0] > 20  # the coordinate with the smallest weighted scatter is the outlier's own
    assert (tails[1:] < 5).all()
