"""Files at the door and work that is kept: first rows, title lines, sheets, kinds, derived columns, projects."""

from __future__ import annotations

import io
import json
import re
import signal
import stat
import time
import zipfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from tests.unit.app.served import Person, Server

from sfumato.app.projects import MOST_BYTES
from sfumato.cli.commands import run

HTML = "<script>alert(1)</script>"
PEOPLE = b"age,sex\n" + b"34,f\n51,m\n" * 40
MESSY = (
    "Export of ward 3\nMaster data;;;Lab\nage;sex;born;weight\n"
    + "".join(f"{20 + n % 50};{'fm'[n % 2]};19{50 + n % 40}-03-1{n % 9};7{n % 9},5\n" for n in range(80))
).encode()


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Where the system keeps data of programs."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def server(tmp_path_factory, tables, home) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(home))
        made = Server(tmp_path_factory.mktemp("server"), "--folder", str(tables), "--max-upload", "2000000")
    yield made
    made.end()
    assert made.left == []


@pytest.fixture
def person(server) -> Iterator[Person]:
    made = Person(server)
    yield made
    made.post("/close", {"replace": "1"})


def shown(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.partition("<main")[2])).split())


def hidden(page: str, name: str) -> str:
    return re.search(rf'name="{name}" value="([^"]*)"', page)[1]


class TestFirstRows:
    def test_titles_and_two_lines_of_names_are_suggested_and_read_with_one_click(self, person):
        page = person.upload(MESSY, "ward.csv")
        assert page.status == 422, "the first line is no line of names"
        assert "begin at line 2" in page.text
        assert "Export of ward 3" in page.text, "the file is shown as it is"
        page = person.post("/open/again", {"skip": "1", "header_rows": "2", "table": hidden(page.text, "table")})
        assert "80 rows and 4 columns" in page.text
        assert "Lab_weight" in page.text.replace("<wbr>", "")
        assert "1950-03-10" in page.text
        assert "begin at line" not in page.text

    def test_comments_before_the_names_are_left_out(self, person):
        page = person.upload(b"# made by the ward, 2024\n# second, line\n" + PEOPLE, "t.csv")
        fields = {name: hidden(page.text, name) for name in ("skip", "table")}
        assert fields["skip"] == "2"
        assert "80 rows and 2 columns" in person.post("/open/again", fields).text

    def test_sheets_are_listed_and_the_largest_is_offered(self, person):
        xlsxwriter = pytest.importorskip("xlsxwriter")
        out = io.BytesIO()
        with xlsxwriter.Workbook(out, {"in_memory": True}) as book:
            book.add_worksheet("<b>Cover").write(0, 0, "Report of the ward")
            sheet = book.add_worksheet("Data")
            sheet.write_row(0, 0, ["age", "sex"])
            for row in range(40):
                sheet.write_row(row + 1, 0, [20 + row, "fm"[row % 2]])
        page = person.upload(out.getvalue(), "t.xlsx").text
        assert "“Data” has more cells" in shown(page)
        assert "<b>Cover" not in page
        page = person.post("/open/again", {"sheet": "Data"}).text
        assert "40 rows and 2 columns" in page
        assert "<option selected>Data</option>" in page

    def test_cells_are_shown_on_this_page_only_and_as_text(self, person, server):
        page = person.upload(f"age,note\n41,{HTML}\n".encode() + b"34,CANARY9\n" * 30, "t.csv").text
        assert "CANARY9" in page
        assert HTML not in page
        for path in ("/columns", "/open", "/statistics"):
            assert "CANARY9" not in person.get(path).text
        assert b"CANARY9" not in person.get("/project.zip").body

    @pytest.mark.parametrize(
        "fields",
        [
            {"skip": "-1"}, {"skip": "9" * 5000}, {"skip": "1e3"}, {"header_rows": HTML}, {"header_rows": "99999"},
            {"encoding": HTML}, {"separator": "xx"}, {"sheet": "../.."}, {"missing": "," * 9999}, {"decimal": ";"},
        ],
    )  # fmt: skip
    def test_no_way_of_reading_is_unexpected(self, person, fields):
        person.upload(PEOPLE, "t.csv")
        answer = person.post("/open/again", fields)
        assert answer.status in (200, 400, 422)
        assert "unexpected" not in answer.text
        assert HTML not in answer.text


