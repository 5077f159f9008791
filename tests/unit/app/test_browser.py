"""The whole way in a real browser, on the demo table and on a messy one: no console error, and every page drawn whole.

With SFUMATO_PICTURES=DIR the pictures of the documentation are made on the way.
"""

from __future__ import annotations

import os
import shlex
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("websockets", reason="the package websockets, which speaks to the browser, is not installed")

import pyarrow.parquet as pq
from tests.same_rows import same_rows
from tests.unit.app.chromium import PROGRAM, Chromium, wait_for
from tests.unit.app.hospital import messy_table
from tests.unit.app.served import Server

from sfumato.cli.commands import run
from sfumato.formats.exports import write
from sfumato.job.demo_table import diabetes_patients

pytestmark = [
    pytest.mark.in_order,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed: apt-get install chromium"),
]

HERE = Path(__file__).parent
MEASURE = (HERE.parent / "report" / "measure_page.js").read_text().partition("const result =")[0]
PICTURES = os.environ.get("SFUMATO_PICTURES")
UNLABELLED = """[...document.querySelectorAll('input:not([type=hidden]), select, textarea, button')]
  .filter(one => !(one.labels && one.labels.length) && !one.getAttribute('aria-label') && !one.textContent.trim())
  .map(one => one.outerHTML)"""
UNNAMED = """[...document.querySelectorAll('svg')]
  .filter(one => !one.getAttribute('aria-label') && one.getAttribute('aria-hidden') !== 'true').length"""
OUT_OF_ORDER = "[...document.querySelectorAll('*')].filter(one => one.tabIndex > 0).length"

SEED = "11"  # boxes draw some random numbers, and the page and the command must draw the same ones


class Walk:
    """A walk through the page; ``look`` checks each page in both widths, light and dark, and for the keyboard."""

    def __init__(self, browser: Chromium, name: str) -> None:
        self.browser = browser
        self.name = name

    def look(self, page: str) -> None:
        for width, dark in ((390, False), (768, True), (1280, False)):
            self.browser.resize(width, 1000, dark=dark)
            found = self.browser.run(f"(() => {{ {MEASURE} return found; }})()")
            assert found["scroll"] <= width, f"{page} is wider than the window: {found['outside'][:5]}"
            assert found["outside"] == [], page
            assert found["broken"] == [], page
            assert found["pale"] == [], page
        assert self.browser.run(UNLABELLED) == [], page
        assert self.browser.run(UNNAMED) == 0, page
        assert self.browser.run("document.querySelectorAll('h1').length") == 1, page
        for landmark in ("header", "nav", "main", "footer"):
            assert self.browser.has(landmark), page
        assert self.browser.errors == [], page
        if PICTURES and self.name == "demo":
            self.browser.run("scrollTo(0, 0)")
            self.browser.resize(1100, 860)
            self.browser.picture(Path(PICTURES) / f"app-{page}.png")
            self.browser.resize(1280, 1000)

    def pick(self, *columns: int) -> None:
        for column in columns:
            self.browser.click(f"#c{column}", leaves=False)

    def roles(self, role: str, *columns: int) -> None:
        self.pick(*columns)
        self.browser.click(f"button[name=role][value={role}]")

    def step(self, name: str) -> None:
        self.browser.click(f".steps a[href$='/{name}']")

    def start(self, *, attacked: bool) -> None:
        self.browser.run(f"document.querySelector('[name=attacked]').checked = {str(attacked).lower()}")
        self.browser.fill("[name=seed]", SEED)
        self.browser.press("Start")

    def cancelled(self) -> None:
        """Start a run that would take a minute, and cancel it."""
        self.browser.fill("[name=option-search]", "60")
        self.browser.press("Use this method")
        self.browser.press("Start", settle=False)
        wait_for(lambda: self.browser.run("document.querySelector('.said li') !== null"))
        assert self.browser.has("[role=status][aria-live=polite]")
        if PICTURES and self.name == "demo":
            self.browser.picture(Path(PICTURES) / "app-running.png")
        self.browser.press("Cancel")
        assert self.browser.run("location.pathname").endswith("/run")


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Chromium]:
    made = Chromium(tmp_path_factory.mktemp("chromium"))
    yield made
    made.close()


