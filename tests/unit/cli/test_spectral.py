"""Spectral methods and assessments from the command line, on tables that break things."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sfumato.cli.commands import run

generator = np.random.default_rng(4)


def rows(**columns) -> str:
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))])


DAYS = np.datetime_as_string(np.datetime64("1980-01-01") + generator.integers(0, 9000, 40)).tolist()
ODD = {
    "three rows": rows(x=[1.5, 2.25, 4], c=list("aba")),
    "more columns than rows": rows(**{f"x{i}": generator.normal(size=6).round(3) for i in range(9)}),
    "constant": rows(x=[3.5] * 9, c=["a"] * 9),
    "collinear": rows(x=np.arange(40) + 0.5, y=2 * np.arange(40) + 1.5, z=5.5 - np.arange(40)),
    "all categorical": rows(u=generator.choice(list("abc"), 40), v=generator.choice(list("xy"), 40)),
    "one rare person": rows(x=generator.normal(size=60).round(3), hiv=["negative"] * 59 + ["positive"]),
    "missing": rows(x=[1.5, "", 2.5, ""] * 10, c=["a", "b", "", ""] * 10),
    "days": rows(born=["", *DAYS[1:]], x=generator.normal(size=40).round(3)),
}
METHODS = {
    "svd-swap": [],
    "pica": ["--option", "cluster_size=auto"],
    "spectral-rhs": ["--k", "3"],
    "rhs": ["--k", "3"],
    "noise": [],
}


# groups of one row, and noise too small for a category to change: such a release would be the original
UNALTERED = {("all categorical", "rhs"), ("missing", "rhs"), ("all categorical", "noise")}


def command(file, out, method, columns):
    roles = [argument for column in columns for argument in ("--role", f"{column}=quasi")]
    return ["release", str(file), "-o", str(out), "--method", method, *METHODS[method], *roles, "--seed", "1"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ODD)
def test_odd_tables_are_released_and_judged(name, method, tmp_path, capfd):
    file, out = tmp_path / "people.csv", tmp_path / "out"
    file.write_text(ODD[name] + "\n")
    ended = run(command(file, out, method, ODD[name].partition("\n")[0].split(",")))
    shown = capfd.readouterr()
    if (name, method) in UNALTERED:
        assert ended == 1
        assert "must not be released unaltered" in shown.err
        assert not out.exists()
        return
    assert ended == 0
    assert run(["assess", str(file), str(out), "--reference", str(file), "--json", "--seed", "1"]) == 0
    shown = capfd.readouterr()
    assert json.loads(shown.out)["method"] == method
    assert "Warning" not in shown.err


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("cell", "code"), [("inf", 3), ("", 0)])
def test_infinities_are_refused_and_empty_cells_are_not(method, cell, code, tmp_path, capfd):
    file, out = tmp_path / "people.csv", tmp_path / "out"
    file.write_text(rows(x=[7777.25, cell, *range(8)], y=np.arange(10) + 0.5) + "\n")
    assert run(command(file, out, method, "xy")) == code
    assert out.exists() == (code == 0)
    shown = capfd.readouterr()
    assert "7777" not in shown.out + shown.err
    assert ("finite" in shown.err) == (code == 3)


@pytest.mark.parametrize("method", METHODS)
def test_two_people_cannot_be_hidden(method, tmp_path, capfd):
    file, out = tmp_path / "people.csv", tmp_path / "out"
    file.write_text("x\n1.5\n7777.25\n")
    assert run(command(file, out, method, "x")) == 1
    assert not out.exists()
    assert "7777" not in capfd.readouterr().err


def test_the_logarithms_that_were_chosen_are_shown(tmp_path, capfd):
    file, out = tmp_path / "people.csv", tmp_path / "out"
    file.write_text(
        rows(income=generator.lognormal(9, 1, 80).round(2), height=generator.normal(170, 9, 80).round(2)) + "\n"
    )
    assert run([*command(file, out, "svd-swap", ["income", "height"]), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["manifest"]["notes"]["logarithms"] == ["income"]


class TestAssessment:
    @pytest.fixture
    def made(self, tmp_path):
        file, out = tmp_path / "people.csv", tmp_path / "out"
        file.write_text(
            rows(x=generator.normal(size=60).round(3), y=generator.normal(size=60).round(3), c=["a", "b"] * 30) + "\n"
        )
        assert run(command(file, out, "svd-swap", "xyc")) == 0
        return file, out

    def test_pictures_are_drawn_where_they_are_asked_for(self, made, tmp_path, capfd):
        file, out = made
        assert run(["assess", str(file), str(out), "--pictures", str(tmp_path / "pictures"), "--seed", "1"]) == 0
        assert {path.name for path in (tmp_path / "pictures").iterdir()} == {"privacy.png", "components.png"}
        assert (tmp_path / "pictures" / "privacy.png").read_bytes().startswith(b"\x89PNG")

    def test_pictures_do_not_go_into_a_release(self, made, capfd):
        file, out = made
        before = {path.name for path in out.iterdir()}
        for folder in (out, out / "pictures"):
            assert run(["assess", str(file), str(out / "released.csv"), "--pictures", str(folder)]) == 2
        assert run(["assess", str(file), str(out), "--pictures", str(out)]) == 2
        assert {path.name for path in out.iterdir()} == before

    def test_the_intruder_may_know_some_columns_and_any_metric_can_be_taken(self, made, capfd):
        file, out = made
        chosen = ["--column", "x", "--column", "c", "--metric", "mixed", "--json"]
        assert run(["assess", str(file), str(out), *chosen]) == 0
        assert json.loads(capfd.readouterr().out)["columns"] == 2
        assert run(["assess", str(file), str(out), "--metric", "taxi"]) == 2
        assert "--metric" in capfd.readouterr().err

    def test_an_original_with_other_marks_is_read_as_it_was_for_the_release(self, tmp_path, capfd):
        file, out = tmp_path / "people.csv", tmp_path / "out"
        file.write_text("x;c\n" + "\n".join(f"{n},5;{'ab'[n % 2]}" for n in range(29)) + "\nnil;a\n")
        marks = ["--separator", ";", "--decimal", ",", "--missing", "nil"]
        assert run([*command(file, out, "svd-swap", "xc"), *marks]) == 0
        capfd.readouterr()
        assert run(["assess", str(file), str(out), *marks, "--json"]) == 0
        assert json.loads(capfd.readouterr().out)["columns"] == 2


def test_nothing_that_varies_leaves_no_components_to_draw(tmp_path, capfd):
    file, out = tmp_path / "people.csv", tmp_path / "out"
    file.write_text(rows(x=[3.5] * 9, c=["a"] * 9) + "\n")
    assert run(command(file, out, "svd-swap", "xc")) == 0
    assert run(["assess", str(file), str(out), "--pictures", str(tmp_path / "pictures")]) == 0
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {"privacy.png"}


class TestRequire:
    """``sfumato release --require assessment``"""

    @pytest.fixture
    def file(self, tmp_path):
        draw = np.random.default_rng(3)
        file = tmp_path / "people.csv"
        file.write_text(rows(x=draw.normal(size=300), y=draw.normal(size=300)) + "\n")
        return file

    def test_refuses_to_write_a_release_that_fails(self, file, tmp_path, capfd):
        noisy = ["release", str(file), "-o", str(tmp_path / "out"), "--method", "noise", "--option", "level=0.001"]
        noisy += ["--role", "x=quasi", "--role", "y=quasi", "--seed", "1", "--holdout", "0.5"]
        assert run([*noisy, "--require", "assessment"]) == 1
        assert not (tmp_path / "out").exists()
        assert "FAILED" in capfd.readouterr().err
        assert run([*noisy, "--require", "beauty"]) == 2
        assert run(noisy) == 0
        report = (tmp_path / "out" / "report.html").read_text()
        assert "Assessment" in report
        assert "FAILED" in report

    def test_writes_a_release_that_passes_with_its_assessment(self, file, tmp_path, capfd):
        asked = command(file, tmp_path / "out", "svd-swap", "xy")
        assert run([*asked, "--require", "assessment", "--json"]) == 0
        assert json.loads(capfd.readouterr().out)["assessment"]["verdict"].startswith("PASSED")
        assert "copies, all columns" in (tmp_path / "out" / "report.html").read_text()
