"""What people do besides the straight way: two tabs, double clicks, mistakes, swapped files, other names."""

from __future__ import annotations

import io
import json
import re
import shlex
import threading
import time
import zipfile
from collections.abc import Iterator
from html import unescape
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.app.served import Person, Server

from sfumato.app.guard import Guard
from sfumato.app.jobs import JobQueue
from sfumato.app.tasks import Task
from sfumato.app.visitors import Visitors
from sfumato.cli.commands import run

PEOPLE = b"age,sex\n" + b"34,f\n51,m\n" * 40


@pytest.fixture
def person(server) -> Iterator[Person]:
    made = Person(server)
    yield made
    made.post("/close", {"replace": "1"})  # a server has room for 20 sessions with a table


@pytest.fixture
def visitor(person) -> Person:
    person.upload(PEOPLE, "t.csv")
    return person


@pytest.fixture(scope="module")
def lasting(server) -> Iterator[Person]:
    """A visitor with a table that several tests share, because it takes seconds to open one."""
    made = Person(server)
    made.upload(PEOPLE, "t.csv")
    yield made
    made.post("/close", {"replace": "1"})


class TestTwoTabs:
    def test_a_form_about_the_table_before_changes_nothing(self, visitor):
        form = hidden(visitor.get("/columns").text, "table")
        visitor.upload(PEOPLE, "other.csv")
        answer = visitor.post("/columns", {"role": "identifier", "column": "0", "table": form})
        assert answer.status == 400
        assert "another table" in answer.text
        page = visitor.get("/columns").text
        assert "chosen by you" not in page
        new = {"role": "identifier", "column": "0", "table": hidden(page, "table")}
        assert "chosen by you" in visitor.post("/columns", new).text

    def test_a_run_is_started_with_the_choices_that_were_shown_or_not_at_all(self, visitor):
        page = visitor.post("/method", {"method": "mdav", "option-k": "3"}).text
        shown = {name: hidden(page, name) for name in ("table", "choices")}
        visitor.post("/method", {"method": "noise"})
        answer = visitor.post("/run", shown)
        assert answer.status == 400
        assert "were changed since" in answer.text
        assert "There is no run yet" in visitor.get("/runs").text

    def test_tables_that_are_opened_at_once_do_not_remove_each_other(self, server, person):
        def opened() -> None:
            assert person.post("/open/demo", {}, follow=False).status == 303

        clicks = [threading.Thread(target=opened) for _ in range(6)]
        for click in clicks:
            click.start()
        for click in clicks:
            click.join()
        assert "442 rows and 5 columns" in person.get("/columns").text


class TestFields:
    """Values that forms do not send; one table is enough, because nothing of them is kept."""

    @pytest.fixture
    def visitor(self, lasting) -> Person:
        return lasting

    @pytest.mark.parametrize(
        ("path", "fields"),
        [
            ("/statistics", {"action": "remove:²"}),
            ("/statistics", {"action": "remove:" + "9" * 5000}),
            ("/columns", {"role": "quasi", "column": "9" * 5000}),
            ("/columns", {"role": "nothing", "column": "0"}),
            ("/tree", {"column": "9" * 5000, "action": "remove"}),
            (f"/runs/{'9' * 5000}/back", {}),
        ],
    )
    def test_no_text_of_a_field_is_unexpected(self, visitor, path, fields):
        answer = visitor.post(path, fields)
        assert answer.status in (200, 400, 404)
        assert "unexpected" not in answer.text
        assert "Role." not in answer.text

    def test_a_population_below_the_table_is_refused_and_the_risks_stay(self, visitor):
        answer = visitor.post("/risks", {"population": "79"})
        assert answer.status == 400
        assert "population 79, 80 rows" in answer.text
        assert visitor.get("/risks").status == 200
        assert visitor.post("/risks", {"population": "1.000"}).status == 200