def compared(walk: Walk, folder: Path, table: str) -> None:
    """Download the bundle and the project of run 2, verify it, and make it again with the shown command."""
    browser = walk.browser
    command = shlex.split(browser.run("document.getElementById('command').textContent").replace("\\\n", " "))
    assert command[:3] == ["sfumato", "release", table]
    for selector, name in (("a[href$='bundle.zip']", "page"), ("a[href*='/runs/'][href$='project.zip']", "again")):
        zipfile.ZipFile(browser.download(selector)).extractall(folder / name)
    assert run(["verify", str(folder / "page" / "out")]) == 0
    old = Path.cwd()
    os.chdir(folder / "again")
    try:
        (folder / table).rename(folder / "again" / table)
        assert run([*command[1:], "--seed", SEED]) == 0
    finally:
        os.chdir(old)
    made = [pq.read_table(folder / name / "out" / "released.parquet") for name in ("page", "again")]
    assert same_rows(*made)


def test_the_demo_table(server: Server, browser: Chromium, tmp_path):
    walk = Walk(browser, "demo")
    browser.go(server.address)
    assert server.key not in browser.run("location.href"), "the key does not stay in the address"
    walk.look("open")
    browser.press("Open the demo table")
    walk.look("preview")
    walk.step("columns")
    walk.roles("sensitive", 4)
    assert "chosen by you" in browser.text()
    browser.press("↶ Undo")
    assert "chosen by you" not in browser.text()
    browser.press("↷ Redo")
    assert "chosen by you" in browser.text()
    walk.look("columns")
    browser.click("tbody tr:nth-child(1) a[href*='/tree']")
    walk.look("tree")
    browser.go(f"{server.pages}/column?column=1")
    walk.look("column")
    browser.go(f"{server.pages}/records")
    walk.look("records")
    browser.go(f"{server.pages}/lattice?k=3")
    walk.look("lattice")
    walk.step("risks")
    browser.fill("[name=population]", "1000000")
    browser.press("Set")
    walk.look("risks")
    walk.step("statistics")
    for position in (2, 3):
        browser.click(f"input[name=mean][value='{position}']", leaves=False)
    browser.press("Keep the ticked ones")
    browser.press("Add the correlation")
    walk.look("statistics")
    walk.step("method")
    walk.look("method")
    walk.cancelled()
    walk.step("method")
    browser.press("Use the recommended method")
    walk.look("run")
    walk.start(attacked=True)
    assert browser.run("location.pathname").endswith("/runs/2")
    assert "promises are kept" in browser.text()
    walk.look("result")
    browser.run("document.querySelector('details').open = true")
    write(diabetes_patients().arrow, tmp_path / "diabetes.parquet")
    compared(walk, tmp_path, "diabetes.parquet")
    browser.go(f"{server.pages}/method?name=noise")
    browser.press("Use this method")
    walk.start(attacked=True)
    assert "Do not rely on this release" in browser.text()
    browser.press("Compare all runs")
    assert browser.run("document.querySelectorAll('.maps .dot').length") == 4
    walk.look("compare")
    browser.press("Go back to run 2")
    assert "boxes" in browser.text("dl")
    browser.go(f"{server.pages}/runs/2/report.html")
    assert "promises are kept" in browser.text("body")
    browser.go(f"{server.pages}/runs/2")
    browser.run("document.querySelector(\"form[action$='/evidence']\").removeAttribute('target')")  # in this tab
    browser.fill("[name=recipient]", "University X")
    browser.fill("[name=purpose]", "study Y")
    browser.click("form[action$='/evidence'] button")
    wait_for(lambda: "University X" in browser.text("body"))
    assert not browser.has(".steps"), "the evidence is a document of its own"
    assert browser.errors == []


