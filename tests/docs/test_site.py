"""The documentation can be built without a warning, and its pages load nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
MISSING = [name for name in ("sphinx", "myst_parser", "furo") if find_spec(name) is None]
LOADED = re.compile(r'<(?:script|img|iframe|link)\b[^>]*?(?:src|href)="((?:https?:)?//[^"]+)"')

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (extra docs)")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        str(DOCS),
        str(folder / "html"),
    ]
    done = subprocess.run([*command, "-d", str(folder / "doctrees")], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_every_page_is_built(site):
    pages = [page.relative_to(DOCS).with_suffix("") for page in DOCS.rglob("*.md") if "_build" not in page.parts]
    assert [page for page in pages if not (site / page).with_suffix(".html").exists()] == []


def test_pages_load_nothing_from_elsewhere(site):
    assert LOADED.search('<script src="https://cdn.example/a.js">')  # control
    loaded = {link for page in site.rglob("*.html") for link in LOADED.findall(page.read_text(encoding="utf-8"))}
    loaded |= {
        link
        for sheet in site.rglob("*.css")
        for link in re.findall(r"(?:url\(|@import\s*)['\"]?((?:https?:)?//[^'\")]+)", sheet.read_text(encoding="utf-8"))
    }
    assert loaded == set()


def test_the_reference_shows_options_and_docstrings(site):
    text = (site / "reference" / "api.html").read_text(encoding="utf-8")
    assert (
        "Smallest number of records that share a box" in text
    )  # an option of Boxes, which is declared and not written
    assert 'id="sfumato.read_release"' in text
