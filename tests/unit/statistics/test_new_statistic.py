"""A new statistic is one class and one line of the language: nothing else has to know it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import sfumato as sf
from sfumato.errors import StatisticError
from sfumato.statistics.bounds.enclosure import Enclosure
from sfumato.statistics.conditions import quote
from sfumato.statistics.language import PARSERS
from sfumato.statistics.statistic import OneColumn
from sfumato.statistics.tallies import Tally


@dataclass(frozen=True)
class Least(OneColumn, Tally):
    """The smallest value of a column."""

    def tally(self, boxes):
        low, high = float(boxes.low[:, 0].min()), float(boxes.high[boxes.weight > 0.0, 0].min(initial=float("inf")))
        return Enclosure(low, high, low, high, value=float(boxes.midpoints[:, 0].min()))

    def __str__(self):
        return f"least({quote(self.column)})"


@pytest.fixture
def release(monkeypatch):
    monkeypatch.setitem(PARSERS, "least", lambda cursor: Least(cursor.name()))
    boxes = {"x_low": [1, 3, 6], "x_high": [2, 4, 8], "s_low": [1, 2, 2], "s_high": [1, 2, 3]}
    return sf.read_release(boxes)


def test_it_is_read_and_estimated(release):
    estimate = release.estimate("least(x)")
    assert (estimate.name, estimate.low, estimate.value, estimate.high) == ("least(x)", 1.0, 1.5, 2.0)


def test_it_takes_a_condition(release):
    estimate = release.estimate("least(x | s = 2)")
    assert (estimate.name, estimate.low, estimate.high) == ("least(x | s = 2)", 3.0, 4.0)
    assert (estimate.records, estimate.uncertain_records) == (1, 1)


def test_what_is_no_function_of_moments_is_refused_where_moments_are_needed(release):
    with pytest.raises(StatisticError, match="cannot be reweighted"):
        release.estimate("least(x)", wide_boxes="fuzzy")
    with pytest.raises(StatisticError, match="cannot be cut for"):
        sf.Boxes(k=2, keep=["least(x)"]).release({"x": [1.0, 2.0, 3.0, 4.0]}, schema={"x": "quasi"})
