"""What the kernels of boxes are held to, whoever cut the tree."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from sfumato.kernels import faces


@pytest.fixture(scope="session")
def require_subdivision():
    """Cells of a tree over values from 0 to 100 must fill the square around them, once, and hold their records."""

    def require(values, order, starts, cuts):
        leaves = len(starts) - 1
        low, high = np.full((leaves, 2), -1.0), np.full((leaves, 2), 101.0)
        faces.cells(cuts, starts, low, high)
        assert np.prod(high - low, axis=1).sum() == pytest.approx(102.0**2)
        for leaf, (first, last) in enumerate(pairwise(starts)):
            inside = values[order[first:last]]
            assert (inside >= low[leaf]).all()
            assert (inside <= high[leaf]).all()
        for one, other in combinations(range(leaves), 2):
            shared = np.minimum(high[one], high[other]) - np.maximum(low[one], low[other])
            assert shared.min() <= 1e-9

    return require
