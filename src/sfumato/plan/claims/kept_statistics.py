"""Claims about what is kept: values, means and covariances, the total of weights, and that probabilities add up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.plan.plan import FAULT, Claim, Evidence, Finding, format_count, format_names
from sfumato.statistics.generalized_moments import Products
from sfumato.statistics.moments import Moments
from sfumato.table.groups import GroupKeys, KeyedGroups, column_hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table

LANES = (b"marginal", b"second marginal")  # salts of two independent sums
MODULUS = 2**64


@dataclass(frozen=True, repr=False)
class ValueSums:
    """For each column the difference of the sums of the hashes of all cells, released minus original, and the rows.

    Sums do not depend on the order of rows, and those of blocks can be added up. Two different collections of values
    have the same two sums with a probability of about 2⁻¹²⁸.
    """

    differences: Mapping[str, tuple[int, ...]]
    rows: int  # released minus original
    released: int


@dataclass(frozen=True, kw_only=True)
class MarginalsKept(Claim[ValueSums]):
    """Each of ``columns`` has exactly the values of the original, missing ones too, each in as many rows."""

    columns: tuple[str, ...]

    def tally(self, evidence: Evidence) -> ValueSums:
        differences = {
            name: tuple(
                (_sum(evidence.released, name, lane) - _sum(evidence.original, name, lane)) % MODULUS for lane in LANES
            )
            for name in self.columns
        }
        released = evidence.released.rows
        return ValueSums(differences, released - evidence.original.rows, released)

    def merge(self, one: ValueSums, other: ValueSums) -> ValueSums:
        differences = {
            name: tuple((a + b) % MODULUS for a, b in zip(one.differences[name], other.differences[name], strict=True))
            for name in self.columns
        }
        return ValueSums(differences, one.rows + other.rows, one.released + other.released)

    def finding(self, tally: ValueSums) -> Finding:
        changed = [name for name in self.columns if any(tally.differences[name])]
        return self.report(
            claim=f"every value is in as many rows as in the original, in {format_names(self.columns)}",
            held=not changed and tally.rows == 0,
            found=f"{f'other values of {format_names(changed)}' if changed else 'the values of the original'} in "
            f"{format_count(tally.released, 'row')}",
            fix=FAULT,
        )


def _sum(table: Table, name: str, lane: bytes) -> int:
    return int(column_hashes(table, name, lane).sum(dtype=np.uint64))


@dataclass(frozen=True, eq=False, repr=False)
class BothMoments:
    """Moments before and after, of numbers from which ``shift`` was subtracted.

    Shifted numbers are of the size of their standard deviations, so that means and covariances keep all their digits
    however far from zero the column lies.
    """

    shift: NDArray[np.float64]  # (columns,)
    original: Moments
    released: Moments
    missing: int  # rows with a missing or an infinite number, before and after

    @classmethod
    def of(cls, original: NDArray[np.float64], released: NDArray[np.float64]) -> BothMoments:
        """Moments of the rows of two matrices."""
        shift = original.mean(axis=0) if len(original) else np.zeros(original.shape[1])
        shift = np.where(np.isfinite(shift), shift, 0.0)
        before, after = Moments.of(_finite(original - shift)), Moments.of(_finite(released - shift))
        return cls(shift, before, after, len(original) + len(released) - before.records - after.records)

    def merge(self, other: BothMoments) -> BothMoments:
        """The moments of the rows of both, from which the shift of the larger was subtracted."""
        if self.original.records < other.original.records:
            return other.merge(self)
        step = other.shift - self.shift
        return BothMoments(
            self.shift,
            self.original.merge(replace(other.original, mean=other.original.mean + step)),
            self.released.merge(replace(other.released, mean=other.released.mean + step)),
            self.missing + other.missing,
        )

    @property
    def largest_error(self) -> float:
        """Largest difference of a mean in standard deviations, or of a covariance in products of them."""
        if self.missing or not self.original.records or not self.released.records:
            return math.nan
        mean, spread = self.shift + self.original.mean, self.original.sd
        # a constant column is held against its own size; what is left of it are rounding errors
        scale = np.where(spread > 1e-15 * np.abs(mean), spread, np.maximum(np.abs(mean), 1.0))
        means = np.abs(self.released.mean - self.original.mean) / scale
        covariances = np.abs(self.released.covariance - self.original.covariance) / np.outer(scale, scale)
        return float(max(means.max(), covariances.max()))

    @property
    def largest_change_of_a_correlation(self) -> float:
        """Largest difference of two correlations; those of a constant column are 0."""
        if self.missing or not self.original.records or not self.released.records:
            return math.nan
        before, after = (_correlations(one) for one in (self.original, self.released))
        return float(np.abs(after - before).max(initial=0.0))


def _correlations(moments: Moments) -> NDArray[np.float64]:
    scale = np.where(moments.sd > 0.0, moments.sd, np.inf)
    return np.asarray(moments.covariance / np.outer(scale, scale))


def _finite(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The matrix with NaN for infinite numbers."""
    return np.where(np.isinf(matrix), np.nan, matrix) if np.isinf(matrix).any() else matrix


