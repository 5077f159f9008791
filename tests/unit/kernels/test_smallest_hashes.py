"""The smallest hashes with their counts, against sorting all of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfumato.plan.sketch_kernels import count_smallest

hashes = st.lists(st.one_of(st.integers(0, 40), st.integers(0, 2**64 - 1)), max_size=120)


@given(hashes, hashes, st.integers(1, 12))
def test_the_smallest_are_kept_with_all_their_times(first, second, size):
    counts = Counter(first + second)
    wanted = sorted(counts)[:size]
    begun = count_smallest(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.array(first, np.uint64), size)
    found, times = count_smallest(*begun, np.array(second, np.uint64), size)
    assert found.tolist() == wanted
    assert times.tolist() == [counts[one] for one in wanted]
