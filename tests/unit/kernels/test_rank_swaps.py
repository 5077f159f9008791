"""Pairs of near ranks: the kernel against lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfumato.methods.swap_kernels import rank_partners


def slow_partners(rows: int, window: int, choose) -> list[int]:
    partner = list(range(rows))
    free = set(range(rows))
    for rank in range(rows):
        if rank in free:
            free.remove(rank)
            near = [other for other in sorted(free) if other <= rank + window]
            if near:
                other = choose(rank, near)
                free.remove(other)
                partner[rank], partner[other] = other, rank
    return partner


@given(st.integers(0, 60), st.integers(1, 12), st.integers(0, 10**6))
def test_partners_are_chosen_as_the_slow_way_would(rows, window, seed):
    found = rank_partners(np.random.default_rng(seed).random(rows), window).tolist()
    # the same choices: whether each of them was free and near is checked by the twin
    again = slow_partners(rows, window, lambda rank, near: found[rank] if found[rank] in near else near[0])
    assert found == again
    assert all(abs(rank - other) <= window for rank, other in enumerate(found))
    assert [found[other] for other in found] == list(range(rows))


def test_every_near_rank_is_as_likely():
    draw = np.random.default_rng(1)
    chosen = np.array([rank_partners(draw.random(30), 5)[0] for _ in range(5000)])
    counts = np.bincount(chosen, minlength=7)
    assert counts[[0, 6]].sum() == 0
    expected = 5000 / 5
    assert ((counts[1:6] - expected) ** 2 / expected).sum() < 18.5  # chi-squared with 4 degrees of freedom, 0.1 %
    counts[1] += 200  # control
    assert ((counts[1:6] - expected) ** 2 / expected).sum() > 18.5
