"""Documents say what the records say, show released aggregates only, and load nothing."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from sfumato.plan.plan import Finding
from sfumato.release.manifest import ColumnRecord, Manifest, ReleasedColumn
from sfumato.release.release import Release
from sfumato.report import html, picture, terminal
from sfumato.report.html import to_json
from sfumato.report.picture import SHADES, shade_of
from sfumato.report.summary import boxed_columns, pictured_columns, shown_estimates, treatment
from sfumato.risk.inspection import ColumnInspection, Inspection
from sfumato.schema.columns import Role
from sfumato.statistics.estimate import Estimate
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

ROWS = 40


def rendered(shown):
    return html.Report.of(shown).page


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
    """What a browser would fetch, the order of headings, and whether every element is closed."""

    VOID = frozenset({"meta", "rect", "circle", "path", "wbr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.headings: list[int] = []
        self.unnamed: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.fetched += [value for name, value in attributes if name in ("src", "href", "data")]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "svg" and "aria-hidden" not in named and not (named.get("role") == "img" and named.get("aria-label")):
            self.unnamed.append(tag)
        if tag == "th" and "scope" not in named:
            self.unnamed.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


class TestHtml:
    def test_the_page_is_whole_and_loads_nothing(self):
        page = rendered(release())
        parsed = Page(page)
        assert parsed.open == []
        assert all(target.startswith("#") for target in parsed.fetched)
        assert "default-src 'none'" in page
        assert "<script" not in page

    def test_it_can_be_read_aloud(self):
        """Headings go down one level at a time, pictures and heads of tables are named, tables have captions."""
        page = rendered(release())
        parsed = Page(page)
        assert parsed.headings[0] == 1
        assert all(after - before <= 1 for before, after in zip(parsed.headings, parsed.headings[1:], strict=False))
        assert parsed.unnamed == []
        assert page.count("<table") == page.count("<caption")
        assert 'class="skip" href="#contents"' in page

    def test_it_has_a_dark_face_and_one_to_print_and_sign(self):
        page = rendered(release())
        assert "prefers-color-scheme: dark" in page
        assert "@media print" in page
        assert all(f"<span>{word}</span>" in page for word in ("Name", "Role", "Place", "Date", "Signature"))

    def test_the_kind_of_every_promise_is_shown_and_privacy_comes_first(self):
        private = Finding(claim="5-anonymous in age", held=True, found="smallest group 5", kind="privacy")
        complete = Finding(claim="no row lost", held=True, found="40 rows")
        promised = release()
        promised = replace(promised, manifest=replace(promised.manifest, findings=(complete, private)))
        page = text_of(rendered(promised))
        assert "Privacy guarantee: 5-anonymous in age." in page
        assert re.search("5-anonymous in age privacy smallest group 5.*no row lost integrity 40 rows", page)
        assert "no guarantee" not in page

    def test_a_release_without_a_promise_of_privacy_says_so_at_the_top(self):
        head, _, rest = rendered(release()).partition("</header>")
        assert "it promises no privacy" in text_of(head)
        assert "Privacy guarantee: no guarantee." in text_of(head)
        assert "no guarantee privacy" in text_of(rest)

    def test_it_shows_promises_counts_and_intervals(self):
        page = text_of(rendered(release()))
        for words in ("5-anonymous in age", "smallest group 5", "42 rows in, 40 out", "2 suppressed", "mean(age)"):
            assert words in page

    def test_names_of_columns_are_text_and_never_markup(self):
        page = rendered(release())
        assert "pay&lt;b&gt;" in page
        assert "pay<b>" not in page

    def test_a_release_without_a_manifest_has_a_page_too(self):
        page = text_of(rendered(Release(release().table)))
        assert "Release of 40 rows" in page
        assert "Nothing is known about these rows." in page

    def test_the_json_twin_holds_the_numbers_of_the_page(self):
        made = html.Report.of(release())
        numbers = json.loads(made.numbers)
        assert (numbers["rows_in"], numbers["rows_out"], numbers["guarantee"]) == (42, 40, "no guarantee")
        assert numbers["verdict"]["headline"] in text_of(made.page)
        for statistic in numbers["statistics"]:
            assert html.quantity_text(statistic["estimate"]["low"], "") in text_of(made.page)
        assert numbers["groups"]["groups"] == 8
        assert numbers["assessment"] is None
        assert not [name for name in numbers if name.startswith("_")]

    def test_thousands_of_columns_give_a_page_of_moderate_size(self):
        many = release(names=tuple(f"a_rather_long_name_{number}" for number in range(1500)))
        page = rendered(many)
        assert len(page.encode()) < 3_000_000
        assert "more columns are listed in manifest.json" in page

    def test_a_long_name_may_continue_on_the_next_line_at_its_seams_only(self):
        assert str(html.add_line_breaks("blood_pressure_low")) == "blood_<wbr>pressure_<wbr>low"
        assert str(html.add_line_breaks("kept")) == "kept"
        assert 'class="long"' in html.add_line_breaks("a" * 40)


def text_of(page: str) -> str:
    """The text of a page, without markup, with single spaces."""
    return " ".join(unescape(re.sub("<[^>]*>", " ", page.replace("<wbr>", ""))).split())


class TestPicture:
    def test_every_box_is_drawn_inside_the_picture(self):
        found = picture.draw(release().table, "age", "pay<b>")
        corners = [tuple(map(int, c)) for _, p in found.paths for c in re.findall(r"M(\d+) (\d+)h(\d+)v(\d+)", p)]
        assert len(corners) == found.drawn == found.boxes == 8
        assert all(x + w <= picture.WIDTH + 1 and y + h <= picture.HEIGHT + 1 for x, y, w, h in corners)

    def test_a_picture_of_very_many_boxes_stays_small(self):
        low = np.random.default_rng(2).uniform(size=(30_000, 2)) * 100.0
        table = pair(low, low + 0.1)
        found = picture.draw(table, "x", "y")
        assert found.boxes == 30_000
        assert found.drawn <= picture.MOST_BOXES

    def test_boxes_that_lie_over_each_other_are_drawn_as_a_map_of_all_people(self):
        low = np.random.default_rng(2).normal(size=(500, 2))
        found = picture.draw(pair(low, low + 3.0), "x", "y")
        assert found.is_map
        assert found.drawn <= picture.COLUMNS * picture.ROWS
        fields = picture._fields(low * 0.0, low * 0.0 + [picture.WIDTH, picture.HEIGHT], np.full(500, 2.0))
        assert fields.sum() == pytest.approx(1000.0)
        assert np.ptp(fields) == pytest.approx(0.0, abs=1e-6)

    def test_a_single_box_far_out_does_not_press_all_others_into_a_corner(self):
        low = np.vstack([np.random.default_rng(2).uniform(size=(200, 2)) * 10.0, [[500.0, 800.0]]])
        found = picture.draw(pair(low, low + 0.5), "x", "y")
        assert found.is_zoomed
        assert float(found.x_ends[1]) < 11.0
        assert not picture.draw(pair(low[:-1], low[:-1] + 0.5), "x", "y").is_zoomed

    def test_the_ends_of_an_axis_are_no_cells(self):
        low = np.random.default_rng(2).uniform(size=(200, 2)) * 777.12345
        found = picture.draw(pair(low, low + 0.123), "x", "y")
        assert found.x_ends == ("0", "800")

    def test_dates_are_written_as_months(self):
        days = pa.array([0, 10], pa.int32()).cast(pa.date32())
        table = Table.from_arrow(pa.table({"born_low": days, "born_high": days, "x_low": [1, 2], "x_high": [2, 3]}))
        assert picture.draw(table, "born", "x").x_ends == ("1970-01", "1970-01")

    def test_columns_without_any_value_give_no_picture(self):
        nothing = pa.nulls(3, pa.float64())
        table = Table.from_arrow(pa.table({f"{n}_{e}": nothing for n in "xy" for e in ("low", "high", "missing")}))
        assert picture.draw(table, "x", "y") is None


def pair(low: np.ndarray, high: np.ndarray) -> Table:
    ends = {"x_low": low[:, 0], "x_high": high[:, 0], "y_low": low[:, 1], "y_high": high[:, 1]}
    return Table.from_arrow(pa.table(ends))


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


def test_the_densest_boxes_are_the_darkest():
    shades = shade_of(np.array([1.0, 5.0, 2.0, 5.0, 0.1, 9.0, 8.0, 7.0]))
    assert shades.argmax() == 5
    assert shades.argmin() == 4
    assert shades[1] == shades[3]
    assert shades.max() < len(SHADES)
