"""Kernels give the same results as Python and compiled, and small tables compile nothing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import sfumato as sf
from sfumato.kernels import jit, sorting
from sfumato.methods.recodings import local_groups

ROWS = 120
ROLES = {"x0": "quasi", "x1": "quasi", "x2": "quasi", "group": "quasi", "answer": "sensitive"}
METHODS = [
    sf.Boxes(k=4, l=2),
    sf.Boxes(k=4, l=1),
    sf.Boxes(k=4, l=1, edges="cells"),
    sf.Boxes(k=4, l=1, search=sf.SearchBudget(rounds=1)),
    sf.Microaggregate(k=4),
    sf.Microaggregate(k=4, kind="vmdav"),
    sf.Microaggregate(k=4, kind="tree"),
    sf.Recode(k=4),
    sf.Recode(k=4, kind="local"),
    sf.Recode(k=4, kind="local", l_kind="recursive", t=0.4),
    sf.Suppress(k=4),
    sf.Swap(),
    sf.SvdSwap(),
    sf.OptimalGroups(k=4, l=1),
]
PROGRAM = """
import sys, numpy as np, sfumato as sf
numbers = np.random.default_rng(0).normal(size=(200, 3))
sf.{}.release({{name: column for name, column in zip("abc", numbers.T)}}, seed=1)
print("numba" in sys.modules)
"""


class FewRounds:
    """A clock that stops a search after a round instead of a time, within which a faster way gets further."""

    share = 0.0

    def __init__(self, seconds):
        self.rounds = 0

    @property
    def is_over(self):
        self.rounds += 1
        return self.rounds > 1


def released_rows(method):
    generator = np.random.default_rng(5)
    numbers = {f"x{axis}": np.round(generator.normal(size=ROWS), 1) for axis in range(3)}  # with ties
    words = {"group": generator.choice(list("abc"), ROWS), "answer": generator.choice(list("pqr"), ROWS)}
    frame = method.release(numbers | words, schema=ROLES, seed=3).to_pandas()
    rows = frame.drop(columns="box", errors="ignore").itertuples(index=False)  # boxes are numbered at random
    return sorted(tuple(map(str, row)) for row in rows)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.name} {getattr(method, 'kind', '')}")
def test_a_release_is_the_same(method, monkeypatch):
    monkeypatch.setattr(local_groups, "Clock", FewRounds)
    with jit.always_plain():
        plain = released_rows(method)
    with jit.always_compiled():
        compiled = released_rows(method)
    assert plain == compiled


@pytest.mark.parametrize("method", ["Boxes(k=5)", "Suppress(k=5)", 'Recode(k=5, kind="local")'])
def test_a_small_table_needs_no_compiler(method, tmp_path):
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    program = [sys.executable, "-c", PROGRAM.format(method)]
    ended = subprocess.run(program, env=environment, check=True, capture_output=True, text=True)
    assert ended.stdout == "False\n"


@pytest.mark.parametrize("size", [0, 1, 7, 24, 25, 300])
def test_keys_are_sorted_with_their_rows(size):
    keys = np.random.default_rng(size).integers(0, 9, size).astype(float)
    order = sorting.argsort(keys)
    assert (keys[order] == np.sort(keys)).all()
    assert sorted(order) == list(range(size))


def test_a_kernel_is_compiled_when_there_is_much_to_do():
    @jit.jit(work=len, seconds=1e-6)
    def count(numbers):
        found = 0
        for _ in numbers:
            found += 1
        return found

    globals_of = sys.modules[__name__].__dict__
    globals_of["count"] = count
    try:
        assert count(np.zeros(1)) == 1
        assert not count._is_compiled
        assert count(np.zeros(1)) == 1
        assert count._is_compiled
    finally:
        del globals_of["count"]


def test_another_function_can_stand_in_for_the_python_of_a_kernel():
    @jit.jit
    def count(numbers):
        return len(numbers)

    with jit.always_plain():
        assert count.or_plain(lambda numbers: -1)(np.zeros(3)) == -1
