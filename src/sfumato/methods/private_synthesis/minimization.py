"""Minimize a smooth convex function of many variables: L-BFGS (Nocedal & Wright 2006, algorithm 7.4).

Products of vectors are sums of NumPy, because a threaded library of linear algebra takes longer for vectors of this
length to wake its threads than to multiply.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MEMORY = 10  # corrections that are kept
DECREASE = 1e-4  # share of the decrease that the gradient promises which a step must reach (Armijo)
SHORTEST = 2.0**-20  # step below which the search for a better point ends


@dataclass(frozen=True, repr=False)
class Minimum:
    """The best point found, and how many times the function was evaluated."""

    point: Array
    value: float
    evaluations: int


def minimize(
    function: Callable[[Array], tuple[float, Array]], start: Array, *, rounds: int, tolerance: float
) -> Minimum:
    """Minimize a function that returns its value and gradient; end if a step gains less than the tolerance."""
    point = start
    value, gradient = function(point)
    evaluations = 1
    corrections: deque[tuple[Array, Array, float]] = deque(maxlen=MEMORY)
    while evaluations < rounds:
        direction = _direction(gradient, corrections)
        slope = _dot(direction, gradient)
        if slope >= 0.0:
            break
        step = 1.0 if corrections else min(1.0, 1.0 / max(float(np.abs(gradient).sum()), 1e-300))
        while True:
            new_point = point + step * direction
            new_value, new_gradient = function(new_point)
            evaluations += 1
            if new_value <= value + DECREASE * step * slope or step < SHORTEST:
                break
            step /= 2.0
        if not new_value < value:
            break
        change, turn = new_point - point, new_gradient - gradient
        curvature = _dot(change, turn)
        if curvature > 0.0:
            corrections.append((change, turn, curvature))
        gain = value - new_value
        point, value, gradient = new_point, new_value, new_gradient
        if gain <= tolerance * max(1.0, abs(value)):
            break
    return Minimum(point, value, evaluations)


def _direction(gradient: Array, corrections: deque[tuple[Array, Array, float]]) -> Array:
    """Return minus the gradient times the inverse Hessian that the corrections tell, by two loops over them."""
    result = -gradient
    factors = []
    for change, turn, curvature in reversed(corrections):
        factor = _dot(change, result) / curvature
        result = result - factor * turn
        factors.append(factor)
    if corrections:
        _, turn, curvature = corrections[-1]
        result = result * (curvature / _dot(turn, turn))
    for (change, turn, curvature), factor in zip(corrections, reversed(factors), strict=True):
        result = result + (factor - _dot(turn, result) / curvature) * change
    return result


def _dot(one: Array, two: Array) -> float:
    return float((one * two).sum())
