"""The combined sensitivity of kept statistics, in one pass over the records."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.jit import jit


@jit(
    work=lambda points, axis, constant, starts, columns, coefficients, out: (
        0.5 * len(points) * (len(columns) + len(axis))
    )
)
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


@jit(work=lambda z, correlation: 0.3 * z.size * z.shape[1])
def pair_sums(z, correlation):
    """Return Σ_j |z_j − r_ij z_i| for each row and column i; NaN where z_i is missing. Missing z_j add nothing.

    The inner loop runs over i, so that all columns of a row are added to at once.
    """
    rows, columns = z.shape
    sums = np.zeros((rows, columns), np.float32)
    for row in range(rows):
        own, total = z[row], sums[row]
        for other in range(columns):
            value = own[other]
            if not np.isnan(value):
                r = correlation[other]
                for column in range(columns):
                    total[column] += abs(value - r[column] * own[column])
    return sums
