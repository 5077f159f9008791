"""How many points lie in each box: against counting one by one."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from sfumato.measures.privacy.box_kernels import inside_counts


@given(st.integers(0, 2**32 - 1), st.integers(0, 3), st.integers(0, 3))
def test_counts_match_the_slow_twin(seed, numeric, categorical):
    draw = np.random.default_rng(seed)
    numbers = draw.integers(0, 5, (30, numeric)).astype(float)
    numbers[draw.random(numbers.shape) < 0.1] = np.nan
    ends = np.sort(draw.integers(0, 5, (2, 12, numeric)).astype(float), axis=0)
    categories = draw.integers(0, 3, (30, categorical)).astype(np.int32)
    cells = draw.integers(0, 4, (12, categorical)).astype(np.int32)
    allowed = draw.random((categorical, 4, 3)) < 0.6
    owners = np.unique(draw.integers(0, 20, 30), return_inverse=True)[1]
    fitted: list[float] = [np.inf] * (int(owners.max()) + 1)
    found = inside_counts(
        numbers=numbers, categories=categories, low=ends[0], high=ends[1], cells=cells, allowed=allowed, owners=owners
    )
    for box in range(12):
        slow = set()
        for point in range(30):
            near = all(
                np.isnan(x) or low <= x <= high
                for x, low, high in zip(numbers[point], ends[0, box], ends[1, box], strict=True)
            )
            named = all(allowed[c, cells[box, c], categories[point, c]] for c in range(categorical))
            slow |= {int(owners[point])} if near and named else set()
        assert found.in_box[box] == len(slow)
        fitted = [min(one, len(slow)) if place in slow else one for place, one in enumerate(fitted)]
    assert found.fewest.tolist() == [0 if one == np.inf else one for one in fitted]
