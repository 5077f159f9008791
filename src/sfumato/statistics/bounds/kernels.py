"""Largest sums of products over boxes.

Every second-order statistic is a covariance of two linear combinations of the columns, so all enclosures reduce to one
problem: how large can Σ w · L₁(z) · L₂(z) become if each z may be anywhere in its box? It can be solved for each box
separately. In the plane (L₁, L₂) a box is a zonogon (a polygon whose opposite sides are parallel and equal), and the
product is largest on its boundary, so a walk around the 2n sides finds it exactly.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import argsort

ALWAYS_COMPILED = 0.0  # seconds as Python: the last digit of an interval must not depend on the process
BLOCK = 1024  # boxes are summed in blocks first, so that rounding errors grow with the number of blocks only


@jit
def _walk(first, second):
    """Return the sides of every zonogon in walking order: L₁ and L₂ per unit of width, the column, and its sign.

    The walk starts at the point with the smallest L₂ and turns in one direction, so the sides are sorted by angle. The
    second half of the sides is the first half with opposite signs.
    """
    n = first.size - 1
    angle = np.empty(n)
    sign = np.empty(n)
    for i in range(n):
        a, b = first[i + 1], second[i + 1]
        sign[i] = -1.0 if b < 0.0 or (b == 0.0 and a < 0.0) else 1.0
        angle[i] = math.atan2(sign[i] * b, sign[i] * a)
    order = argsort(angle)
    side_first, side_second = np.empty(2 * n), np.empty(2 * n)
    column = np.empty(2 * n, dtype=np.int64)
    for side in range(2 * n):
        i = order[side % n]
        turn = sign[i] if side < n else -sign[i]
        side_first[side], side_second[side], column[side] = turn * first[i + 1], turn * second[i + 1], i
    return side_first, side_second, column, sign


@jit(allocates=False)
def _best(low, high, g, first, second, side_first, side_second, column, sign):
    """Return the largest L₁·L₂ on box g, L₂ at that point, and the side and the share of the side where it is."""
    n = sign.size
    p1, p2 = first[0], second[0]
    for i in range(n):
        end = low[g, i] if sign[i] > 0.0 else high[g, i]
        p1 += first[i + 1] * end
        p2 += second[i + 1] * end
    best, best_second, best_side, best_share = p1 * p2, p2, 0, 0.0
    for side in range(2 * n):
        width = high[g, column[side]] - low[g, column[side]]
        e1, e2 = side_first[side] * width, side_second[side] * width
        bend = e1 * e2
        if bend < 0.0:
            slope = p1 * e2 + p2 * e1
            if slope > 0.0 and slope + 2.0 * bend < 0.0:
                share = -slope / (2.0 * bend)
                value = (p1 + share * e1) * (p2 + share * e2)
                if value > best:
                    best, best_second, best_side, best_share = value, p2 + share * e2, side, share
        p1 += e1
        p2 += e2
        value = p1 * p2
        if value > best:
            best, best_second, best_side, best_share = value, p2, side, 1.0
    return best, best_second, best_side, best_share


@jit(allocates=False)
def _coordinate(low, high, g, side, column, sign, best_side, best_share):
    """Return the coordinate of the column of a side of the first half, at the best point of box g."""
    n = sign.size
    if best_side < n:
        share = 1.0 if side < best_side else (best_share if side == best_side else 0.0)
    else:
        share = 0.0 if side < best_side - n else (1.0 - best_share if side == best_side - n else 1.0)
    i = column[side]
    if sign[i] < 0.0:
        share = 1.0 - share
    if share == 1.0:
        return high[g, i]
    return min(low[g, i] + share * (high[g, i] - low[g, i]), high[g, i])


@jit(seconds=ALWAYS_COMPILED)
def largest_product_sum(low, high, weight, extra, first, second, offset):
    """Return Σ weight · v + extra · max(v, 0), with v = max over the box of L₁·L₂ − offset, and its gradient.

    ``first`` and ``second`` contain a constant and one coefficient per column. The gradient is the derivative of the
    sum with respect to ``first``: Σ weight · (1, z) · L₂ at the maxima.
    """
    boxes, n = low.shape
    side_first, side_second, column, sign = _walk(first, second)
    total, block = 0.0, 0.0
    slope, block_slope = np.zeros(n + 1), np.zeros(n + 1)
    for g in range(boxes):
        best, best_second, best_side, best_share = _best(
            low, high, g, first, second, side_first, side_second, column, sign
        )
        value = best - offset
        total_weight = weight[g] + extra[g] if value > 0.0 else weight[g]
        block += total_weight * value
        pull = total_weight * best_second
        block_slope[0] += pull
        for side in range(n):
            at = _coordinate(low, high, g, side, column, sign, best_side, best_share)
            block_slope[column[side] + 1] += pull * at
        if (g + 1) % BLOCK == 0 or g + 1 == boxes:
            total += block
            block = 0.0
            for i in range(n + 1):
                slope[i] += block_slope[i]
                block_slope[i] = 0.0
    return total, slope


@jit(seconds=ALWAYS_COMPILED)
def largest_product_sums(low, high, weight, extra, first, seconds):
    """Compute the same, without offset, for each of several L₂ (one per row)."""
    totals, slopes = np.empty(len(seconds)), np.empty(seconds.shape)
    for k in range(len(seconds)):
        totals[k], slopes[k] = largest_product_sum(low, high, weight, extra, first, seconds[k], 0.0)
    return totals, slopes


@jit(seconds=ALWAYS_COMPILED)
def best_points(low, high, first, second):
    """Return the point where each box attains its largest L₁·L₂, and that product."""
    boxes, n = low.shape
    side_first, side_second, column, sign = _walk(first, second)
    points, products = np.empty((boxes, n)), np.empty(boxes)
    for g in range(boxes):
        products[g], _, best_side, best_share = _best(
            low, high, g, first, second, side_first, side_second, column, sign
        )
        for side in range(n):
            points[g, column[side]] = _coordinate(low, high, g, side, column, sign, best_side, best_share)
    return points, products
