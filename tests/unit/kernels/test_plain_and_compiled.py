"""Kernels give the same results as Python and compiled; small tables compile nothing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import sfumato as sf
from sfumato.kernels import jit, mdav, neighbours, sorting

ROWS = 120


def table():
    generator = np.random.default_rng(5)
    numbers = {f"x{axis}": np.round(generator.normal(size=ROWS), 1) for axis in range(3)}  # with ties
    return numbers | {"group": generator.choice(list("abc"), ROWS), "answer": generator.choice(list("pqr"), ROWS)}


ROLES = {"x0": "quasi", "x1": "quasi", "x2": "quasi", "group": "quasi", "answer": "sensitive"}


def released_rows(method):
    frame = method.release(table(), schema=ROLES, seed=3).to_pandas()
    return sorted(map(tuple, frame.drop(columns="box", errors="ignore").astype(str).to_numpy()))


@pytest.mark.parametrize(
    "method",
    [
        sf.Boxes(k=4, l=2),
        sf.Boxes(k=4, l=1, trees={"group": {"a": ["any"], "b": ["any"], "c": ["any"]}})
        if "trees" in sf.Boxes.__dataclass_fields__
        else sf.Boxes(k=4, l=1),
        sf.Microaggregate(k=4),
        sf.Recode(k=4),
        sf.Suppress(k=4),
        sf.Swap(),
        sf.SvdSwap(k=4) if "k" in sf.SvdSwap.__dataclass_fields__ else sf.SvdSwap(),
    ],
    ids=lambda method: type(method).__name__,
)
def test_a_release_is_the_same(method):
    plain = released_rows(method)
    with jit.always_compiled():
        compiled = released_rows(method)
    assert plain == compiled