def test_a_messy_hospital_table_in_german(server: Server, browser: Chromium, tmp_path):
    walk = Walk(browser, "hospital")
    table = tmp_path / "Aufnahmen_2024.csv"
    table.write_bytes(messy_table())
    browser.go(f"{server.pages}/open")
    browser.press("Deutsch")
    browser.choose_file("#file", table)
    browser.click("[data-upload] [name=replace]", leaves=False)  # the demo table has releases that were not saved
    browser.press("Hochladen und öffnen")
    assert "600 Zeilen und 12 Spalten" in browser.text()
    walk.look("preview")
    walk.step("columns")
    walk.look("columns")
    walk.roles("quasi", 2, 3, 4, 5, 6)
    walk.roles("sensitive", 9)
    walk.roles("other", 7, 8, 10)
    walk.roles("identifier", 0, 1, 11)
    browser.click("tbody tr:nth-child(9) a[href*='/tree']")
    walk.look("tree")
    browser.click("input[name=value]", leaves=False)
    browser.fill("[name=group]", "alle anderen")
    browser.press("Gruppieren")
    assert "alle anderen" in browser.text()
    walk.look("tree")
    for step in ("risks", "statistics", "method"):
        walk.step(step)
        walk.look(step)
    walk.step("statistics")
    browser.fill("[name=text]", "corr(`Größe (cm)`, Gewicht)")
    browser.click("button[value=text]")
    walk.step("method")
    browser.press("Empfohlenes Verfahren verwenden")
    browser.fill("[name=seed]", "3")
    browser.fill("[name=seed]", SEED)
    browser.press("Starten")
    assert "Ergebnis von Lauf 1" in browser.text()
    walk.look("result")
    browser.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    compared(walk, tmp_path, table.name)
    browser.press("English")
    assert browser.errors == []


def test_explanations_open_by_keyboard_and_close_with_escape(server: Server, browser: Chromium):
    browser.go(f"{server.pages}/columns")
    shown = "getComputedStyle(document.querySelector('.term .meaning')).display"
    assert browser.run(shown) == "none"
    browser.run("document.querySelector('.term').focus()")
    assert browser.run(shown) == "block"
    browser.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    assert browser.run(shown) == "none"
    assert browser.run(OUT_OF_ORDER) == 0, "the order of the keyboard is that of the page"


def test_many_columns_are_taken_with_shift(server: Server, browser: Chromium):
    browser.go(f"{server.pages}/columns")
    browser.run(
        "document.querySelector('#c1').click(); document.querySelector('#c4').dispatchEvent("
        "new MouseEvent('click', {bubbles: true, cancelable: true, shiftKey: true}))"
    )
    assert browser.run("document.querySelectorAll('input[name=column]:checked').length") == 4
    assert "4" in browser.text("[data-picked]")
    browser.press("select all", leaves=False)
    assert browser.run("document.querySelectorAll('input[name=column]:checked').length") == 12


def test_an_error_keeps_what_was_typed(server: Server, browser: Chromium):
    browser.go(f"{server.pages}/statistics")
    browser.fill("[name=text]", "mean(nothing")
    browser.click("button[value=text]", leaves=False)
    wait_for(lambda: browser.has(".refused"))
    assert browser.run("document.querySelector('[name=text]').value") == "mean(nothing"
    assert browser.run("document.activeElement.classList.contains('refused')")
    browser.errors.clear()  # that the answer was a refusal


def test_the_console_is_heard(server: Server, browser: Chromium):
    """The control: an inline script, which the content policy forbids, is an error."""
    browser.go(f"{server.pages}/open")
    browser.run("document.body.append(Object.assign(document.createElement('script'), {textContent: '1'}))")
    wait_for(lambda: browser.run("1") and browser.errors)
    assert "Content Security Policy" in browser.errors[0]
    browser.errors.clear()
