"""The map: everything is inside the picture, labels have room, and the page loads nothing."""

from __future__ import annotations

import math
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.comparison.test_records import row

from sfumato.comparison.page import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    chance,
    draw_map,
    render,
    round_step,
    verdict,
)
from sfumato.comparison.records import Comparison

SHARES = st.floats(0.0, 1.0, allow_nan=False)


@given(st.lists(SHARES, min_size=1, max_size=20))
def test_an_axis_shows_all_values_between_round_ticks(values):
    axis = Axis.around(values, 10.0, 110.0)
    assert 0.0 <= axis.low <= min(values) + 1e-9
    assert max(values) - 1e-9 <= axis.high <= 1.0
    assert all(10.0 - 1e-6 <= axis.at(value) <= 110.0 + 1e-6 for value in values)
    assert 2 <= len(axis.ticks) <= 12
    assert all(10.0 - 1e-6 <= place <= 110.0 + 1e-6 for place, _ in axis.ticks)
    assert len({text for _, text in axis.ticks}) == len(axis.ticks)


@given(st.floats(1e-6, 1.0))
def test_a_round_step_is_the_next_of_1_2_and_5(least):
    step = round_step(least)
    assert least * (1 - 1e-6) <= step <= 2.5 * least * (1 + 1e-6)
    assert re.fullmatch(r"[125]", f"{step:e}"[0])


def trials(numbers):
    names = ["boxes", "mdav", "noise", "svd-swap", "shuffle", "pica", "swap", "rhs"]
    return tuple(
        row(names[place // 3 % 8], distance=risk, ambiguity=0.0, gain=gain, shift=loss, strength=f"k = {place}")
        for place, (risk, gain, loss) in enumerate(numbers)
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(SHARES, SHARES, SHARES), min_size=1, max_size=24))
def test_points_and_labels_are_inside_the_picture(numbers):
    found = draw_map(trials(numbers), lambda one: one.reference_risk)
    assert found is not None
    assert len(found.points) == len(numbers)
    for point in found.points:
        assert LEFT - 1e-6 <= point.x <= WIDTH - RIGHT + 1e-6
        assert TOP - 1e-6 <= point.y <= HEIGHT - BOTTOM + 1e-6
        assert point.label.x >= LEFT - 1e-6
        assert 0.0 <= point.label.y <= HEIGHT - BOTTOM + 1e-6


def overlaps(found):
    boxes = [(p.label.x, p.label.y - 11.0, p.label.x + 7.0 * len(p.label.text), p.label.y + 3.0) for p in found.points]
    return sum(
        min(a[2], b[2]) > max(a[0], b[0]) + 1e-6 and min(a[3], b[3]) > max(a[1], b[1]) + 1e-6
        for place, a in enumerate(boxes)
        for b in boxes[:place]
    )


def test_labels_of_a_usual_map_do_not_overlap_even_if_points_are_close():
    near = [(0.1 + 0.01 * math.sin(i), 0.2, 0.3 + 0.01 * math.cos(i)) for i in range(6)]
    found = draw_map(trials([(i / 20, i / 30, 1 - i / 18) for i in range(18)] + near), lambda one: one.reference_risk)
    assert overlaps(found) == 0


def test_the_frontier_joins_what_no_point_beats():
    rows = trials([(0.1, 0, 0.5), (0.5, 0, 0.1), (0.6, 0, 0.6), (0.3, 0, 0.3)])
    found = draw_map(rows, lambda one: one.reference_risk)
    assert found.frontier.count("L") == 2  # three of the four
    assert draw_map((row(reason="No."),), lambda one: one.reference_risk) is None


class TestPage:
    def page(self):
        rows = (*trials([(0.1, 0.2, 0.5), (0.5, 0.1, 0.1), (0.6, 0.7, 0.6)]), row("bad", reason="Too <few> rows."))
        return render(Comparison(rows=rows, original_rows=900, reference_rows=900))

    def test_asks_for_nothing_and_has_all_faces(self):
        page = self.page()
        assert not re.search(r"""(src|href)="[^#]|url\(|@import|<script""", page)
        assert "default-src 'none'" in page
        for face in ("prefers-color-scheme: dark", "@media print", "max-width: 50rem"):
            assert face in page
        assert len(page) < 100_000

    def test_says_the_result_first_and_describes_the_pictures(self):
        page = self.page()
        assert page.index('class="verdict"') < page.index("<svg")
        assert page.count('role="img"') == 2
        assert page.count("aria-label=") >= 3
        assert "Too &lt;few&gt; rows." in page

    def test_every_cell_of_a_table_is_named_for_narrow_screens(self):
        cells = re.findall(r"<td[^>]*>", self.page())
        assert cells
        assert all("data-label=" in cell for cell in cells)

    def test_verdict_names_what_promises_privacy(self):
        rows = trials([(0.1, 0.2, 0.5)])
        assert "None of these promises privacy." in verdict(Comparison(rows=rows, original_rows=9, reference_rows=9))
        assert verdict(Comparison(rows=(row(reason="No."),), original_rows=9, reference_rows=9)).startswith("No method")


def test_the_shift_by_chance_is_that_of_two_samples():
    import numpy as np

    generator = np.random.default_rng(5)
    rows, shifts = 200, []
    for _ in range(300):
        ours, theirs = np.sort(generator.random((2, rows)), axis=1)
        places = np.concatenate([ours, theirs])
        shifts.append((np.searchsorted(ours, places, "right") - np.searchsorted(theirs, places, "right")).max() / rows)
    expected = chance(Comparison(rows=(), original_rows=rows, reference_rows=1000))
    assert abs(np.mean(shifts) / expected - 1.0) < 0.1
    assert abs(np.mean(shifts) / (2.0 * expected) - 1.0) > 0.1  # control
