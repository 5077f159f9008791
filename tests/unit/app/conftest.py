"""One server for all tests of a file; its folders are removed with those of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra app is not installed")
pytest.importorskip("uvicorn", reason="the extra app is not installed")

from tests.unit.app.served import Person, Server

LARGEST = 2_000_000  # bytes of an upload


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Path:
    """The folder that the command names, with a secret beside it."""
    folder = tmp_path_factory.mktemp("files") / "tables"
    (folder / "deep").mkdir(parents=True)
    (folder.parent / "secret.csv").write_text("age,sex\n" + "77,SECRET\n" * 30)
    (folder / "people.csv").write_text("age,sex\n" + "".join(f"{20 + n % 40},{'fm'[n % 2]}\n" for n in range(200)))
    (folder / "deep" / "more.csv").write_text("age,sex\n" + "".join(f"{30 + n % 9},f\n" for n in range(50)))
    (folder / "link.csv").symlink_to(folder.parent / "secret.csv")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory, tables) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("server"), "--folder", str(tables), "--max-upload", f"{LARGEST}")
    yield made
    made.end()
    assert made.left == []


@pytest.fixture
def person(server) -> Person:
    return Person(server)
