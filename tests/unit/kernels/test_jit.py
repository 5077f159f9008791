"""Compiled kernels are kept, and forgotten when any of them changes, also one in another file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.kernels import jit as module
from sfumato.kernels.jit import STAMP, fingerprint, forget_stale

PROGRAM = """
from house.jit import always_compiled
from house.outer import outer
with always_compiled():
    print(outer(1), sum(getattr(outer, "compiled", outer).stats.cache_hits.values()))
"""


@pytest.fixture
def cache_folder(tmp_path):
    for name in ("outer.nbi", "outer.1.nbc", "other.txt"):
        (tmp_path / name).write_text("")
    forget_stale.cache_clear()
    return tmp_path


def test_a_cache_of_other_kernels_is_emptied_and_of_these_kept(cache_folder):
    (cache_folder / STAMP).write_text("of an older version")
    forget_stale(cache_folder)
    assert {file.name for file in cache_folder.iterdir()} == {"other.txt", STAMP}
    assert (cache_folder / STAMP).read_text() == fingerprint()
    (cache_folder / "outer.nbi").write_text("")
    forget_stale.cache_clear()
    forget_stale(cache_folder)
    assert (cache_folder / "outer.nbi").exists()


def test_a_cache_without_a_fingerprint_is_emptied(cache_folder):
    forget_stale(cache_folder)
    assert not (cache_folder / "outer.nbi").exists()


@pytest.mark.parametrize(
    ("decorator", "line", "second"),
    [
        ("jit", "from house.jit import jit", "3 0"),
        ("njit(cache=True)", "from numba import njit", "2 1"),  # the control: the inner kernel of yesterday
    ],
)
def test_a_kernel_that_calls_a_changed_one_is_compiled_anew(tmp_path, decorator, line, second):
    house = tmp_path / "house"
    house.mkdir()
    (house / "__init__.py").write_text("")
    shutil.copy(module.__file__, house / "jit.py")
    inner = f"{line}\n@{decorator}\ndef inner(x):\n    return x + {{}}\n"
    outer = f"{line}\nfrom house.inner import inner\n@{decorator}\ndef outer(x):\n    return inner(x)\n"
    (house / "outer.py").write_text(outer)
    (house / "inner.py").write_text(inner.format(1))
    assert said(tmp_path) == "2 0"
    assert said(tmp_path) == "2 1", "kept"
    (house / "inner.py").write_text(inner.format(2) + "# changed\n")
    assert said(tmp_path) == second


def said(folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True)
    return ended.stdout.strip()


@pytest.mark.parametrize("fault", ["no folder", "full disk"])
def test_where_nothing_can_be_kept_kernels_are_compiled_all_the_same_and_it_is_said_once(tmp_path, fault):
    script = {
        "no folder": "from numba.core import caching\ncaching.CacheImpl._locator_classes = []\n",
        "full disk": "from numba.core import caching\n"
        "def full(*_): raise OSError(28, 'No space left on device')\n"
        "caching.IndexDataCacheFile.save = full\n",
    }[fault]
    script += (
        "from sfumato.kernels.jit import always_compiled, jit\n"
        "@jit\ndef one(x):\n    return x + 1\n"
        "@jit(fastmath=True)\ndef two(x):\n    return one(x) + 1\n"
        "with always_compiled():\n    print(two(1), two(1.5))\n"
    )
    (tmp_path / "program.py").write_text(script)
    ended = subprocess.run([sys.executable, tmp_path / "program.py"], check=True, capture_output=True, text=True)
    assert ended.stdout == "3 3.5\n"
    assert ended.stderr.count("Compiled kernels cannot be kept") == 1


@pytest.mark.parametrize("missing", ["JITCodeLibrary", "JITCPUCodegen._library_class"])
def test_with_another_version_of_numba_kernels_are_compiled_one_by_one(tmp_path, missing):
    (tmp_path / "program.py").write_text(
        "from numba.core import codegen\n"
        "from sfumato.kernels.jit import always_compiled, jit as kernel\n"
        "@kernel(allocates=False)\ndef one(x):\n    return x + 1\n"
        "@kernel\ndef two(x):\n    return one(x) + 1\n"
        "from numba.core.options import DefaultOptions\n"
        "del DefaultOptions._nrt\n"
        f"usual = codegen.{missing}\n"
        + (f"del codegen.{missing}\n" if "." not in missing else f"codegen.{missing} = type('Other', (usual,), {{}})\n")
        + "with always_compiled():\n    print(two(1), two(1.5), len(two.signatures))\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, tmp_path / "program.py"]
    ended = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert ended.stdout == "3 3.5 2\n"


def test_two_processes_fill_one_cache(tmp_path):
    (tmp_path / "program.py").write_text(
        "import numpy as np\nfrom sfumato.kernels.jit import always_compiled\n"
        "from sfumato.kernels.sorting import argsort\n"
        "with always_compiled():\n    print(argsort(np.array([3.0, 1.0, 2.0])))\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, tmp_path / "program.py"]
    started = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0] for process in started] == ["[1 2 0]\n"] * 2
    assert len(list((tmp_path / "cache").rglob("*.nbi"))) == 1


DAMAGED = """
import numpy as np
from sfumato.kernels.jit import always_compiled
from sfumato.kernels.sorting import largest
with always_compiled():
    assert largest(np.array([1.0, 3.0, 2.0])) == 3.0
print(sum(largest.compiled.stats.cache_hits.values()))
"""


def test_a_damaged_cache_is_no_failure(tmp_path):
    def run():
        given = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", DAMAGED], capture_output=True, text=True, env=given, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    run()
    assert run() == "1"  # the control: what is kept is used
    for file in tmp_path.rglob("*.nbc"):  # one byte of the machine code
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 255
        file.write_bytes(content)
    assert run() == "0"
    for ending, content in (("nbi", b"x"), ("nbc", b""), ("fingerprint", b"\xff\xfe")):
        for file in tmp_path.rglob(f"*.{ending}"):
            file.write_bytes(content)
    assert run() == "0"


LEAKS = """
import numpy as np, sfumato as sf
from numba.core.runtime import _nrt_python as memory
from sfumato.kernels.jit import always_compiled
memory.memsys_enable_stats()
people = np.random.default_rng(0)
table = {"x": people.normal(size=400), "z": people.normal(size=400), "c": people.choice(list("abcd"), 400),
         "t": people.integers(0, 80, 400), "s": people.choice(list("uvw"), 400)}
schema = {"x": "quasi", "z": "quasi", "c": "quasi", "s": "sensitive", "t": {"role": "quasi", "tree": "steps:5,20"}}
methods = [sf.Boxes(k=3), sf.Boxes(k=3, l=2), sf.Boxes(k=3, edges="cells"), sf.Boxes(k=3, categories="tree", l=1),
           sf.Boxes(k=3, search=0.2, keep=["mean(x)"]), sf.Boxes(k=3, cut="median"),
           sf.Microaggregate(k=3, search=0.2), sf.Recode(k=3, kind="local"), sf.Suppress(k=3)]
with always_compiled():
    for method in methods:
        release = method.release(table, schema=schema, seed=1)
    sf.Boxes(k=3).release(table, schema=schema).estimate("corr(x, z)")
print(memory.memsys_get_stats_mi_alloc() - memory.memsys_get_stats_mi_free(), memory.memsys_get_stats_mi_alloc() > 1000)
"""


def test_no_kernel_keeps_memory_for_good():
    """References that are not counted would not be noticed elsewhere: results are the same."""
    ended = subprocess.run([sys.executable, "-c", LEAKS], check=True, capture_output=True, text=True)
    assert ended.stdout == "0 True\n"
