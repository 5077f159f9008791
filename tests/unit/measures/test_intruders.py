"""Attacks: a leak fails, an honest sample passes, intervals agree with verdicts, and the worst intruder is reported."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.job.assess import assess
from sfumato.measures.assess import LEVEL, SHARES
from sfumato.measures.confidence import Interval
from sfumato.measures.privacy.attacks import anonymeter
from sfumato.measures.privacy.attacks.membership import kernel_excess

ROWS = 1000


def columns(matrix: np.ndarray) -> dict[str, np.ndarray]:
    return {f"x{place}": matrix[:, place] for place in range(matrix.shape[1])}


def membership(noise: float | None, seed: int):
    """Assess members plus noise, with the variances of the population; other people without noise."""
    draw = np.random.default_rng(seed)
    people, others, fresh = (draw.normal(size=(ROWS, 6)) for _ in range(3))
    released = fresh if noise is None else (people + noise * fresh) / np.sqrt(1.0 + noise**2)
    return assess(columns(people), columns(released), columns(others), measures=["membership"], seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_members_plus_noise_fail_and_other_people_pass(seed):
    level = LEVEL * SHARES["privacy"] / 7.0  # of a measure in an assessment with all of them
    assert min(score.p_value for score in membership(0.5, seed).scores) <= level
    assert membership(1.0, seed).passed is False
    assert min(score.p_value for score in membership(None, seed).scores) > level


def test_no_verdict_contradicts_its_interval():
    for noise in (0.7, None):
        for score in membership(noise, 7).scores:
            assert (score.low > score.chance) == (score.passed is False)
            assert score.low <= score.value <= score.high


@pytest.mark.parametrize("level", [0.05, 0.006])
@pytest.mark.parametrize("p_value", [0.0, 0.0005, 0.006, 0.05, 0.3, 1.0])
def test_an_interval_is_above_chance_if_and_only_if_the_test_fails(p_value, level):
    for interval in (Interval(0.55, 0.52, 0.58), Interval(0.55, 0.45, 0.65), Interval(0.9, 0.8, 1.0)):
        agreed = interval.agree(0.5, p_value, level)
        assert (agreed.low > 0.5) == (p_value <= level)
        assert agreed.low <= agreed.value <= agreed.high


def test_the_kernel_counts_rows_around_people_without_themselves():
    people = np.array([[0.0], [0.1], [5.0]])
    near, far = kernel_excess(people, np.array([[0.0], [5.0]]), 1.0), kernel_excess(people, np.array([[50.0]]), 1.0)
    assert near[2] > near[0]
    assert np.isfinite(near).all() and np.isfinite(far).all()


def test_descriptions_are_unique_in_the_release_and_find_copies_and_noisy_people():
    draw = np.random.default_rng(0)
    people, others, fresh = (draw.normal(size=(ROWS, 6)) for _ in range(3))
    copied = np.concatenate([people[:100], fresh[100:]])
    found = {
        name: assess(columns(people), columns(released), columns(others), measures=["singling-out"], seed=1)
        for name, released in (("noise", people + 0.1 * fresh), ("copies", copied), ("honest", fresh))
    }
    assert found["noise"]["singling out"].value > 0.8  # Anonymeter sees 0.247
    assert found["copies"]["singling out"].value > 0.08  # Anonymeter sees 0.092
    assert found["copies"]["singling out by one column"].value == pytest.approx(0.1, abs=0.03)
    assert found["honest"].passed is True
    assert found["noise"].passed is found["copies"].passed is False


@pytest.mark.parametrize(("noise", "width"), [(0.05, 0.03), (0.3, 0.1)])
def test_no_width_of_descriptions_suits_every_noise_so_that_several_are_tried(noise, width, monkeypatch):
    draw = np.random.default_rng(3)
    people, others, fresh = (columns(draw.normal(size=(300, 4))) for _ in range(3))
    released = {name: people[name] + noise * fresh[name] for name in people}

    def risk() -> float:
        return assess(people, released, others, measures=["singling-out"], seed=1)["singling out"].value

    worst = risk()
    monkeypatch.setattr(anonymeter, "AT_LEAST", ())
    monkeypatch.setattr(anonymeter, "WITHIN", (width,))
    assert worst > 1.1 * risk() > 0.0


def mixed(draw: np.random.Generator, rows: int = 300, fresh: int = 25) -> dict[str, np.ndarray]:
    """Two columns that the release below leaves as they are, after more than Fellegi and Sunter compare."""
    return columns(draw.normal(size=(rows, fresh))) | {"a": draw.normal(size=rows), "b": draw.normal(size=rows)}


@pytest.mark.parametrize(
    ("measure", "name"),
    [
        ("inference", "inference of a column, largest"),
        ("linkability", "linkability"),
        ("singling-out", "singling out"),
        ("linkage", "correct nearest matches"),
        ("linkage", "correct one-to-one matches"),
        ("fellegi-sunter", "correct Fellegi–Sunter links"),
    ],
)
def test_every_attack_is_tried_by_an_intruder_who_knows_the_columns_that_were_not_changed(measure, name):
    draw = np.random.default_rng(1)
    people, others, fresh = (mixed(draw) for _ in range(3))
    kept = np.arange(250)  # the others were suppressed
    released = {name: (people if name in "ab" else fresh)[name][kept] for name in people}
    score = assess(people, released, others, origin=kept, measures=[measure], seed=1)[name]
    assert score.value > 0.5
    assert "not changed (a, b)" in score.note


def test_columns_with_other_cells_were_changed():
    draw = np.random.default_rng(1)
    people, others, released = (mixed(draw) for _ in range(3))
    for score in assess(people, released, others, measures=["linkability", "inference"], seed=1).scores:
        assert "not changed" not in score.note


def test_raw_numbers_and_ranks_find_matches_that_logarithms_hide():
    draw = np.random.default_rng(2)
    people = columns(np.exp(draw.normal(5.0, 1.5, size=(ROWS, 4))))
    released = {name: values + 40.0 * draw.normal(size=ROWS) for name, values in people.items()}
    score = assess(people, released, origin=np.arange(ROWS), measures=["linkage"], seed=1).scores[0]
    assert "numbers" in score.note
