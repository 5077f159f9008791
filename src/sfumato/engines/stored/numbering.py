"""Random numbers for groups that are made in separate blocks: a random permutation that is never written down.

A permutation of 0 … n − 1 must be applied by workers that know nothing of each other. A balanced Feistel network with
random keys is one on 0 … 2^b − 1, whatever its rounds compute; walking along its cycle until the number is below n
makes one of 0 … n − 1 (Black and Rogaway 2002).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDS = 6


def _keys() -> tuple[int, ...]:
    return tuple(secrets.randbits(64) for _ in range(ROUNDS))


@dataclass(frozen=True, repr=False)
class RandomNumbering:
    """A random permutation of 0 … size − 1, from keys of the operating system."""

    size: int
    keys: tuple[int, ...] = field(default_factory=_keys)

    def of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number that each of these numbers is exchanged for."""
        half = max((max(self.size - 1, 1)).bit_length() + 1, 2) // 2
        exchanged = numbers.astype(np.uint64)
        outside = np.arange(len(exchanged))
        while outside.size:
            exchanged[outside] = self._exchanged(exchanged[outside], half)
            outside = outside[exchanged[outside] >= self.size]
        return exchanged.astype(np.int64)

    def _exchanged(self, numbers: NDArray[np.uint64], half: int) -> NDArray[np.uint64]:
        mask, shift = np.uint64((1 << half) - 1), np.uint64(half)
        left, right = numbers >> shift, numbers & mask
        for key in self.keys:
            left, right = right, left ^ (_mixed(right ^ np.uint64(key)) & mask)
        return (left << shift) | right


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix all bits (the finaliser of SplitMix64)."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return result
