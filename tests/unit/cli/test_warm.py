"""``sfumato warm``: each method releases its small table, so that what the method calls is compiled."""

from __future__ import annotations

import json
import subprocess
import sys

import sfumato as sf


def test_each_method_is_warmed_and_none_refuses_its_table():
    command = [sys.executable, "-m", "sfumato", "warm", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told = [line for line in done.stderr.splitlines() if "compil" not in line]
    assert not told
    assert sf.Boxes.name in json.loads(done.stdout)["methods"]


def test_one_method_is_warmed_alone():
    command = [sys.executable, "-m", "sfumato", "warm", "--method", "Quantiles", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert list(json.loads(done.stdout)["methods"]) == ["quantiles"]
