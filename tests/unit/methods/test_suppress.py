"""Local suppression: k by counting, cells kept or empty, importance, and nothing to reconstruct if it is random."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines.memory.engine import Memory
from sfumato.errors import OptionError
from sfumato.measures.privacy.attacks.suppression import reconstruct
from sfumato.methods.partition import Routes
from sfumato.sources.frames import as_table
from sfumato.table.groups import mix_bits

QUASI = ("a", "b", "c")
ROLES = dict.fromkeys(QUASI, "quasi") | {"row": "other"}


def people(seed: int, rows: int = 200) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    columns = {name: draw.zipf(1.8, rows).clip(max=6).astype(str) for name in QUASI}
    return pd.DataFrame(columns | {"row": np.arange(rows)})


def released(frame: pd.DataFrame, seed: int = 1, **options) -> pd.DataFrame:
    release = sf.Suppress(**options).release(frame, schema=ROLES, seed=seed)
    assert all(finding.held for finding in release.findings)
    return release.to_pandas().sort_values("row").reset_index(drop=True)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([2, 3, 8]), st.sampled_from(["minimal", "random"]))
def test_every_row_is_equal_to_k_and_every_cell_kept_or_empty(seed, k, kind):
    frame = people(seed, rows=60)
    found = released(frame, k=k, kind=kind, seed=seed)
    assert found.groupby(list(QUASI), dropna=False).size().min() >= k, "an empty cell is a value of its own"
    for name in QUASI:
        kept = found[name].notna()
        assert (found[name][kept] == frame[name][kept]).all()


def test_nothing_is_suppressed_where_groups_are_large():
    frame = pd.DataFrame({name: ["x", "y"] * 10 for name in QUASI} | {"row": range(20)})
    assert released(frame, k=5)[list(QUASI)].notna().all().all()


def test_the_cells_of_an_important_column_are_kept():
    frame = people(3)
    plain = released(frame, k=4)
    spared = released(frame, k=4, importance={"a": 50.0})
    assert spared["a"].isna().sum() < plain["a"].isna().sum()
    assert spared["a"].isna().sum() <= 4


def test_fewer_cells_than_whole_rows():
    """Suppressing the rows of small groups entirely is the control."""
    frame = people(5, rows=400)
    sizes = frame.groupby(list(QUASI))["row"].transform("size")
    whole = 3 * int((sizes < 4).sum())
    assert int(released(frame, k=4)[list(QUASI)].isna().sum().sum()) < 0.7 * whole


def reconstructed(frame: pd.DataFrame, found: pd.DataFrame, k: int) -> float:
    """Share of suppressed cells that an intruder excludes or finds: the value cannot be one that k rows show.

    Whoever knows that suppression is minimal reasons: had this row the value v, it would be equal to k released rows
    and would not have been suppressed. The share of suppressed rows for which such a reasoning is wrong is returned.
    """
    wrong = total = 0
    shown = found.dropna(subset=list(QUASI)).groupby(list(QUASI)).size()
    common = {key for key, size in shown.items() if size >= k}
    for place in np.flatnonzero(found[list(QUASI)].isna().sum(axis=1) == 1):
        total += 1
        wrong += tuple(frame.loc[place, list(QUASI)]) in common
    return wrong / max(total, 1)


def test_under_random_suppression_a_suppressed_cell_may_be_a_common_one():
    frame = people(8, rows=600)
    minimal = reconstructed(frame, released(frame, k=4), 4)
    random = reconstructed(frame, released(frame, k=4, kind="random", extra=0.5), 4)
    assert minimal < 0.1, "the reasoning is right where suppression is minimal"
    assert random > 0.25, "and wrong too often to be of use where it is random"


def planted(kind: str, seed: int) -> tuple[int, int]:
    """Guesses of an intruder about three women in a town of men, and how many of them are right."""
    sex, town = ["m"] * 590 + ["f"] * 3 + ["m"] * 300 + ["f"] * 307, ["A"] * 593 + ["B"] * 607
    frame = pd.DataFrame({"sex": sex, "town": town, "row": range(1200)})
    roles = {"sex": "quasi", "town": "quasi", "row": "other"}
    release = sf.Suppress(k=5, kind=kind, importance={"town": 9.0}).release(frame, schema=roles, seed=seed)
    found = reconstruct(as_table(frame), release.table, release.table.numbers("row").astype(int), ("sex", "town"))
    return found.guessed, found.correct


def test_planted_values_are_reconstructed_where_suppression_is_minimal_and_not_where_it_is_random():
    minimal, random = (np.sum([planted(kind, seed) for seed in range(10)], axis=0) for kind in ("minimal", "random"))
    assert minimal[1] >= 0.6 * minimal[0] > 0
    assert random[1] <= 0.4 * random[0]


def test_numbers_and_dates_keep_their_types():
    frame = pd.DataFrame({"a": [1, 1, 1, 9], "b": pd.to_datetime(["2020-01-01"] * 4), "c": [0.5] * 4, "row": range(4)})
    release = sf.Suppress(k=2).release(frame, schema=ROLES)
    assert str(release.table.arrow.schema.field("a").type) == "int64"
    assert release.table.arrow.column("a").null_count >= 2


@pytest.mark.parametrize("k", [61, 100])
def test_k_above_the_rows_is_refused(k):
    with pytest.raises(sf.SfumatoError, match="rows"):
        sf.Suppress(k=k).release(people(1, rows=60), schema=ROLES)


@pytest.mark.parametrize("method", [sf.Recode, sf.Suppress, sf.Generalize])
def test_a_wrong_importance_says_what_to_write(method):
    """The option is declared once; on the command line its value is JSON."""
    with pytest.raises(OptionError, match="--option 'importance="):
        method(k=3, importance="age=2")
    assert method(k=3, importance={"a": 2.0}).importance == {"a": 2.0}


def test_in_blocks_few_more_cells_are_suppressed(monkeypatch):
    """Rows that are equal but for one cell stay together. Blocks of random rows are the control."""
    frame, blocks = people(11, rows=4000), Memory(block_rows=500, sample_rows=1500)

    def suppressed(engine: Memory) -> int:
        release = sf.Suppress(k=5).release(frame, schema=ROLES, seed=1, engine=engine)
        assert all(finding.held for finding in release.findings)
        found = release.to_pandas()
        assert found.groupby(list(QUASI), dropna=False).size().min() >= 5
        return int(found[list(QUASI)].isna().sum().sum())

    whole, cut = suppressed(Memory()), suppressed(blocks)
    monkeypatch.setattr(Routes, "of", lambda self, places, keys: (mix_bits(keys) % np.uint64(self.blocks)).astype(int))
    assert whole <= cut <= 1.5 * whole
    assert suppressed(blocks) > 2 * cut
