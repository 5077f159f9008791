"""Reading tables on the command line: headers, marks, odd names and paths, and what is shown of them."""

from __future__ import annotations

import json
import os

import pytest

from sfumato.cli.commands import run

PEOPLE = "".join(f"Bob {number},{number % 7},cold\n" for number in range(60))


@pytest.fixture
def file(tmp_path):
    def write(text: str, name: str = "people.csv") -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


class TestHeader:
    def test_a_person_is_not_published_as_column_names(self, file, tmp_path, capfd):
        assert (
            run(["release", file("Alice CANARY77,unknown,flu\n" + PEOPLE), "--k", "3", "-o", str(tmp_path / "o")]) == 3
        )
        shown = capfd.readouterr()
        assert "--no-header" in shown.err
        assert "CANARY77" not in shown.out + shown.err
        assert not (tmp_path / "o").exists()

    def test_no_header_and_names_are_options_of_every_command_that_reads_a_table(self, file, tmp_path, capfd):
        path, out = file("Alice CANARY77,1,flu\n" + PEOPLE), str(tmp_path / "o")
        names = ["--no-header", "--names", "who,size,illness"]
        assert run(["release", path, *names, "--k", "3", "-o", out, "--json"]) == 0
        shown = json.loads(capfd.readouterr().out)["manifest"]
        assert [column["name"] for column in shown["columns"]] == ["who", "size", "illness"]
        assert shown["rows_in"] == 61
        assert run(["inspect", path, *names]) == 0
        assert run(["assess", path, out, *names, "--seed", "1"]) == 0
        assert "CANARY77" not in "".join(capfd.readouterr())

    def test_a_guess_is_said(self, file, capfd):
        assert run(["inspect", file("blorb\n" + "".join(f"{number}\n" for number in range(30)))]) == 0
        assert "warning: The first line of people.csv was read as column names" in capfd.readouterr().err


def test_a_column_that_turned_to_text_is_said_and_missing_mends_it(file, capfd):
    path = file("age,size\n" + "".join(f"{number},{number}\n" for number in range(30)) + "soon,NA\n")
    assert run(["inspect", path]) == 0
    assert "warning: Columns that are text because a few cells are not numbers or dates: 'age' (1 of 31)" in (
        capfd.readouterr().err
    )
    assert run(["inspect", path, "--missing", "soon", "--json"]) == 0
    shown = capfd.readouterr()
    assert "warning" not in shown.err
    assert [column["missing"] for column in json.loads(shown.out)["columns"]] == [1, 1]


def test_names_cannot_command_the_terminal(file, tmp_path, capfd):
    rows = "".join(f"{number},{number % 9}\n" for number in range(200))
    path, out = file("a\x1b[31mred,size\n" + rows), str(tmp_path / "o")
    assert run(["inspect", path]) == 0
    assert run(["inspect", path, "--json"]) == 0
    assert run(["release", path, "--k", "3", "-o", out, "--role", "a\x1b[31mred=quasi"]) == 0
    assert run(["estimate", out, "mean(size)"]) == 0
    assert run(["inspect", path, "--role", "b\x1b[31m=quasi"]) == 2
    shown = "".join(capfd.readouterr())
    assert "\x1b[31m" not in shown
    assert r"\x1b[31mred" in shown


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--schema", "{pipe}"], 2),
        (["--schema", "/dev/zero"], 2),
        (["--schema", "x" * 5000], 2),
        (["--option", "others=" + "[" * 100_000], 2),
        (["--option", "k=1" + "0" * 400], 2),
        (["--option", "k=1" + "0" * 5000], 2),
        (["--k", "9" * 30], 2),
        (["--option", "suppress=1" + "0" * 400], 2),
        (["--missing", "\udcff"], 2),
        (["--encoding", "\udcff"], 2),
        (["--csv-formulas", "run"], 2),
    ],
)
def test_odd_options_are_errors_of_ours(file, tmp_path, capfd, arguments, code):
    os.mkfifo(tmp_path / "pipe")
    given = [argument.replace("{pipe}", str(tmp_path / "pipe")) for argument in arguments]
    path = file("age,size\n" + "".join(f"{number},{number % 9}\n" for number in range(40)))
    more = [] if any("k=" in argument or argument == "--k" for argument in given) else ["--k", "3"]
    assert run(["release", path, "-o", str(tmp_path / "o"), *more, *given]) == code
    assert "unexpected" not in capfd.readouterr().err


def test_a_manifest_that_is_nested_too_deeply_or_huge_is_refused(file, tmp_path, capfd):
    path, out = file("age,size\n" + "".join(f"{number},{number % 9}\n" for number in range(40))), tmp_path / "o"
    assert run(["release", path, "-o", str(out), "--k", "3"]) == 0
    for text in (
        "[" * 100_000,
        '{"format": 1' + "0" * 5000 + "}",
        '{"format": ' + '{"a":' * 50_000 + "1" + "}" * 50_001,
    ):
        (out / "manifest.json").write_text(text)
        assert run(["estimate", str(out), "mean(age)"]) == 3
    assert "unexpected" not in capfd.readouterr().err


def test_a_password_is_not_shown(tmp_path, capfd):
    assert run(["release", "postgresql://me:SECRET99@localhost/x", "--k", "5", "-o", str(tmp_path / "o")]) == 2
    assert "SECRET99" not in "".join(capfd.readouterr())


def test_formulas_in_the_text_file_are_a_choice(file, tmp_path, capfd):
    path, out = file("size,word\n" + "".join(f"{number},=A{number % 2}\n" for number in range(40))), tmp_path / "o"
    roles = ["--role", "word=other", "--role", "size=quasi", "--k", "3", "-o", str(out)]
    assert run(["release", path, *roles]) == 0
    assert "'=A1" in (out / "released.csv").read_text()
    assert run(["release", path, *roles, "--csv-formulas", "keep"]) == 0
    assert "'=A1" not in (out / "released.csv").read_text()
    assert "=A1" in (out / "released.csv").read_text()
    capfd.readouterr()
