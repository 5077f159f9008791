"""Leading eigenvectors: few of many, or all, against the full decomposition."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.kernels.eigenvectors import leading_eigenpairs


def test_a_matrix_of_zeros_has_eigenvalues_0():
    found = leading_eigenpairs(np.zeros((50, 50)), 4, np.random.default_rng(0))
    assert found.values.tolist() == [0.0] * 4
    assert np.allclose(found.vectors.T @ found.vectors, np.eye(4))


@pytest.mark.parametrize(("size", "count"), [(4, 2), (4, 4), (60, 5), (60, 30)])
def test_they_are_those_of_the_full_decomposition(size, count):
    draw = np.random.default_rng(size)
    square = draw.normal(size=(size, size))
    symmetric = square + square.T
    found = leading_eigenpairs(symmetric, count, draw)
    assert found.values == pytest.approx(np.linalg.eigvalsh(symmetric)[::-1][:count])
    assert symmetric @ found.vectors == pytest.approx(found.vectors * found.values, abs=1e-8)
    assert found.vectors.T @ found.vectors == pytest.approx(np.eye(count), abs=1e-8)
