"""From the first recommendation to a release that passes, on the small one of six tables (docs/replication)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "replication" / "six_tables.py"


@pytest.mark.slow
def test_the_demo_ends_in_a_passed_release_or_in_a_sentence():
    spec = importlib.util.spec_from_file_location("six_tables", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ending = module.follow("demo", *module.demo(Path(), 442))
    assert ending.passed or ending.sentence.startswith("No change was found")
    assert len(ending.improvements) <= 2
    assert ending.name in module.page([ending], 442)
