"""Project files, schema files and trees: what a command writes, another one reads."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.cli.commands import app, run
from sfumato.formats.exports import write
from sfumato.job.project_files import project_text, read_project
from sfumato.job.request import Reading, Request
from sfumato.schema.hierarchies import Tree
from sfumato.schema.schema import Schema
from sfumato.schema.suggested_hierarchies import frequency_tree, step_tree, suggest_widths, value_tree


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    numbers = np.random.default_rng(4)
    table = {
        "person": [f"CANARY {row}" for row in range(60)],
        "age": numbers.integers(18, 80, 60),
        "income": numbers.normal(100.0, 10.0, 60),
        "city": numbers.choice(["Ulm", "Rom", "Bad; Ort"], 60, p=[0.7, 0.25, 0.05]).tolist(),
    }
    write(pa.table(table), tmp_path / "people.csv")


def manifest(folder="out"):
    return json.loads((Path(folder) / "manifest.json").read_text())


class TestProject:
    def test_a_release_writes_the_project_that_makes_it_again(self, capsys):
        given = ["--quasi", "age,income", "--other", "*", "-k", "4", "--keep", "mean(age)", "--seed", "4242"]
        assert run(["release", "people.csv", "-o", "out", *given]) == 0
        assert "sfumato run" in capsys.readouterr().err
        assert not (Path("out") / "out.toml").exists()
        assert "4242" not in Path("out.toml").read_text()
        assert Path("out.toml").stat().st_mode & 0o077 == 0  # nobody else reads it
        first = manifest()
        assert run(["run", "out.toml"]) == 0
        again = manifest()
        for entry in ("method", "options", "columns", "rows_out"):
            assert first[entry] == again[entry]

    @pytest.mark.parametrize("command", ["release", "run", "pictures"])
    def test_a_url_is_no_folder(self, capsys, command, monkeypatch):
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # where nobody answers
        Path("projects").mkdir()
        Path("projects/there.toml").write_text(
            'input = "../people.csv"\ntarget = "s3://bucket/out"\n[options]\nk = 5\n'
        )
        given = {
            "release": ["release", "people.csv", "-o", "S3://bucket/out", "-k", "5", "--quasi", "age", "--other", "*"],
            "run": ["run", "projects/there.toml"],
            "pictures": ["assess", "people.csv", "out", "--pictures", "s3://bucket/out"],
        }
        before = set(Path().rglob("*"))
        assert run(given[command]) == (2 if command == "pictures" else 3)
        assert ("scheme s3" if command == "pictures" else "s3 store must answer") in capsys.readouterr().err
        assert set(Path().rglob("*")) == before

    def test_what_is_given_counts_more(self):
        assert run(["release", "people.csv", "-o", "out", "-k", "4", "--quasi", "age", "--other", "*"]) == 0
        assert run(["release", "--project", "out.toml", "-o", "second", "-k", "6", "--method", "mdav"]) == 0
        assert (manifest("second")["method"], manifest("second")["options"]["k"]) == ("mdav", 6)
        assert tomllib.loads(Path("second.toml").read_text())["input"] == "people.csv"

    def test_paths_are_relative_to_the_file(self, monkeypatch, tmp_path):
        (tmp_path / "deep").mkdir()
        assert run(["release", "people.csv", "-o", "deep/out", "-k", "4"]) == 0
        assert tomllib.loads(Path("deep/out.toml").read_text())["input"] == "../people.csv"
        monkeypatch.chdir(tmp_path / "deep")
        assert run(["run", "out.toml"]) == 0

    @pytest.mark.parametrize("name", ["clinic.people", "`old clinic`.people"])
    def test_a_table_of_a_cluster_is_no_path(self, name, tmp_path):
        (tmp_path / "deep").mkdir()
        for engine, written in (({"master": "spark://host:7077"}, name), ({"engine": "memory"}, f"../{name}")):
            text = project_text(Request(input=name, target="deep/out", **engine), tmp_path / "deep")
            assert tomllib.loads(text)["input"] == written
            Path("deep/out.toml").write_text(text)
            assert read_project("deep/out.toml").input == name

    def test_another_file_with_the_name_is_left_alone(self, capsys):
        Path("out.toml").write_text("mine = true\n")
        assert run(["release", "people.csv", "-o", "out", "-k", "4"]) == 0
        assert Path("out.toml").read_text() == "mine = true\n"
        assert "no project file was written" in capsys.readouterr().err

    def test_a_mistake_says_what_to_do(self, capsys):
        for text, said in (
            ("inptu = 1\n", "An entry of p.toml must be one of"),
            ("input = 1\n", "'input' in p.toml must be a text"),
            ("[reading]\nseperator = 1\n", "An entry of [reading]"),
            ("input = [\n", "must be TOML"),
            ('input = "people.csv"\n', "A release needs a folder"),
        ):
            Path("p.toml").write_text(text)
            assert run(["run", "p.toml"]) == 2
            assert said in capsys.readouterr().err
        assert run(["run"]) == 2
        assert "The project file cannot be read" in capsys.readouterr().err
        assert run(["release", "-o", "out"]) == 2
        assert "A release needs an input" in capsys.readouterr().err

    @settings(max_examples=30, deadline=None)
    @given(
        texts=st.lists(st.text(max_size=8), min_size=1, max_size=3),
        number=st.floats(-1e6, 1e6) | st.integers(-5, 5) | st.booleans(),
        name=st.text("ab c.=\"'*", min_size=1, max_size=5),
    )
    def test_values_survive_the_file(self, texts, number, name):
        request = Request(
            input="people.csv",
            target="out",
            options={"keep": texts, "level": number, name: {name: [number]}},
            columns=Schema.of({name: "quasi"}),
            reading=Reading(separator=";", missing=tuple(texts)),
            holdout=0.25,
        )
        Path("p.toml").write_text(project_text(request, Path.cwd()), encoding="utf-8")
        again = read_project("p.toml")
        assert again.options == request.options
        assert again.columns == request.columns
        assert (again.input, again.target, again.holdout) == ("people.csv", "out", 0.25)
        assert tuple(again.reading.missing) == tuple(texts)


class TestSchema:
    def test_prints_what_schema_reads_and_no_cell(self, capsys):
        assert run(["schema", "people.csv", "--sensitive", "income"]) == 0
        text = capsys.readouterr().out
        assert "CANARY" not in text
        assert 'role = "identifier"  # ' in text
        Path("schema.toml").write_text(text)
        schema = Schema.of("schema.toml")
        assert [column.name for column in schema.columns] == ["person", "age", "income", "city"]
        assert schema.names("sensitive") == ("income",)
        assert run(["release", "people.csv", "-o", "out", "--schema", "schema.toml", "-k", "3"]) == 0

    def test_json(self, capsys):
        assert run(["schema", "people.csv", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)[0]["role"] == "identifier"


class TestMethodNames:
    @pytest.mark.parametrize("name", ["mdav", "Microaggregate", "microaggregate"])
    def test_name_and_class_are_accepted(self, name):
        assert run(["release", "people.csv", "-o", "out", "--method", name, "-k", "4"]) == 0
        assert manifest()["method"] == "mdav"


class TestTree:
    def made(self, capsys, *words) -> Tree:
        assert run(["tree", "people.csv", *words]) == 0
        Path("tree.csv").write_text(capsys.readouterr().out)
        return Tree.read("tree.csv")

    def test_steps_of_numbers(self, capsys):
        tree = self.made(capsys, "age", "--by", "steps", "--levels", "5,10")
        assert tree.levels == 4
        assert all("–" in name for name in tree.names[1])

    def test_frequencies_put_rare_values_together(self, capsys):
        tree = self.made(capsys, "city", "--levels", "10,30")
        assert tree.level(1)["Bad; Ort"] == "(fewer than 10 rows)"
        assert tree.level(1)["Rom"] == "Rom"
        assert tree.level(2)["Rom"] == tree.level(2)["Bad; Ort"] == "(fewer than 30 rows)"
        assert tree.level(2)["Ulm"] == "Ulm"

    def test_a_file_that_a_schema_names(self, capsys):
        assert run(["tree", "people.csv", "city", "--by", "values", "-o", "city.csv"]) == 0
        edited = Path("city.csv").read_text().replace("Rom;Rom", "Rom;south").replace("Ulm;Ulm", "Ulm;north")
        Path("city.csv").write_text(edited.replace('"Bad; Ort";"Bad; Ort"', '"Bad; Ort";north'))
        Path("schema.toml").write_text(
            '[columns]\nperson = "identifier"\nage = {role = "quasi", tree = "steps:10,40"}\nincome = "other"\n'
            'city = {role = "quasi", tree = "city.csv"}\n'
        )
        assert (
            run(["release", "people.csv", "-o", "out", "--schema", "schema.toml", "--method", "recode", "-k", "3"]) == 0
        )

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["aeg"], "There is no column 'aeg'"),
            (["age", "--by", "magic"], "--by must be one of"),
            (["age", "--by", "calendar"], "try:   --by steps"),
            (["city", "--by", "steps"], "try:   --by frequencies, or --by prefix for codes"),
            (["city", "--by", "calendar"], "found: column 'city' of kind nominal"),
            (["age", "--by", "steps", "--levels", "10,5"], "try:   widths such as 5,10,50"),
            (["city", "--by", "prefix", "--levels", "5"], "--levels are for steps"),
            (["age", "--levels", "five"], "--levels must be numbers"),
        ],
    )
    def test_a_mistake_says_what_to_do(self, capsys, words, said):
        assert run(["tree", "people.csv", *words]) == 2
        assert said in capsys.readouterr().err

    @given(
        st.lists(
            st.text("ab;\"'", min_size=1, max_size=4).filter(str.strip), min_size=1, max_size=8, unique_by=str.strip
        )
    )
    @settings(max_examples=30, deadline=None)
    def test_a_tree_survives_its_file(self, values):
        tree = value_tree(pa.array([value.strip() for value in values]))
        Path("t.csv").write_text(_written(tree), encoding="utf-8")
        assert Tree.read("t.csv").lines == tree.lines

    @given(st.lists(st.integers(-500, 500), min_size=2, max_size=30, unique=True))
    def test_suggested_widths_make_a_tree(self, numbers):
        widths = suggest_widths(min(numbers), max(numbers), whole=True)
        tree = step_tree(pa.array(numbers), widths)
        assert tree.levels == 6
        assert len(tree.names[1]) <= 18

    def test_frequencies_are_of_the_values(self):
        tree = frequency_tree(pa.array(["a", "b", "c"]), [1, 50, 5], [3, 10])
        assert tree.lines == [
            ("b", "b", "b", "*"),
            ("c", "c", "(fewer than 10 rows)", "*"),
            ("a", "(fewer than 3 rows)", "(fewer than 10 rows)", "*"),
        ]


def _written(tree: Tree) -> str:
    text = io.StringIO()
    tree.write(text)
    return text.getvalue()


def test_python_m_sfumato_shows_the_help_quickly():
    subprocess.run([sys.executable, "-m", "sfumato", "--help"], check=True, capture_output=True)  # warms the cache
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "sfumato", "--help"], check=True, capture_output=True, text=True)
    assert "recommend" in done.stdout
    assert time.perf_counter() - start < 3.0  # half a second on a machine that does nothing else


def test_a_shell_completes_commands():
    script = "import sys; sys.argv = ['sfumato']; from sfumato.cli import main; main()"
    words = {"COMP_WORDS": "sfumato re", "COMP_CWORD": "1", "_SFUMATO_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | words, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["recommend", "release"]


@pytest.mark.parametrize("command", [one.name for one in app.registered_commands])
def test_the_help_of_a_command_has_an_example(command, capsys):
    assert run([command, "--help"]) == 0
    assert f"Example: sfumato {command}" in capsys.readouterr().out


def test_a_key_with_a_null_character_is_a_wrong_request(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("a,b\n" + "".join(f"{n % 7},{n % 5}\n" for n in range(40)))
    (tmp_path / "p.toml").write_text('input = "rows.csv"\ntarget = "out"\nkey = "\\u0000"\n[options]\nk = 5\n')
    assert run(["run", "p.toml"]) == 2
    assert "cannot be kept there" in capfd.readouterr().err
