"""The released labels of categorical columns: the set of the values in a group of rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.table.intervals import format_set, shortened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.leaves import Leaves

WORD = 64  # bits of a word


@dataclass(frozen=True, repr=False)
class SetLabels:
    """The label of each box in a categorical column: ``labels[label_of[box]]``."""

    labels: pa.Array
    label_of: NDArray[np.int64]


def sets(
    leaves: Leaves,
    ranks: NDArray[np.float64] | NDArray[np.int32],
    values: pa.Array,
    names_at_most: int | None = None,
) -> SetLabels:
    """Return the set of values in each box as text; a box of missing values only has a missing label.

    ``ranks`` are places in ``values``, among which is the missing value if there is one. A set of more names than
    ``names_at_most`` is written as any value.
    """
    ordered = ranks[leaves.order].astype(np.int64)
    members, label_of = _few(leaves, ordered) if len(values) <= WORD else _many(leaves, ordered, len(values))
    texts = values.cast(pa.string()).to_pylist()
    labels = [format_set(shortened([texts[rank] for rank in one], names_at_most)) for one in members]
    distinct = pa.array(labels, pa.string()).dictionary_encode(null_encoding="encode")  # many sets may be any value
    return SetLabels(distinct.dictionary, distinct.indices.to_numpy()[label_of].astype(np.int64))


def _few(leaves: Leaves, ranks: NDArray[np.int64]) -> tuple[list[list[int]], NDArray[np.int64]]:
    """Return the distinct sets of at most 64 ranks, and the number of each box's set: a set is one word of bits."""
    bits = np.left_shift(np.uint64(1), ranks.astype(np.uint64))
    distinct, label_of = np.unique(np.bitwise_or.reduceat(bits, leaves.starts[:-1]), return_inverse=True)
    return [[rank for rank in range(WORD) if word >> rank & 1] for word in distinct.tolist()], label_of


def _many(leaves: Leaves, ranks: NDArray[np.int64], size: int) -> tuple[list[list[int]], NDArray[np.int64]]:
    """The same for any number of ranks: (box, rank) pairs are sorted, so that a set is a run of ranks."""
    pairs = np.unique(np.repeat(np.arange(leaves.count), leaves.sizes) * size + ranks)
    members = pairs % size
    ends = np.cumsum(np.bincount(pairs // size, minlength=leaves.count)).tolist()
    number: dict[bytes, int] = {}
    distinct: list[list[int]] = []
    label_of = np.empty(leaves.count, dtype=np.int64)
    for box, (start, end) in enumerate(pairwise([0, *ends])):
        run = members[start:end]
        label_of[box] = number.setdefault(run.tobytes(), len(number))
        if len(number) > len(distinct):
            distinct.append(run.tolist())
    return distinct, label_of
