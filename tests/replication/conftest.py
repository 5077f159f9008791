"""The scripts that write the pages are what is tested, so that a page shows nothing else."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs" / "replication"


@pytest.fixture(scope="session")
def script() -> Callable[[str], ModuleType]:
    """Load the script of a page by its name."""

    def load(name: str) -> ModuleType:
        specification = importlib.util.spec_from_file_location(f"page_{name}", PAGES / f"{name}.py")
        module = importlib.util.module_from_spec(specification)
        sys.modules[specification.name] = module  # dataclasses look their module up
        specification.loader.exec_module(module)
        return module

    return load
