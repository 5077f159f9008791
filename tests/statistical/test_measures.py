"""Measures on releases whose privacy is known: a copy, a noisy copy, a swap, and a sample of other people.

Fixed seeds. Each measure must rank them in this order, each attack must catch the copy and must not catch the sample.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.memory import MemorySurvey
from sfumato.measures.assess import assess
from sfumato.measures.privacy.prediction import predict
from sfumato.methods.classical.noise import Noise
from sfumato.methods.spectral import SvdSwap
from sfumato.randomness import Randomness
from sfumato.schema.schema import Column, Role, Schema
from sfumato.table.table import Table

ROWS = 1000
ATTACKS = [
    "membership by nearest row",
    "membership by density ratio",
    "members caught by nearest row",
    "members caught by density ratio",
    "inference of a column",
    "linkability",
    "singling out",
]


def sample(seed: int) -> Table:
    draw = np.random.default_rng(seed)
    kind = draw.integers(3, size=ROWS)
    hidden = draw.normal(size=(ROWS, 3)) + 2 * np.eye(3)[kind]
    mixed = hidden @ np.random.default_rng(0).normal(size=(3, 8)) + 0.5 * draw.normal(size=(ROWS, 8))
    columns = {f"x{i}": mixed[:, i] for i in range(8)}
    columns["kind"] = np.array(["a", "b", "c"])[np.where(draw.random(ROWS) < 0.8, kind, draw.integers(3, size=ROWS))]
    return Table.from_arrow(pa.table(columns))


def released(method, table, seed=1):
    schema = Schema(tuple(Column(name=name, role=Role.QUASI) for name in table.names))
    return method.plan(MemorySurvey(table), schema, Randomness(seed)).transform(table, 0).released


@pytest.fixture(scope="module")
def original():
    return sample(1)


@pytest.fixture(scope="module")
def reference():
    return sample(2)


@pytest.fixture(scope="module")
def releases(original):
    return {
        "copy": original,
        "noise": released(Noise(level=0.05), original),
        "swap": released(SvdSwap(), original),
        "sample": sample(3),
    }


def test_distance_and_ambiguity_rank_copy_noise_swap(original, releases):
    found = {name: predict(original, table) for name, table in releases.items()}
    for measure in ("distance", "ambiguity"):
        medians = [float(np.median(getattr(found[name], measure))) for name in ("copy", "noise", "sample")]
        assert medians[0] < medians[1] < 0.9 * medians[2], measure
        # a swap hides people no less than a sample without them would
        assert np.median(getattr(found["swap"], measure)) > 0.95 * medians[2], measure


@pytest.mark.parametrize("seed", [1, 2])
def test_a_copy_is_caught_by_every_attack_and_a_sample_by_none(original, reference, releases, seed):
    words = ["membership", "inference", "linkability", "singling-out"]
    copied = assess(original, releases["copy"], reference, measures=words, seed=seed)
    other = assess(original, releases["sample"], reference, measures=words, seed=seed)
    for attack in ATTACKS:
        assert copied[attack].passed is False, attack
        assert copied[attack].gain > 0.1, attack
        assert other[attack].passed is True, attack
    assert copied.worst_attack.gain > 0.9
    assert other.worst_attack.gain < 0.05


def test_attacks_gain_less_from_noise_than_from_a_copy_and_less_from_a_swap_than_from_noise(
    original, reference, releases
):
    gain = {
        name: max(score.value for score in attacked.scores if score.name in ATTACKS[:2])
        for name, table in releases.items()
        for attacked in [assess(original, table, reference, measures=["membership"], seed=1)]
    }
    assert gain["copy"] > gain["noise"] > gain["swap"] > 0.45
    assert gain["swap"] < 0.56


def test_the_reference_passes_the_sample_and_the_swap_and_fails_the_copies(original, reference, releases):
    verdicts = {
        name: assess(original, table, reference, measures=["reference"], seed=1)["distance below the reference"].passed
        for name, table in releases.items()
    }
    assert verdicts == {"copy": False, "noise": False, "swap": True, "sample": True}


def test_kernel_components_pass_the_sample_and_the_copy_and_fail_the_swap(original, reference, releases):
    differing = {
        name: assess(original, table, reference, measures=["kernel-components"], seed=1)[
            "kernel components that differ"
        ].passed
        for name, table in releases.items()
        if name != "noise"
    }
    assert differing == {"copy": True, "swap": False, "sample": True}
