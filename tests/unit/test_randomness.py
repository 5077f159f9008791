"""Without a seed, chance is that of the operating system: asked in processes of their own, as tests fix it here."""

from __future__ import annotations

import subprocess
import sys

DRAW = """
from fractions import Fraction
from sfumato.methods.discrete_noise import draw_discrete_gaussian
from sfumato.randomness import Randomness
print({}.stream("rows").integers(2**62), draw_discrete_gaussian(Fraction(2**20), 4).tolist())
"""


def drawn(randomness):
    command = [sys.executable, "-c", DRAW.format(randomness)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split(maxsplit=1)


def test_two_processes_draw_different_numbers_without_a_seed():
    (one, noise), (other, other_noise) = drawn("Randomness()"), drawn("Randomness()")
    assert one != other
    assert noise != other_noise


def test_a_seed_repeats_all_but_private_noise():
    (one, noise), (other, other_noise) = drawn("Randomness(7)"), drawn("Randomness(7)")
    assert one == other
    assert noise != other_noise
