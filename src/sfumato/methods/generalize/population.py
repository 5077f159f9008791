"""The share of released rows that match at least k people of a population, and the claim that it is large enough.

LT assumes that all D' combinations are equally likely and that their shares in the population are known. Here both
are estimated from the released rows. The probability p of a combination (cell) with c of the m rows has a gamma prior
with mean π, the product of the shares of its values, and the relative variance

    v + 1/(A·π),   v = Σ_j (1/s_j − 1/m),

where s_j is the number of rows with the same value in column j. The first part is the sampling error of the shares: a
group with s sampled values has a Beta(s, m + 1 − s) distributed share (a sum of uniform spacings), whether it was cut
at the sample's quantiles or given. The second part describes the dependence of the columns: A is large if they are
independent. The c − 1 other rows update the prior, and the number of matching people has a negative binomial
distribution.

A is unknown, too. The leave-one-out likelihood of the rows gives a 95 % confidence set for it. The *lower limit* uses
the least favourable A of that set and subtracts 1.64 standard errors of the share. If the table is the whole
population, c is the number of matching people itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import betainc

from sfumato.plan.plan import Claim, ClaimKind, Evidence, Finding
from sfumato.table.groups import (
    KeyedGroups,
    column_hashes,
    combination_hashes,
    first_rows,
    group_labels,
    refine,
    sum_by_group,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOT_REFUTED = 2.0  # accepted difference to the largest log-likelihood: 95 % confidence, for one parameter
WEIGHTS_TRIED = 41
WEIGHTS_COMPARED = 5  # number of accepted weights that are compared for the lower limit
ONE_SIDED = 1.645  # standard errors below the estimate: 95 % confidence
STEP = 1e-3  # relative change of a probability for a numerical derivative


@dataclass(frozen=True, repr=False)
class RecodedCodes:
    """The released values of a column as codes, from 0 to ``size`` − 1."""

    codes: NDArray[np.int32]
    size: int


@dataclass(frozen=True, kw_only=True)
class Matches:
    """How many rows of a release match enough people of the population."""

    share: float  # expected share of rows that match at least k people, from 0 to 1
    share_at_least: float  # its lower limit with 95 % confidence; equal to ``share`` if the population is counted
    share_within: float  # share of rows in groups of the table that may be released, from 0 to 1
    smallest_group: int  # smallest number of equal rows in the release
    groups: int


@dataclass(frozen=True, eq=False, repr=False)
class Combinations:
    """The different combinations of released values: the rows of each, and the code of its value in each column."""

    counts: NDArray[np.int64]  # (combinations,)
    codes: tuple[NDArray[np.int64], ...]  # one array per column: the code of each combination, from 0
    of_row: NDArray[np.int64]  # the combination of each row, if the rows are known

    @classmethod
    def of(cls, columns: Sequence[RecodedCodes], rows: int) -> Combinations:
        """Return the combinations of columns that are given row by row."""
        labels = np.zeros(rows, dtype=np.int64)
        for column in columns:
            labels = refine(labels, column.codes, column.size)
        first = first_rows(labels)
        codes = tuple(column.codes[first].astype(np.int64) for column in columns)
        return cls(np.bincount(labels), codes, labels)

    @property
    def rows(self) -> int:
        """Total number of rows."""
        return int(self.counts.sum())


def expected_matches(combinations: Combinations, population: int, k: int) -> Matches:
    """Estimate the share of rows that match at least ``k`` of ``population`` people in all columns."""
    rows, counts = combinations.rows, combinations.counts.astype(np.float64)
    matches = Matches(
        share=(counted := float(counts[counts >= k].sum() / rows)),
        share_at_least=counted,
        share_within=1.0,
        smallest_group=int(counts.min()),
        groups=len(counts),
    )
    if population == rows or matches.share == 1.0:
        return matches
    model = _CellModel.of(combinations, population)
    return replace(matches, share=model.share(model.likeliest, k), share_at_least=model.lower_limit(k))


@dataclass(frozen=True, eq=False, repr=False)
class _CellModel:
    """The cells of a release, and a model of their probabilities in the population."""

    combinations: Combinations
    counts: NDArray[np.float64]  # rows of each cell
    independent: NDArray[np.float64]  # π
    relative_variance: NDArray[np.float64]  # v
    rows: int
    population: int

    @classmethod
    def of(cls, combinations: Combinations, population: int) -> _CellModel:
        rows, counts = combinations.rows, combinations.counts.astype(np.float64)
        independent, variance = np.ones(len(counts)), np.zeros(len(counts))
        for codes in combinations.codes:
            shown = np.bincount(codes, weights=counts)[codes]
            independent *= shown / rows
            variance += 1.0 / shown - 1.0 / rows
        return cls(combinations, counts, independent, variance, rows, population)

    def prior(self, weight: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return shape and rate of the gamma prior of each cell's probability, for a weight A of independence."""
        shape = 1.0 / (self.relative_variance + 1.0 / (weight * self.independent))
        return shape, shape / self.independent

    @cached_property
    def _weights(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values of A, and the leave-one-out log-likelihood of the rows for each."""
        tried = np.geomspace(1.0, 1e4 * self.population, WEIGHTS_TRIED)
        likelihood = []
        for weight in tried:
            shape, rate = self.prior(weight)
            likelihood.append(self.counts @ np.log((shape + self.counts - 1.0) / (rate + self.rows - 1.0)))
        return tried, np.array(likelihood)

    @property
    def likeliest(self) -> float:
        """The value of A with the largest likelihood."""
        tried, likelihood = self._weights
        return float(tried[np.argmax(likelihood)])

    def probabilities(self, weight: float, k: int, *, factor: float = 1.0) -> NDArray[np.float64]:
        """Return P[at least k people match] for each cell; ``factor`` multiplies its expected probability."""
        shape, rate = self.prior(weight)
        others = self.population - self.rows
        still_needed = np.maximum(k - self.counts, 0.0)
        odds = others / (others + (rate + self.rows - 1.0) / factor)
        tail = betainc(np.maximum(still_needed, 1.0), shape + self.counts - 1.0, odds)
        return np.where(still_needed == 0.0, 1.0, tail)

    def share(self, weight: float, k: int) -> float:
        """Return the expected share of rows that match at least k people."""
        return float(self.counts @ self.probabilities(weight, k) / self.rows)

    def lower_limit(self, k: int) -> float:
        """Return the share for the least favourable accepted A, minus 1.64 standard errors."""
        tried, likelihood = self._weights
        kept = tried[likelihood >= likelihood.max() - NOT_REFUTED]
        some = kept[np.unique(np.linspace(0, len(kept) - 1, WEIGHTS_COMPARED).astype(np.int64))]
        worst = min(some.tolist(), key=lambda weight: self.share(weight, k))
        return max(0.0, self.share(worst, k) - ONE_SIDED * self._standard_error(worst, k))

    def _standard_error(self, weight: float, k: int) -> float:
        """Return the standard error of the share: from chance in each cell, and from errors that many cells share."""
        probability = self.probabilities(weight, k)
        part = self.counts / self.rows
        variance = float((part**2 * probability * (1.0 - probability)).sum())
        slope = part * (self.probabilities(weight, k, factor=1.0 + STEP) - probability) / STEP
        for codes in self.combinations.codes:
            shown = np.maximum(np.bincount(codes, weights=self.counts), 1.0)
            variance += float((np.bincount(codes, weights=slope) ** 2 * (1.0 / shown - 1.0 / self.rows)).sum())
        return math.sqrt(variance)


@dataclass(frozen=True, eq=False, repr=False)
class CombinationCounts:
    """The different combinations of released values: a hash of the value in each column, and the number of rows."""

    hashes: NDArray[np.uint64]  # (combinations, columns)
    counts: NDArray[np.int64]  # (combinations,)

    def merge(self, other: CombinationCounts) -> CombinationCounts:
        """Add up the rows of equal combinations."""
        groups = KeyedGroups.of_keys(np.concatenate([self.hashes, other.hashes]))
        return CombinationCounts(groups.keys.values, sum_by_group(groups, np.concatenate([self.counts, other.counts])))

    @property
    def combinations(self) -> Combinations:
        """The same with values numbered, in an order that does not depend on how the blocks were merged."""
        order = np.lexsort(self.hashes.T)
        codes = tuple(np.unique(column, return_inverse=True)[1] for column in self.hashes[order].T)
        return Combinations(self.counts[order], codes, np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class ProbabilisticAnonymity(Claim[CombinationCounts]):
    """Every row matches at least k people of the population with probability 1 − β (LT Definition 4).

    Measured on the released rows themselves: the share of rows that match k people, estimated from them, is at least
    1 − β, and the product of the numbers of different values is within the budget ``most``, if there is one (LT Theorem
    4). A budget for ``any_distribution`` needs no estimate: the share is then expected, over all rows, whatever the
    distribution is.
    """

    kind: ClassVar[ClaimKind] = "privacy"

    k: int
    population: int
    beta: float
    most: int | None  # largest number of combinations; None: whatever the estimate allows
    any_distribution: bool
    columns: Mapping[str, tuple[str, ...]]  # original column → the columns released for it

    def tally(self, evidence: Evidence) -> CombinationCounts:
        released = evidence.released
        labels = np.zeros(released.rows, dtype=np.int64)
        for names in self.columns.values():
            values = group_labels(released, names)
            labels = refine(labels, values.astype(np.int32), int(values.max(initial=-1)) + 1)
        one_each = released.take(first_rows(labels))
        hashes = np.empty((one_each.rows, len(self.columns)), dtype=np.uint64)
        for position, names in enumerate(self.columns.values()):
            hashes[:, position] = combination_hashes([column_hashes(one_each, name) for name in names])
        return CombinationCounts(hashes, np.bincount(labels, minlength=one_each.rows))

    def finding(self, tally: CombinationCounts) -> Finding:
        shown = tally.combinations
        combinations = math.prod(int(codes.max(initial=-1)) + 1 for codes in shown.codes)
        matches = expected_matches(shown, self.population, self.k)
        counted = self.population == shown.rows
        estimate = (
            f"an estimated {matches.share:.1%} of the rows, at least {matches.share_at_least:.1%} with 95 % confidence"
            ", if the table is a random sample of the population"
        )
        return self.report(
            claim=f"at least {1.0 - self.beta:.1%} of the rows match at least {self.k:,} of {self.population:,} people "
            f"in {', '.join(self.columns)}" + ("" if counted else ", with 95 % confidence"),
            held=(self.most is None or combinations <= self.most)
            and (self.any_distribution or matches.share_at_least >= 1.0 - self.beta),
            found=f"{combinations:,} combinations{'' if self.most is None else f' of at most {self.most:,}'}; "
            + (f"{matches.share:.1%} of the rows, counted" if counted else estimate)
            + f"; smallest group in the table itself {matches.smallest_group:,}",
            fix="a larger beta, a smaller k, or fewer quasi-identifiers",
        )

    @property
    def needs_original(self) -> bool:
        return False

    @property
    def protects(self) -> tuple[str, ...]:
        return tuple(name for names in self.columns.values() for name in names) if self.k > 1 else ()
