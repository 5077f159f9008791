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


FILES = generator().FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_generated_file_is_up_to_date(path):
    assert path.read_text(encoding="utf-8") == FILES[path](), "run `make generated`"


def test_pages_of_methods_and_measures_that_are_no_more_are_removed():
    folder = REPOSITORY / "docs" / "reference"
    assert {*folder.glob("methods/*.md"), *folder.glob("measures/*.md")} <= FILES.keys()
