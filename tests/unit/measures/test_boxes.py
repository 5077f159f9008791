"""Boxes against the people they hold: a subdivision holds its own, boxes that overlap hold others too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf

NAME = "boxes that outsiders also fit"


@pytest.fixture(scope="module")
def people():
    rows = np.random.default_rng(4).normal(size=(300, 2))
    return pa.table({"x": rows[:, 0], "y": rows[:, 1]})


def overlap(people, **options):
    schema = dict.fromkeys(people.column_names, "quasi")
    release = sf.Boxes(k=5, keep=["corr(x, y)"], **options).release(people, schema=schema, seed=1)
    scores = {score.name: score for score in sf.assess(people, release, seed=1).scores}
    return scores[NAME]


def test_a_subdivision_holds_its_own_people_only(people):
    score = overlap(people)
    assert score.value == 0.0
    assert score.note == "boxes do not overlap"


def test_a_search_that_moves_cuts_keeps_the_subdivision(people):
    assert overlap(people, search=sf.SearchBudget(seconds=1)).value == 0.0


def test_people_of_equal_values_that_were_parted_are_told(people):
    whole = pa.table({name: people.column(name).to_numpy().round() for name in people.column_names})
    score = overlap(whole)
    assert score.value > 0.1
    assert "equal records are in different boxes" in score.note


def test_boxes_that_overlap_are_told_with_the_attack(people):
    score = overlap(people, search=sf.SearchBudget(rounds=90), overlap="allowed")
    assert score.value > 0.1
    assert "2509.03350" in score.note