class TestReadAgain:
    def test_choices_stay(self, person):
        page = person.upload(b"age;sex;w\n" + b"34;f;1,5\n51;m;2,5\n" * 40, "t.csv").text
        person.post("/columns", {"role": "sensitive", "column": "1"})
        page = person.post("/open/again", {"separator": "semicolon", "decimal": "comma"}).text
        assert "80 rows and 3 columns" in page
        columns = person.get("/columns").text
        assert columns.count("chosen by you") == 1

    def test_choices_about_columns_that_are_gone_come_back_with_them(self, person):
        person.upload(b"age;sex\n" + b"34;f\n51;m\n" * 40, "t.csv")
        person.post("/columns", {"role": "sensitive", "column": "1"})
        person.post("/open/again", {"separator": "bar", "header": "yes"})
        assert person.get("/columns").status == 200
        person.post("/open/again", {})
        assert "chosen by you" in person.get("/columns").text

    def test_a_form_that_was_shown_before_is_refused(self, person):
        old = hidden(person.upload(PEOPLE, "t.csv").text, "table")
        person.post("/open/again", {"header": "yes"})
        assert person.post("/columns", {"role": "other", "column": "0", "table": old}).status == 400


class TestKinds:
    def test_are_changed_for_many_columns_and_undone(self, person):
        person.upload(PEOPLE, "t.csv")
        page = person.post("/columns", {"action": "kind", "kind": "nominal", "column": ["0", "1"]}).text
        assert "kind nominal for 2 columns" in page
        assert page.count(">nominal</a>") == 2
        assert person.post("/undo").text.count(">nominal</a>") == 1

    def test_one_that_the_cells_do_not_have_is_refused_and_the_page_stays(self, person):
        person.upload(PEOPLE, "t.csv")
        answer = person.post("/columns", {"action": "kind", "kind": "date", "column": "1"})
        assert answer.status == 400
        assert "cannot be read as date" in answer.text
        assert person.get("/columns").status == 200
        assert person.post("/columns", {"action": "kind", "kind": HTML, "column": "1"}).status == 400

    def test_an_order_of_categories_a_label_and_pseudonyms(self, person):
        person.upload(b"id,age,grade\n" + b"".join(b"p%d,3%d,%s\n" % (n, n % 9, [b"low", b"mid", b"high"][n % 3]) for n in range(60)), "t.csv")  # noqa: E501 # fmt: skip
        assert "mid" in person.get("/column?column=2").text
        page = person.post(
            "/column", {"column": "2", "kind": "ordered", "order": "low\r\nmid\r\nhigh", "label": "Grade"}
        )
        assert ">ordered</a>" in page.text
        assert person.post("/column", {"column": "2", "kind": "ordered", "order": "low\nhigh"}).status == 400
        page = person.post("/column", {"column": "0", "pseudonym": "1"})
        assert "released as pseudonyms" in page.text
        assert person.post("/column", {"column": "1", "pseudonym": "1"}).status == 200, "only identifiers have them"
        for fields in ({"column": "99"}, {"column": "1", "by": "7"}, {"column": "1", "kind": "x"}, {"column": "0", "facts": "x", "pseudonym": "1"}):  # noqa: E501 # fmt: skip
            answer = person.post("/column", fields)
            assert answer.status in (200, 400)
            assert "unexpected" not in answer.text


class TestDerivedColumns:
    def test_an_age_in_place_of_a_birth_date(self, person):
        person.upload(MESSY, "t.csv", skip="2")
        page = person.post(
            "/columns/derived",
            {"column": "2", "function": "years", "argument": "2026-01-01", "name": "years old", "remove": "1"},
        ).text
        assert "81 rows" not in page
        assert "years old" in shown(page)
        assert "`years old` = years(born, 2026-01-01)" in unescape(page.replace("<wbr>", ""))
        assert page.count("r-identifier") == 2, "the button, and the birth date"
        page = person.post("/columns/derived", {"action": "remove:0"}).text
        assert "years old" not in shown(page).replace("Undo", "")

    @pytest.mark.parametrize(
        "fields",
        [
            {"function": "years", "argument": "2026-01-01", "column": "1"},
            {"function": "years", "argument": "tomorrow", "column": "2"},
            {"function": "years", "argument": "1960-01-01", "column": "2"},
            {"function": "system", "argument": "1", "column": "2"},
            {"function": "steps", "argument": "0", "column": "0"},
            {"function": "steps", "argument": "1e400", "column": "0"},
            {"function": "prefix", "argument": "-3", "column": "1"},
            {"function": "year", "argument": "", "column": "99"},
            {"function": "year", "argument": "", "column": "2", "name": f"`{HTML}`"},
        ],
    )
    def test_mistakes_are_said_and_nothing_changes(self, person, fields):
        person.upload(MESSY, "t.csv", skip="2")
        answer = person.post("/columns/derived", fields)
        assert answer.status == 400
        assert "unexpected" not in answer.text
        assert HTML not in answer.text
        assert "1950" not in shown(answer.text), "no cell is quoted"
        assert "80 rows and 4 columns" in person.get("/columns").text
        assert "remove:0" not in person.get("/columns").text


