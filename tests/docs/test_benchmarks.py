"""Benchmarks: pages say what the history says, cases are complete, and a loss is seen. Nothing is timed here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _harness(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def harness(name: str):
    return import_module(f"harness.{name}")


class TestPages:
    def test_the_page_is_that_of_the_history(self):
        page = harness("page")
        assert page.PAGE.read_text(encoding="utf-8") == page.page(), "python benchmarks/run.py --page"

    def test_the_table_of_the_readme_is_that_of_the_history(self):
        page = harness("page")
        text = page.README.read_text(encoding="utf-8")
        assert text == page.readme(text), "python benchmarks/run.py --page"

    def test_the_comparison_names_cases_and_contenders_that_exist(self):
        page, cases = harness("page"), harness("case").all_cases()
        for _, name, ours, others, figure in page.COMPARED:
            case = cases[name]
            known = {one.name for one in (*case.contenders, *case.published)}
            assert {ours, *others} <= known
            assert not figure or figure in case.all_figures

    def test_a_page_shows_ratios_failures_and_goals(self, tmp_path):
        page, history = harness("page"), tmp_path / "history.jsonl"
        figures = {"loss": 0.03, "wall": 0.5, "processor": 0.4}
        ours = {"name": "sfumato", "runs": 3, "figures": figures_of(figures), "texts": {}}
        slow = figures_of({"loss": 0.045, "wall": 90.0, "processor": 80.0})
        rival = {"name": "anonypy", "runs": 1, "figures": slow, "texts": {"package": "anonypy", "version": "0.2.1"}}
        broken = {"name": "anonypyx", "failure": "cannot be installed: no wheel"}
        kept = harness("history").line("adult_groups", [ours, rival, broken], is_quick=False, load=3.0)
        harness("history").append(kept, history)
        text = page.page(history)
        assert "| anonypy (1 run) | 0.045 | 90 | 80 | loss 1.5, processor seconds 200 |" in text
        assert "- anonypyx: cannot be installed: no wheel" in text
        assert "| 0.5 | 2.5 | missed |" in text  # the goal is 0.2 s
        assert "while other programs ran (load 3.0)" in " ".join(text.split())  # wrapped, after the machine's name
        assert "anonypy 0.2.1" in page.compared(history)

    def test_history_names_no_host_and_no_path(self):
        for one in harness("history").read():
            assert set(one["machine"]) == {"architecture", "processor", "cores", "memory", "fingerprint"}
            assert not re.search(r"(?<![\w.])/(?:home|root|tmp|work|usr|var)\b", json.dumps(one))


class TestCases:
    def test_cases_need_the_standard_library_alone(self):
        code = "from harness.case import all_cases; print(len(all_cases()))"
        command = [sys.executable, "-S", "-c", code]
        bare = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=False)
        assert bare.returncode == 0, bare.stderr
        assert int(bare.stdout) == len(list((BENCHMARKS / "cases").glob("*.py")))

    def test_goals_and_rivals_exist_and_the_first_contender_is_ours(self):
        pinned = tomllib.loads((BENCHMARKS / "rivals.toml").read_text(encoding="utf-8"))
        for name, case in harness("case").all_cases().items():
            known = [one.name for one in (*case.contenders, *case.published)]
            assert len(known) == len(set(known)), name
            assert case.contenders[0].rival is None, name
            assert {one.rival for one in case.contenders} - {None} <= set(pinned), name
            for goal in case.goals:
                assert goal.of in known and goal.figure in case.all_figures, name
                assert goal.to is None or goal.to in known, name

    def test_every_rival_is_pinned_and_used(self):
        pinned = tomllib.loads((BENCHMARKS / "rivals.toml").read_text(encoding="utf-8"))
        used = {one.rival for case in harness("case").all_cases().values() for one in case.contenders}
        assert set(pinned) == used - {None}
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", one) for section in pinned.values() for one in section["install"])


def figures_of(values: dict[str, float]) -> dict[str, dict[str, float]]:
    return {name: {"median": value, "spread": 0.0} for name, value in values.items()}


def measured(loss: float, ours: float, rival: float, fingerprint: str = "a") -> dict:
    """A line of the history."""
    contenders = [
        {"name": "sfumato", "figures": figures_of({"loss": loss, "processor": ours})},
        {"name": "anonypy", "figures": figures_of({"processor": rival})},
    ]
    return {"case": "adult_groups", "quick": False, "machine": {"fingerprint": fingerprint}, "contenders": contenders}


class TestLosses:
    @pytest.fixture
    def losses(self):
        case = harness("case").all_cases()["adult_groups"]
        before = [measured(0.030, 1.0, 80.0) for _ in range(3)]
        return lambda now: harness("history").losses(case, now, before)

    def test_what_takes_a_fifth_longer_is_a_loss(self, losses):
        assert len(losses(measured(0.030, 1.3, 80.0))) == 1
        assert losses(measured(0.030, 1.1, 80.0)) == []

    def test_a_busy_machine_is_no_loss(self, losses):
        assert losses(measured(0.030, 2.0, 160.0)) == []

    def test_worse_quality_is_a_loss_however_fast_it_is(self, losses):
        assert "loss" in losses(measured(0.040, 0.5, 80.0))[0]

    def test_another_machine_is_not_compared(self, losses):
        assert losses(measured(0.090, 9.0, 80.0, fingerprint="b")) == []

    def test_the_newest_full_run_of_a_case_is_shown(self):
        lines = [{"case": "a", "quick": quick, "n": n} for n, quick in enumerate((True, False, False, True))]
        assert harness("history").latest(lines)["a"]["n"] == 2


CASE = """
from harness.case import Case, Contender, Figure

