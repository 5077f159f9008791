"""Attacks on the page: each is refused or shown as text, and nothing is left on the disk."""

from __future__ import annotations

import gzip
import io
import json
import re
import socket
import time
import zipfile
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.unit.app.conftest import LARGEST
from tests.unit.app.served import Person, Server

HTML = "<script>alert(1)</script>"
CANARY = "CANARY77"
PEOPLE = b"age,sex\n" + b"1,f\n2,m\n" * 30


class TestWithoutTheKey:
    @pytest.mark.parametrize("path", ["/", "/open", "/columns", "/static/app.js", "/jobs/0", "/runs/1/bundle.zip"])
    def test_nothing_is_shown(self, server, path):
        assert server.call("GET", path).status == 401

    @pytest.mark.parametrize("change", [lambda key: "", lambda key: key[:-1], lambda key: key + "A", str.lower])
    def test_a_wrong_key_opens_nothing(self, server, change):
        answer = server.call("GET", "/enter/" + change(server.key))
        assert answer.status == 401
        assert "set-cookie" not in answer.headers

    def test_a_wrong_cookie_opens_nothing(self, server):
        for cookie in (f"sfumato-{server.port}={server.key}", f"sfumato-{server.port}=", "x", "=;=;"):
            assert server.call("GET", "/open", Cookie=cookie).status == 401

    def test_the_key_opens_the_page_and_the_cookie_is_hidden_from_scripts_and_other_sites(self, server):
        answer = server.enter()
        assert answer.status == 303
        assert answer.headers["location"] == f"{server.root}/"
        assert {"HttpOnly", "SameSite=Strict"} <= set(answer.headers["set-cookie"].split("; "))
        assert server.call("GET", "/open", Cookie=answer.cookie).status == 200
        assert server.key not in answer.headers["set-cookie"]

    def test_a_browser_shows_the_cookie_only_below_a_path_that_other_ports_do_not_know(self, server):
        """Browsers send cookies to all ports of a machine, also to a server of another user."""
        answer = server.enter()
        path = next(one for one in answer.headers["set-cookie"].split("; ") if one.startswith("Path="))
        assert path == f"Path={server.root}/"
        assert len(server.root) > 20
        for outside in ("/open", "/", "/static/app.js", server.root):
            assert server.call("GET", outside, is_outside=True, Cookie=answer.cookie).status == 401
        page = server.call("GET", "/open", Cookie=answer.cookie).text
        assert re.findall(r'(?:href|action|src)="/', page)
        assert not re.findall(rf'(?:href|action|src)="/(?!{server.root[1:]}/)', page)

    def test_a_ticket_to_the_path_works_once(self, server):
        ticket = server.call("GET", server.entrance).headers["location"]
        assert server.call("GET", ticket).status == 303
        assert server.call("GET", ticket).status == 401

    def test_a_browser_that_enters_again_keeps_its_session(self, server):
        answer = server.enter()
        assert server.enter(Cookie=answer.cookie).cookie == answer.cookie


class TestForeignHost:
    @pytest.mark.parametrize(
        "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}"]
    )
    def test_is_refused_even_with_the_key(self, server, host):
        assert server.call("GET", server.entrance, Host=host.format(port=server.port)).status == 403

    def test_localhost_is_this_machine(self, server):
        assert server.call("GET", server.entrance, Host=f"localhost:{server.port}").status == 303

    def test_a_request_without_host_is_refused(self, server):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as line:
            line.sendall(f"GET {server.entrance} HTTP/1.0\r\n\r\n".encode())
            assert line.recv(100).split()[1] in (b"403", b"400")


class TestForeignOrigin:
    ORIGINS = ("http://evil.example", "null", "https://{host}", "http://127.0.0.1:1", "http://localhost:{port}", "")

    @pytest.mark.parametrize("origin", ORIGINS)
    @pytest.mark.parametrize("path", ["/", "/open/demo", "/undo", "/open/upload?name=x.csv"])
    def test_cannot_change_anything(self, server, person, origin, path):
        given = {"Origin": origin.format(host=server.host, port=server.port)} if origin else {}
        assert server.call("POST", path, b"", Cookie=person.cookie, **given).status == 403

    @pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
    def test_what_the_browser_says_about_the_origin_counts_too(self, server, person, site):
        for origin in ({"Origin": server.origin}, {}):
            answer = server.call("POST", "/undo", b"", Cookie=person.cookie, Sec_Fetch_Site=site, **origin)
            assert answer.status == 403

    def test_other_pages_cannot_load_parts(self, server, person):
        for site in ("cross-site", "same-site"):
            for path in ("/static/app.js", "/columns", "/jobs/1"):
                mode = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": "no-cors"}
                assert server.call("GET", path, Cookie=person.cookie, **mode).status == 403

    def test_our_own_page_can(self, server, person):
        given = {"Origin": server.origin, "Sec_Fetch_Site": "same-origin"}
        assert server.call("POST", "/undo", b"", Cookie=person.cookie, **given).status == 303

    @pytest.mark.parametrize("origin", ["http://evil.example", "{own}"])
    def test_there_are_no_web_sockets(self, server, person, origin):
        answer = server.call(
            "GET",
            "/columns",
            Cookie=person.cookie,
            Origin=origin.format(own=server.origin),
            Connection="Upgrade",
            Upgrade="websocket",
            Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==",
            Sec_WebSocket_Version="13",
        )
        assert answer.status == 403