class TestProjects:
    @pytest.fixture
    def project(self, person) -> bytes:
        """Choices about the table of people, saved."""
        person.upload(PEOPLE, "t.csv")
        person.post("/columns", {"role": "sensitive", "column": "1"})
        person.post("/statistics", {"action": "text", "text": "mean(age)"})
        person.post("/risks", {"population": "1000"})
        person.post("/method", {"method": "mdav", "option-k": "7"})
        return person.get("/project.zip").body

    def test_open_again_with_all_choices(self, server, project):
        other = Person(server)
        answer = other.post("/projects/open?name=p.zip", project)
        assert json.loads(answer.text) == {"next": "/open"}
        assert "The project of t.csv is open" in shown(other.get("/open").text)
        other.upload(PEOPLE, "t.csv")
        assert other.get("/columns").text.count("chosen by you") == 1
        assert "mean(age)" in other.get("/statistics").text.replace("<wbr>", "")
        assert 'value="1000"' in other.get("/risks").text
        page = shown(other.get("/run").text)
        assert "mdav" in page
        assert "k = 7" in page
        other.post("/close", {"replace": "1"})

    def test_are_those_of_the_command_line(self, project, tmp_path, monkeypatch):
        zipfile.ZipFile(io.BytesIO(project)).extractall(tmp_path)
        (tmp_path / "t.csv").write_bytes(PEOPLE)
        monkeypatch.chdir(tmp_path)
        assert run(["run", "project.toml"]) == 0
        assert json.loads((tmp_path / "out" / "manifest.json").read_text())["options"]["k"] == 7

    def test_a_file_of_the_command_line_opens_below_the_folder_with_its_table(self, person, tables):
        (tables / "p.toml").write_text(
            'input = "people.csv"\nmethod = "mdav"\n[options]\nk = 4\n[columns.age]\nrole = "quasi"\n'
        )
        assert "200 rows and 2 columns" in person.post("/open/path", {"path": "p.toml"}).text
        assert "k = 4" in shown(person.get("/run").text)
        (tables / "q.toml").write_text('input = "../secret.csv"\nmethod = "mdav"\n')
        answer = person.post("/open/path", {"path": "q.toml", "replace": "1"})
        assert answer.status == 400
        assert "SECRET" not in answer.text

    def test_no_path_in_a_project_is_followed(self, person, tables, tmp_path):
        secret = tables.parent / "tree.csv"
        secret.write_text("f;SECRET\nm;SECRET\n")
        person.upload(PEOPLE, "t.csv")
        text = 'input = "/etc/passwd"\nkey = "/etc/passwd"\nschema = "/etc/passwd"\n'
        text += f'[columns.sex]\nrole = "quasi"\ntree = "{secret}"\n'
        assert json.loads(person.post("/projects/open?name=p.toml", text.encode()).text) == {"next": "/open/preview"}
        assert "SECRET" not in person.get("/tree?column=1").text
        assert "80 rows" in person.get("/open/preview").text

    def test_no_file_of_an_archive_leads_out_of_its_folder(self, person, server):
        person.upload(PEOPLE, "t.csv")
        before = {path for path in server.temporary.rglob("*") if path.is_file()}
        for name in (
            "../evil.csv",
            "/tmp/evil.csv",
            "trees/../../evil.csv",
            "trees/.hidden.csv",
            "other.csv",
            "trees\\evil.csv",
        ):
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w") as archive:
                archive.writestr("project.toml", 'method = "mdav"\n[options]\nk = 3\n')
                archive.writestr(name, "evil")
            assert person.post("/projects/open?name=p.zip", out.getvalue()).status == 200
        assert {path for path in server.temporary.rglob("*") if path.is_file()} == before
        assert not Path("/tmp/evil.csv").exists()

    @pytest.mark.parametrize(
        "content",
        [
            b"", b"PK\x03\x04broken", b"\xff\xfe\x00", b"method = 3", b"nothing = 1", b"[columns]\nage = 7",
            b"method = 'none'",
            b"[reading]\nskip = 'x'", b"[reading]\nmissing = 5", b"[reading]\nseparator = 5", b"[options]\nk = 'many'",
            b"a = " + b"[" * 5000, b'method = "mdav"\n[options]\nk = -1',
        ],
    )  # fmt: skip
    def test_what_is_no_project_is_refused(self, person, content):
        person.upload(PEOPLE, "t.csv")
        answer = person.post("/projects/open?name=p.toml", content)
        assert answer.status in (200, 422)
        assert "unexpected" not in answer.text
        assert person.get("/columns").status == 200

    def test_a_large_one_is_not_read(self, person):
        headers = {"Cookie": person.cookie, "Origin": person.server.origin, "Content_Length": str(MOST_BYTES + 10)}
        assert person.server.call("POST", "/projects/open?name=p.toml", None, **headers).status == 413

    def test_an_archive_that_unpacks_to_much_is_refused(self, person):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("project.toml", b"#" * (MOST_BYTES + 10))
        assert person.post("/projects/open?name=p.zip", out.getvalue()).status == 422

    def test_an_option_that_opens_a_path_is_left_out(self, person):
        person.upload(PEOPLE, "t.csv")
        text = b'method = "recode"\n[options]\nk = 5\npopulation = "/etc/passwd"\n'
        assert person.post("/projects/open?name=p.toml", text).status == 200
        assert "passwd" not in person.get("/run").text


