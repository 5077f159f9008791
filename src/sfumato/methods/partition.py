"""Partitions of rows, shared by several methods: their groups, the sets that are released for them, and routes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from sfumato.table.groups import mix_bits
from sfumato.table.intervals import format_set, shorten_set

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@dataclass(frozen=True, repr=False)
class BoxPartition:
    """Boxes as runs of rows: box g contains the rows order[starts[g]:starts[g + 1]]."""

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    cuts: NDArray[np.float64]  # axis, value, first and last place of the cut where a box starts; empty if not recorded

    @property
    def count(self) -> int:
        """Number of boxes."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of records in each box."""
        return np.diff(self.starts)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The box of each row, in the order of the rows in ``order``."""
        return np.repeat(np.arange(self.count), self.sizes)


def join_runs(labels: NDArray[np.int64], people: NDArray[np.int32], least: int) -> NDArray[np.int64]:
    """Join neighbouring groups, numbered 0, 1, … along a line, until each is that of at least ``least`` people."""
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels)).tolist()
    joined, number, seen = np.empty(len(ends), dtype=np.int64), 0, set[int]()
    for group, (start, end) in enumerate(pairwise([0, *ends])):
        joined[group] = number
        seen.update(people[order[start:end]].tolist())
        if len(seen) >= least:
            number, seen = number + 1, set()
    if seen and number:
        joined[joined == number] = number - 1
    return joined[labels]


WORD = 64  # bits of a word


@dataclass(frozen=True, repr=False)
class SetLabels:
    """The label of each box in a categorical column: ``labels[label_of[box]]``."""

    labels: pa.Array
    label_of: NDArray[np.int64]


def label_sets(
    boxes: BoxPartition,
    ranks: NDArray[np.float64] | NDArray[np.int32],
    values: pa.Array,
    names_at_most: int | None = None,
) -> SetLabels:
    """Return the set of values in each box as text; a box of missing values only has a missing label.

    ``ranks`` are places in ``values``, among which is the missing value if there is one. A set of more names than
    ``names_at_most`` is written as any value.
    """
    ordered = ranks[boxes.order].astype(np.int64)
    members, label_of = _few(boxes, ordered) if len(values) <= WORD else _many(boxes, ordered, len(values))
    texts = values.cast(pa.string()).to_pylist()
    labels = [format_set(shorten_set([texts[rank] for rank in one], names_at_most)) for one in members]
    distinct = pa.array(labels, pa.string()).dictionary_encode(null_encoding="encode")  # many sets may be any value
    return SetLabels(distinct.dictionary, distinct.indices.to_numpy()[label_of].astype(np.int64))


def _few(boxes: BoxPartition, ranks: NDArray[np.int64]) -> tuple[list[list[int]], NDArray[np.int64]]:
    """Return the distinct sets of at most 64 ranks, and the number of each box's set: a set is one word of bits."""
    bits = np.left_shift(np.uint64(1), ranks.astype(np.uint64))
    distinct, label_of = np.unique(np.bitwise_or.reduceat(bits, boxes.starts[:-1]), return_inverse=True)
    return [[rank for rank in range(WORD) if word >> rank & 1] for word in distinct.tolist()], label_of