@dataclass(frozen=True, kw_only=True)
class MomentsKept(Claim[BothMoments]):
    """Means and covariances of ``columns`` are those of the original.

    An error of a mean counts in standard deviations of the column, one of a covariance in products of them.
    """

    columns: tuple[str, ...]
    tolerance: float = 1e-9

    def tally(self, evidence: Evidence) -> BothMoments:
        return BothMoments.of(evidence.original.matrix(self.columns), evidence.released.matrix(self.columns))

    def finding(self, tally: BothMoments) -> Finding:
        error = tally.largest_error
        return self.report(
            claim=f"means and covariances of {format_names(self.columns)} kept to {self.tolerance:g}",
            held=error <= self.tolerance,
            found=f"largest relative error {error:.1e}",
            fix="repair=False, which promises nothing of the moments",
        )


@dataclass(frozen=True, eq=False, repr=False)
class BothSums:
    """Rows, sums of products of powers before and after, and sums of the squares of those before."""

    rows: tuple[int, int]
    original: NDArray[np.float64]
    released: NDArray[np.float64]
    squares: NDArray[np.float64]

    @property
    def largest_error(self) -> float:
        """Largest difference of two means, in root mean squares of the product."""
        if not all(self.rows):
            return math.nan
        before, after = self.original / self.rows[0], self.released / self.rows[1]
        return float((np.abs(after - before) / np.maximum(np.sqrt(self.squares / self.rows[0]), 1.0)).max(initial=0.0))


@dataclass(frozen=True, kw_only=True)
class HigherMomentsKept(Claim[BothSums]):
    """The means of all products of powers of ``columns`` up to a degree are those of the original.

    Numbers are first brought to about mean 0 and standard deviation 1 by ``centres`` and ``scales``: if all moments
    up to a degree are kept, so are those around any other centre.
    """

    columns: tuple[str, ...]
    degree: int
    centres: tuple[float, ...]
    scales: tuple[float, ...]
    tolerance: float = 1e-9

    def tally(self, evidence: Evidence) -> BothSums:
        products = Products.up_to(self.degree, len(self.columns))
        before, after = (
            (one.matrix(self.columns) - np.array(self.centres)) / np.array(self.scales)
            for one in (evidence.original, evidence.released)
        )
        sums, squares = products.sums(before)
        return BothSums((len(before), len(after)), sums, products.sums(after)[0], squares)

    def merge(self, one: BothSums, other: BothSums) -> BothSums:
        return BothSums(
            (one.rows[0] + other.rows[0], one.rows[1] + other.rows[1]),
            one.original + other.original,
            one.released + other.released,
            one.squares + other.squares,
        )

    def finding(self, tally: BothSums) -> Finding:
        error = tally.largest_error
        return self.report(
            claim=f"moments up to degree {self.degree} of {format_names(self.columns)} kept to {self.tolerance:g}",
            held=error <= self.tolerance,
            found=f"largest relative error {error:.1e}",
            fix="degree=2, which keeps means and covariances only",
        )


