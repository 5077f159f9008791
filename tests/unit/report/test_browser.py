"""Reports in a real browser: wide and narrow, light and dark, without errors, cut parts, broken words or pale text."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html import escape, unescape
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.release.assessment import Assessment, Score

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed: apt-get install chromium")

MEASURE = (Path(__file__).parent / "measure_page.js").read_text()


def browse(page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    profile = page.with_name(f"{page.stem}-profile")
    fixed = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
    command = [str(BROWSER), *fixed, "--enable-logging=stderr", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def measured(page: Path, width: int, *, dark: bool) -> dict:
    """What the browser finds on the page, in a frame of this width: a window has at least 500 pixels.

    The copy in the frame may run a script, which the page itself may not.
    """
    copy = re.sub(r"<meta http-equiv[^>]*>", "", page.read_text()).replace(
        "</body>", f"<script>{MEASURE}</script></body>"
    )
    frame = f'<iframe style="width: {width}px; height: 1600px; border: 0" srcdoc="{escape(copy)}"></iframe>'
    outer = page.with_name(f"{page.stem}-{width}-{dark}.html")
    outer.write_text(f'<!doctype html><meta charset="utf-8"><body>{frame}</body>')
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    out = browse(outer, "--window-size=1400,1700", scheme, "--virtual-time-budget=4000", "--dump-dom").stdout
    return json.loads(unescape(re.search(r'<pre id="measured">(.*?)</pre>', out, re.DOTALL)[1]))


def score(name: str, *, passed: bool | None, family: str = "privacy") -> Score:
    note = "a note of many words that explains what was measured, on how many rows, and what is expected by chance"
    return Score(
        name=name, family=family, value=0.61, better="lower", rows=20_000, low=0.5, high=0.7, passed=passed, note=note
    )


def crowded_release() -> sf.Release:
    """Twelve columns with long names, notes and an assessment: all parts of a report, as crowded as they get."""
    numbers = np.random.default_rng(1)
    measured_as = "measured_concentration_of_substance_{}_at_the_first_visit_to_the_outpatient_clinic"
    columns = {measured_as.format(n): numbers.lognormal(3, 1, 300).round(3) for n in range(11)}
    table = pa.table(
        {**columns, "Rechtsschutzversicherungsgesellschaftenangestellter": numbers.choice(["ja", "nein"], 300)}
    )
    first, second = table.column_names[:2]
    made = sf.Boxes(k=7, keep=[f"corr({first}, {second})", f"regress({first} ~ {second})"]).release(
        table, schema=dict.fromkeys(table.column_names, "quasi"), seed=1
    )
    scores = (
        score("membership by nearest row", passed=False),
        score("linkability", passed=True),
        score("correct nearest matches", passed=None),
        score("kernel components that differ", passed=False, family="utility"),
        score("change in distributions, largest", passed=None, family="utility"),
    )
    judged = Assessment(
        method="boxes", original_rows=300, released_rows=300, reference_rows=150, columns=12, scores=scores, omitted=()
    )
    return replace(made, assessment=judged)


def write_map(folder: Path) -> None:
    """The map of three methods at two strengths, and of one that cannot release the table."""
    numbers = np.random.default_rng(2)
    table = {name: numbers.normal(size=240).round(2) for name in ("systolic_pressure", "weight", "height")}
    methods = ["boxes", "noise", "swap", "shuffle", sf.Boxes(k=200)]
    sf.compare(table, methods=methods, strengths=2, schema=dict.fromkeys(table, "quasi"), seed=1, into=folder)


@pytest.fixture(scope="module", params=["demo", "crowded", "map"])
def page(request, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "demo":
        assert run(["demo", "-o", str(folder / "out"), "--seed", "1"]) == 0
    elif request.param == "map":
        write_map(folder / "out")
    else:
        crowded_release().write(folder / "out")
    return shutil.copy(folder / "out" / "report.html", folder / "page.html")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_report_is_drawn_whole(page, width, dark):
    found = measured(page, width, dark=dark)
    assert found["width"] == width
    assert found["scroll"] <= width, "nothing is wider than the page"
    assert found["outside"] == []
    assert found["cut"] == []
    assert found["broken"] == [], "no word is broken inside"
    assert found["pale"] == [], "all text has a contrast of at least 4.5"
    assert found["headings"] >= (3 if "map" in page.parts[-2] else 6)
    assert (sum(map(int, re.findall(r"\d+", found["ground"])[:3])) < 3 * 64) is dark


@pytest.mark.parametrize("width", [1280, 390])
def test_the_report_is_drawn_without_errors(page, width):
    picture = page.with_name(f"{width}.png")
    shown = browse(page, f"--window-size={width},1600", f"--screenshot={picture}")
    assert picture.stat().st_size > 10_000
    assert "CONSOLE" not in shown.stderr
    assert page.stat().st_size < 3_000_000


def test_the_report_is_printed(page):
    document = page.with_name("page.pdf")
    browse(page, f"--print-to-pdf={document}", "--no-pdf-header-footer")
    assert document.read_bytes().startswith(b"%PDF")


def test_the_measurement_sees_what_is_wrong(tmp_path):
    """The control: a page with a wide part, a broken word, a cut part and pale text."""
    wrong = tmp_path / "wrong.html"
    wrong.write_text(
        "<!doctype html><body style='background: #fff'><p style='width: 2000px'>wide</p>"
        "<p style='width: 3em; overflow-wrap: anywhere'>unbelievably</p>"
        "<p style='width: 3em; overflow: hidden'>unbelievably</p>"
        "<p style='color: #ccc'>pale</p></body>"
    )
    found = measured(wrong, 1280, dark=False)
    assert found["scroll"] > 1280
    assert found["outside"]
    assert found["cut"]
    assert found["broken"] == ["unbelievably in P.null: unbelievably"]
    assert found["pale"] == ["P.null: pale"]
