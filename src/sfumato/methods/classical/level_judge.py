"""What a combination of levels would release: which groups, how many suppressed rows, and how much is lost.

Losses, from 0 for the original; a suppressed row loses as much as one that tells nothing:

- granularity: share of a column's values that a cell leaves open, (values − 1) ÷ (all values − 1), as a mean;
- entropy: −log₂ of the share of the value among the rows of its group of values, as a share of the largest
  (non-uniform entropy, Gionis and Tassa 2009);
- discernibility: Σ n² over the groups, plus all rows for each suppressed row, ÷ rows² (Bayardo and Agrawal 2005);
- class-size: rows ÷ released groups ÷ k (the average class size of LeFevre et al. 2006).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.disclosure.recoding_losses import discernibility
from sfumato.disclosure.sensitive_counts import SensitiveCounts
from sfumato.methods.recodings.joint_counts import JointCounts
from sfumato.methods.recodings.level_search import Evaluation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.classical.group_rules import GroupRules, SensitiveColumn
    from sfumato.methods.recodings.level_search import Levels
    from sfumato.methods.recodings.value_groupings import Groupings

Loss = Literal["granularity", "entropy", "discernibility", "class-size"]
LOSSES: tuple[Loss, ...] = ("granularity", "entropy", "discernibility", "class-size")
OVERFLOW = 1 << 62  # keys of groups must fit into 64 bits


class RecodingCost:
    """The objective of a search over levels: counts the groups, suppressed rows and losses of one combination.

    ``people`` are the values of a population table in each column; if they are given, k speaks of them.
    """

    def __init__(
        self,
        columns: Sequence[Groupings],
        rules: GroupRules,
        sensitive: Sequence[SensitiveColumn],
        *,
        loss: Loss,
        suppress: float,
        people: Sequence[NDArray[np.int32]] | None = None,
    ) -> None:
        self._rules, self._loss, self._suppresses = rules, loss, suppress > 0.0
        self.rows = len(columns[0].value_of_row)
        self._most = suppress * self.rows * (1.0 + 1e-12)
        joint = JointCounts.of(_followed_by(columns, people))
        self._counts = np.bincount(joint.of_row[: self.rows], minlength=len(joint.counts))
        self._people = None if people is None else np.bincount(joint.of_row[self.rows :], minlength=len(joint.counts))
        self._sensitive = [
            (one, SensitiveCounts.of(joint.of_row[: self.rows], one.codes, len(one.values))) for one in sensitive
        ]
        self._codes = [
            [(level[column.value_of_row].astype(np.int64), int(level.max()) + 1) for level in column.levels]
            for column in joint.columns
        ]
        by_value = value_losses(columns, loss)
        self._losses = [
            [level[column.value_of_row] for level in losses]
            for column, losses in zip(joint.columns, by_value, strict=True)
        ]
        self.order = [np.array([self._counts @ level for level in losses]) / self.rows for losses in self._losses]
        self._labels = np.empty(len(self._counts), dtype=np.int64)
        self._sizes = np.empty(len(self._counts), dtype=np.int64)

    @property
    def has_floors(self) -> bool:
        """Whether the sum of ``order`` is the least that a combination can lose."""
        return self._loss in ("granularity", "entropy")

    @property
    def is_monotone(self) -> bool:
        """Whether promises that hold for a combination hold for all coarser ones."""
        return self._rules.is_monotone or not self._suppresses

    def evaluate(self, levels: Levels) -> Evaluation:
        """Count one combination."""
        labels, sizes, people = self._grouped(levels)
        counted = [
            (one.rule, SensitiveCounts.of(labels[pairs.group], pairs.value, pairs.values, pairs.count), one.values)
            for one, pairs in self._sensitive
        ]
        allowed = self._rules.allowed(sizes, counted, people)
        kept = int(sizes[allowed].sum())
        above = 0.0
        if self._loss == "discernibility":
            above = discernibility(sizes) / self.rows**2
        elif self._loss == "class-size":
            above = self.rows / len(sizes) / self._rules.k
        if not kept or self.rows - kept > self._most or not self._rules.are_enough(sizes[allowed]):
            return Evaluation(holds=False, loss=math.inf)
        return Evaluation(holds=True, loss=self._lost(levels, labels, sizes, allowed), above=above)

    def _lost(
        self, levels: Levels, labels: NDArray[np.int64], sizes: NDArray[np.int64], allowed: NDArray[np.bool_]
    ) -> float:
        if self._loss == "class-size":
            return self.rows / int(allowed.sum()) / self._rules.k
        if self._loss == "discernibility":
            kept = sizes[allowed]
            return discernibility(kept, suppressed=self.rows - int(kept.sum())) / self.rows**2
        lost = sum(float(of_column[level]) for of_column, level in zip(self.order, levels, strict=True))
        left_out = np.flatnonzero((labels >= 0) & ~allowed[labels])  # these combinations lose everything
        for losses, level in zip(self._losses, levels, strict=True):
            more = losses[-1][left_out] - losses[level][left_out]
            lost += float(self._counts[left_out] @ more) / self.rows
        return lost

    def _grouped(self, levels: Levels) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
        """Return the group of each combination of values, and the rows and people of each group.

        Groups without rows, which only the population has, are left out; their label is −1.
        """
        from sfumato.kernels.hashed_groups import grouped

        keys, size = np.zeros(len(self._counts), dtype=np.int64), 1
        for of_column, level in zip(self._codes, levels, strict=True):
            codes, nodes = of_column[level]
            if size * nodes >= OVERFLOW:
                size = grouped(keys, self._counts, self._labels, self._sizes)
                keys = self._labels.copy()
            keys = keys * nodes + codes
            size *= nodes
        groups = grouped(keys, self._counts, self._labels, self._sizes)
        sizes = self._sizes[:groups].copy()
        if self._people is None:
            return self._labels, sizes, None
        people = np.bincount(self._labels, weights=self._people, minlength=groups).astype(np.int64)
        present = sizes > 0
        number = np.where(present, np.cumsum(present) - 1, -1)
        return number[self._labels], sizes[present], people[present]


def value_losses(columns: Sequence[Groupings], loss: Loss) -> list[list[NDArray[np.float64]]]:
    """Return the loss of each value of each column on each level, such that rows that tell nothing lose 1 in total."""
    if loss != "entropy":
        return [[column.losses(covered) for covered in column.covered] for column in columns]
    bits = [_lost_bits(column) for column in columns]
    most = sum(
        float(np.bincount(column.value_of_row, minlength=column.size) @ of_column[-1]) / len(column.value_of_row)
        for column, of_column in zip(columns, bits, strict=True)
    )
    return [[level / (most or 1.0) for level in of_column] for of_column in bits]


def _lost_bits(column: Groupings) -> list[NDArray[np.float64]]:
    """Return −log₂ of the share of each value among the rows of its group, times the weight of the column."""
    rows = np.bincount(column.value_of_row, minlength=column.size).astype(np.float64)
    bits = []
    for level in column.levels:
        together = np.bincount(level, weights=rows)[level]
        share = np.divide(rows, together, out=np.ones_like(rows), where=rows > 0.0)
        bits.append(-np.log2(share) * column.weight)
    return bits


def _followed_by(columns: Sequence[Groupings], people: Sequence[NDArray[np.int32]] | None) -> tuple[Groupings, ...]:
    if people is None:
        return tuple(columns)
    return tuple(
        replace(column, value_of_row=np.concatenate([column.value_of_row, values]))
        for column, values in zip(columns, people, strict=True)
    )
