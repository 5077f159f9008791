"""Dismissal and fuzzy weights on tables with planted outliers (XK §III, XF §II–III): error falls, value moves."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.replication

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "replication" / "weights.py"


@pytest.fixture(scope="module")
def script():
    specification = importlib.util.spec_from_file_location("weights", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def all_tried(script):
    """Both statistics of three tables of each shape, tables that the page does not show."""
    found = {}
    for shape in script.SHAPES:
        for seed in (1001, 1002, 1003):
            rows = script.people(shape, seed)
            release = script.released(rows, seed)
            for name, true in script.TRUE.items():
                found[shape, name, seed] = script.tried(name, release, true(rows))
    return found


def test_the_error_falls_as_the_papers_say(all_tried):
    for one in all_tried.values():
        none, first, dismissed, fuzzy = (effect.error for effect in one.effects)
        assert fuzzy <= dismissed * (1 + 1e-9)
        assert dismissed <= min(none, first) * (1 + 1e-9)


def test_outliers_on_one_side_shift_the_mean_by_more_than_the_error_that_is_shown(all_tried):
    for (shape, name, _), one in all_tried.items():
        if shape == "on one side" and name == "mean(x)":
            assert all(abs(effect.shift) > 2.0 * effect.error for effect in one.effects[1:])
        if shape == "none" and name == "mean(x)":
            assert all(abs(effect.shift) < 2.0 * effect.error for effect in one.effects)


def test_the_whole_tables_interval_holds_the_truth_whatever_the_weights(all_tried):
    assert all(one.whole.low <= one.truth <= one.whole.high for one in all_tried.values())
