"""A child process answers over its pipes, hears no library, and ends with its parent."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time

import pytest

from sfumato.processes import Child, python_environment

WORK = """
import os, sys, time

def double(parent):
    while True:
        number = parent.receive()
        print("a library prints")
        if number is None:
            os._exit(7)
        parent.send((2 * number, os.environ.get("SFUMATO_TEST")))

def sleep(parent):
    parent.send(os.getpid())
    time.sleep(600)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "child_work.py").write_text(WORK)
    monkeypatch.syspath_prepend(tmp_path)
    return "child_work"


def test_messages_go_to_and_fro_and_what_is_printed_is_none(module):
    child = Child(module, "double", environment={"SFUMATO_TEST": "here"})
    for number in (3, 4):
        child.send(number)
        assert child.receive() == (2 * number, "here")
    assert child.is_running
    child.end()
    assert not child.is_running


def test_the_death_of_a_child_is_noticed(module):
    child = Child(module, "double")
    child.send(None)
    with pytest.raises((EOFError, OSError, pickle.UnpicklingError)):
        child.receive()
    assert child.end() == 7


def test_a_child_ends_with_its_parent_while_it_works(module):
    script = "from sfumato.processes import Child; c = Child('child_work', 'sleep'); print(c.receive(), flush=True)"
    script += "; import os; os._exit(0)"
    told = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, env=python_environment()
    )
    for _ in range(200):
        if not _is_alive(int(told.stdout)):
            return
        time.sleep(0.1)
    raise AssertionError("the child outlived its parent")


def _is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie, which only waits to be counted by its new parent, does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