class TestSaving:
    def test_nothing_is_saved_unless_the_visitor_allows_it(self, person, home):
        person.upload(PEOPLE, "t.csv")
        person.post("/columns", {"role": "sensitive", "column": "1"})
        assert not list(home.rglob("*"))

    def test_each_change_is_saved_privately_and_found_again(self, server, person, home):
        person.upload(PEOPLE + b"7,f\n", f"{HTML}.csv")
        person.post("/saving", {"action": "allow"})
        person.post("/columns", {"role": "sensitive", "column": "1"})
        files = [path for path in home.rglob("*") if path.is_file()]
        folders = [path for path in home.rglob("*") if path.is_dir() and path.name != "sfumato"]
        assert files
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
        assert not any(b"34" in path.read_bytes() for path in files if path.name == "project.toml"), "no row is saved"
        other = Person(server)
        page = other.upload(PEOPLE + b"7,f\n", "renamed.csv")
        assert "You have worked on this table before" in shown(page.text)
        assert HTML not in other.get("/open").text
        mark = hidden(page.text, "mark")
        other.post("/saving", {"action": "continue", "mark": mark})
        assert other.get("/columns").text.count("chosen by you") == 1
        other.post("/saving", {"action": "forget", "mark": mark})
        assert not [path for path in home.rglob("*") if path.is_file()]
        other.post("/close", {"replace": "1"})

    @pytest.mark.parametrize("mark", ["../..", "", "/etc", HTML, "9" * 5000])
    def test_no_mark_leads_elsewhere(self, person, home, mark):
        (home / "kept").write_text("x")
        person.upload(PEOPLE, "t.csv")
        for action in ("forget", "continue", "nothing"):
            assert person.post("/saving", {"action": action, "mark": mark}).status == 200
        assert (home / "kept").exists()
        (home / "kept").unlink()

    @pytest.mark.parametrize("path", ["/saving", "/projects/open", "/columns/derived", "/column", "/key", "/runs/1/next", "/runs/1/improve"])  # noqa: E501 # fmt: skip
    def test_other_sites_cannot(self, server, person, path):
        answer = server.call("POST", path, b"action=allow", Cookie=person.cookie, Origin="http://evil.example")
        assert answer.status == 403


class TestAsked:
    def test_another_table_replaces_unsaved_work_only_if_told(self, person):
        person.upload(PEOPLE, "t.csv")
        person.post("/columns", {"role": "sensitive", "column": "1"})
        assert person.post("/open/upload?name=u.csv", PEOPLE).status == 422
        for path in ("/open/demo", "/close"):
            answer = person.post(path)
            assert answer.status == 400
            assert "not saved" in answer.text
        assert 'name="replace"' in person.get("/open").text
        assert person.get("/columns").text.count("chosen by you") == 1
        person.get("/project.zip")
        assert 'name="replace"' not in person.get("/open").text, "it is saved"
        person.post("/open/demo")
        assert "442 rows" in person.get("/columns").text

    def test_ctrl_c_asks_once_if_work_would_be_lost(self, tmp_path):
        server = Server(tmp_path)
        person = Person(server)
        person.upload(PEOPLE, "t.csv")
        person.post("/columns", {"role": "sensitive", "column": "1"})
        server.process.send_signal(signal.SIGINT)
        time.sleep(1.0)
        assert server.process.poll() is None
        assert person.get("/columns").status == 200
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=30) is not None
        assert "not saved" in server.process.stderr.read()
        server.wait()
        assert server.left == []

    def test_ctrl_c_ends_it_at_once_if_nothing_would_be_lost(self, tmp_path):
        server = Server(tmp_path)
        Person(server).upload(PEOPLE, "t.csv")
        server.end(signal.SIGINT)
        assert server.left == []
