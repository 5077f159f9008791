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

One A cannot describe rows of two kinds: where two columns mostly agree, most rows are in few large cells, and the
others are spread thinly over all cells. A gamma prior that is wide enough for both takes every second row of a thin
cell for a sign of a large one. So the ratio θ = p/π of a row is also estimated as a *mixture* of any form (the
nonparametric maximum likelihood of Kiefer and Wolfowitz on a grid, by EM), from the c − 1 other rows of each row's
cell, which have a Poisson distribution with mean (m − 1)·π·θ. The lower limit is that of the less favourable model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import betainc, gammainc

from sfumato.plan.plan import Claim, ClaimKind, Evidence, Finding
from sfumato.plan.recount_sql import SqlRecount
from sfumato.table.group_counts import sum_by_group
from sfumato.table.groups import KeyedGroups, column_hashes, combination_hashes, first_rows, group_labels, refine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.recount_sql import ReleasedRows

NOT_REFUTED = 2.0  # accepted difference to the largest log-likelihood: 95 % confidence, for one parameter
WEIGHTS_TRIED = 41
WEIGHTS_COMPARED = 5  # number of accepted weights that are compared for the lower limit
ONE_SIDED = 1.645  # standard errors below the estimate: 95 % confidence
SMALLEST_RATIO, RATIOS = 1e-3, 40  # of the mixture: the smallest ratio of a grid, and how many it has
BINS = 4  # per unit of log π, in which cells are alike for the mixture
EM_ROUNDS = 50
NEWTON_STEPS, SMALLEST_STEP = 40, 1e-9  # at most this many for a multiplier; after a smaller one it is exact
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
    share = min(model.share(model.likeliest, k), model.mean_of(model.mixture.probabilities(k)))
    return replace(matches, share=share, share_at_least=min(share, model.lower_limit(k)))


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
        return self.mean_of(self.probabilities(weight, k))

    def mean_of(self, probabilities: NDArray[np.float64]) -> float:
        """Return the mean of the probabilities of cells over the rows."""
        return float(self.counts @ probabilities / self.rows)

    @cached_property
    def mixture(self) -> _Mixture:
        """The same cells, with ratios of any distribution."""
        return _Mixture.fit(self.counts, self.independent, self.rows, self.population)

    def lower_limit(self, k: int) -> float:
        """Return the lower limit of the less favourable model: the gamma prior, or the mixture."""
        mixture = self.mixture
        probability = mixture.probabilities(k)
        slope = (mixture.probabilities(k, factor=1.0 + STEP) - probability) / STEP
        uncertain = self.counts < k
        known = max(1.0, float((self.counts - 1.0)[uncertain].sum()))  # rows that tell the ratios of uncertain cells
        shared = float((self.counts / self.rows) @ slope) ** 2 / known
        error = math.sqrt(self._variance(probability, slope) + shared)
        return max(0.0, min(self._gamma_limit(k), self.mean_of(probability) - ONE_SIDED * error))

    def _gamma_limit(self, k: int) -> float:
        """Return the share for the least favourable accepted A, minus 1.64 standard errors."""
        tried, likelihood = self._weights
        kept = tried[likelihood >= likelihood.max() - NOT_REFUTED]
        some = kept[np.unique(np.linspace(0, len(kept) - 1, WEIGHTS_COMPARED).astype(np.int64))]
        worst = min(some.tolist(), key=lambda weight: self.share(weight, k))
        probability = self.probabilities(worst, k)
        slope = (self.probabilities(worst, k, factor=1.0 + STEP) - probability) / STEP
        return self.mean_of(probability) - ONE_SIDED * math.sqrt(self._variance(probability, slope))

    def _variance(self, probability: NDArray[np.float64], slope: NDArray[np.float64]) -> float:
        """Return the variance of the share: from chance in each cell, and from errors that many cells share.

        ``slope`` is how much the probability of a cell changes with its expected people, relative to them.
        """
        part = self.counts / self.rows
        variance = float((part**2 * probability * (1.0 - probability)).sum())
        for codes in self.combinations.codes:
            shown = np.maximum(np.bincount(codes, weights=self.counts), 1.0)
            variance += float((np.bincount(codes, weights=part * slope) ** 2 * (1.0 / shown - 1.0 / self.rows)).sum())
        return variance


