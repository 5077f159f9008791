"""The division of an anonymity budget between columns (LT §3.1).

The rank difference of a column with d values is proportional to 1/d. With w_i the importance of a column, the loss is
Σ w_i/d_i. For a given product of the d_i it is smallest when every d_i is proportional to w_i. A column with fewer
values than its share keeps all its values, and the rest of the budget is divided between the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from sfumato.params import require_int


def share_budget(
    budget: int, sizes: Mapping[str, int], importance: Mapping[str, float] | None = None
) -> dict[str, int]:
    """Return how many values each column may have: from 1 to its size, with a product of at most ``budget``.

    ``sizes`` are the numbers of values of the columns; ``importance`` is the relative importance of each (default 1).
    """
    budget = require_int(budget, name="budget", at_least=1)
    if not sizes:
        return {}
    complete = {name: (importance or {}).get(name, 1.0) for name in sizes}
    shares = real_shares(budget, sizes, complete)
    values = {name: min(sizes[name], max(1, math.floor(share + 1e-9))) for name, share in shares.items()}
    return _filled(budget, sizes, complete, values)


def real_shares(budget: float, sizes: Mapping[str, int], importance: Mapping[str, float]) -> dict[str, float]:
    """Solve LT equation (1), clipped to the range from 1 to the size of each column: d_i = w_i·s.

    The scale s is the one that uses up the budget. LT removes columns with fewer values than their share one by one.
    Here Σ log d_i is written as a function of log s. Its slope is the number of columns whose share is neither one
    value nor all of them, so it is a polygon, whose corners are sorted.
    """
    most = np.array([float(size) for size in sizes.values()])
    weight = np.array([importance[name] for name in sizes])
    wanted = min(math.log(budget), float(np.log(most).sum()))
    corners = np.concatenate([-np.log(weight), np.log(most / weight)])  # where a share leaves one value, and has all
    order = np.argsort(corners, kind="stable")
    slopes = np.cumsum(np.where(order < len(most), 1, -1))
    heights = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(corners[order]))])
    at = int(np.searchsorted(heights, wanted, side="right")) - 1
    rest = (wanted - heights[at]) / slopes[at] if slopes[at] else 0.0
    scale = math.exp(corners[order[at]] + rest)
    return dict(zip(sizes, np.clip(weight * scale, 1.0, most).tolist(), strict=True))


def _filled(
    budget: int, sizes: Mapping[str, int], importance: Mapping[str, float], values: dict[str, int]
) -> dict[str, int]:
    """Use what rounding down left over: add one value where it saves most, as long as the product allows it."""
    product = math.prod(values.values())
    while True:
        room = [
            name for name, value in values.items() if value < sizes[name] and product // value * (value + 1) <= budget
        ]
        if not room:
            return values
        best = max(room, key=lambda name: importance[name] / (values[name] * (values[name] + 1)))
        product = product // values[best] * (values[best] + 1)
        values[best] += 1
