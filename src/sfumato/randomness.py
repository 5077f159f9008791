"""Randomness comes in by name.

A new step never shifts the draws of an old one, because each step draws from a stream of its own. Without a seed the
streams start from the operating system's entropy. A seed is for tests: whoever knows it can undo a swap or an order of
rows, so it never stands in a manifest.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import numpy as np

from sfumato.params import require_int


@dataclass(frozen=True, repr=False)
class Randomness:
    """Named, independent streams of random numbers."""

    seed: int | None = None
    _root: int = field(init=False)

    def __post_init__(self) -> None:
        if self.seed is not None:
            require_int(self.seed, name="seed", at_least=0)
        object.__setattr__(self, "_root", secrets.randbits(128) if self.seed is None else int(self.seed))

    def __repr__(self) -> str:
        return "Randomness(from the operating system)" if self.seed is None else "Randomness(from a seed)"

    def stream(self, name: str) -> np.random.Generator:
        """The generator of the step called ``name``: the same for the same seed and name, independent otherwise."""
        return np.random.default_rng(np.random.SeedSequence(self._root, spawn_key=tuple(name.encode())))
