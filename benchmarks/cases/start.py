"""How long it takes to start: the import, the help, and the first release with and without compiled kernels."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from harness.case import Case, Contender, Goal, Run

RELEASE = """
import numpy as np, sfumato as sf
x = np.random.default_rng(0).normal(size=(500, 4))
sf.Boxes(k=5).release({f"x{a}": x[:, a] for a in range(4)}, schema={f"x{a}": "quasi" for a in range(4)})
"""


def prepare(run: Run) -> None:
    """Load what every start loads, so that no run reads it from the disk for the first time."""
    subprocess.run([sys.executable, "-c", RELEASE], check=True, stderr=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-m", "sfumato", "--help"], check=True, stdout=subprocess.DEVNULL)


def command(*words: str):
    """Return a run of Python with these words."""

    def contender(run: Run) -> None:
        for _ in range(3):
            with run.clock():
                _start([sys.executable, *words], dict(os.environ))

    return contender


def cold(run: Run) -> None:
    with tempfile.TemporaryDirectory() as folder, run.clock():
        _start([sys.executable, "-c", RELEASE], os.environ | {"NUMBA_CACHE_DIR": folder})


def _start(words: list[str], environment: dict[str, str]) -> None:
    subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


CASE = Case(
    title="The start",
    about="""
        Seconds of a new process of Python. A cold release finds no compiled kernel, a warm one finds those of an
        earlier process: 500 records with four columns, boxes, k = 5. An import of NumPy, pandas or nothing is beside
        it.
    """,
    contenders=(
        Contender(name="import sfumato", run=command("-c", "import sfumato")),
        Contender(name="sfumato --help", run=command("-m", "sfumato", "--help")),
        Contender(name="first release, warm", run=command("-c", RELEASE)),
        Contender(name="first release, cold", run=cold),
        Contender(name="Python alone", run=command("-c", "pass"), is_limit=True),
        Contender(name="import numpy", run=command("-c", "import numpy"), is_limit=True),
        Contender(name="import pycanon", run=command("-c", "import pycanon.anonymity"), rival="pycanon"),
        Contender(name="import anjana", run=command("-c", "import anjana.anonymity"), rival="anjana"),
        Contender(name="import anonymeter", run=command("-c", "import anonymeter.evaluators"), rival="anonymeter"),
        Contender(name="import sdmetrics", run=command("-c", "import sdmetrics"), rival="sdmetrics"),
    ),
    prepare=prepare,
    goals=(
        Goal(of="import sfumato", figure="wall", limit=0.1),
        Goal(of="sfumato --help", figure="wall", limit=0.3),
    ),
)
