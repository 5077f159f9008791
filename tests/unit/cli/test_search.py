"""Searches and rules from the command line: reported, shown with a progress bar, stopped without loss."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sfumato.cli.commands import run

PROGRAM = Path(sys.executable).parent / "sfumato"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Path:
    numbers = np.random.default_rng(3).multivariate_normal([50, 100], [[100, 60], [60, 144]], size=200)
    path = tmp_path_factory.mktemp("data") / "pairs.csv"
    path.write_text("age,income\n" + "".join(f"{age:.3f},{income:.3f}\n" for age, income in numbers))
    return path


def request(pairs: Path, out: Path, *further: str) -> list[str]:
    return ["release", str(pairs), "--k", "5", "--keep", "corr(age, income)", "--seed", "1", "-o", str(out), *further]


def test_a_search_is_reported_with_its_gain(pairs, tmp_path, capfd):
    assert run(request(pairs, tmp_path / "plain", "--json")) == 0
    plain = json.loads(capfd.readouterr().out)
    assert plain["searches"] == plain["rules"] == []
    assert run(request(pairs, tmp_path / "searched", "--search", "1", "--json")) == 0
    searched = json.loads(capfd.readouterr().out)
    (trace,) = searched["searches"]
    assert trace["stop"] == "budget"
    assert trace["after"] < trace["before"]
    widths = [one["estimates"][0]["high"] - one["estimates"][0]["low"] for one in (plain, searched)]
    assert widths[1] < widths[0]
    assert run(request(pairs, tmp_path / "searched", "--search", "1", "--overlap", "allowed")) == 0
    shown = capfd.readouterr()
    assert "narrower by" in shown.out
    assert "boxes that may overlap" in shown.out, "the claim says so"
    assert "search:" in shown.err


def test_a_rule_is_reported_with_its_effect(pairs, tmp_path, capfd):
    assert run(request(pairs, tmp_path / "out", "--rule", "income matters most when age is young")) == 0
    assert "income matters most when age is young" in capfd.readouterr().out
    assert run(request(pairs, tmp_path / "out", "--rule", "income matters when age is young")) == 2
    assert "A rule must have the form" in capfd.readouterr().err


@pytest.mark.parametrize("further", [["--search", "0"], ["--search", "soon"], ["--overlap", "some"]])
def test_a_wrong_search_is_refused(pairs, tmp_path, capfd, further):
    assert run(request(pairs, tmp_path / "out", *further)) == 2
    assert not (tmp_path / "out").exists()
    assert "Traceback" not in capfd.readouterr().err


def test_an_interrupt_keeps_the_best_so_far(pairs, tmp_path):
    command = [PROGRAM, *request(pairs, tmp_path / "out", "--search", "600", "--json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "search:" not in process.stderr.readline():  # it is under way
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        printed = json.loads(process.communicate(timeout=60)[0])
    assert process.returncode == 0
    assert printed["searches"][0]["stop"] == "interrupted"
    assert all(finding["held"] for finding in printed["manifest"]["findings"])
    assert (tmp_path / "out" / "released.csv").exists()


def test_a_terminal_shows_a_bar_with_the_gain(pairs, tmp_path):
    ours, theirs = pty.openpty()
    command = [PROGRAM, *request(pairs, tmp_path / "out", "--search", "1")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
    os.close(ours)
    assert process.returncode == 0
    assert b"better" in shown
    assert b"Ctrl-C keeps it" in shown


def _read(descriptor: int) -> bytes:
    """What the program wrote next; nothing once it has ended, which is an error on some systems."""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""