def _many(boxes: BoxPartition, ranks: NDArray[np.int64], size: int) -> tuple[list[list[int]], NDArray[np.int64]]:
    """The same for any number of ranks: (box, rank) pairs are sorted, so that a set is a run of ranks."""
    pairs = np.unique(boxes.numbers * size + ranks)
    members = pairs % size
    ends = np.cumsum(np.bincount(pairs // size, minlength=boxes.count)).tolist()
    number: dict[bytes, int] = {}
    distinct: list[list[int]] = []
    label_of = np.empty(boxes.count, dtype=np.int64)
    for box, (start, end) in enumerate(pairwise([0, *ends])):
        run = members[start:end]
        label_of[box] = number.setdefault(run.tobytes(), len(number))
        if len(number) > len(distinct):
            distinct.append(run.tolist())
    return distinct, label_of


@dataclass(frozen=True, repr=False)
class Routes:
    """A binary tree of cuts in depth-first order; a leaf is a block.

    Node t sends a row to node t + 1 if its coordinate along ``axis[t]`` is at most ``threshold[t]``, else to node
    ``other[t]``. A leaf has axis −1, and ``other[t]`` is its block.

    A block that no cut can make smaller, because its rows are equal, is divided into ``pieces`` by the keys of rows:
    the first piece has the number of the block, and the others follow after all blocks.
    """

    axis: NDArray[np.int64]
    threshold: NDArray[np.float64]
    other: NDArray[np.int64]
    pieces: NDArray[np.int64]  # of each block

    @property
    def blocks(self) -> int:
        """Number of blocks, pieces included."""
        return int(self.pieces.sum())

    def of(self, places: NDArray[np.float64], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the block of each row, by its coordinates and, in blocks of several pieces, by its key."""
        block = self._leaf(places)
        if self.blocks == len(self.pieces):
            return block
        piece = (mix_bits(keys) % self.pieces.astype(np.uint64)[block]).astype(np.int64)
        first = len(self.pieces) + np.cumsum(self.pieces - 1) - (self.pieces - 1)
        return np.where(piece == 0, block, first[block] + piece - 1)

    def _leaf(self, places: NDArray[np.float64]) -> NDArray[np.int64]:
        from sfumato.methods.route_kernels import follow_cuts

        block = np.zeros(len(places), dtype=np.int64)
        if len(self.axis) > 1:
            follow_cuts(self.axis, self.threshold, self.other, places, block)
        return block


def one_block() -> Routes:
    """Return routes that send every row to block 0."""
    return Routes(np.array([-1]), np.zeros(1), np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64))


SURE = 50  # sampled rows of a block that surely has a quarter of the rows that they stand for


def least_sampled(k: int, share: float) -> int:
    """Return the least number of sampled rows of a block that k rows must be in, if a share of the rows is sampled.

    In the whole table these are 2k rows. In a small sample they stand for 4k rows or more, so that a block of a very
    large table need not be larger because k is.

    >>> least_sampled(5, 1.0), least_sampled(1000, 1.0), least_sampled(1000, 0.0004)
    (10, 2000, 50)
    """
    return min(2 * k, max(SURE, math.ceil(4 * k * share)))


SPARE = 4  # parts of a piece that can each stand alone, so that a piece that is drawn by keys surely can


def _count_pieces(rows: NDArray[np.int64], most: float, can_stand: Callable[[NDArray[np.int64]], bool]) -> int:
    """Return into how many pieces of about ``most`` rows a block is divided; fewer where these could not stand alone.

    The keys put each row into a piece at random, so a value that a piece must have must be in many of its rows.
    """
    pieces = math.ceil(len(rows) / most) if len(rows) > 2 * most else 1
    while pieces > 1 and not all(can_stand(rows[start :: SPARE * pieces]) for start in range(SPARE * pieces)):
        pieces //= 2
    return pieces


def grow_routes(
    places: NDArray[np.float64],
    most: float,
    cut_of: Callable[[NDArray[np.int64]], tuple[int, float] | None],
    can_stand: Callable[[NDArray[np.int64]], bool],
) -> Routes:
    """Cut sampled rows until no block has more than ``most`` of them; ``places`` has one column per axis.

    ``cut_of`` returns axis and threshold of the cut of a block with these rows; None if it must not be cut. A block of
    more than twice ``most`` rows that is not cut is divided by the keys of its rows, into pieces that can stand alone.
    """
    axis: list[int] = []
    threshold: list[float] = []
    other: list[int] = []
    pieces: list[int] = []
    pending: list[tuple[NDArray[np.int64], int]] = [(np.arange(len(places)), -1)]
    while pending:
        rows, parent = pending.pop()
        if parent >= 0:
            other[parent] = len(axis)
        cut = cut_of(rows) if len(rows) > most else None
        if cut is None:
            axis.append(-1)
            threshold.append(0.0)
            other.append(len(pieces))
            pieces.append(_count_pieces(rows, most, can_stand))
            continue
        axis.append(cut[0])
        threshold.append(cut[1])
        other.append(-1)
        below = places[rows, cut[0]] <= cut[1]
        pending.append((rows[~below], len(axis) - 1))
        pending.append((rows[below], -1))
    return Routes(np.array(axis), np.array(threshold), np.array(other), np.array(pieces))


LARGE = 0.25  # share of a block's rows from which a group has blocks of its own, so that blocks are about equally large


@dataclass(frozen=True, repr=False)
class HashedGroups:
    """Blocks of whole groups: a group goes to one of ``few`` blocks by its hash.

    Groups that are large by the sampled rows have blocks of their own, after these. A group of more rows than a block
    is divided into ``pieces`` by the keys of its rows.
    """

    few: int = 1
    large: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))  # hashes, in ascending order
    pieces: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # of each large group

    @classmethod
    def of(
        cls, few: int, sampled: NDArray[np.uint64], most: float, can_stand: Callable[[NDArray[np.int64]], bool]
    ) -> Self:
        """Return the blocks for groups with these hashes of sampled rows, of which a block shall have ``most``."""
        order = np.argsort(sampled, kind="stable")
        hashes, starts, counts = np.unique(sampled[order], return_index=True, return_counts=True)
        large = np.flatnonzero(counts > LARGE * most)
        groups = (order[starts[one] : starts[one] + counts[one]] for one in large)
        pieces = [_count_pieces(rows, most, can_stand) for rows in groups]
        return cls(few, hashes[large], np.array(pieces, dtype=np.int64))

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.few + int(self.pieces.sum())

    def route(self, hashes: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the block of each row, by the hash of its group and its key."""
        block = (hashes % np.uint64(self.few)).astype(np.int64)
        if len(self.large):
            place = np.minimum(np.searchsorted(self.large, hashes), len(self.large) - 1)
            rows = np.flatnonzero(self.large[place] == hashes)
            group = place[rows]
            piece = (mix_bits(keys[rows]) % self.pieces[group].astype(np.uint64)).astype(np.int64)
            block[rows] = self.few + (np.cumsum(self.pieces) - self.pieces)[group] + piece
        return block
