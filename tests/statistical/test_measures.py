"""Measures on releases whose privacy is known: a copy, a noisy copy, a swap, and a sample of other people.

Fixed seeds, two populations. Every measure must rank them in this order, every attack must catch the copy and must not
catch the sample: each is the other's control.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from sfumato.job.assess import assess
from sfumato.job.release import release_and_assess
from sfumato.methods.noise import Noise
from sfumato.methods.spectral.pica import PartitionedIca
from sfumato.methods.spectral.svd_swap import SvdSwap
from sfumato.release.assessment import Assessment
from sfumato.table.table import Table

ROWS = 1000
ATTACKS = [
    "membership by nearest row",
    "membership by nearest row, hardest to hide",
    "members detected by nearest row",
    "membership by density ratio",
    "membership by density ratio, hardest to hide",
    "members detected by density ratio",
    "inference of a column",
    "linkability",
    "singling out",
]
RANKED = [  # the more private, the less (or, of the first four, the more)
    "prediction distance, median",
    "prediction distance, worst 1 %",
    "prediction ambiguity, median",
    "prediction ambiguity, worst 1 %",
    "distance below the reference",
    "ambiguity below the reference",
    "membership by nearest row",
    "membership by density ratio",
    "inference of a column",
    "linkability",
    "correct nearest matches",
    "correct one-to-one matches",
]


def sample(seed: int) -> Table:
    draw = np.random.default_rng(seed)
    kind = draw.integers(3, size=ROWS)
    hidden = draw.normal(size=(ROWS, 3)) + 2 * np.eye(3)[kind]
    mixed = hidden @ np.random.default_rng(0).normal(size=(3, 8)) + 0.5 * draw.normal(size=(ROWS, 8))
    columns = {f"x{i}": mixed[:, i] for i in range(8)}
    columns["kind"] = np.array(["a", "b", "c"])[np.where(draw.random(ROWS) < 0.8, kind, draw.integers(3, size=ROWS))]
    return Table.from_arrow(pa.table(columns))


@dataclass(frozen=True)
class Judged:
    """One population, released in every way there is to tell apart."""

    copy: Assessment
    noise: Assessment
    swap: Assessment  # in clusters that are rather too small
    whole_swap: Assessment  # over the whole table
    sample: Assessment


@pytest.fixture(scope="module", params=[1, pytest.param(4, marks=pytest.mark.slow)])
def judged(request):
    original, reference, others = (sample(request.param + step) for step in range(3))
    origin = np.arange(ROWS)
    roles = dict.fromkeys(original.names, "quasi")

    def by(method):
        return release_and_assess(method, original, reference, schema=roles, seed=1).assessment

    return Judged(
        copy=assess(original, original, reference, origin=origin, seed=1),
        noise=by(Noise(level=0.05)),
        swap=by(PartitionedIca(cluster_size=50)),
        whole_swap=by(SvdSwap()),
        sample=assess(original, others, reference, origin=origin, seed=1),  # nobody's rows, whatever the origin says
    )


@pytest.mark.parametrize("name", RANKED)
def test_every_measure_ranks_copy_noise_swap_and_sample(judged, name):
    found = [getattr(judged, release)[name] for release in ("copy", "noise", "swap", "sample")]
    values = [score.value if score.better == "higher" else -score.value for score in found]
    assert values[0] < values[1] < values[2]
    assert values[2] < values[3] + 0.02, "a swap in small clusters comes near a sample of others"
    assert values[1] < values[3] - 0.02, "control: noise does not"


def test_uncertainty_tells_a_copy_and_no_more(judged):
    name = "prediction uncertainty, median"
    assert judged.copy[name].value < 0.95 * min(judged.noise[name].value, judged.sample[name].value)
    assert judged.copy["uncertainty below the reference"].passed is False
    assert judged.sample["uncertainty below the reference"].passed is True


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_copy_is_caught_by_every_attack_and_a_sample_by_none(judged, attack):
    assert judged.copy[attack].passed is False
    assert judged.copy[attack].gain > 0.1
    assert judged.sample[attack].passed is True
    assert judged.sample[attack].gain == pytest.approx(0.0, abs=0.05)


def test_the_worst_attack_is_the_one_that_gains_most(judged):
    assert judged.copy.worst_attack.gain > 0.9
    # the few people who are hardest to hide are found with certainty in both: their gain is 1, and can be no more
    assert judged.copy.worst_attack.gain >= judged.noise.worst_attack.gain > judged.swap.worst_attack.gain
    assert judged.whole_swap.worst_attack.gain < 0.05
    assert judged.sample.worst_attack.gain < 0.05


def test_right_matches_are_told_in_noise(judged):
    assert judged.noise["correct nearest matches"].value > 0.7
    assert judged.noise["correct matches recognised by ambiguity"].low > 0.75
    # control: where the few right matches of a swap are a matter of luck
    assert judged.swap["correct nearest matches"].value < 0.05
    assert judged.swap["correct matches recognised by ambiguity"].low < 0.55


@pytest.mark.parametrize("measure", ["distance", "ambiguity"])
def test_the_reference_passes_the_sample_and_the_swap_and_fails_the_copies(judged, measure):
    verdicts = {
        release: getattr(judged, release)[f"{measure} below the reference"].passed
        for release in ("copy", "noise", "whole_swap", "sample")
    }
    assert verdicts == {"copy": False, "noise": False, "whole_swap": True, "sample": True}


def test_kernel_components_pass_the_sample_and_the_copy_and_fail_the_swap(judged):
    differing = {
        release: getattr(judged, release)["kernel components that differ"].passed
        for release in ("copy", "whole_swap", "sample")
    }
    assert differing == {"copy": True, "whole_swap": False, "sample": True}


def test_moments_are_kept_by_the_copy_and_the_repaired_swap_and_moved_by_a_sample(judged):
    name = "change in means"
    assert judged.copy[name].value == 0.0
    assert judged.whole_swap[name].value < 1e-9
    assert judged.sample[name].value > 0.01  # control
