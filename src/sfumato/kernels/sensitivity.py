"""The combined sensitivity of kept statistics, in one pass over the records."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.jit import jit


@jit
def combined(points, axis, constant, starts, columns, coefficients, out):
    """Add |constant + Σ coefficient · x[column]| of every term to the axis of the term (XF §IV).

    Term t reads columns[starts[t]:starts[t + 1]] of ``points``. A record with a missing value in one of them is not
    part of the statistic, so nothing is added.
    """
    for row in range(points.shape[0]):
        for term in range(len(axis)):
            slope = constant[term]
            for place in range(starts[term], starts[term + 1]):
                slope += coefficients[place] * points[row, columns[place]]
            if not np.isnan(slope):
                out[row, axis[term]] += abs(slope)