@dataclass(frozen=True, eq=False, repr=False)
class _Mixture:
    """Cells whose probability is π·θ, where θ is one of some ratios with given weights."""

    counts: NDArray[np.float64]  # rows of each cell
    others: NDArray[np.float64]  # expected people outside the table of each cell, if θ is 1
    posterior: NDArray[np.float64]  # (cells, ratios): the probability of each ratio, given the rows of the cell
    ratios: NDArray[np.float64]

    @classmethod
    def fit(cls, counts: NDArray[np.float64], independent: NDArray[np.float64], rows: int, population: int) -> _Mixture:
        """Estimate the weights of the ratios by EM, from the other rows of each row's cell."""
        means = np.maximum((rows - 1.0) * independent, 1e-300)
        top = float((counts / means).max())
        ratios = np.geomspace(SMALLEST_RATIO, max(1.0, 2.0 * top), RATIOS)
        shown, of_cell = np.unique(
            np.column_stack([counts, np.round(np.log(means) * BINS)]), axis=0, return_inverse=True
        )
        mean = np.exp(shown[:, 1] / BINS)[:, None] * ratios
        likelihood = np.log(mean) * (shown[:, :1] - 1.0) - mean
        likelihood = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
        part = np.bincount(of_cell.ravel(), weights=counts) / rows
        weights = np.full(RATIOS, 1.0 / RATIOS)
        for _ in range(EM_ROUNDS):
            weights = _within_one(weights * (likelihood.T @ (part / (likelihood @ weights))), ratios)
        posterior = likelihood * weights
        posterior /= posterior.sum(axis=1, keepdims=True)
        return cls(counts, (population - rows) * independent, posterior[of_cell.ravel()], ratios)

    def probabilities(self, k: int, *, factor: float = 1.0) -> NDArray[np.float64]:
        """Return P[at least k people match] for each cell; ``factor`` multiplies its expected people."""
        still_needed = np.maximum(k - self.counts, 0.0)
        few = np.flatnonzero(still_needed > 0.0)
        probability = np.ones(len(self.counts))
        tail = gammainc(still_needed[few, None], factor * self.others[few, None] * self.ratios)
        probability[few] = np.minimum((self.posterior[few] * tail).sum(axis=1), 1.0)
        return probability


def _within_one(shares: NDArray[np.float64], ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the likeliest weights for these expected shares of the rows with Σ weight/θ ≤ 1.

    The cells of all rows together have Σ π = Σ p/θ, which is at most 1. Few rows that share a cell could else be taken
    for a sign that all cells are thin. By Lagrange, a weight is its share divided by 1 − b + b/θ. The sum is a convex
    function of b that is too large at 0, so Newton's steps approach the smallest b from below.
    """
    if shares @ (1.0 / ratios) <= 1.0:
        return shares
    b, slopes = 0.0, 1.0 - ratios
    for _ in range(NEWTON_STEPS):
        denominators = ratios + b * slopes
        parts = shares / denominators
        step = (parts.sum() - 1.0) / (parts @ (slopes / denominators))
        b = min(b + step, 1.0)
        if step < SMALLEST_STEP:
            break
    weights = shares / (1.0 - b + b / ratios)
    return np.asarray(weights / weights.sum())


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

    The tally is not split into shares: the estimate needs all combinations at once. The population bounds their number,
    however many rows a table has: rows that match k people have at most population ÷ k combinations.
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

    def recount_in_sql(self, rows: ReleasedRows) -> SqlRecount | None:
        """Return the recount of the budget; an estimate by a model of the population is nothing that SQL can fit."""
        if not self.any_distribution or self.most is None:
            return None
        each = (
            f"SELECT count(*) AS n FROM (SELECT DISTINCT * FROM ({rows.cells(shown)}))"
            for shown in self.columns.values()
        )
        return SqlRecount(
            required=f"at most {self.most:,} combinations of the values of all columns",
            counted="format('{:,} combinations', product(n)::BIGINT)",
            holds=f"product(n) <= {self.most}",
            queries={"columns": "\n  UNION ALL ".join(each)},
        )

    @property
    def needs_original(self) -> bool:
        return False

    @property
    def protects(self) -> tuple[str, ...]:
        return tuple(name for names in self.columns.values() for name in names) if self.k > 1 else ()
