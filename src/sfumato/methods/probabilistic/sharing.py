"""The budget of combinations, shared over columns (LT §3.1).

With d values in a column its rank difference falls as 1/d, so the weighted loss is Σ w_i/d_i and is least, for a given
product of the d_i, when every d_i is proportional to its weight. A column with fewer values than its share keeps them
all, and the rest is shared again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from sfumato.errors import OptionError
from sfumato.params import require_int, require_number


def share_budget(budget: int, sizes: Mapping[str, int], weights: Mapping[str, float] | None = None) -> dict[str, int]:
    """How many values each column may have: at least 1, at most its size, with a product of at most ``budget``.

    ``sizes`` are the values that the columns have; ``weights`` say how much each matters (1 where none is given).
    """
    budget = require_int(budget, name="budget", at_least=1)
    if not sizes:
        return {}
    importance = {name: (weights or {}).get(name, 1.0) for name in sizes}
    shares = real_shares(budget, sizes, importance)
    values = {name: min(sizes[name], max(1, math.floor(share + 1e-9))) for name, share in shares.items()}
    return _filled(budget, sizes, importance, values)


def real_shares(budget: float, sizes: Mapping[str, int], weights: Mapping[str, float]) -> dict[str, float]:
    """LT equation (1) between 1 and the size of each column: d_i = w_i·s with the one scale s that uses the budget up.

    LT takes columns with fewer values than their share out one after the other; the scale that comes of it is found
    here by bisection, which also minds columns whose share would be less than one value.
    """
    wanted = min(math.log(budget), sum(math.log(size) for size in sizes.values()))

    def shares(scale: float) -> dict[str, float]:
        return {name: min(float(size), max(1.0, weights[name] * scale)) for name, size in sizes.items()}

    low = min(1.0 / weight for weight in weights.values())
    high = max(size / weights[name] for name, size in sizes.items())
    for _ in range(200):
        middle = math.sqrt(low * high)
        if sum(math.log(share) for share in shares(middle).values()) <= wanted:
            low = middle
        else:
            high = middle
    return shares(low)


def require_weights(weights: Mapping[str, float] | None) -> None:
    """Weights are positive numbers, by column."""
    if weights is None:
        return
    if not isinstance(weights, Mapping):
        raise OptionError("weights must map columns to numbers.", found=type(weights).__name__)
    for name, weight in weights.items():
        require_number(weight, name=f"the weight of {name!r}", above=0.0)


def _filled(
    budget: int, sizes: Mapping[str, int], weights: Mapping[str, float], values: dict[str, int]
) -> dict[str, int]:
    """One value more where it saves most, as long as the product allows: what rounding down left over."""
    product = math.prod(values.values())
    while True:
        room = [
            name for name, value in values.items() if value < sizes[name] and product // value * (value + 1) <= budget
        ]
        if not room:
            return values
        best = max(room, key=lambda name: weights[name] / (values[name] * (values[name] + 1)))
        product = product // values[best] * (values[best] + 1)
        values[best] += 1
