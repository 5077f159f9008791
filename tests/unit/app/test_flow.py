"""The whole way without a browser: every step as a request, and what is taken away in the end."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
import time
import zipfile
from html import unescape
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.same_rows import same_rows
from tests.unit.app.hospital import messy_table
from tests.unit.app.served import Person

import sfumato as sf
from sfumato.cli.commands import run

pytestmark = pytest.mark.in_order


def unpacked(content: bytes, folder: Path) -> Path:
    zipfile.ZipFile(io.BytesIO(content)).extractall(folder)
    return folder


def rows_of(bundle: Path):
    """The released rows without the numbers of boxes, which are random, in an order that depends on them only."""
    table = pq.read_table(bundle / "released.parquet")
    return table.drop_columns([name for name in table.column_names if name == "box"])


@pytest.fixture(scope="module")
def visitor(server) -> Person:
    """Somebody who has released the messy table."""
    person = Person(server)
    page = person.upload(messy_table(), "Aufnahmen 2024.csv")
    assert "600 rows and 12 columns" in page.text
    return person


class TestColumns:
    def test_kinds_and_roles_are_suggested_with_reasons(self, visitor):
        page = unescape(re.sub(r"<[^>]+>", " ", visitor.get("/columns").text))
        assert "its name is that of a personal identifier" in page
        assert "continuous" in page
        assert "date" in page
        assert "Müller" not in page
        assert "Innere" not in page

    def test_roles_of_many_columns_change_at_once_and_undo_takes_it_back(self, visitor):
        before = visitor.get("/columns").text
        page = visitor.post("/columns", {"role": "other", "column": [6, 7, 8]}).text
        assert page.count("r-other") == before.count("r-other") + 3
        assert "role other for 3 columns" in page
        assert visitor.post("/undo").text.count("r-other") == before.count("r-other")
        assert visitor.post("/redo").text.count("r-other") == before.count("r-other") + 3
        visitor.post("/undo")

    def test_a_tree_is_suggested_edited_and_used(self, visitor):
        page = visitor.get("/tree?column=8&way=values").text
        text = unescape(re.search(r"<textarea[^>]*>(.*?)</textarea>", page, re.DOTALL)[1])
        assert "Innere;" in text
        page = visitor.post(
            "/tree", {"column": 8, "action": "group", "text": text, "value": [0, 1], "group": "andere", "level": 1}
        ).text
        assert "andere" in page
        assert "The tree in use" in page
        assert visitor.post("/tree", {"column": 8, "action": "remove"}).status == 200
        visitor.post("/undo")
        assert "andere" in visitor.get("/tree?column=8").text
        assert visitor.post("/tree", {"column": 99, "action": "use", "text": text}).status == 400
        visitor.post("/tree", {"column": 8, "action": "remove"})


class TestRisksAndStatistics:
    def test_risks_name_people_who_are_alone_and_a_population(self, visitor):
        assert "people are alone" in visitor.get("/risks").text
        page = visitor.post("/risks", {"population": "83,000,000"}).text
        assert "are estimated to be alone" in page
        assert visitor.post("/risks", {"population": "many"}).status == 400
        assert visitor.post("/risks", {"population": ""}).status == 200

    def test_statistics_are_picked_checked_and_removed(self, visitor):
        page = visitor.post("/statistics", {"action": "singles", "mean": [5, 10]}).text
        assert "mean(Kosten in €)" in unescape(page).replace("<wbr>", "")
        page = unescape(visitor.post("/statistics", {"action": "corr", "first": 5, "second": 6}).text)
        assert "corr(`Größe (cm)`, Gewicht)" in page.replace("<wbr>", "")
        assert visitor.post("/statistics", {"action": "text", "text": "mean(nothing)"}).status == 400
        assert visitor.post("/statistics", {"action": "regress", "outcome": 5}).status == 400
        visitor.post("/statistics", {"action": "text", "text": "mean(Gewicht | Geschlecht = m)"})
        visitor.post("/statistics", {"action": "remove:3"})
        assert visitor.get("/statistics").text.count("remove:") == 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("taken")


@pytest.fixture(scope="module")
def result(visitor) -> str:
    page = visitor.post("/method", {"method": "boxes", "option-k": "4", "option-l": ""})
    assert "Make the release" in page.text
    page = visitor.post("/run", {"seed": "11"})
    assert "The privacy promises are kept" in page.text
    return page.text


@pytest.fixture(scope="module")
def bundle(visitor, result, folder) -> Path:
    number = re.search(r"/runs/(\d+)/bundle.zip", result)[1]
    return unpacked(visitor.get(f"/runs/{number}/bundle.zip").body, folder / "page") / "out"


@pytest.fixture(scope="module")
def project(visitor, result, folder) -> Path:
    """What the page gives for doing it again, beside the table."""
    number = re.search(r"/runs/(\d+)/bundle.zip", result)[1]
    again = unpacked(visitor.get(f"/runs/{number}/project.zip").body, folder / "again")
    (again / "Aufnahmen 2024.csv").write_bytes(messy_table())
    return again


class TestReleases:
    def test_the_method_is_recommended_with_reasons(self, visitor):
        page = visitor.get("/method").text
        assert "First choice: boxes" in page, "what was tried on held-out people did not pass, and it says so"
        assert "Recommended: " not in page
        assert "Smallest number of records that share a box." in page
        assert visitor.post("/method", {"method": "boxes", "option-k": "1"}).status == 400
        assert visitor.post("/method", {"method": "boxes", "option-k": "many"}).status == 400

    def test_the_bundle_verifies_and_is_what_the_shown_command_makes(self, result, bundle, project, monkeypatch):
        assert run(["verify", str(bundle)]) == 0
        command = unescape(re.search(r'<pre id="command"><code>(.*?)</code>', result, re.DOTALL)[1])
        monkeypatch.chdir(project)
        words = shlex.split(command.replace("\\\n", " "))
        assert words[:3] == ["sfumato", "release", "Aufnahmen 2024.csv"]
        assert "--seed" not in words  # whoever knows it can undo the order of the rows
        assert run([*words[1:], "--seed", "11"]) == 0
        assert same_rows(rows_of(bundle), rows_of(project / "out"))
        manifest = json.loads((bundle / "manifest.json").read_text())
        assert manifest["options"]["k"] == 4
        assert "seed" not in json.dumps(manifest)

    def test_python_and_the_project_make_it_too(self, bundle, project, monkeypatch):
        monkeypatch.chdir(project)
        python = (project / "run.py").read_text()
        assert "seed" not in python
        (project / "run.py").write_text(python.replace('"schema.toml"', '"schema.toml", seed=11'))
        done = subprocess.run([sys.executable, "run.py"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert same_rows(rows_of(bundle), rows_of(project / "out")), python
        assert "seed" not in (project / "project.toml").read_text()
        assert run(["run", "project.toml"]) == 0
        assert sf.read_release("out").manifest.options["k"] == 4

    def test_the_report_is_that_of_the_bundle(self, visitor, bundle):
        answer = visitor.get("/runs/1/report.html")
        assert answer.body == (bundle / "report.html").read_bytes()
        assert "sandbox" in answer.headers["content-security-policy"]

    def test_a_second_run_with_attacks_is_on_the_map_and_the_way_back_leads_to_the_first(self, visitor, result):
        visitor.post("/method", {"method": "noise", "option-level": "0.5"})
        page = visitor.post("/run", {"attacked": "1"}).text
        assert "Do not rely on this release" in page
        assert "never took part" in page
        report = visitor.get("/runs/2/report.html").text
        assert "Attacks were not tried" not in report
        assert "Should attacks be tried" not in report
        assert "Attacks were tried on a second release" in report
        page = visitor.get("/runs").text
        assert "2 noise" in page
        assert "boxes" in page
        page = visitor.post("/runs/1/back").text
        assert "<strong>boxes</strong>" in page
        assert "k = 4" in page
        assert "back to run 1" in page

    def test_a_run_that_fails_says_why_and_leaves_nothing(self, server, visitor, result):
        before = [path for path in server.left if path.name.startswith("run-")]
        visitor.post("/method", {"method": "mdav", "option-k": "5000"})
        page = visitor.post("/run", {}).text
        assert "made no release" in visitor.get("/runs/3").text
        assert "5,000" in page or "5000" in visitor.get("/runs/3").text
        assert [path for path in server.left if path.name.startswith("run-")] == before

    def test_a_cancelled_run_leaves_nothing_and_the_next_one_works(self, server, visitor, result):
        before = [path for path in server.left if path.name.startswith("run-")]
        visitor.post("/method", {"method": "boxes", "option-k": "3", "option-search": "60"})
        started = visitor.post("/run", {}, follow=False)
        assert started.status == 303
        page = server.call("GET", "/run", Cookie=visitor.cookie).text
        job = re.search(r'data-job="(\w+)"', page)[1]
        begun = time.monotonic()
        answer = server.call("GET", f"/jobs/{job}", Cookie=visitor.cookie)
        assert json.loads(answer.text)["over"] is False
        assert "Make the release" in visitor.post("/cancel", {"job": job}).text
        assert time.monotonic() - begun < 30
        assert [path for path in server.left if path.name.startswith("run-")] == before
        assert "made no release" not in visitor.get("/runs").text.replace("Run 3", "")
        visitor.post("/method", {"method": "mdav", "option-k": "3"})
        assert "The privacy promises are kept" in visitor.post("/run", {}).text

    def test_closing_removes_the_table_and_its_runs(self, server, visitor, result):
        assert visitor.post("/close").status == 400, "releases that were not saved would be lost"
        page = visitor.post("/close", {"replace": "1"}).text
        assert "Open a table of people" in page
        assert not [path for path in server.left if path.name.startswith(("run-", "table-"))]


def test_a_table_is_read_again_in_another_way(person):
    page = person.upload(b"age,sex\n" + b"34,f\n51,m\n" * 40, "t.csv", header="no")
    assert "81 rows and 2 columns" in page.text
    page = person.post("/open/again", {"header": "yes"})
    assert "80 rows and 2 columns" in page.text


def test_the_language_is_that_of_the_browser_and_can_be_changed(server, person):
    answer = server.enter(Accept_Language="de-DE,de;q=0.9")
    page = server.call("GET", "/open", Cookie=answer.cookie).text
    assert '<html lang="de">' in page
    assert "Tabelle" in page
    assert "Tabelle" in person.post("/language", {"language": "de"}).text
    assert "Tabelle" not in person.post("/language", {"language": "en"}).text
    assert '<html lang="en">' in person.post("/language", {"language": "../../de"}).text


def test_runs_that_would_be_given_away_together_are_warned_of(person):
    rows = "".join(f"{20 + 7 * n % 60},{11 * n % 300 + 0.5}\n" for n in range(300))
    person.upload(f"age,value\n{rows}".encode(), "people.csv")
    person.post("/columns", {"role": "quasi", "column": [0]})
    person.post("/columns", {"role": "other", "column": [1]})  # it links the rows of both releases
    tried = [("boxes", {"option-k": "4"}), ("noise", {"option-level": "1"}), ("boxes", {"option-k": "7"})]
    for (method, options), warned in zip(tried, (False, False, True), strict=True):
        person.post("/method", {"method": method, **options})
        for page in (person.post("/run", {}), person.get("/runs")):
            assert ("Give away only one of these releases. Whoever has all 2 finds" in page.text) is warned
