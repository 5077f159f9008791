"""Dismissal and fuzzy weights on tables with planted outliers (XK §III, XF §II–III): error falls, value moves."""

from __future__ import annotations

import pytest

from sfumato.report.picture import png

pytestmark = pytest.mark.replication


@pytest.fixture(scope="module")
def page(script):
    return script("weights")


@pytest.fixture(scope="module")
def all_tried(page):
    """Both statistics of three tables of each shape, tables that the page does not show."""
    found = {}
    for shape in page.SHAPES:
        for seed in (1001, 1002, 1003):
            rows = page.people(shape, seed)
            release = page.released(rows, seed)
            for name, true in page.TRUE.items():
                found[shape, name, seed] = page.tried(name, release, true(rows))
    return found


def test_what_the_papers_minimise_falls_as_they_say(all_tried):
    for one in all_tried.values():
        whole, first, dismissed, fuzzy = (effect.minimised for effect in one.effects)
        assert fuzzy <= dismissed * (1 + 1e-9)
        assert dismissed <= min(whole, first) * (1 + 1e-9)


def test_the_error_of_the_reweighted_statistic_is_told_at_its_own_moments(all_tried):
    told_too_little = [
        one.effects[2].error / one.effects[2].minimised
        for (_, name, _), one in all_tried.items()
        if name.startswith("corr(")
    ]
    assert min(told_too_little) > 1.2, "at the moments of all records the error of a correlation looks far smaller"
    assert all(
        effect.error <= one.effects[0].error
        for (_, name, _), one in all_tried.items()
        for effect in one.effects
        if name == "mean(x)"
    )


def test_outliers_on_one_side_shift_the_mean_by_more_than_the_error_that_is_shown(all_tried):
    for (shape, name, _), one in all_tried.items():
        if shape == "on one side" and name == "mean(x)":
            assert all(abs(effect.shift) > 2.0 * effect.error for effect in one.effects[1:])
        if shape == "none" and name == "mean(x)":
            assert all(abs(effect.shift) < 2.0 * effect.error for effect in one.effects)


def test_the_whole_tables_interval_holds_the_truth_whatever_the_weights(all_tried):
    assert all(one.whole.low <= one.truth <= one.whole.high for one in all_tried.values())


def test_the_picture_draws_four_lines_and_where_dismissal_stops(page):
    curve = [
        page.Dismissed(kept=share, uncertainty=share**2, sampling=0.1 / share, shift=share - 1.0)
        for share in (0.2, 0.6, 1.0)
    ]
    figure = page.picture(curve, name="mean(x)", best=0.6)
    (axes,) = figure.axes
    heights = [list(line.get_ydata()) for line in axes.lines[:4]]
    assert heights[2] == [one.uncertainty + one.sampling for one in curve]
    assert heights[3] == [abs(one.shift) for one in curve]
    assert list(axes.lines[4].get_xdata()) == [60.0, 60.0]
    assert axes.get_ylim()[1] > max(heights[2] + heights[3])
    assert png(figure).startswith(b"\x89PNG")
