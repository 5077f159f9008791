"""The page on cost: figures are kept, failures do not stop the measuring, and the page shows the kept figures."""

from __future__ import annotations

import json
import subprocess
import time
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "studies"
RUN = {"engine": "duckdb", "columns": 4, "k": 5, "memory": 1e9}


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return import_module


@pytest.fixture
def figures(benchmark, tmp_path, monkeypatch):
    """A place for figures of the test."""
    place = tmp_path / "figures.json"
    for function in ("kept", "keep", "page"):
        defaults = getattr(benchmark("scale_page"), function).__defaults__
        monkeypatch.setattr(getattr(benchmark("scale_page"), function), "__defaults__", (*defaults[:-1], place))
    return place


def test_a_section_is_replaced_and_the_others_stay(benchmark, figures):
    page = benchmark("scale_page")
    page.keep("database", {"rows": 10, "columns": 3, "runs": []})
    page.keep("mondrian", {"runs": [{"name": "a", "rows": 5, "seconds": 7, "processor": 6}]})
    page.keep("database", {"rows": 20, "columns": 3, "runs": []})
    assert page.kept()["database"]["rows"] == 20
    text = page.page()
    assert "20 rows × 3 columns" in text
    assert "| a | 5 | more than 7 | more than 6 | – | – |" in text
    assert "## Rows, columns and k" not in text  # not measured


def test_the_largest_releases_stand_in_one_table(benchmark, figures):
    page = benchmark("scale_page")
    costs = {"wall": 120.0, "processor": 240.0, "memory": 1.5e9, "disk": 4e9}
    runs = [{"rows": rows, "columns": 2, "bytes": 4, **costs} for rows in (10**9, 10**8)]
    page.keep("largest", {"memory": "4GB", "runs": runs})
    text = page.page()
    first, second = (line for line in text.splitlines() if line.startswith("| 1"))
    assert first == "| 100,000,000 | 2 | 4 | 2.0 | 4.0 | 1.50 GB | 4 GB |"
    assert second.startswith("| 1,000,000,000 |")
    assert "the time on the clock 0.10 times" in text
    page.keep("largest", {"memory": "4GB", "runs": runs[:1]})
    assert "times as much" not in page.page()


def test_genotypes_are_measured_and_stand_in_the_page(benchmark, figures, monkeypatch, capsys):
    study, page = benchmark("genotypes"), benchmark("scale_page")
    monkeypatch.setattr("sys.argv", ["genotypes.py", "--rows", "60", "--columns", "30", "--step", "assess"])
    study.main()
    cost = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert cost["wall"] > 0.0 and cost["memory"] > 1e7
    runs = [{"step": step, "said": said, **cost} for step, said in study.STEPS.items()]
    page.keep("genotypes", {"rows": 60, "columns": 30, "runs": runs})
    assert "| a release by `PartitionedIca` |" in page.page()


def test_a_large_release_is_measured_as_a_user_makes_it(benchmark, figures, tmp_path, monkeypatch):
    largest = benchmark("largest")
    words = ["largest.py", "--rows", "3000", "--columns", "2", "--single", "--keep", "--folder", str(tmp_path)]
    monkeypatch.setattr("sys.argv", words)
    for _ in range(2):
        largest.main()
    (run,) = benchmark("scale_page").kept()["largest"]["runs"]
    assert (run["rows"], run["columns"], run["bytes"]) == (3000, 2, 4)
    assert run["wall"] > 0.0 and run["memory"] > 1e7 and run["disk"] >= 0


def test_exponents_are_computed_from_the_runs(benchmark, figures):
    page = benchmark("scale_page")
    runs = [{**RUN, "rows": rows, "wall": rows / 1e5, "processor": rows / 5e4} for rows in (10**6, 10**7)]
    page.keep("scale", {"memory": "4GB", "runs": runs, "missing": []})
    text = page.page()
    assert "- rows: exponent 1.00" in text
    assert "grows 1.00 times as much" in text
    assert "columns: exponent" not in text


def test_what_fails_or_would_take_too_long_is_listed_and_the_rest_is_measured(
    benchmark, figures, tmp_path, monkeypatch
):
    scale = benchmark("scale")

    def released(case, source, folder, *, timeout):
        if case.k == 2:
            raise subprocess.CalledProcessError(1, "release", stderr="a trace\nMemoryError: none left")
        if case.k == 20:
            raise subprocess.TimeoutExpired("release", timeout)
        return {"wall": 1.0, "processor": 1.0, "memory": 1.0}

    monkeypatch.setattr(scale, "released", released)
    file = tmp_path / "page.md"
    measured = scale.Measurements(folder=tmp_path, deadline=time.monotonic() + 600.0, keep=True, page=file)
    for k in (2, 20, 5):
        measured.add(scale.Case(rows=1000, k=k))
    measured.add(scale.Case(rows=10**9))
    text = file.read_text()
    assert "| duckdb | 1,000 | 4 | 2 | not measured: failed: MemoryError: none left |" in text
    assert "| duckdb | 1,000 | 4 | 20 | not measured: stopped, no time left |" in text
    assert "| duckdb | 1,000 | 4 | 5 | 1.0 | 1.0 | 0.00 GB |" in text
    assert "| duckdb | 1,000,000,000 | 4 | 5 | not measured: no time left |" in text


def test_the_largest_release_is_tried_before_one_that_only_adds_a_point(benchmark):
    cases = benchmark("scale").cases(10**6, 10**8)
    assert [case.rows for case in cases[-2:]] == [10**8, 3 * 10**7]
    assert len(cases) == len(set(cases))
    assert max(case.rows for case in benchmark("scale").cases(10**6, 10**6)) == 10**6


def test_the_page_is_that_of_the_kept_figures(benchmark):
    page = benchmark("scale_page")
    assert page.PAGE.read_text(encoding="utf-8") == page.page()
