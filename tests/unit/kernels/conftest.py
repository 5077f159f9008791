"""What the kernels of boxes are held to, whoever cut the tree."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from sfumato.methods.boxes import cut_kernels as faces


def plain_faces(values, low, high):
    """Faces half-way between neighbouring values; records with the same value may be split at that value."""
    support = [np.unique(column) for column in values.T]
    middle = [0.5 * (one[:-1] + one[1:]) for one in support]
    return faces.CellFaces(
        offset=np.cumsum([0, *map(len, support)]),
        first_number=np.zeros(len(support), dtype=np.int64),
        support=np.concatenate(support),
        upper=np.concatenate([np.append(one, high) for one in middle]),
        lower=np.concatenate([np.insert(one, 0, low) for one in middle]),
        split_upper=np.concatenate(support),
        split_lower=np.concatenate(support),
    )


@pytest.fixture(scope="session")
def with_faces():
    """Make the boxes of a problem cells of a space from −1 to 101."""
    return lambda problem: problem._replace(faces=plain_faces(problem.values, -1.0, 101.0))


@pytest.fixture(scope="session")
def require_subdivision():
    """Cells of a tree over values from 0 to 100 must fill the square around them, once, and hold their records."""

    def require(values, order, starts, cuts):
        leaves, plain = len(starts) - 1, plain_faces(values, -1.0, 101.0)
        found = faces.cells(plain, values, order, starts, cuts, faces.whole_space(plain))
        low, high = found[:, 0], found[:, 1]
        assert np.prod(high - low, axis=1).sum() == pytest.approx(102.0**2)
        for leaf, (first, last) in enumerate(pairwise(starts)):
            inside = values[order[first:last]]
            assert (inside >= low[leaf]).all()
            assert (inside <= high[leaf]).all()
        for one, other in combinations(range(leaves), 2):
            shared = np.minimum(high[one], high[other]) - np.maximum(low[one], low[other])
            assert shared.min() <= 1e-9

    return require