def test_every_answer_has_the_security_headers(server, person):
    answers = [person.get("/open"), server.call("GET", "/"), server.call("GET", "/open", Host="evil.example")]
    answers += [server.call("GET", path, Cookie=person.cookie) for path in ("/static/app.js", "/nothing", "/runs/9")]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers.get("server") is None
    assert not re.findall(r"(?:src|href|action)=\"(?:https?:)?//", answers[0].text), "nothing is loaded from outside"
    assert not re.findall(r"<style|style=|<script(?! type=\"module\" src=\"/[\w-]+/static)| on\w+=", answers[0].text)


def test_it_listens_on_the_loopback_only(server):
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ours = [line[1] for line in listening if line[1].endswith(f":{server.port:04X}") and line[3] == "0A"]
    assert ours == [f"0100007F:{server.port:04X}"]
    assert f":{server.port:04X} " not in Path("/proc/net/tcp6").read_text()


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        [
            "/../../../etc/passwd",
            "/static/../../../../etc/passwd",
            "/static/..%2f..%2f..%2fserver.py",
            "/static/%2e%2e/server.py",
            "/runs/1/..%2f..%2fmanifest.json",
            "//etc/passwd",
        ],
    )
    def test_no_address_leads_to_a_file(self, server, person, path):
        answer = server.call("GET", path, Cookie=person.cookie)
        assert answer.status == 404
        assert "root:" not in answer.text
        assert "import" not in answer.text

    @pytest.mark.parametrize(
        "path",
        ["../secret.csv", "deep/../../secret.csv", "link.csv", "/etc/passwd", "~/.profile", "deep", ".", "", "x\0.csv"],
    )
    def test_no_path_leads_out_of_the_named_folder(self, person, path):
        answer = person.post("/open/path", {"path": path})
        assert answer.status == 400
        assert "SECRET" not in answer.text
        assert "Open a table first" in person.get("/columns").text

    def test_a_path_below_it_is_opened(self, person):
        assert "50 rows and 2 columns" in person.post("/open/path", {"path": "deep/more.csv"}).text

    def test_without_a_named_folder_there_are_no_paths(self, tmp_path):
        alone = Server(tmp_path)
        person = Person(alone)
        assert person.post("/open/path", {"path": "/etc/passwd"}).status == 400
        assert 'name="path"' not in person.get("/open").text
        assert alone.end() != 0
        assert alone.left == []


