"""Documents say what the records say, show released aggregates only, and load nothing."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from sfumato.disclosure.inspection import ColumnInspection, Inspection
from sfumato.methods.claims import Finding
from sfumato.release.manifest import ColumnRecord, Manifest, ReleasedColumn
from sfumato.release.release import Release
from sfumato.report import figures, html, terminal
from sfumato.report.plain_json import to_json
from sfumato.report.style import SHADES, shade_of
from sfumato.report.summary import boxed_columns, pictured_columns, shown_estimates, treatment
from sfumato.schema.columns import Role
from sfumato.statistics.estimate import Estimate
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

ROWS = 40


def boxes(*names: str) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(8)
    low = {name: np.sort(numbers.normal(50, 10, ROWS // 5).round(1)).repeat(5) for name in names}
    return {f"{name}{end}": low[name] + shift for name in names for end, shift in (("_low", 0.0), ("_high", 2.5))}


def release(*, keep: tuple[str, ...] = (), names: tuple[str, ...] = ("age", "pay<b>")) -> Release:
    table = Table.from_arrow(pa.table({**boxes(*names), "city": ["Ulm"] * ROWS}))
    columns = [ColumnRecord(name=name, role=Role.QUASI, kind=Kind.CONTINUOUS) for name in names]
    manifest = Manifest(
        version="0",
        method="boxes",
        options={"k": 5},
        columns=(*columns, ColumnRecord(name="who", role=Role.IDENTIFIER, kind=Kind.TEXT)),
        released=tuple(ReleasedColumn(name=name, kind=kind) for name, kind in table.kinds.items()),
        rows_in=ROWS + 2,
        rows_out=ROWS,
        keep=keep,
        edges="hull",
        findings=(Finding(claim="5-anonymous in age", held=True, found="smallest group 5"),),
        notes={"density": "20 neighbours"},
    )
    return Release(table, manifest)


class TestWhatIsShown:
    def test_kept_statistics_come_first(self):
        kept = release(keep=("corr(age, pay<b>)",), names=("x", "age", "pay<b>"))
        assert [estimate.name for estimate in shown_estimates(kept)] == ["corr(age, `pay<b>`)"]
        assert pictured_columns(kept) == ("age", "pay<b>")

    def test_means_are_shown_where_nothing_was_to_be_kept(self):
        assert [estimate.name for estimate in shown_estimates(release())] == ["mean(age)", "mean(`pay<b>`)"]
        assert boxed_columns(release()) == ("age", "pay<b>")

    def test_a_statistic_without_words_is_left_out(self):
        assert shown_estimates(release(keep=("my own thing",))) == ()

    def test_one_boxed_column_gives_no_picture(self):
        assert pictured_columns(release(names=("age",))) is None

    @pytest.mark.parametrize(
        ("name", "role", "released_as_text"),
        [
            ("a", Role.IDENTIFIER, "removed"),
            ("x", Role.QUASI, "x_low – x_high"),
            ("c", Role.QUASI, "generalized"),
            ("c", Role.OTHER, "unaltered"),
            ("z", Role.OTHER, "not released"),
        ],
    )
    def test_how_a_column_is_released_is_described(self, name, role, released_as_text):
        column = ColumnRecord(name=name, role=role, kind=Kind.NOMINAL)
        assert treatment(column, released_as("x_low", "x_high", "c")) == released_as_text

    @pytest.mark.parametrize("role", [Role.QUASI, Role.SENSITIVE, Role.OTHER])
    def test_a_column_whose_cells_were_swapped_is_called_altered(self, role):
        column = ColumnRecord(name="c", role=role, kind=Kind.NOMINAL)
        assert treatment(column, released_as("c", altered=("c",))) == "altered"

    def test_a_quasi_identifier_whose_cells_are_as_they_were_is_not_called_generalized(self):
        column = ColumnRecord(name="c", role=Role.QUASI, kind=Kind.NOMINAL)
        assert treatment(column, released_as("c", unaltered=("c",))) == "unaltered"


def released_as(*names: str, **measured) -> Manifest:
    released = tuple(ReleasedColumn(name=name, kind=Kind.NOMINAL) for name in names)
    return replace(release().manifest, released=released, **{"altered": (), "unaltered": (), **measured})


class Page(HTMLParser):
    """What a browser would fetch, and whether every element is closed."""

    VOID = frozenset({"meta", "rect", "circle", "path"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.fetched += [value for name, value in attributes if name in ("src", "href", "data")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


class TestHtml:
    def test_the_page_is_whole_and_loads_nothing(self):
        page = html.render(release())
        parsed = Page(page)
        assert parsed.open == []
        assert parsed.fetched == []
        assert "default-src 'none'" in page
        assert "<script" not in page

    def test_the_kind_of_every_promise_is_shown_and_privacy_comes_first(self):
        private = Finding(claim="5-anonymous in age", held=True, found="smallest group 5", kind="privacy")
        complete = Finding(claim="no row lost", held=True, found="40 rows")
        promised = release()
        promised = replace(promised, manifest=replace(promised.manifest, findings=(complete, private)))
        page = re.sub(r"\s+", " ", html.render(promised))
        assert "<strong>Privacy guarantee:</strong> 5-anonymous in age." in page
        assert re.search("<td>privacy</td><td>5-anonymous in age</td>.*<td>integrity</td><td>no row lost</td>", page)
        assert "no guarantee" not in page

    def test_a_release_without_a_promise_of_privacy_says_so_at_the_top(self):
        page = re.sub(r"\s+", " ", html.render(release()))
        head, _, rest = page.partition("</header>")
        assert "Privacy: no guarantee." in head
        assert '<td>privacy</td><td class="broken">no guarantee</td>' in rest

    def test_it_shows_promises_counts_and_intervals(self):
        page = html.render(release())
        for words in ("5-anonymous in age", "smallest group 5", "42 rows in, 40 out", "2 suppressed", "mean(age)"):
            assert words in re.sub(r"\s+", " ", page)

    def test_names_of_columns_are_text_and_never_markup(self):
        page = html.render(release())
        assert "pay&lt;b&gt;" in page
        assert "pay<b>" not in page

    def test_a_release_without_a_manifest_has_a_page_too(self):
        assert "40 rows, released" in html.render(Release(release().table))

    def test_every_box_is_drawn_inside_the_picture(self):
        picture = html.draw(release().table, "age", "pay<b>")
        corners = [tuple(map(int, c)) for _, p in picture.paths for c in re.findall(r"M(\d+) (\d+)h(\d+)v(\d+)", p)]
        assert len(corners) == picture.drawn == picture.boxes == 8
        assert all(x + w <= html.WIDTH + 1 and y + h <= html.HEIGHT + 1 for x, y, w, h in corners)

    def test_a_picture_of_very_many_boxes_stays_small(self):
        low = np.random.default_rng(2).normal(size=(30_000, 2))
        table = Table.from_arrow(
            pa.table({"x_low": low[:, 0], "x_high": low[:, 0] + 0.1, "y_low": low[:, 1], "y_high": low[:, 1] + 0.1})
        )
        picture = html.draw(table, "x", "y")
        assert picture.boxes == 30_000
        assert picture.drawn <= html.MOST_BOXES

    def test_days_are_written_as_days(self):
        days = pa.array([0, 10], pa.int32()).cast(pa.date32())
        table = Table.from_arrow(pa.table({"born_low": days, "born_high": days, "x_low": [1, 2], "x_high": [2, 3]}))
        assert html.draw(table, "born", "x").x_ends == ("1970-01-01", "1970-01-11")

    def test_columns_without_any_value_give_no_picture(self):
        nothing = pa.nulls(3, pa.float64())
        table = Table.from_arrow(pa.table({f"{n}_{e}": nothing for n in "xy" for e in ("low", "high", "missing")}))
        assert html.draw(table, "x", "y") is None


ESTIMATE = Estimate(
    name="mean(x)",
    value=1.5,
    low=1.0,
    high=2.0,
    inner_low=1.1,
    inner_high=1.9,
    linear_low=1.2,
    linear_high=1.8,
    records=9,
)
UNBOUNDED = Estimate(
    name="slope",
    value=math.nan,
    low=-math.inf,
    high=math.inf,
    inner_low=-1.0,
    inner_high=1.0,
    linear_low=math.nan,
    linear_high=math.nan,
    records=9,
)


def printed(renderable) -> str:
    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(renderable)
    return console.file.getvalue()


class TestTerminal:
    def test_estimates_show_value_intervals_and_truth(self):
        assert "1.5" in printed(terminal.estimates([ESTIMATE]))
        assert "1 … 2" in printed(terminal.estimates([ESTIMATE]))
        assert "1.4321" in printed(terminal.estimates([ESTIMATE], {"mean(x)": 1.43210}))

    def test_what_has_no_bound_says_so(self):
        assert "-∞ … ∞" in printed(terminal.estimates([UNBOUNDED]))

    def test_broken_promises_are_marked(self):
        shown = printed(
            terminal.findings(
                [Finding(claim="a", held=True, found="b"), Finding(claim="c", held=False, found="d", kind="privacy")]
            )
        )
        assert re.search(r"broken +privacy +c +d\s+kept +integrity +a +b", shown)

    def test_a_release_without_a_promise_of_privacy_says_so(self):
        shown = printed(terminal.findings([Finding(claim="a", held=True, found="b")]))
        assert re.search(r"none +privacy +no guarantee", shown)

    def test_names_with_brackets_are_shown_as_they_are(self):
        column = ColumnInspection(
            name="[red]x", kind=Kind.WHOLE, role=Role.QUASI, reason="why", missing=0, distinct=2, unique_rows=1
        )
        found = Inspection(rows=3, columns=(column,), quasi=("[red]x",), groups=2, unique_rows=1, smallest_group=1)
        shown = printed(terminal.inspection(found))
        assert "[red]x" in shown
        assert "1 of 3 rows are unique (33.3%)" in shown

    def test_every_column_is_listed_with_how_it_is_released(self):
        assert re.search(r"who +text +identifier +removed", printed(terminal.treatments(release().manifest)))


class TestJson:
    def test_records_become_mappings_and_infinities_null(self):
        first, second = json.loads(to_json([ESTIMATE, UNBOUNDED]))
        assert first["gap"] == pytest.approx(0.2)
        assert (second["low"], second["value"]) == (None, None)

    def test_a_manifest_can_be_part_of_it(self):
        shown = json.loads(to_json({"manifest": release().manifest}))["manifest"]
        assert shown["columns"][0]["role"] == "quasi"
        assert (shown["guarantee"], shown["suppressed"]) == ("no guarantee", 2)


class TestFigures:
    def test_boxes_and_statistics_are_drawn(self):
        picture = figures.png(figures.boxes(release().table, "age", "pay<b>"))
        assert picture.startswith(b"\x89PNG")
        assert figures.png(figures.statistics([ESTIMATE, UNBOUNDED], {"mean(x)": 1.4})).startswith(b"\x89PNG")
        assert b"<svg" in figures.svg(figures.statistics([]))

    def test_boxes_without_width_are_drawn_too(self):
        table = Table.from_arrow(pa.table({f"{n}_{e}": [1.0, 1.0] for n in "xy" for e in ("low", "high")}))
        assert figures.png(figures.boxes(table, "x", "y")).startswith(b"\x89PNG")


def test_the_densest_boxes_are_the_darkest():
    shades = shade_of(np.array([1.0, 5.0, 2.0, 5.0, 0.1, 9.0, 8.0, 7.0]))
    assert shades.argmax() == 5
    assert shades.argmin() == 4
    assert shades[1] == shades[3]
    assert shades.max() < len(SHADES)


def test_notes_are_shown_without_the_signs_of_a_program():
    assert html.listed({"columns": ["age", "sex"], "kept": [], "x": {"how": None}}) == (
        "columns: age, sex; kept: none; x: how: none"
    )
