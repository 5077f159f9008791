"""The design of a survey: strata and clusters of the released rows, and the sampling variance that they give.

Clusters c of stratum h (the rows themselves, if no column tells clusters) were drawn apart in each stratum. E_hc is
the sum of the influences on a statistic of the rows of a cluster; rows that do not count have influence 0. The
variance of clusters drawn with replacement (Lohr 2010, *Sampling: Design and Analysis*, 9.2 and 9.6) is

    Σ_h n_h/(n_h − 1) Σ_c (E_hc − Ē_h)².

In a stratum with one cluster, n_h/(n_h − 1) is 1 and Ē_h the mean of all clusters, which overestimates its share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.conditions import quote
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.table.groups import refine

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
NOT_USED = (
    "the design of the survey was not used, because {} is not released as it is: if people were drawn in clusters, "
    "this interval may be too short"
)


@dataclass(frozen=True, eq=False, repr=False)
class SurveyDesign:
    """The rows of a release by stratum and cluster; rows of a group of ``table`` have the same weight and cluster."""

    table: CountedBoxes  # each row with its released weight
    group: Labels  # (N,), of each row
    place: Labels  # (N,), of each row in its group, from 0
    cluster: Labels  # (N,), of each row, numbered over all strata
    stratum: Labels  # (C,), of each cluster
    strata: tuple[str, ...] = ()  # columns
    clusters: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: CountedBoxes, strata: Sequence[str], clusters: Sequence[str]) -> SurveyDesign:
        """Read the design from a table whose groups these columns tell apart, and the weights if there are some.

        Equal names of clusters in different strata are different clusters. A missing value is a value of its own.
        """
        group = np.repeat(np.arange(len(table.count)), table.count)
        first = np.cumsum(table.count) - table.count
        place = np.arange(len(group)) - first[group]
        by_group = _number(table, strata)
        if not clusters:
            return cls(table, group, place, np.arange(len(group)), by_group[group], tuple(strata))
        labels = _number(table, [*strata, *clusters])
        _, one_of_each = np.unique(labels, return_index=True)
        return cls(table, group, place, labels[group], by_group[one_of_each], tuple(strata), tuple(clusters))

    def totals(self, group: Labels, contribution: Array, rows: Labels) -> Array:
        """Return the total of each cluster from those of groups, each shared by some of the rows of the group."""
        whole = np.bincount(group, weights=contribution, minlength=len(self.table.count))
        counted = np.zeros(len(whole), dtype=np.int64)
        counted[group] = rows
        share = whole / np.maximum(counted, 1)
        own = np.where(self.place < counted[self.group], share[self.group], 0.0)
        return np.bincount(self.cluster, weights=own, minlength=len(self.stratum)).astype(np.float64)

    def centred(self, totals: Array) -> Array:
        """Centre totals of clusters, so that sums of squares (and products) are variances (and covariances)."""
        size = self._sizes
        mean = np.bincount(self.stratum, weights=totals, minlength=len(size)) / size
        mean = np.where(size == 1, totals.mean(), mean)
        factor = np.where(size == 1, 1.0, np.sqrt(size / np.maximum(size - 1, 1)))
        return np.asarray((totals - mean[self.stratum]) * factor[self.stratum])

    def freedom(self, group: Labels) -> int:
        """Return the degrees of freedom if these groups count: their clusters less their strata, at least 1.

        0 means that they are in one cluster, so that nothing is known about the differences of clusters.
        """
        counts = np.zeros(len(self.table.count), dtype=bool)
        counts[group] = True
        clusters = np.unique(self.cluster[counts[self.group]])
        return max(len(clusters) - len(np.unique(self.stratum[clusters])), 1) if len(clusters) > 1 else 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What an estimate that uses the design says about it; nothing if no column tells strata or clusters."""
        kinds = (("strata", self.strata), ("clusters", self.clusters))
        told = [f"{kind} by {', '.join(map(quote, names))}" for kind, names in kinds if names]
        notes = [f"the sampling error follows the design: {' and '.join(told)}"] if told else []
        single = int((self._sizes == 1).sum())
        if single and told:
            unit = "cluster" if self.clusters else "row"
            strata = "1 stratum has" if single == 1 else f"{single:,} strata have"
            notes.append(f"{strata} one {unit}, whose deviation from the mean of all {unit}s was taken")
        return tuple(notes)

    @property
    def _sizes(self) -> Labels:
        """The number of clusters of each stratum."""
        return np.bincount(self.stratum).astype(np.int64)


def _number(table: CountedBoxes, names: Sequence[str]) -> Labels:
    """Return equal numbers for groups that are equal in these columns."""
    labels = np.zeros(len(table.count), dtype=np.int64)
    for name in names:
        values = table.categories[name].codes if name in table.categories else table.numbers(name).low
        distinct, codes = np.unique(values, return_inverse=True)  # NaN equals NaN
        labels = refine(labels, codes.astype(np.int32), len(distinct))
    return labels