class TestMistakes:
    def test_an_error_of_a_field_does_not_offer_to_read_the_table_again(self, visitor):
        answer = visitor.post("/method", {"method": "mdav", "option-k": "many"})
        assert answer.status == 400
        assert "/open/again" not in answer.text
        assert "/open/preview" in visitor.get("/open").text
        assert "/open/again" in visitor.upload(b"", "empty.csv").text

    def test_a_run_that_fails_leads_to_the_page_that_says_why(self, lasting):
        lasting.post("/method", {"method": "mdav", "option-k": "5000"})
        page = lasting.post("/run", {}).text
        assert "Run 1 made no release" in page
        assert "What to try" in page

    def test_statistics_are_checked_while_a_release_is_made(self, server, visitor):
        visitor.post("/method", {"method": "boxes", "option-k": "3", "option-search": "60"})
        visitor.post("/run", {}, follow=False)
        begun = time.monotonic()
        assert visitor.post("/statistics", {"action": "text", "text": "mean(age)"}).status == 200
        assert visitor.post("/statistics", {"action": "text", "text": "mean(nothing)"}).status == 400
        assert time.monotonic() - begun < 10
        job = re.search(r'data-job="(\w+)"', server.call("GET", "/run", Cookie=visitor.cookie).text)[1]
        visitor.post("/cancel", {"job": job})

    def test_the_page_before_the_run_shows_the_options_that_were_given(self, lasting):
        assert "Statistics to keep" not in lasting.post("/method", {"method": "mdav", "option-k": "3"}).text
        assert "keep = 0.5" in lasting.post("/method", {"method": "pram", "option-keep": "0.5"}).text


class TestTrees:
    VALUES = ("a", "b", "x;y", 'q"t', "two\nlines", "*", "ä")

    @pytest.fixture
    def tree(self, person) -> str:
        out = io.BytesIO()
        pq.write_table(pa.table({"age": [*range(20, 55)] * 2, "v": self.VALUES * 10}), out)
        person.upload(out.getvalue(), "t.parquet")
        page = person.get("/tree?column=1&way=values").text
        return unescape(re.search(r"<textarea[^>]*>(.*?)</textarea>", page, re.DOTALL)[1])

    def test_values_with_signs_and_lines_stay_as_they_are(self, person, tree):
        sent = tree.replace("\n", "\r\n")  # as browsers send it
        page = person.post("/tree", {"column": "1", "action": "use", "text": sent})
        assert page.status == 200
        assert "must contain every value" not in page.text

    def test_a_tree_without_some_values_says_so(self, person, tree):
        page = person.post("/tree", {"column": "1", "action": "use", "text": "ä;*\n*;*"})
        assert "must contain every value" in page.text
        assert "5 of 7 values" in page.text


class TestNames:
    def test_the_command_names_the_file_as_its_owner_does(self, person, tmp_path, monkeypatch):
        name = "Größe 2024 (neu) & 'alt'.csv"
        person.post(f"/open/upload?name={quote(name)}", PEOPLE)
        person.post("/method", {"method": "mdav", "option-k": "3"})
        page = person.post("/run", {"seed": "1"}).text
        command = unescape(re.search(r'<pre id="command"><code>(.*?)</code>', page, re.DOTALL)[1])
        zipfile.ZipFile(io.BytesIO(person.get("/runs/1/project.zip").body)).extractall(tmp_path)
        (tmp_path / name).write_bytes(PEOPLE)
        monkeypatch.chdir(tmp_path)
        assert run(shlex.split(command.replace("\\\n", " "))[1:]) == 0
        assert run(["run", "project.toml"]) == 0

    def test_a_name_that_looks_like_an_option_is_a_file(self, person, tables):
        (tables / "-rf.csv").write_bytes(PEOPLE)
        person.post("/open/path", {"path": "-rf.csv"})
        person.post("/method", {"method": "mdav", "option-k": "3"})
        assert "sfumato release ./-rf.csv" in unescape(person.post("/run", {}).text)

    def test_a_sheet_can_be_chosen(self, person):
        xlsxwriter = pytest.importorskip("xlsxwriter")
        out = io.BytesIO()
        with xlsxwriter.Workbook(out, {"in_memory": True}) as book:
            for name, rows in (("first", 30), ("second", 40)):
                sheet = book.add_worksheet(name)
                sheet.write_row(0, 0, ["age", "sex"])
                for row in range(rows):
                    sheet.write_row(row + 1, 0, [20 + row, "fm"[row % 2]])
        assert "40 rows and 2 columns" in person.upload(out.getvalue(), "t.xlsx", sheet="second").text
        assert "30 rows and 2 columns" in person.post("/open/again", {"sheet": "first"}).text


