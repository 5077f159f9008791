"""A copy whose numbers were all moved or stretched alike hides nobody (TL §6.2)."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf

MOVES = {"added": lambda x: x + 100.0, "stretched": lambda x: 3.0 * x, "bent": np.exp}


def draw_people(draw, rows=300):
    scores = draw.normal(size=(rows, 4)) @ np.array([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, -1], [0, 0, 0, 1]])
    return dict(zip("abcd", scores.T, strict=True))


@pytest.mark.parametrize("move", MOVES)
def test_a_moved_copy_of_people_fails_and_one_of_others_does_not(move):
    draw = np.random.default_rng(0)
    people, reference, others = (draw_people(draw) for _ in range(3))
    schema = dict.fromkeys("abcd", "quasi")
    attacks = ("linkability", "singling out")
    for source, passes in ((people, False), (others, True)):
        released = {name: MOVES[move](cells) for name, cells in source.items()}
        found = sf.assess(people, released, reference=reference, schema=schema, seed=1)
        verdicts = [score.passed for score in found.scores if score.name in attacks]
        assert len(verdicts) == 2
        assert all(verdicts) if passes else not any(verdicts)