@dataclass(frozen=True, kw_only=True)
class CorrelationsKept(Claim[BothMoments]):
    """No correlation of two of ``columns`` differs from that of the original by more than ``change``."""

    columns: tuple[str, ...]
    change: float  # largest allowed difference of two correlations

    def tally(self, evidence: Evidence) -> BothMoments:
        return BothMoments.of(evidence.original.matrix(self.columns), evidence.released.matrix(self.columns))

    def finding(self, tally: BothMoments) -> Finding:
        found = tally.largest_change_of_a_correlation
        return self.report(
            claim=f"correlations of {format_names(self.columns)} within {self.change:g} of the original",
            held=found <= self.change * (1.0 + ROUNDED_CHANGE),
            found=f"largest change {found:.2g}",
            fix="a larger limit, or none",
        )


LEVELS = 32  # of changes of a cell, from 0 to the limit, of which each gives a bound


@dataclass(frozen=True, eq=False, repr=False)
class ExcessSums:
    """Sums over rows of how much the change of a cell exceeds each of some levels: (column, sign, level)."""

    levels: NDArray[np.float64]
    sums: NDArray[np.float64]
    rows: int

    @classmethod
    def of(cls, changes: NDArray[np.float64], levels: NDArray[np.float64]) -> ExcessSums:
        """Add up the changes of cells, one row per row and one column per column."""
        signed = np.stack([changes, -changes], axis=2)
        return cls(
            levels, np.stack([np.maximum(signed - one, 0.0).sum(axis=0) for one in levels], axis=2), len(changes)
        )

    def merge(self, other: ExcessSums) -> ExcessSums:
        """The sums of the rows of both."""
        return ExcessSums(self.levels, self.sums + other.sums, self.rows + other.rows)

    def bound(self, share: float) -> float:
        """Return a bound of the change of a mean over any subset that has at least this share of the rows.

        The mean over the worst subset is the mean of the largest changes. For each level c it is at most
        c + Σ max(change − c, 0) / (share · rows), with equality for their smallest one (Rockafellar and Uryasev, 2000).
        """
        if not self.rows:
            return 0.0
        return float((self.levels + self.sums / (share * self.rows)).min(axis=2).max(initial=0.0))


@dataclass(frozen=True, kw_only=True)
class SubsetMeansKept(Claim[ExcessSums]):
    """No mean of one of ``columns`` changed by more than ``change``, over any ``share`` of the rows or more.

    A change counts in standard deviations of the column in the original, ``spreads``.
    """

    columns: tuple[str, ...]
    spreads: tuple[float, ...]
    change: float
    share: float

    @property
    def levels(self) -> NDArray[np.float64]:
        """The levels of changes at which the mean is bounded."""
        return np.linspace(0.0, self.change, LEVELS + 1)

    def tally(self, evidence: Evidence) -> ExcessSums:
        before = evidence.original.matrix(self.columns)[evidence.origin]
        changes = (evidence.released.matrix(self.columns) - before) / np.array(self.spreads)
        return ExcessSums.of(np.where(np.isfinite(changes), changes, np.inf), self.levels)

    def finding(self, tally: ExcessSums) -> Finding:
        found = tally.bound(self.share)
        return self.report(
            claim=f"means of {format_names(self.columns)} over any {self.share:.3g} of the rows, or more, within "
            f"{self.change:g} standard deviations of the original",
            held=found <= self.change * (1.0 + ROUNDED_CHANGE),
            found=f"changes by at most {found:.2g}",
            fix="a larger limit, or none",
        )


ROUNDED_CHANGE = 1e-9  # relative error of a change of a correlation that counts as rounding
TOLERANCE = 1e-9  # relative error of a total that counts as rounding


