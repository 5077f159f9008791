"""Rows to release and a holdout."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import OptionError


def test_a_table_is_split_in_two(original):
    kept, other = holdout = sf.split_holdout(original, 0.25, seed=1)
    assert holdout.kept is kept
    assert holdout.other is other
    assert (kept.rows, other.rows) == (300, 100)
    together = np.sort(np.concatenate([kept.numbers("height"), other.numbers("height")]))
    assert np.array_equal(together, np.sort(original.numbers("height")))


def test_half_of_the_rows_by_default_and_their_order_stays(original):
    kept, other = sf.split_holdout(original.to_pandas())
    heights = list(original.numbers("height"))
    for part in (kept, other):
        assert part.rows == 200
        places = [heights.index(height) for height in part.numbers("height")]
        assert places == sorted(places)


def test_a_seed_gives_the_same_split_again(original):
    first, again, another = (sf.split_holdout(original, seed=seed).other for seed in (1, 1, 2))
    assert first.arrow.equals(again.arrow)
    assert not first.arrow.equals(another.arrow)


def test_the_share_must_be_from_0_to_1(original):
    with pytest.raises(OptionError, match="share"):
        sf.split_holdout(original, 1.5)