def test_an_option_that_is_switched_off_stays_so_in_the_project(visitor, tmp_path, monkeypatch):
    visitor.post("/method", {"method": "boxes", "option-k": "3", "option-set_names": ""})
    page = visitor.post("/run", {}).text
    assert "set_names=null" in page
    zipfile.ZipFile(io.BytesIO(visitor.get("/runs/1/project.zip").body)).extractall(tmp_path)
    (tmp_path / "t.csv").write_bytes(PEOPLE)
    monkeypatch.chdir(tmp_path)
    assert run(["run", "project.toml"]) == 0
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["options"]["set_names"] is None


class TestNamedFolder:
    def test_a_file_that_becomes_a_link_to_another_place_is_not_read(self, person, tables):
        file = tables / "swapped.csv"
        file.write_bytes(PEOPLE)
        assert person.post("/open/path", {"path": file.name}).status == 200
        file.unlink()
        file.symlink_to(tables.parent / "secret.csv")
        page = person.post("/open/again", {})
        assert page.status == 422
        assert "must lead to a file below" in page.text
        assert "SECRET" not in page.text

    def test_links_that_lead_outside_are_not_listed(self, person):
        page = person.get("/open").text
        assert 'value="people.csv"' in page
        assert "link.csv" not in page


class TestKeys:
    @pytest.fixture
    def opened(self, tmp_path, monkeypatch) -> Iterator[tuple[Server, str]]:
        """A server that opens a browser, and the address that it gave to it as an argument."""
        program, given = tmp_path / "browser", tmp_path / "given"
        program.write_text(f'#!/bin/sh\necho "$1" > "{given}.part" && mv "{given}.part" "{given}"\n')
        program.chmod(0o700)
        monkeypatch.setenv("BROWSER", f"{program} %s")
        server = Server(tmp_path, browser=True)
        end = time.monotonic() + 20
        while not given.exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        yield server, given.read_text().strip().removeprefix(server.origin)
        server.end()

    def test_that_in_the_arguments_of_the_browser_works_once(self, opened):
        server, address = opened
        assert server.key not in address
        assert server.call("GET", address).status == 303
        assert server.call("GET", address).status == 401
        assert server.call("GET", server.entrance).status == 303

    def test_an_empty_one_never_works(self):
        guard = Guard(None, None, key="k", port=5)  # type: ignore[arg-type]
        assert len(guard.key_for_once) > 20


def test_a_long_request_is_a_visit(tmp_path):
    visitors = Visitors(tmp_path)
    visitors.seen -= 100
    assert visitors.absence > 99
    visitors.present += 1
    assert visitors.absence == 0


class Slow(Task):
    """A task that takes longer than the test."""

    def perform(self, held: object) -> None:
        time.sleep(60)


def test_a_job_is_cancelled_while_its_process_is_being_started(tmp_path, monkeypatch):
    jobs, started, begun = JobQueue(tmp_path), JobQueue._running, threading.Event()

    def slowly(self: JobQueue):
        begun.set()
        time.sleep(0.3)
        return started(self)

    monkeypatch.setattr(JobQueue, "_running", slowly)
    job = jobs.ask(Slow(source=None))  # type: ignore[arg-type]
    assert begun.wait(20)
    jobs.cancel(job)
    assert jobs._process is None, "nothing goes on working"
    jobs.close()
    assert job.state == "cancelled"


def hidden(page: str, name: str) -> str:
    return re.search(rf'<input type="hidden" name="{name}" value="(\d+)">', page)[1]
