"""Files that are written from the code are up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def generator():
    spec = importlib.util.spec_from_file_location("generate", REPOSITORY / "docs" / "reference" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["__init__.pyi", "methods.md", "engines.md"])
def test_a_generated_file_is_up_to_date(name):
    files = {path.name: (path, make) for path, make in generator().FILES.items()}
    path, make = files[name]
    assert path.read_text(encoding="utf-8") == make(), "run `make generated`"
