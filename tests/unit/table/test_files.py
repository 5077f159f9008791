"""Paths that are no files, and options with what no text should hold: an error of ours, at once."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sfumato.errors import OptionError, ReadError, SchemaError, TableError, printable
from sfumato.release.read import read_release
from sfumato.schema.schema import Schema
from sfumato.sources.files import read
from sfumato.sources.frames import as_table

NAMES = {
    "pipe": "is a pipe",
    "device": "is a device",
    "folder": "is a folder",
    "socket": "is a socket",
    "long": "cannot be read: File name too long",
    "zero": "its name is not valid",
    "half": "no file",
}


@pytest.fixture
def odd(tmp_path):
    """Paths that are not regular files."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    listener = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(tmp_path)  # the path of a socket must be short
    listener.bind("socket")
    os.chdir(here)
    places = {name: tmp_path / name for name in ("pipe", "folder", "socket")}
    odd_names = {"device": Path("/dev/zero"), "long": tmp_path / ("x" * 5000), "zero": "a\0b", "half": "a\udcffb"}
    yield places | odd_names
    listener.close()


@pytest.mark.parametrize("kind", NAMES)
def test_what_is_no_file_is_refused_at_once(odd, kind):
    with pytest.raises(ReadError, match=NAMES[kind]) as refusal:
        read(odd[kind])
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("kind", ["pipe", "device", "long", "zero", "half"])
def test_the_same_holds_for_releases_and_schemas(odd, kind):
    with pytest.raises(ReadError):
        read_release(odd[kind])
    with pytest.raises(SchemaError, match="schema file"):
        Schema.of(odd[kind])


@pytest.mark.parametrize(
    "text",
    [
        "[columns.age]\nrole = 'quasi'\ndomain = [0, 1" + "0" * 400 + "]\n",
        "[columns.age]\nrole = 'quasi'\ndomain = [0, 1" + "0" * 5000 + "]\n",
        "[columns.age]\nrole = 'quasi'\nwords.young = [0, 1, 2" + "0" * 400 + "]\n",
        "columns = " + "[" * 100_000,
        "[columns.age]\nrole = " + "{a=" * 5_000 + "1" + "}" * 5_000 + "\n",
    ],
)
def test_huge_numbers_and_deep_nesting_in_a_schema_are_refused(tmp_path, text):
    (tmp_path / "schema.toml").write_text(text)
    with pytest.raises(SchemaError):
        Schema.of(tmp_path / "schema.toml")


def test_halves_of_characters_are_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    for option in ({"missing": "\udcff"}, {"separator": "\udcff"}, {"encoding": "\udcff"}, {"encoding": "base64"}):
        with pytest.raises(OptionError):
            read(path, **option)
    with pytest.raises(TableError, match="valid text"):
        as_table({"a\ud800": [1, 2]})


class TestPrintable:
    def test_control_characters_are_shown_escaped(self):
        assert printable("a\x1b[31mred\x07\x9b\u202e") == r"a\x1b[31mred\x07\x9b\u202e"
        assert printable("line\nline, ä €") == "line\nline, ä €"
        assert "\x1b" not in str(TableError("a\x1b[2J", found="\x1b", fix="\x1b"))
        assert "\x1b" not in repr(as_table({"a\x1b[31m": [1]}))

    @pytest.mark.parametrize(
        "text",
        [
            "postgresql://me:SECRET@localhost/x",
            "postgresql+psycopg://me:SEC:RET@x@localhost/x?sslmode=require",
            "mysql://me:SECRET/x@localhost/y",
            "postgresql://localhost/x?user=me&password=SECRET",
            "host=localhost password=SECRET user=me",
        ],
    )
    def test_passwords_are_not_shown(self, text):
        assert "SEC" not in printable(f"{text!r} is a URL.")
        assert "localhost" in printable(text)

    def test_a_url_is_not_a_file(self):
        with pytest.raises(ReadError, match=r"me:\*\*\*@localhost"):
            read("postgresql://me:SECRET@localhost/x")
