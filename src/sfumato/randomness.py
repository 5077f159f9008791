"""Named streams of random numbers.

Each step of a method has its own stream, so that a new step never changes the random numbers of an existing one.
Without a seed, the streams are seeded from the operating system's entropy. A seed is for tests only: whoever knows it
can undo a swap or noise, so it is a secret and is never written to a manifest. The order of released rows and the
numbers of boxes never depend on it.
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
            require_int(self.seed, name="seed", at_least=0, below=None)
        object.__setattr__(self, "_root", secrets.randbits(128) if self.seed is None else int(self.seed))

    def __repr__(self) -> str:
        return "Randomness(from the operating system)" if self.seed is None else "Randomness(from a seed)"

    def stream(self, name: str) -> np.random.Generator:
        """Return the generator of the step ``name``: equal for the same seed and name, independent otherwise."""
        return np.random.default_rng(np.random.SeedSequence(self._root, spawn_key=tuple(name.encode())))
