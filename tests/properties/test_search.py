"""For every table: searched boxes hold what was promised, and cost no more than the boxes they came from."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.same_rows import same_rows

import sfumato as sf
from sfumato.errors import OptionError
from sfumato.methods.search_budget import SearchBudget
from sfumato.table.groups import group_sizes


@st.composite
def tables(draw):
    rows, seed = draw(st.integers(20, 90)), draw(st.integers(0, 10_000))
    numbers = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "x": numbers.normal(size=rows),
            "y": numbers.integers(0, draw(st.sampled_from([2, 9, 1000])), rows).astype(float),
            "word": numbers.choice(["a", "b", "c"], rows),
        }
    )


@settings(max_examples=15)
@given(table=tables(), overlap=st.sampled_from(["none", "allowed"]), k=st.integers(2, 6), l=st.integers(1, 2))
def test_searched_boxes_keep_every_promise_and_every_row(table, overlap, k, l):
    roles = {"x": "quasi", "y": "quasi", "word": "sensitive"}
    method = sf.Boxes(k=k, l=l, keep=["mean(x)"], search=SearchBudget(rounds=3), overlap=overlap)
    release = method.release(table, schema=roles, seed=1)
    assert all(finding.held for finding in release.findings)
    assert release.table.rows == len(table)
    assert group_sizes(release.table, ["x_low", "x_high", "y_low", "y_high", "box"]).min() >= k


@settings(max_examples=10)
@given(table=tables(), overlap=st.sampled_from(["none", "allowed"]))
def test_a_search_never_widens_a_kept_statistic(table, overlap):
    keep = ["mean(x)", "var(y)", "corr(x, y)"]
    data = table[["x", "y"]]
    plain = sf.Boxes(k=3, keep=keep).release(data, seed=1)
    searched = sf.Boxes(k=3, keep=keep, search=SearchBudget(rounds=5), overlap=overlap).release(data, seed=1)
    for statistic in keep:
        before, after = plain.estimate(statistic), searched.estimate(statistic)
        assert after.high - after.low <= (before.high - before.low) * (1 + 1e-4)  # an estimate is as exact as that


def test_without_overlap_the_boxes_stay_a_subdivision():
    data = pd.DataFrame(np.random.default_rng(3).normal(size=(120, 2)), columns=["x", "y"])
    boxes = sf.Boxes(k=4, search=SearchBudget(rounds=10)).release(data, seed=1).table.to_pandas().drop_duplicates("box")
    low, high = boxes[["x_low", "y_low"]].to_numpy(), boxes[["x_high", "y_high"]].to_numpy()
    for one, other in combinations(range(len(boxes)), 2):
        assert (np.minimum(high[one], high[other]) - np.maximum(low[one], low[other])).min() <= 0.0


def test_a_search_finds_narrower_boxes_for_the_same_people():
    numbers = np.random.default_rng(0)
    data = pd.DataFrame(numbers.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 600), columns=["x", "y"])
    plain = sf.Boxes(k=5, keep=["corr(x, y)"]).release(data, seed=1).estimate("corr(x, y)")
    for overlap in ("none", "allowed"):
        method = sf.Boxes(k=5, keep=["corr(x, y)"], search=SearchBudget(rounds=30), overlap=overlap)
        found = method.release(data, seed=1).estimate("corr(x, y)")
        assert found.high - found.low < 0.99 * (plain.high - plain.low)


def test_a_seed_gives_the_same_search():
    data = pd.DataFrame(np.random.default_rng(5).normal(size=(200, 2)), columns=["x", "y"])
    method = sf.Boxes(k=5, search=SearchBudget(rounds=10), overlap="allowed")
    first, again = (method.release(data, seed=4).table.arrow for _ in range(2))
    assert same_rows(first, again)


def test_boxes_that_overlap_say_so():
    data = pd.DataFrame(np.random.default_rng(5).normal(size=(60, 2)), columns=["x", "y"])
    release = sf.Boxes(k=5, search=SearchBudget(rounds=2), overlap="allowed").release(data, seed=4)
    assert "overlap" in release.findings[0].claim
    assert "overlap" in release.manifest.notes


def test_what_cannot_be_searched_is_refused():
    with pytest.raises(OptionError, match="overlap"):
        sf.Boxes(k=5, search=sf.SearchBudget(seconds=1), overlap="allowed", edges="cells")
    with pytest.raises(OptionError):
        sf.Boxes(k=5, search=-1)
