"""Top and bottom coding: as many rows as asked share a limit, the others are unchanged, and types stay."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines.memory.engine import Memory


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(-50, 50), min_size=5, max_size=60),
    st.sampled_from([0.0, 0.1, 0.3]),
    st.sampled_from([0.0, 0.05, 0.5]),
    st.sampled_from([1, 3, 5]),
    st.sampled_from([None, 7]),
)
def test_limits_are_shared_and_the_rest_is_unchanged(numbers, top, bottom, k, block_rows):
    frame = pd.DataFrame({"x": numbers, "row": range(len(numbers))})
    method = sf.TopBottom(k=k, top=top, bottom=bottom)
    try:
        release = method.release(frame, schema={"x": "quasi", "row": "other"}, engine=Memory(block_rows=block_rows))
    except sf.SfumatoError as refused:
        assert "unaltered" in str(refused)
        return
    after = release.to_pandas().sort_values("row")["x"].to_numpy()
    before = np.array(numbers)
    low, high = after.min(), after.max()
    assert (after == np.clip(before, low, high)).all()
    for share, extreme in ((bottom, low), (top, high)):
        if share:
            assert (after == extreme).sum() >= min(max(k, share * len(before)), len(before)) - 1e-9


def test_dates_are_coded_as_dates():
    frame = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=50).date})
    release = sf.TopBottom(k=5).release(frame, schema={"day": "quasi"})
    assert release.table.kinds["day"] == "date"
    days = release.to_pandas()["day"]
    assert days.nunique() == 42


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("block_rows", [None, 5])
def test_times_are_coded_in_their_unit_also_in_a_block_without_a_row_at_the_limit(unit, block_rows):
    times = pd.date_range("2020-01-01", periods=50, freq="7h").astype(f"datetime64[{unit}]")
    frame = pd.DataFrame({"time": times, "row": range(50)})
    roles = {"time": "quasi", "row": "other"}
    release = sf.TopBottom(k=5).release(frame, schema=roles, engine=Memory(block_rows=block_rows))
    after = release.to_pandas().sort_values("row")["time"].reset_index(drop=True)
    assert (after == frame["time"].clip(times[4], times[45])).all()


def test_categories_alone_are_refused():
    with pytest.raises(sf.SfumatoError, match="numeric"):
        sf.TopBottom().release({"city": ["Ulm", "Rom"] * 5}, schema={"city": "quasi"})
