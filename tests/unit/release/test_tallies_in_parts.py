"""Counts, sums, shares and quantiles of a release that is read part by part."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.release import rows as released_rows
from sfumato.release import tallies_in_parts
from sfumato.release.analysis import Analysis
from sfumato.release.rows import StoredTable
from sfumato.release.tallies_in_parts import ADDED, RANK_ERROR
from sfumato.report.summary import summarize
from sfumato.statistics.language import parse
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

ADDITIVE = [
    "count(x >= 0.5)",
    "count(x < 0 and sex = f)",
    "sum(x)",
    "sum(x | sex = m)",
    "share(x >= 0.5)",
    "mean(x | sex = f)",
]


@pytest.fixture(scope="module")
def people():
    draw = np.random.default_rng(0)
    return {"x": draw.normal(size=3000), "y": draw.normal(size=3000), "sex": draw.choice(["f", "m"], 3000)}


@pytest.fixture
def release(people, tmp_path, monkeypatch):
    """A release in several files that counts as too large for memory."""
    pq.write_table(pa.table(people), tmp_path / "people.parquet")
    monkeypatch.setattr(released_rows, "MANY_ROWS", 1000)
    method = sf.Boxes(k=5, l=1, keep=ADDITIVE)
    roles = {"x": "quasi", "y": "quasi", "sex": "other"}
    given = {"schema": roles, "seed": 1, "engine": sf.DuckDB(block_rows=1000)}
    return method.release(tmp_path / "people.parquet", into=tmp_path / "out", **given)


def in_memory(release):
    return sf.Release(Table(release.table.arrow, release.table.kinds), release.manifest)


@pytest.mark.parametrize("statistic", ADDITIVE)
def test_what_adds_up_is_the_same_as_of_all_rows(statistic, release, people):
    whole, found = in_memory(release), release.estimate(statistic)
    exact = whole.estimate(statistic)
    assert ADDED in found.notes and ADDED not in exact.notes
    for name in ("value", "low", "high", "inner_low", "inner_high"):
        assert getattr(found, name) == pytest.approx(getattr(exact, name), rel=1e-10, abs=1e-8), name
    assert (found.records, found.uncertain_records) == (exact.records, exact.uncertain_records)
    assert found.low <= sf.read_release(people).estimate(statistic).value <= found.high


def test_a_report_shows_them_all_and_reads_the_rows_once(release, monkeypatch):
    monkeypatch.setattr(released_rows, "ask_rows", None)
    assert [one.name for one in summarize(release).estimates] == ADDITIVE


@pytest.mark.parametrize("statistic", ADDITIVE)
def test_questions_reach_other_processes(statistic, release):
    parts = Analysis(table=release.table, manifest=release.manifest).by_parts(parse(statistic))
    (question,) = pickle.loads(pickle.dumps(parts.questions))
    assert question.of(release.table) == parts.questions[0].of(release.table)


numbers = st.integers(-20, 20).map(float)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.tuples(numbers, st.integers(0, 8)), min_size=2, max_size=60),
    share=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.8, 1.0]),
    error=st.sampled_from([0.01, 0.1, 0.3]),
    parts=st.integers(1, 4),
)
def test_every_choice_of_values_has_its_quantile_inside(rows, share, error, parts, tmp_path_factory):
    low = np.array([row[0] for row in rows])
    high = low + [row[1] for row in rows]
    folder = tmp_path_factory.mktemp("rows")
    arrow, files = pa.table({"x_low": low, "x_high": high}), []
    size = -(-len(low) // parts)
    for number in range(0, len(low), size):
        files.append(folder / f"{number}.parquet")
        pq.write_table(arrow.slice(number, size), files[-1])
    table = StoredTable(files, dict.fromkeys(arrow.column_names, Kind.CONTINUOUS), len(low), most_rows=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tallies_in_parts, "RANK_ERROR", error)
        found = sf.Release(table, None).estimate(f"quantile(x, {share})")
    exact = sf.read_release(arrow).estimate(f"quantile(x, {share})")
    assert found.notes != exact.notes
    assert found.low <= exact.low and exact.high <= found.high and found.low <= found.value <= found.high
    assert np.isnan(found.inner_low) or exact.low <= found.inner_low <= found.inner_high <= exact.high


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_a_quantile_is_hardly_wider_and_exact_if_there_is_time(share, release):
    whole, text = in_memory(release), f"quantile(x, {share})"
    found = release.estimate(text, budget=sf.EstimateBudget(seconds=1.0))
    ends = [whole.estimate(f"quantile(x, {share + sign * 2 * RANK_ERROR})") for sign in (-1, 1)]
    exact = whole.estimate(text)
    assert ends[0].low <= found.low <= exact.low and exact.high <= found.high <= ends[1].high
    assert found.low < exact.low or found.high > exact.high
    slow = release.estimate(text)
    assert (slow.low, slow.high) == (exact.low, exact.high)


def test_a_mean_of_rows_that_may_not_count_is_left_to_others(release):
    assert ADDED not in release.estimate("mean(y | x < 0)").notes


def test_missing_cells_are_left_to_others(tmp_path):
    arrow = pa.table({"x_low": [1.0, None, 2.0], "x_high": [1.5, None, 3.0]})
    pq.write_table(arrow, tmp_path / "rows.parquet")
    table = StoredTable([tmp_path / "rows.parquet"], dict.fromkeys(arrow.column_names, Kind.CONTINUOUS), 3, most_rows=1)
    assert sf.Release(table, None).estimate("median(x)").records == 2  # from all rows


def test_a_part_without_a_qualifying_record_adds_nothing(tmp_path):
    rows = pa.table({"x_low": [1.0, 2.0], "x_high": [1.5, 3.0], "y_low": [0, 5], "y_high": [0, 5]})
    for number in range(2):
        pq.write_table(rows.slice(number, 1), tmp_path / f"{number}.parquet")
    files, kinds = sorted(tmp_path.glob("*.parquet")), dict.fromkeys(rows.column_names, Kind.CONTINUOUS)
    found = sf.Release(StoredTable(files, kinds, 2, most_rows=1), None).estimate("sum(x | y < 1)")
    assert (found.low, found.high, found.records) == (pytest.approx(1.0), pytest.approx(1.5), 1)
