"""A small run of the generated tables, and proof that each check of the run can fail."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.release.release import Release
from sfumato.report.html import Report
from sfumato.table.table import Table
from tests.fuzz.case import Case
from tests.fuzz.cells import holds, members
from tests.fuzz.columns import CANARY, MadeColumn
from tests.fuzz.options import METHOD_NAMES
from tests.fuzz.promises import CHECKS, broken_promises
from tests.fuzz.state import State
from tests.fuzz.tables import TRACER, Original, original
from tests.fuzz.trial import GOOD, HELD, Outcome, bundle_faults, interval_faults, judged, trial, unnoticed_changes
from tests.fuzz.truths import Question, questions

TABLES, PARTS = 240, 4  # in parts, so that they run side by side


@pytest.mark.parametrize("part", range(PARTS))
def test_generated_tables_are_released_as_promised_or_refused_clearly(part):
    outcomes = [trial(seed) for seed in range(part, TABLES, PARTS)]
    assert [one for one in outcomes if one.verdict not in GOOD] == []
    held = [one for one in outcomes if one.verdict == HELD]
    assert len(held) > len(outcomes) / 2, "most tables must be released, otherwise nothing is tried"


def test_every_method_is_tried():
    from tests.fuzz.options import made_options

    assert {made_options(seed)[0] for seed in range(TABLES)} == set(METHOD_NAMES)


def test_a_seed_makes_the_same_table_again():
    for seed in range(20):
        one, other = original(seed), original(seed)
        assert (one.columns, one.roles, one.form) == (other.columns, other.roles, other.form)
        assert [str(made.cells) for made in one.made] == [str(made.cells) for made in other.made]


PEOPLE = 60


def people(*, traced: bool = True) -> Original:
    """An ordinary table with an identifier, numbers, words, missing values and a sensitive column."""
    numbers = np.random.default_rng(5)
    missing = np.where(numbers.random(PEOPLE) < 0.2, np.nan, numbers.normal(size=PEOPLE))
    columns = {
        "person": (pa.array([f"{CANARY}id{row}" for row in range(PEOPLE)]), "identifier"),
        "age": (pa.array(numbers.permutation(PEOPLE)), "quasi"),
        "bmi": (pa.array(missing, from_pandas=True), "quasi"),
        "city": (pa.array(numbers.choice(["a", "b|c", "(missing)"], PEOPLE).tolist()), "quasi"),
        "illness": (pa.array(numbers.choice(["flu", "cold", "none"], PEOPLE).tolist()), "sensitive"),
        "income": (pa.array(numbers.normal(size=PEOPLE)), "other"),
        TRACER: (pa.array(np.arange(10_000, 10_000 + PEOPLE)), "other"),
    }
    columns |= {} if traced else {TRACER: (columns["income"][0], "other")}
    made = tuple(MadeColumn(name, cells) for name, (cells, _) in columns.items())
    return Original(0, tuple(columns), made, {name: role for name, (_, role) in columns.items()}, "arrow")


def case_of(method, table: Original | None = None) -> Case:
    table = table or people()
    return Case(table, method, method.release(table.frame(), schema=dict(table.roles)))


def changed(case: Case, **columns) -> Case:
    """The same release with other cells in some columns; None removes one."""
    arrow = case.release.table.arrow
    for name, cells in columns.items():
        place = arrow.column_names.index(name) if name in arrow.column_names else arrow.num_columns
        if place < arrow.num_columns:
            arrow = arrow.remove_column(place)
        arrow = arrow.add_column(place, name, cells) if cells is not None else arrow
    return with_rows(case, arrow)


def with_rows(case: Case, arrow: pa.Table) -> Case:
    return replace(case, release=replace(case.release, table=Table.from_arrow(arrow)))


def faulty() -> dict[str, list[Case]]:
    """For each check, releases that break the promise it is about."""
    boxes, swap = case_of(sf.Boxes(k=3)), case_of(sf.SvdSwap())
    rows, first = boxes.release.table.arrow, np.arange(PEOPLE) == 0
    box = rows.column("box").to_numpy()
    alone = np.where(first, box.max() + 1, box)
    one_box = np.where(box == box[0], "flu", np.array(rows.column("illness").to_pylist()))
    high = rows.column("age_high").to_numpy() - first * 1000
    by_row = np.argsort(boxes.origin)
    paired = case_of(sf.Boxes(k=3), people(traced=False))
    lows = np.where(first, -1000, paired.release.table.arrow.column("age_low").to_numpy())
    highs = np.where(first, -999, paired.release.table.arrow.column("age_high").to_numpy())
    quantiles = case_of(sf.Quantiles(k=5, l=1))
    ages = quantiles.release.table.arrow.column("age").to_numpy()
    optimal = case_of(sf.Quantiles(buckets=3, l=1))
    rhs = case_of(sf.SpectralHistogram(k=3))
    income = rhs.release.table.arrow.column("income").to_numpy()
    many = case_of(sf.Boxes(k=2), people())
    start = many.release.table.arrow.column("age_low").to_numpy()
    swapped = swap.release.table.arrow
    exchanged = case_of(sf.Swap())
    exchanged_income = exchanged.release.table.arrow.column("income").to_numpy()
    return {
        "rows_are_accounted_for": [with_rows(boxes, rows.slice(1))],
        "columns_are_allowed": [changed(boxes, person=pa.array(["x"] * PEOPLE))],
        "identifiers_stay": [changed(boxes, income=pa.array([f"{CANARY}id1"] * PEOPLE))],
        "groups_are_large": [
            changed(boxes, box=pa.array(alone)),
            changed(quantiles, age=pa.array(np.where(first, -5, ages))),
            changed(optimal, age=pa.array(np.arange(PEOPLE))),
            changed(rhs, income=pa.array(income + first)),
        ],
        "values_are_diverse": [changed(boxes, illness=pa.array(one_box))],
        "originals_lie_inside": [
            changed(boxes, age_high=pa.array(high)),
            changed(boxes, bmi_missing=pa.array(rows.column("bmi_missing").to_numpy() + 1)),
            changed(boxes, city=pa.array(["elsewhere"] * PEOPLE)),
            changed(paired, age_low=pa.array(lows), age_high=pa.array(highs)),
        ],
        "passed_cells_are_the_same": [changed(boxes, income=pa.array(rows.column("income").to_numpy() + first))],
        "values_are_valid": [
            changed(swap, city=pa.array(["elsewhere"] * PEOPLE)),
            changed(swap, income=pa.array(np.where(first, np.inf, swapped.column("income").to_numpy()))),
        ],
        "marginals_are_kept": [changed(exchanged, income=pa.array(exchanged_income + first))],
        "moments_are_kept": [changed(swap, income=pa.array(swapped.column("income").to_numpy() + first))],
        "order_is_random": [
            with_rows(boxes, rows.take(pa.array(by_row))),
            changed(many, box=pa.array(np.unique(start, return_inverse=True)[1])),
        ],
    }


class TestTheChecksCanFail:
    def test_a_true_release_passes_all_of_them(self):
        for method in (
            sf.Boxes(k=3),
            sf.SvdSwap(),
            sf.Quantiles(k=5, l=1),
            sf.SpectralHistogram(k=3),
            sf.Generalize(k=3),
        ):
            assert broken_promises(case_of(method)) == []

    def test_each_notices_the_release_that_breaks_its_promise(self):
        controls = faulty()
        assert set(controls) == set(CHECKS)
        for name, cases in controls.items():
            for case in cases:
                assert list(CHECKS[name](case)), name

    def test_an_interval_without_the_truth_is_noticed(self):
        case = case_of(sf.Boxes(k=3))
        asked = questions(np.random.default_rng(1), case.original, 30)
        assert len(asked) > 20
        assert [fault for one in asked for fault in interval_faults(case, one)] == []
        wrong = [Question(one.text, lambda rows, weights: 1e9, one.columns) for one in asked]
        assert all(interval_faults(case, one) for one in wrong if "missing" not in one.text)

    def test_a_changed_row_of_a_bundle_and_a_planted_cell_are_noticed(self, tmp_path, monkeypatch):
        case = case_of(sf.Boxes(k=3))
        assert bundle_faults(case, tmp_path, with_report=True) == []
        assert unnoticed_changes(tmp_path / "out") == []
        with pytest.raises(sf.SfumatoError):
            sf.read_release(tmp_path / "out")
        plain, planted = Release.write, Report(page=f"<p>{CANARY}", numbers="{}")
        monkeypatch.setattr(Release, "write", lambda self, folder, report: plain(self, folder, report=planted))
        assert bundle_faults(case, tmp_path / "other", with_report=False)

    @pytest.mark.parametrize("verdict", ["broken", "foreign", "refused"])
    def test_the_verdict_says_what_happened(self, verdict, monkeypatch, tmp_path):
        errors = {
            "broken": sf.SfumatoError("A cell must not be quoted.", found=f"{CANARY}blue"),
            "foreign": ZeroDivisionError(),
            "refused": sf.SfumatoError("A table must have rows."),
        }

        def fail(self, *arguments, **options):
            raise errors[verdict]

        monkeypatch.setattr(sf.Boxes, "release", fail)
        assert judged(people(), "boxes", {"k": 2}, np.random.default_rng(1), tmp_path)[0] == verdict

    def test_a_foreign_warning_is_noticed(self, monkeypatch):
        def warning(*arguments):
            warnings.warn("odd", RuntimeWarning, stacklevel=1)
            return HELD, ""

        monkeypatch.setattr("tests.fuzz.trial.judged", warning)
        assert trial(1).verdict == "warned"


def test_members_of_sets_are_read_as_documented():
    assert members("a|b") == {"a", "b"}
    assert members(r"a\|b|(missing)") == {"a|b", None}
    assert members(r"\(missing)") == {"(missing)"}
    assert members("") == {""}
    assert members("a|") == {"a", ""}
    assert members(None) == {None}
    assert holds("(any)", "a")
    assert not holds("(any)", None)
    assert holds("(any)|(missing)", None)
    assert not holds(r"\(any)", "a")


def test_a_run_goes_on_where_it_stopped(tmp_path: Path):
    path, state = tmp_path / "state.json", State()
    state.add(
        3, [Outcome(seed=150, method="boxes", verdict="held"), Outcome(seed=151, method="boxes", verdict="broken")]
    )
    state.write(path)
    again = State.read(path)
    assert again.done == {3}
    assert (again.tables, len(again.failures)) == (2, 1)
    assert json.loads(path.read_text())["failures"][0]["again"].endswith("--seed 151")
    assert "2 tables, 1 wrong" in again.summary()
