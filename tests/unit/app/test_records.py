"""Who is at risk and why, which column tells which, levels of recoding, and buttons after a failed test."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.app.choices import Choices, Source
from sfumato.app.pages.verdict import offers_of, stronger_option
from sfumato.app.projects import SavedProjects, open_project, pack_project, unpack_project
from sfumato.app.record_tasks import FindRecords, MapAssociations, WalkLattice
from sfumato.app.rendering import plain_advice, say_plainly
from sfumato.app.run_tasks import SuggestCoarser
from sfumato.app.tasks import ShowFirstRows, TableCache
from sfumato.errors import ReadError
from sfumato.job.request import Reading
from sfumato.methods.base import make_method
from sfumato.schema.schema import FittedTable, Schema
from sfumato.table.table import Table

ROWS = 120


@pytest.fixture(scope="module")
def people() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(3)
    weight = draw.normal(75, 12, ROWS).round(1)
    return {
        "age": draw.integers(20, 60, ROWS),
        "sex": draw.choice(["f", "m"], ROWS),
        "town": draw.choice(list("abcdefg"), ROWS),
        "weight": weight,
        "pounds": (weight * 2.2).round(3),
        "diagnosis": draw.choice(["x", "y"], ROWS),
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory, people) -> Source:
    file = tmp_path_factory.mktemp("table") / "p.parquet"
    pq.write_table(pa.table(people), file)
    return Source(path=str(file), name=file.name, reading=Reading())


@pytest.fixture(scope="module")
def schema() -> Schema:
    roles = {"age": "quasi", "sex": "quasi", "town": "quasi", "weight": "other", "pounds": "other"}
    return Schema.of(roles | {"diagnosis": "sensitive"})


@pytest.fixture
def held() -> TableCache:
    return TableCache(lambda share: None)


class TestRecords:
    def test_every_reason_singles_out_its_row_and_no_smaller_one_does(self, held, source, schema, people):
        found = FindRecords(source=source, schema=schema, k=5, l=2).perform(held)
        assert found.records

        def alike(names, row):
            return sum(all(people[name][other] == people[name][row] for name in names) for other in range(ROWS))

        for one in found.records:
            for names in one.reasons:
                assert alike(names, one.row - 1) == 1
                smaller = [part for size in range(1, len(names)) for part in combinations(names, size)]
                assert all(alike(part, one.row - 1) > 1 for part in smaller)
            assert alike(("age", "sex", "town"), one.row - 1) == one.alike

    def test_all_groups_below_k_are_counted(self, held, source, schema, people):
        found = FindRecords(source=source, schema=schema, k=4, l=2).perform(held)
        keys = list(zip(people["age"], people["sex"], people["town"], strict=True))
        groups = {key: [row for row in range(ROWS) if keys[row] == key] for key in set(keys)}
        wrong = [
            rows for rows in groups.values() if len(rows) < 4 or len({people["diagnosis"][row] for row in rows}) < 2
        ]
        assert found.violating == len(wrong)
        assert found.people == sum(map(len, wrong))
        listed = [tuple(row - 1 for row in group.rows) for group in found.groups]
        assert all(sorted(rows) in wrong for rows in map(list, listed))

    def test_no_cell_is_in_the_result(self, held, tmp_path, schema):
        file = tmp_path / "p.parquet"
        values = [f"CANARY{n}" for n in range(40)]
        pq.write_table(pa.table({"age": values, "sex": ["f", "m"] * 20}), file)
        own = Source(path=str(file), name="p", reading=Reading())
        quasi = Schema.of({"age": "quasi", "sex": "quasi"})
        assert "CANARY" not in repr(FindRecords(source=own, schema=quasi, k=5, l=2).perform(held))
        assert "CANARY" not in repr(MapAssociations(source=own, schema=quasi).perform(held))
        assert "CANARY" not in repr(WalkLattice(source=own, schema=quasi, k=5, levels=()).perform(held))
        assert "CANARY" not in repr(ShowFirstRows(source=own).perform(held)), "rows are for the page alone"


class TestAssociations:
    def test_a_copy_tells_all_and_independent_columns_tell_nothing(self, held, source, schema):
        told = MapAssociations(source=source, schema=schema).perform(held)
        share = dict(zip(told.columns, told.shares, strict=True))
        place = told.columns.index
        assert share["weight"][place("pounds")] > 0.95
        assert share["sex"][place("diagnosis")] < 0.1
        assert "pounds" in told.copies.get("weight", ())


class TestLattice:
    def test_a_start_holds_and_is_as_fine_as_any_next_to_it(self, held, source, schema):
        view = WalkLattice(source=source, schema=schema, k=3, levels=()).perform(held)
        assert view.node.holds
        assert view.node.smallest >= 3
        assert not any(node.holds for node in view.finer if node)

    def test_numbers_are_those_of_the_release_on_these_levels(self, held, source, schema, people):
        view = WalkLattice(source=source, schema=schema, k=3, levels=(2, 0, 1)).perform(held)
        levels = {column.name: level for column, level in zip(view.columns, view.node.levels, strict=True)}
        method = make_method("recode", k=3, l=1, levels=levels, suppress=min(1.0, view.node.suppressed + 1e-9))
        fitted = FittedTable.of(Table.from_arrow(pa.table(people)), schema)
        release = method.release(fitted.table, schema=fitted.schema)
        assert release.manifest.notes["levels"] == levels
        assert release.manifest.rows_out == round(ROWS * (1.0 - view.node.suppressed))

    @pytest.mark.parametrize("levels", [(99,), (0, 0, 99, 99, 99), (0,), (10**17,) * 64])
    def test_levels_that_do_not_exist_are_the_nearest(self, held, source, schema, levels):
        view = WalkLattice(source=source, schema=schema, k=3, levels=levels).perform(held)
        assert len(view.node.levels) == 3
        assert all(level < len(column.values) for level, column in zip(view.node.levels, view.columns, strict=True))


class TestOffers:
    @pytest.fixture
    def run(self, schema):
        blamed = [SimpleNamespace(name="weight", role="other"), SimpleNamespace(name="diagnosis", role="sensitive")]
        failed = SimpleNamespace(failed=[SimpleNamespace(family="privacy")])
        contents = SimpleNamespace(assessment=failed, blamed=blamed)
        task = SimpleNamespace(method="mdav", options={"k": 5}, schema=schema)
        return SimpleNamespace(task=task, result=SimpleNamespace(contents=contents))

    def test_name_the_columns_that_are_released_as_they_are(self, run):
        offers = {offer.action: offer for offer in offers_of(run)}
        assert list(offers) == ["protect", "coarsen", "leave", "raise"]
        assert offers["protect"].reason.values == {"columns": "weight"}
        assert offers["raise"].button.values["value"] == "10"

    def test_there_are_none_if_no_test_failed(self, run):
        run.result.contents.assessment.failed = []
        assert offers_of(run) == []

    def test_the_strongest_value_has_no_next_one(self, run):
        run.task.options = {"k": 10**6}
        assert stronger_option(run) is None

    def test_numbers_are_made_coarser_in_round_steps(self, held, source):
        rules = SuggestCoarser(source=source, columns=("weight", "sex", "nothing")).perform(held)
        assert len(rules) == 1
        assert rules[0].startswith("weight = steps(weight, ")


class TestProjects:
    def test_what_was_saved_is_opened(self, tmp_path, source, schema):
        tree = tmp_path / "trees" / "tree-1.csv"
        tree.parent.mkdir()
        tree.write_text("f;*\nm;*\n")
        columns = [replace(one, tree=str(tree)) if one.name == "sex" else one for one in schema.columns]
        choices = Choices(
            schema=Schema(tuple(columns)), population=5000, keep=("mean(age)",), method="mdav", options={"k": 4},
            formats=("csv", "xlsx"),
        )  # fmt: skip
        given = replace(source, reading=Reading(skip=2, missing=("-9",), derive=("weight = steps(weight, 5)",)))
        room = tmp_path / "room"
        room.mkdir()
        unpack_project(pack_project(given, choices, tmp_path), room)
        found = open_project(room, tmp_path / "own")
        assert found.reading == given.reading
        assert found.choices.keep == ("mean(age)",)
        assert found.choices.options == {"k": 4}
        assert found.choices.formats == ("csv", "xlsx")
        assert found.choices.population == 5000
        assert found.choices.schema["sex"].tree.startswith(str(tmp_path / "own"))

    @pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_a_damaged_archive_is_refused(self, tmp_path, compression):
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", compression) as opened:
            opened.writestr("project.toml", "".join(np.random.default_rng(0).choice(list("abcdef"), 300)))
        refused = 0
        for place in range(42, 140):  # in the compressed content
            damaged = bytearray(archive.getvalue())
            damaged[place] ^= 0xFF
            (room := tmp_path / str(place)).mkdir()
            with suppress(ReadError):
                unpack_project(bytes(damaged), room)
                continue
            refused += 1
        assert refused > 90

    def test_the_folder_of_the_user_is_where_the_system_says(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        assert SavedProjects.of_user().folder == tmp_path / "sfumato" / "projects"
        assert list(SavedProjects.of_user()) == []


class TestPlainWords:
    @pytest.mark.parametrize("text", ["at least 1, or None", "None: no search.", "SearchBudget, or a number above 0"])
    def test_no_word_of_programmers_is_shown(self, text):
        assert "None" not in say_plainly(text)
        assert "SearchBudget" not in say_plainly(text)

    def test_commands_are_left_out_of_sentences(self):
        text = "Do not release them; sfumato improve DIR --table FILE -o DIR2 finds out what is enough."
        assert say_plainly(text) == "Do not release them."

    def test_advice_in_code_is_left_out(self):
        assert plain_advice("--key FILE (in Python key='FILE')") == ""
        assert plain_advice("another file") == "another file"
        assert plain_advice(None) == ""
