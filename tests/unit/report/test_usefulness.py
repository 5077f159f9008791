"""A release that is of little use says so, with what costs most and what to try."""

from __future__ import annotations

import io
from functools import reduce
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import sfumato as sf
from sfumato.report import html, terminal
from sfumato.report.summary import summarize
from sfumato.report.usefulness import EveryNth, column_spreads, row_question, shown_rows, usefulness
from sfumato.table.table import Table


def people(rows: int, *names: str) -> dict[str, object]:
    draw = np.random.default_rng(2)
    return {name: draw.uniform(0, 100, rows) for name in names} | {"rare": ["no"] * (rows - 2) + ["yes"] * 2}


def summary_of(release: sf.Release):
    return summarize(release).usefulness


QUASI = {"x": "quasi", "y": "quasi", "rare": "other"}


class TestConcerns:
    def test_narrow_boxes_are_of_use(self):
        assert summary_of(sf.Boxes(k=3).release(people(2000, "x", "y"), schema=QUASI)).concerns == ()

    def test_intervals_wider_than_half_the_range_are_called_out(self):
        release = sf.Boxes(k=40).release(people(100, "x", "y"), schema=QUASI)
        found = summary_of(release)
        assert {concern.about for concern in found.concerns} <= {"x", "y"}
        assert found.concerns
        assert "of the range of the column on average" in found.concerns[0].found
        assert "k = 40 with 2 protected columns: 2 groups are too few" in found.cause
        assert "smaller k" in found.fix

    def test_a_correlation_of_minus_one_to_one_is_called_out(self):
        release = sf.Boxes(k=40, keep=["corr(x, y)"]).release(people(100, "x", "y"), schema=QUASI)
        assert "corr(x, y)" in {concern.about for concern in summary_of(release).concerns}

    def test_columns_that_were_given_up_for_a_kept_statistic_are_not(self):
        release = sf.Boxes(k=20, keep=["mean(x)"]).release(people(400, "x", "y"), schema=QUASI)
        assert column_spreads(release)["y"] > 0.5
        assert summary_of(release).concerns == ()

    def test_diversity_of_a_rare_value_is_named_as_the_cause(self):
        release = sf.Boxes(k=2, l=2).release(people(300, "x", "y"), schema=QUASI | {"rare": "sensitive"})
        found = summary_of(release)
        assert found.concerns
        assert found.cause.startswith("l = 2 for 'rare': groups have")
        assert "another role for 'rare'" in found.fix

    def test_sets_of_most_categories_are_called_out(self):
        table = people(200, "x") | {"city": np.random.default_rng(3).choice(list("abcdef"), 200)}
        release = sf.Boxes(k=150).release(table, schema={"x": "quasi", "city": "quasi", "rare": "other"})
        assert "|" in release.table.arrow["city"][0].as_py()
        concerns = {concern.about: concern.found for concern in summary_of(release).concerns}
        assert "of the categories" in concerns["city"]

    def test_the_column_that_takes_the_cuts_is_named(self):
        names = ("x", "y", "z")
        made = sf.Boxes(k=5).release(people(100, *names), schema=dict.fromkeys(names, "quasi") | {"rare": "other"})
        box = np.repeat(np.arange(20), 5)
        ends = {"x_low": box * 1.0, "x_high": box + 1.0}
        ends |= {f"{name}{end}": box % 2 + value for name in "yz" for end, value in (("_low", 0.0), ("_high", 9.0))}
        boxes = sf.Table.from_arrow(pa.table(ends | {"box": box}))
        found = usefulness(sf.Release(boxes, made.manifest), ())
        assert {concern.about for concern in found.concerns} == {"y", "z"}
        assert found.cause.startswith("'x', which is released most finely")
        assert "another role for 'x'" in found.fix

    def test_an_infinite_end_is_called_out_unless_the_method_altered_the_column(self):
        boxes = sf.read_release({"x_low": [0.0, 0.0], "x_high": [1.0, 1.0], "y": [1.0, 2.0]})
        estimates = boxes.estimates("regress(y ~ x)")
        assert "the guaranteed interval has no end" in {one.found for one in usefulness(boxes, estimates).concerns}
        noisy = sf.Noise().release(people(50, "x", "y"), schema=QUASI)
        assert usefulness(noisy, noisy.estimates("corr(x, y)")).concerns == ()

    @pytest.mark.parametrize(
        "columns",
        [
            {"x_low": [1.0, 1.0], "x_high": [1.0, 1.0]},
            {"x_low": pa.nulls(2, pa.float64()), "x_high": pa.nulls(2, pa.float64())},
        ],
        ids=["constant", "missing"],
    )
    def test_a_column_without_a_range_is_not(self, columns):
        assert usefulness(sf.read_release(pa.table(columns)), ()).concerns == ()


def test_the_terminal_and_the_report_say_it():
    release = sf.Boxes(k=40).release(people(100, "x", "y"), schema=QUASI)
    summary = summarize(release)
    printed = io.StringIO()
    Console(file=printed, width=200).print(terminal.usefulness(summary.usefulness))
    for text in (printed.getvalue(), html.Report.of(release).page):
        assert "Of little use" in text
        assert "2 groups are too few to cut each column once" in text


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=8), step=st.integers(1, 20))
def test_every_nth_row_of_parts_is_a_row_of_them_and_their_share(sizes, step):
    ends = np.cumsum([0, *sizes])
    parts = [
        Table.from_arrow(pa.table({"x": np.arange(first, last), "other": ["t"] * (last - first)}))
        for first, last in pairwise(ends)
    ]
    question = EveryNth(("x",), step)
    drawn = question.finish(reduce(question.merge, map(question.of, parts)))
    assert drawn.names == ("x",)
    rows = drawn.numbers("x").astype(int)
    assert len(set(rows)) == len(rows) and set(rows) <= set(range(ends[-1]))
    per_part = np.histogram(rows, ends)[0]
    assert all(size // step <= number <= -(-size // step) for size, number in zip(sizes, per_part, strict=True))


def test_a_few_rows_stand_for_all_of_a_large_release(tmp_path, monkeypatch):
    release = sf.Boxes(k=3).release(people(2000, "x", "y"), schema=QUASI, engine="duckdb", into=tmp_path / "out")
    assert row_question(release) is None
    monkeypatch.setattr("sfumato.release.rows.MANY_ROWS", 1000)
    monkeypatch.setattr("sfumato.report.usefulness.SHOWN_CELLS", 600)
    rows = shown_rows(release, ["x_low", "rare"], 50)
    assert rows.names == ("x_low", "rare") and 25 <= rows.rows <= 50
    assert set(rows.numbers("x_low")) <= set(release.table.numbers("x_low"))
