"""The groups of a release tell nobody's sensitive value; a partition whose cuts look at the values does."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.measures.privacy.attacks.downcoding import MinimalityResult, try_assignments
from sfumato.methods.boxes.diversity import DiversityRule

pytestmark = pytest.mark.slow
SCHEMA = {"x": "quasi", "s": "sensitive"}
TABLE = {"x": np.arange(1.0, 12.0), "s": np.array(list("aaaaaaabbbb"))}  # the first side of a cut has a only


def attack() -> MinimalityResult:
    return try_assignments(sf.Boxes(k=5, l=2), TABLE, SCHEMA, runs=300, seed=1, enough=4)


def test_an_uncut_box_tells_nobodys_value() -> None:
    found = attack()
    assert (found.people, found.certain) == (11, 0)
    assert found.largest_gain < 0.35  # 0.64 have a; without the random joins a side could be known up to 0.8


def test_a_partition_that_looks_at_the_values_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: cuts are refused where a side would lack values, as they were before."""
    protect = DiversityRule.protect
    monkeypatch.setattr(DiversityRule, "is_joined", lambda rule, axes: False)
    monkeypatch.setattr(DiversityRule, "protect", lambda rule, rows, axes, along_axes=None: protect(rule, rows, axes))
    found = attack()
    assert found.people == 11
    assert found.certain >= 1
