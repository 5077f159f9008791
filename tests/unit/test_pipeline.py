"""A release that is judged where it is made: whose row is whose is known there and does not get out."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from tests.same_rows import same_rows

from sfumato.errors import OptionError
from sfumato.job.release import release_and_assess
from sfumato.methods.boxes.method import Boxes
from sfumato.methods.noise import Noise
from sfumato.methods.spectral.histograms import SpectralHistogram
from sfumato.methods.spectral.svd_swap import SvdSwap
from sfumato.table.table import Table

ROWS = 300
ROLES = {"name": "identifier", "x": "quasi", "y": "quasi", "z": "quasi", "c": "quasi"}


def sample(seed: int) -> Table:
    draw = np.random.default_rng(seed)
    columns = {word: draw.normal(size=ROWS) for word in "xyz"}
    names = [f"person {number}" for number in range(ROWS)]
    return Table.from_arrow(pa.table({"name": names, **columns, "c": draw.choice(["a", "b"], ROWS)}))


@pytest.fixture(scope="module")
def people() -> Table:
    return sample(1)


def test_right_matches_are_counted(people):
    rates = {
        method.name: release_and_assess(method, people, schema=ROLES, seed=1)
        .assessment["correct nearest matches"]
        .value
        for method in (Noise(level=0.01), SvdSwap(), SpectralHistogram(k=5), Boxes(k=5))
    }
    assert rates["noise"] > 0.9
    assert rates["svd-swap"] < 0.02
    assert 0.05 < rates["spectral-rhs"] < 0.35, "one of the five to nine who leave alike"
    assert 0.05 < rates["boxes"] < 0.35


def test_people_who_were_left_out_do_not_count(people):
    made = release_and_assess(Boxes(k=5, suppress=0.1), people, schema=ROLES, seed=1)
    assert made.assessment["correct nearest matches"].rows == made.release.table.rows


def test_the_release_is_the_one_that_the_method_makes(people):
    made = release_and_assess(SvdSwap(), people, schema=ROLES, seed=1).release
    assert same_rows(made.table.arrow, SvdSwap().release(people, schema=ROLES, seed=1).table.arrow)


def test_whose_row_is_whose_does_not_get_out(people):
    """Neither object holds as many numbers as there are rows, but for the released columns themselves."""
    made = release_and_assess(Noise(level=0.01), people, schema=ROLES, seed=1)
    held = {**vars(made), **vars(made.release), **vars(made.assessment)}
    assert not any(isinstance(value, np.ndarray) for value in held.values())
    assert len(pickle.dumps(made.assessment)) < 20_000
    assert "person 1" not in repr(made) + str(made.assessment) + made.assessment.to_json()


def test_a_reference_is_given_or_held_out(people):
    given = release_and_assess(SvdSwap(), people, sample(2), schema=ROLES, seed=1)
    assert given.assessment.reference_rows == ROWS
    assert given.assessment["linkability"].passed is not None
    held_out = release_and_assess(SvdSwap(), people, holdout=0.25, schema=ROLES, seed=1)
    assert (held_out.assessment.reference_rows, held_out.release.table.rows) == (75, 225)
    with pytest.raises(OptionError, match="not both"):
        release_and_assess(SvdSwap(), people, people, holdout=0.25)


def test_columns_and_metric_are_passed_on(people):
    made = release_and_assess(SvdSwap(), people, schema=ROLES, columns=["x", "c"], metric="mixed", seed=1)
    assert made.assessment.columns == 2
    with pytest.raises(OptionError, match="metric"):
        release_and_assess(SvdSwap(), people, schema=ROLES, metric="taxi")
