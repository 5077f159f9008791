"""A planted value is searched for in everything that can be shown: repr, log, error, traceback, manifest, report.

The value is planted where it must not be released: in an identifier, a suppressed row, rows of tables that are refused.
"""

from __future__ import annotations

import json
import logging
import traceback
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.errors import SfumatoError
from sfumato.job.release import release as release_by
from sfumato.methods.base import METHODS, make_method, method_class
from sfumato.schema.schema import Schema
from sfumato.sources.files import read
from sfumato.sources.frames import as_table
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

CANARY = "CANARY77"
NUMBER = 771177.25  # as a number, far outside of the others
SEED = 4242424242
ROWS = 60


def traces(text: str | bytes) -> list[str]:
    """The planted values that the text holds, in any of their spellings."""
    words = text if isinstance(text, bytes) else text.encode()
    spellings = [CANARY, "771177", "771_177", "771,177", "7.71177", str(SEED)]
    return [spelling for spelling in spellings if spelling.encode() in words]


def people(*, named: bool = True) -> Table:
    """People whose names are the planted word, and whose sensitive cell holds it once."""
    numbers = np.random.default_rng(4)
    columns = {
        "age": numbers.integers(18, 80, ROWS),
        "income": numbers.normal(100.0, 10.0, ROWS),
        "city": numbers.choice(["Ulm", "Rom"], ROWS).tolist(),
        "diagnosis": [CANARY] + ["flu", "cold"] * (ROWS // 2 - 1) + ["flu"],
    }
    if named:
        columns = {"person": [f"{CANARY} {row}" for row in range(ROWS)], **columns}
    return Table.from_arrow(pa.table(columns))


ROLES = {"person": "identifier", "age": "quasi", "income": "quasi", "city": "quasi", "diagnosis": "sensitive"}


def made(name: str):
    wanted = {"k": 3} | ({"l": 1} if name in ("optimal-groups", "quantiles", "curves") else {})  # each column by itself
    wanted |= {"delta": 0.01} if name == "private-sample" else {}  # a group of 60 rows is never too small
    return make_method(name, **{f.name: wanted[f.name] for f in fields(method_class(name)) if f.name in wanted})


def seed_of(name: str) -> int | None:
    return None if method_class(name).is_private else SEED


@pytest.fixture(scope="module", params=sorted(METHODS))
def release(request):
    return made(request.param).release(people(), schema=ROLES, seed=seed_of(request.param))


def test_the_search_finds_what_is_there():
    assert traces(f"a cell: {CANARY}") == [CANARY]
    assert traces(repr(NUMBER)) == ["771177"]
    assert traces(f"{NUMBER:,}") == ["771,177"]
    assert traces(people().arrow.to_string(show_metadata=False, preview_cols=5))


class TestWhatIsShown:
    def test_no_repr_holds_a_cell(self, release):
        shown = [
            people(),
            Schema.for_table(people(), ROLES),
            release,
            release.table,
            release.manifest,
            release.findings,
        ]
        assert not traces(" ".join(map(repr, shown)))
        if release.table.kinds.get("age", Kind.WHOLE).is_numeric:  # not where nothing is told of it
            assert not traces(repr(release.estimate("mean(age)")))

    def test_no_repr_of_a_risk_holds_a_cell(self):
        weights = pa.array([NUMBER] + [2.0] * (ROWS - 1))
        table = Table.from_arrow(people().arrow.append_column("weight", weights))
        quasi = ["age", "city", "diagnosis"]
        shown = [
            sf.group_models(table, quasi[:2], ["diagnosis", "income"], weight="weight"),
            sf.individual_risk(table, quasi, "weight", household="city"),
            sf.special_uniques(table, quasi),
            sf.population_uniqueness(table, quasi, 1e6),
        ]
        assert not traces(" ".join(map(repr, shown)) + str(shown[0].to_plain()))

    def test_no_log_holds_a_cell(self, caplog):
        with caplog.at_level(logging.DEBUG):
            for name in METHODS:
                made(name).release(people(), schema=ROLES, seed=seed_of(name))
        assert caplog.records
        assert not traces(caplog.text)

    def test_the_manifest_holds_neither_cell_nor_seed(self, release):
        assert not traces(release.manifest.to_json())

    def test_the_page_holds_no_cell(self, release, tmp_path):
        folder = release.write(tmp_path / "out")
        for name in ("report.html", "report.json", "manifest.json", "codebook.csv", "README.txt", "promises.sql"):
            assert not traces((folder / name).read_text()), name

    def test_distributions_of_the_original_hold_no_cell_of_a_few_people(self, tmp_path):
        """The planted word is a category of one person, and the planted number an end of a column."""
        numbers = np.random.default_rng(4).normal(100.0, 10.0, 300)
        columns = {
            "income": np.concatenate([numbers, [NUMBER]]),
            "diagnosis": ["flu", "cold"] * 150 + [CANARY],
            "note": ["a", "b", CANARY] + ["a"] * 298,
        }
        roles = {"income": "quasi", "diagnosis": "quasi", "note": "quasi"}
        made = sf.Boxes(k=3, suppress=0.05).release(pa.table(columns), schema=roles, seed=SEED)
        assert {one.column for one in made.before} == {"income", "diagnosis"}, "nothing can be said of the notes"
        shown = " ".join(str((one.labels, one.shares, one.bins and one.bins.edges)) for one in made.before)
        assert not traces(shown + repr(made.before))
        numbers = json.loads((made.write(tmp_path / "out") / "report.json").read_text())["columns"]
        assert not traces(str([one["distribution"] for one in numbers if one["name"] != "note"]))

    def test_identifiers_are_in_no_file(self, release, tmp_path):
        folder = release.write(tmp_path / "out")
        for path in folder.iterdir():
            assert f"{CANARY} 1".encode() not in path.read_bytes(), path.name

    def test_an_original_number_far_outside_is_shown_by_the_boxes_only(self, tmp_path):
        distances = [float(number) for number in range(ROWS - 1)] + [NUMBER]
        for name in METHODS:
            columns = {"distance": distances, **({"sex": ["f", "m"] * (ROWS // 2)} if name == "pram" else {})}
            release = made(name).release(pa.table(columns), schema=dict.fromkeys(columns, "quasi"))
            assert not traces(release.manifest.to_json() + repr(release))


def shown_by(error: BaseException) -> str:
    """All that a program could print of an error: itself, its causes, its context, its fields."""
    parts = ["".join(traceback.format_exception(error)), repr(error), str(error), repr(vars(error))]
    if error.__context__ is not None:
        parts.append(shown_by(error.__context__))
    return " ".join(parts)


def broken_files(folder: Path) -> dict[str, Path]:
    """Files that cannot be read, or not be worked with, each with the planted word in it."""
    texts = {
        "unclosed.csv": f'a,b\n1,{CANARY}\n2,x\n3,"unclosed {CANARY}\n',
        "ragged.csv": f"a,b\n1,2\n3,4,{CANARY},5\n",
        "repeated.csv": f"a,a\n1,{CANARY}\n3,4\n",
        "infinite.csv": f"a,b\n1,{CANARY}\ninf,x\n3,y\n",
        "one.csv": f"a,b\n1,{CANARY}\n",
        "headless.parquet": f"PAR1{CANARY}",
    }
    made = {name: folder / name for name in texts}
    for name, path in made.items():
        path.write_text(texts[name])
    return made


FRAMES = {
    "mixed types": lambda: __import__("pandas").DataFrame({"a": [1, CANARY, 2.5], "b": [1, 2, 3]}),
    "objects": lambda: __import__("pandas").DataFrame({"a": [{CANARY: 1}, {2}, [3]]}),
    "a word for a column": lambda: {"a": CANARY},
    "no frame": lambda: frozenset({CANARY}),
    "nested": lambda: pa.table({"a": [[CANARY], [CANARY]]}),
    "structs": lambda: pa.table({"a": [{CANARY: 1}]}),
    "infinite": lambda: pa.table({"a": [np.inf, NUMBER], "b": [CANARY, CANARY]}),
    "large whole numbers": lambda: pa.table({"a": [2**60 + 771177, 5]}),
    "repeated names": lambda: pa.table([[CANARY], [NUMBER]], names=["a", "a"]),
}


class TestErrors:
    @pytest.mark.parametrize("name", ["unclosed.csv", "ragged.csv", "repeated.csv", "headless.parquet", "one.csv"])
    def test_a_broken_file_is_refused_without_its_cells(self, tmp_path, name):
        with pytest.raises(SfumatoError) as refused:
            made("boxes").release(read(broken_files(tmp_path)[name]))
        assert not traces(shown_by(refused.value))

    @pytest.mark.parametrize("name", sorted(FRAMES))
    def test_a_frame_that_cannot_be_worked_with_is_refused_without_its_cells(self, name):
        with pytest.raises(SfumatoError) as refused:
            release_by(made("boxes"), as_table(FRAMES[name]()), schema={"a": "quasi"})
        assert not traces(shown_by(refused.value))

    @pytest.mark.parametrize(
        "options",
        [{"k": ROWS + 1}, {"k": 3, "keep": ["corr(age, diagnosis)"]}, {"k": 3, "keep": ["mean(nothing)"]}],
        ids=["k too large", "a statistic of words", "a statistic of nothing"],
    )
    def test_a_request_that_cannot_be_met_is_refused_without_cells(self, options):
        with pytest.raises(SfumatoError) as refused:
            make_method("boxes", **options).release(people(), schema=ROLES)
        assert not traces(shown_by(refused.value))

    def test_a_schema_that_does_not_fit_is_refused_without_cells(self):
        with pytest.raises(SfumatoError) as refused:
            Schema.for_table(people(), {"diagnosis": "weight"})
        assert not traces(shown_by(refused.value))


class TestCommands:
    @pytest.mark.parametrize("debug", ["", "1"], ids=["plain", "debugging"])
    @pytest.mark.parametrize("command", ["inspect", "release", "estimate", "schema", "recommend", "compare"])
    def test_no_command_shows_a_cell_of_what_it_refuses(self, tmp_path, capfd, monkeypatch, command, debug):
        monkeypatch.setenv("SFUMATO_DEBUG", debug)
        for path in broken_files(tmp_path).values():
            out = ["-o", str(tmp_path / "out")]
            further = {"release": ["--k", "2", *out], "estimate": ["mean(a)"], "compare": ["--methods", "noise", *out]}
            run([command, str(path), *further.get(command, [])])
            shown = capfd.readouterr()
            assert not traces(shown.out + shown.err)
        assert not (tmp_path / "out").exists()

    def test_schemas_and_recommendations_show_no_cell(self, tmp_path, capfd):
        from sfumato.formats.exports import write

        write(people().arrow, tmp_path / "people.csv")
        for command in ("schema", "recommend"):
            for further in ([], ["--json"]):
                assert run([command, str(tmp_path / "people.csv"), "--sensitive", "diagnosis", *further]) == 0
        shown = capfd.readouterr()
        assert "diagnosis" in shown.out
        assert not traces(shown.out + shown.err)

    def test_inspecting_shows_no_cell(self, tmp_path, capfd):
        from sfumato.formats.exports import write

        write(people().arrow, tmp_path / "people.csv")
        models = ["--models", "--sensitive", "diagnosis", "--population", "1e6"]
        for further in ([], ["--json"], models, [*models, "--json"]):
            assert run(["inspect", str(tmp_path / "people.csv"), *further]) == 0
        shown = capfd.readouterr()
        assert "diagnosis" in shown.out
        assert not traces(shown.out + shown.err)

    def test_an_unexpected_error_is_reported_without_its_message(self, tmp_path, capfd, monkeypatch):
        import sfumato.sources.files

        def quoting(*arguments, **options):
            raise ZeroDivisionError(f"could not convert {CANARY}")

        monkeypatch.setattr(sfumato.sources.files.FileSource, "read", quoting)
        for debug in ("", "1"):
            monkeypatch.setenv("SFUMATO_DEBUG", debug)
            assert run(["inspect", str(tmp_path / "people.csv")]) == 1
            shown = capfd.readouterr()
            assert "ZeroDivisionError" in shown.err
            assert ("raise ZeroDivisionError" in shown.err) is bool(debug)
            assert not traces(shown.out + shown.err)