class TestUploads:
    def test_two_gigabytes_are_refused_before_they_are_sent(self, server, person):
        headers = {"Cookie": person.cookie, "Origin": server.origin, "Content_Length": str(2 * 10**9)}
        assert server.call("POST", "/open/upload?name=x.csv", None, **headers).status == 413
        assert not stored(server, "table")

    def test_two_gigabytes_without_a_length_are_not_read_to_the_end(self, server, person):
        chunk = b"80000\r\n" + b"1,2\n" * (0x80000 // 4) + b"\r\n"
        sent = 0
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as line:
            head = f"POST {server.root}/open/upload?name=x.csv HTTP/1.1\r\nHost: {server.host}\r\n"
            head += f"Cookie: {person.cookie}\r\n"
            line.sendall(f"{head}Origin: {server.origin}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            try:
                while sent < 2 * 10**9:
                    line.sendall(chunk)
                    sent += len(chunk)
            except OSError:  # the server has closed the line
                pass
        assert LARGEST <= sent < 100 * LARGEST
        wait_for(lambda: not stored(server, "table"))

    @pytest.mark.parametrize("kind", ["gzip", "zip"])
    def test_a_bomb_is_not_expanded(self, server, person, kind):
        zeros, out = b"0,0\n" * 10**7, io.BytesIO()
        if kind == "gzip":
            out.write(gzip.compress(b"a,b\n" + zeros, 9))
        else:
            with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("xl/worksheets/sheet1.xml", zeros)
        assert len(out.getvalue()) < LARGEST / 10
        answer = person.post("/open/upload?name=bomb.gz", out.getvalue())
        assert answer.status == 422
        assert "must not expand" in json.loads(answer.text)["error"]
        assert not stored(server, "table")

    def test_names_are_not_trusted(self, server, person):
        for name in (
            "../../../../tmp/evil.csv",
            "/etc/cron.d/evil",
            "..\\..\\evil.csv",
            f"{HTML}.csv",
            ".\0.",
            "a" * 999,
        ):
            answer = person.post(f"/open/upload?{urlencode({'name': name})}", PEOPLE)
            assert answer.status == 200
            assert HTML not in person.get("/open").text
            kept = [file for file in server.left if file.is_file()]
            assert all(re.fullmatch(r"[\w.-]{1,90}", file.name) for file in kept)
            assert all(re.fullmatch(r"table-\w+", file.parent.name) for file in kept)

    def test_an_interrupted_upload_leaves_nothing(self, server, person):
        before = stored(server, "table")
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as line:
            head = f"POST {server.root}/open/upload?name=x.csv HTTP/1.1\r\nHost: {server.host}\r\n"
            head += f"Cookie: {person.cookie}\r\n"
            line.sendall(f"{head}Origin: {server.origin}\r\nContent-Length: 90000\r\n\r\n1,2\n".encode())
            wait_for(lambda: stored(server, "table") != before)
        wait_for(lambda: stored(server, "table") == before)


class TestWhatIsShown:
    def test_html_in_every_cell_and_name_is_text(self, person):
        names = [f"{HTML}{n}" for n in range(4)] + ["bell\x07 and \x1b[31m", '" onload="alert(1)', "{{ 7 * 7 }}"]
        cells = [f"{HTML}{n % 3}" for n in range(120)]
        rows = [
            ",".join([f"{n % 7}", f"{n % 5}.5", cells[n], cells[-n], f"{n % 9}", cells[n], "x"]) for n in range(120)
        ]
        quoted = ",".join('"' + name.replace('"', '""') + '"' for name in names)
        page = person.upload("\n".join([quoted, *rows]).encode(), "t.csv", header="yes")
        assert page.status == 200
        assert "\\x07" in page.text
        person.get("/risks")
        person.get("/tree?column=2")
        person.post("/statistics", {"action": "singles", "mean": "0"})
        person.post("/statistics", {"action": "text", "text": f"mean({HTML})"})
        person.get("/method")
        person.post("/method", {"method": "mdav", "option-k": "3"})
        person.post("/method", {"method": HTML})
        person.get(f"/method?name={HTML}")
        person.post("/run", {})
        person.get("/runs/1")
        person.get("/runs")
        assert len(person.seen) > 8
        for text in person.seen:
            assert "<script>alert" not in text
            assert 'onload="alert' not in text
            assert "\x07" not in text
            assert "\x1b" not in text
        assert any("&lt;script&gt;alert(1)" in text for text in person.seen), "the control: it was there to be shown"

    def test_errors_quote_no_cell(self, person):
        ragged = f"age,sex\n1,f\n2,m,{CANARY}\n" + "3,f\n" * 20
        person.upload(ragged.encode(), "t.csv")
        person.upload(b"PAR1" + CANARY.encode() * 20, "t.parquet")
        person.upload(json.dumps({"a": CANARY}).encode() + b"\n{", "t.jsonl")
        person.upload(f"age,name\n{','.join([CANARY] * 2)}\n".encode() * 40, "t.csv")
        person.post("/tree", {"column": "0", "action": "use", "text": f"{CANARY};a;*\n{CANARY};b;*\n{CANARY}2;a\n"})
        assert len(person.seen) >= 4
        first_rows = re.compile(r'<div class="sheet".*?</div>|<ol class="rawlines">.*?</ol>', re.DOTALL)
        assert any(CANARY in text for text in person.seen), "the first rows are shown to who opened the table"
        assert not [text for text in person.seen if CANARY in first_rows.sub("", text)]

    def test_one_session_sees_nothing_of_another(self, server, person):
        person.post("/open/path", {"path": "people.csv"})
        person.post("/method", {"method": "mdav", "option-k": "3"})
        assert person.post("/run", {}).status == 200
        other = Person(server)
        assert other.cookie != person.cookie
        for path in ("/columns", "/risks", "/run", "/runs/1", "/runs/1/bundle.zip", "/runs/1/report.html"):
            answer = other.get(path)
            assert answer.status in (400, 404), path
            assert "people.csv" not in answer.text
        assert person.get("/runs/1").status == 200


class TestTheEnd:
    def test_everything_is_removed(self, tmp_path):
        server = Server(tmp_path)
        Person(server).post("/open/upload?name=t.csv", PEOPLE)
        assert stored(server, "table")
        assert all(path.stat().st_mode & 0o077 == 0 for path in server.left if path.is_dir())
        server.end()
        assert server.left == []

    def test_what_a_killed_server_left_is_swept_at_the_next_start(self, tmp_path):
        server, living = Server(tmp_path), Server(tmp_path)
        Person(server).post("/open/upload?name=t.csv", PEOPLE)
        Person(living).post("/open/upload?name=t.csv", PEOPLE)
        server.end(9)
        assert len(stored(living, "table")) == 2
        following = Server(tmp_path)
        assert len(stored(living, "table")) == 1, "that of the living server stays"
        following.end()
        living.end()
        assert living.left == []

    def test_it_ends_by_itself_without_a_visitor(self, tmp_path):
        server = Server(tmp_path, "--idle", "0.01")
        Person(server)
        assert server.wait() == 0
        assert server.left == []


def stored(server: Server, prefix: str) -> list[Path]:
    return [path for path in server.left if path.name.startswith(prefix)]


def wait_for(condition, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
