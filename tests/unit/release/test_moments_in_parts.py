"""Statistics of a release that is too large for memory: guaranteed like the others, and hardly wider."""

from __future__ import annotations

import html

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.release import rows as released_rows
from sfumato.release.moments_in_parts import NOTE, estimate_in_parts
from sfumato.release.rows import StoredTable, ask_rows
from sfumato.report.summary import summarize
from sfumato.statistics.language import parse
from sfumato.table.kinds import Kind

STATISTICS = ["mean(x)", "var(x)", "sd(y)", "var(y, unbiased)", "cov(x, y)", "cov(x, y, unbiased)", "corr(x, y)"]


def stored(folder, low, high, parts=3):
    """Return rows with ranges in x and y in several files."""
    arrow = pa.table({"x_low": low[:, 0], "x_high": high[:, 0], "y_low": low[:, 1], "y_high": high[:, 1]})
    size, files = -(-len(low) // parts), []
    for number in range(parts):
        files.append(folder / f"{number}.parquet")
        pq.write_table(arrow.slice(number * size, size), files[-1])
    return StoredTable(files, dict.fromkeys(arrow.column_names, Kind.CONTINUOUS), len(low)), sf.read_release(arrow)


def in_parts(table, statistic):
    return estimate_in_parts(parse(statistic), table, lambda questions: ask_rows(table, questions))


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("offset", [0.0, 1e6, -1e9])
def test_it_holds_the_exact_interval_and_is_hardly_wider(statistic, offset, tmp_path):
    rng = np.random.default_rng(1)
    middle = rng.multivariate_normal([offset, 3.0], [[1.0, 0.6], [0.6, 1.0]], 3000)
    half = rng.exponential(0.03, middle.shape)
    table, release = stored(tmp_path, middle - half, middle + half)
    found, exact = in_parts(table, statistic), release.estimate(statistic)
    assert found.low <= exact.inner_low and exact.inner_high <= found.high
    assert found.low <= found.inner_low <= found.value <= found.inner_high <= found.high
    rounding = 1e-6 + 1e-13 * abs(offset)
    assert exact.low - rounding <= found.inner_low and found.inner_high <= exact.high + rounding
    assert found.high - found.low <= 1.2 * (exact.high - exact.low) + rounding
    assert found.value == pytest.approx(exact.value, rel=1e-7) and found.records == 3000 and found.notes == (NOTE,)


numbers = st.floats(-100.0, 100.0).map(lambda value: round(value, 3))


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(numbers, numbers, st.floats(0.0, 60.0), st.floats(0.0, 60.0)), min_size=2, max_size=12),
    shares=st.lists(st.floats(0.0, 1.0), min_size=24, max_size=24),
    statistic=st.sampled_from(STATISTICS),
)
def test_every_choice_of_values_is_inside(rows, shares, statistic, tmp_path_factory):
    """Ranges are wide here, and far more than second order matters."""
    cells = np.array(rows)
    low, high = cells[:, :2], cells[:, :2] + cells[:, 2:]
    table, _ = stored(tmp_path_factory.mktemp("rows"), low, high, parts=2)
    found = in_parts(table, statistic)
    if found is None:
        return
    chosen = low + np.array(shares[: 2 * len(rows)]).reshape(len(rows), 2) * (high - low)
    for values in (low, high, chosen, np.clip(chosen, low, high), np.where(chosen > np.median(chosen), high, low)):
        true = sf.read_release({"x": values[:, 0], "y": values[:, 1]}).estimate(statistic).value
        slack = 1e-9 * (1.0 + abs(found.low) + abs(found.high))
        assert np.isnan(true) or found.low - slack <= true <= found.high + slack


def test_missing_cells_and_constant_columns_are_left_to_others(tmp_path):
    low = np.array([[1.0, 2.0], [1.0, 3.0], [1.0, np.nan]])
    table, _ = stored(tmp_path, low, low, parts=1)
    assert in_parts(table, "mean(y)") is None and in_parts(table, "corr(x, y)") is None
    assert in_parts(table, "var(x)").high == pytest.approx(0.0, abs=1e-9)


def test_the_report_of_a_large_release_is_whole(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    people = {"x": rng.normal(size=3000), "y": rng.normal(size=3000), "z": rng.normal(size=3000)}
    pq.write_table(pa.table(people), tmp_path / "people.parquet")
    method, roles = sf.Boxes(k=5, keep=["corr(x, y)", "mean(x)"]), dict.fromkeys("xyz", "quasi")
    given = {"schema": roles, "seed": 1, "engine": sf.DuckDB(block_rows=1000)}
    small = method.release(tmp_path / "people.parquet", into=tmp_path / "small", **given)
    monkeypatch.setattr(released_rows, "MANY_ROWS", 1000)
    with monkeypatch.context() as reading:
        reading.setattr(StoredTable, "thinned", None)  # the rows of spreads and pictures come with the answers
        large = method.release(tmp_path / "people.parquet", into=tmp_path / "large", **given)
    with monkeypatch.context() as reading:
        reading.setattr(released_rows, "ask_rows", None)  # what the report showed is known: no row is read again
        assert [one.name for one in summarize(large).estimates] == ["corr(x, y)", "mean(x)"]
    pages = [html.unescape((tmp_path / name / "report.html").read_text()) for name in ("small", "large")]
    for said in ("corr(x, y)", "mean(x)", "x and y in the release", "Distributions"):
        assert all(said in page.replace("<wbr>", "") for page in pages), said
    for statistic in ("corr(x, y)", "mean(x)", "sd(z)"):
        found = large.estimate(statistic)
        assert NOTE in found.notes and found.of == "original"
        true = sf.read_release(people).estimate(statistic).value
        assert found.low <= true <= found.high
    assert NOTE not in large.estimate("corr(x, y)", budget=sf.EstimateBudget(gap=1e-3)).notes
    assert large.estimate("quantile(x, 0.5)").records == 3000  # from all groups
    assert small.table.rows == large.table.rows == 3000