def prepare(run):
    (run.inputs / "number.txt").write_text("7")

def doubled(run):
    with run.clock():
        number = 2 * int((run.inputs / "number.txt").read_text())
    (run.output / "doubled.txt").write_text(str(number))
    run.note(said="by two")

def broken(run):
    raise ValueError("no such thing in /some/where")

def untimed(run):
    pass

def recount(run):
    return {"ratio": int((run.output / "doubled.txt").read_text()) / 7}

CASE = Case(
    title="t", about="a", prepare=prepare, recount=recount, figures={"ratio": Figure(title="ratio")},
    contenders=(
        Contender(name="doubled", run=doubled), Contender(name="broken", run=broken),
        Contender(name="untimed", run=untimed), Contender(name="away", run=doubled, rival="away"),
    ),
)
"""


def test_contenders_run_in_processes_of_their_own_and_are_counted_again(tmp_path, monkeypatch):
    measure, environments = harness("measure"), harness("environments")
    (tmp_path / "tiny.py").write_text(CASE)
    (tmp_path / "rivals.toml").write_text('[away]\ninstall = ["./there-is-no-such-package"]\n')
    monkeypatch.setattr(measure, "CASES", tmp_path)
    monkeypatch.setattr(environments, "RIVALS", tmp_path / "rivals.toml")
    monkeypatch.setenv("SFUMATO_BENCH_CACHE", str(tmp_path / "cache"))
    case = harness("case").load(tmp_path / "tiny.py")
    said: list[str] = []
    deadline = time.monotonic() + 600.0
    doubled, broken, untimed, away = measure.measure("tiny", case, is_quick=True, deadline=deadline, say=said.append)
    assert doubled["runs"] == 3
    assert doubled["figures"]["ratio"] == {"median": 2.0, "spread": 0.0}
    assert {"wall", "processor", "memory"} < set(doubled["figures"])
    assert doubled["texts"] == {"said": "by two"}
    assert broken == {"name": "broken", "failure": "ValueError: no such thing in"}
    assert "run.clock()" in untimed["failure"]
    assert away["failure"].startswith("cannot be installed")
    assert (tmp_path / "cache" / "away" / "failed").is_file()  # remembered, so that it is not tried three times
    late = measure.measure("tiny", case, is_quick=True, deadline=time.monotonic() - 1.0, say=said.append)
    assert late[0]["failure"] == "no table: no time left"