@dataclass(frozen=True, eq=False, repr=False)
class WeightTotals:
    """Total weight of the rows of each box, in the original and in the release."""

    keys: GroupKeys
    original: NDArray[np.float64]  # (boxes,)
    released: NDArray[np.float64]  # (boxes,)

    @classmethod
    def of(cls, groups: KeyedGroups, original: NDArray[np.float64], released: NDArray[np.float64]) -> WeightTotals:
        """Add up the weights of each group."""
        before, after = (
            np.bincount(groups.labels, weights=one, minlength=groups.size).astype(np.float64)
            for one in (original, released)
        )
        return cls(groups.keys, before, after)

    def merge(self, other: WeightTotals) -> WeightTotals:
        """Add up the weights of boxes that have the same key."""
        return WeightTotals.of(
            KeyedGroups.of_keys(self.keys.followed_by(other.keys)),
            np.concatenate([self.original, other.original]),
            np.concatenate([self.released, other.released]),
        )

    def split(self, shares: int) -> list[WeightTotals]:
        """Return the boxes of each share."""
        own_boxes = self.keys.shares(shares)
        return [WeightTotals(self.keys.take(own), self.original[own], self.released[own]) for own in own_boxes]

    def settled(self) -> BoxTotals:
        """Return what is left of boxes that no other part has."""
        changed = int((~(np.abs(self.released - self.original) <= TOLERANCE * self.original)).sum())
        return BoxTotals(len(self.original), changed, float(self.original.sum()), float(self.released.sum()))


@dataclass(frozen=True)
class BoxTotals:
    """Boxes that are complete, those with another total than in the original, and the totals of all boxes."""

    boxes: int
    changed: int
    original: float
    released: float

    def merge(self, other: BoxTotals) -> BoxTotals:
        """Return the totals of both."""
        return BoxTotals(
            self.boxes + other.boxes,
            self.changed + other.changed,
            self.original + other.original,
            self.released + other.released,
        )

    def settled(self) -> BoxTotals:
        """Return this record: nothing is left to forget."""
        return self

    @property
    def is_kept(self) -> bool:
        """Whether the total of the table is that of the original."""
        return abs(self.released - self.original) <= TOLERANCE * self.original


@dataclass(frozen=True, kw_only=True)
class WeightTotalsKept(Claim[Any]):
    """The weights of the rows that share a box have the same total as in the original, up to rounding."""

    weight: str
    box: str  # released column that numbers the boxes

    def tally(self, evidence: Evidence) -> WeightTotals:
        original = evidence.original.numbers(self.weight)[evidence.origin]
        return WeightTotals.of(evidence.groups((self.box,)), original, evidence.released.numbers(self.weight))

    def finding(self, tally: WeightTotals | BoxTotals) -> Finding:
        told = tally.settled()
        changed = told.changed
        return self.report(
            claim=f"the total of {self.weight} in each box, and in all released rows, is that of the original rows",
            held=not changed and told.is_kept,
            found=f"{format_count(changed, 'total')} changed"
            if changed
            else f"{format_count(told.boxes, 'total')} kept",
            fix=FAULT,
        )


@dataclass(frozen=True)
class ProbabilityEnds:
    """The lowest and highest probability, the largest difference of a sum from 1, and the rows."""

    low: float
    high: float
    error: float
    rows: int


@dataclass(frozen=True, kw_only=True)
class ProbabilitiesAddUp(Claim[ProbabilityEnds]):
    """The columns of each of ``distributions`` hold probabilities that add up to 1 in every row, with ten digits."""

    distributions: tuple[tuple[str, ...], ...]

    def tally(self, evidence: Evidence) -> ProbabilityEnds:
        low, high, error = 0.0, 0.0, 0.0
        for names in self.distributions:
            numbers = evidence.released.matrix(names)
            low, high = min(low, float(numbers.min(initial=0.0))), max(high, float(numbers.max(initial=0.0)))
            error = max(error, float(np.abs(numbers.sum(axis=1) - 1.0).max(initial=0.0)))
        return ProbabilityEnds(low, high, error, evidence.released.rows)

    def merge(self, one: ProbabilityEnds, other: ProbabilityEnds) -> ProbabilityEnds:
        return ProbabilityEnds(
            min(one.low, other.low), max(one.high, other.high), max(one.error, other.error), one.rows + other.rows
        )

    def finding(self, tally: ProbabilityEnds) -> Finding:
        return self.report(
            claim="released probabilities add up to 1 in every row",
            held=tally.low >= 0.0 and tally.high <= 1.0 and tally.error <= 1e-10,
            found=f"differences of at most {tally.error:.1g} in {format_count(tally.rows, 'row')}",
            fix=FAULT,
        )
