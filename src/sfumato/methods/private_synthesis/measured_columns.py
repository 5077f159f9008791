"""Measure each column alone, and merge what is rare: the codes that the model works with.

A grid of more than 128 cells is counted in blocks of 32 cells first, and only blocks that clearly hold people are
counted cell by cell. The result is a partition of the codes into *leaves*, each with a noisy count. Leaves are merged
into *bins*: those of a number with their neighbours until the bins hold about equally many people, and rare categories
with each other (McKenna, Miklau & Sheldon 2021). Released values are drawn from the leaves of a bin in proportion to
their noisy counts. All of this uses noisy counts only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.private_columns import CategoryDomain
from sfumato.methods.private_synthesis.attributes import Attribute, GridAttribute

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.private_synthesis.budget_spending import Spending

FINE_CELLS = 128  # a grid of at most this many cells is counted at once, a larger one where people are
BLOCK = 32  # cells of a large grid that are counted together first
CLEAR = 3.0  # standard deviations of noise above which a count is clearly not 0
SEEN = 2.0  # the same for a leaf that is drawn by its own count
CLEARLY_MISSING = 4.0  # the same for missing values: a column without any has none by chance in 1 of 30,000 releases
FEWEST_BINS, MOST_BINS = 4, 40


@dataclass(frozen=True, repr=False)
class Leaves:
    """The parts of an attribute's codes that were counted; the last leaf is that of missing values."""

    first: NDArray[np.int64]  # first and last code of each leaf
    last: NDArray[np.int64]
    counts: NDArray[np.float64]  # noisy
    sigma: float  # standard deviation of the noise of each count

    @property
    def widths(self) -> NDArray[np.int64]:
        """Number of codes of each leaf."""
        return self.last - self.first + 1

    @property
    def has_missing(self) -> bool:
        """Whether clearly some values are missing; if not, none is released."""
        return bool(self.counts[-1] > CLEARLY_MISSING * self.sigma)

    @cached_property
    def likely(self) -> NDArray[np.float64]:
        """Likely numbers of people: noise of many empty leaves does not add up to people.

        Counts that are above the noise are taken as they are. The people of all other leaves together, if there clearly
        are any, are spread evenly over these leaves, by their widths.
        """
        seen = self.counts > SEEN * self.sigma
        seen[-1] = self.has_missing
        others = ~seen
        others[-1] = False
        rest = float(self.counts[others].sum())
        clear = rest > SEEN * self.sigma * np.sqrt(others.sum())
        spread = rest * others * self.widths / max(1.0, float(self.widths[others].sum())) if clear else 0.0
        return np.where(seen, self.counts, spread)


@dataclass(frozen=True, repr=False)
class MeasuredColumn:
    """An attribute with its leaves, and the bin of each leaf."""

    attribute: Attribute
    leaves: Leaves
    bins: NDArray[np.int64]  # of each leaf

    @property
    def size(self) -> int:
        """Number of bins."""
        return int(self.bins.max()) + 1

    @cached_property
    def leaf_of_code(self) -> NDArray[np.int64]:
        """The leaf of each code."""
        return np.repeat(np.arange(len(self.bins)), self.leaves.widths)

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """The share of each leaf in its bin; shares by width in a bin without people."""
        likely, widths = self.leaves.likely, self.leaves.widths.astype(np.float64)
        if not self.leaves.has_missing and len(widths) > 1:
            widths[-1] = 0.0
        totals, space = (np.bincount(self.bins, weights=one)[self.bins] for one in (likely, widths))
        by_width = widths / np.where(space > 0.0, space, 1.0)
        return np.where(totals > 0.0, likely / np.where(totals > 0.0, totals, 1.0), by_width)

    @property
    def drawn_leaves(self) -> NDArray[np.int64]:
        """The leaves that rows may be drawn from: missing values only if there clearly are any, or nothing else."""
        last = len(self.bins) - (not self.leaves.has_missing and len(self.bins) > 1)
        return np.arange(last)

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """The leaves without that of missing values, those of a bin side by side."""
        return np.argsort(self.bins[:-1], kind="stable")

    @property
    def histogram(self) -> dict[str, Any]:
        """The noisy counts of the leaves, as a manifest tells them; categories of a bin are side by side."""
        domain, leaves = self.attribute.domain, self.leaves
        if isinstance(self.attribute, GridAttribute):
            ends = self.attribute.ends
            parts: dict[str, list[Any]] = {"edges": [*ends[leaves.first[:-1]].tolist(), float(ends[-1])]}
        else:
            words = domain.categories if isinstance(domain, CategoryDomain) else ()
            parts = {"categories": [words[place] for place in self._order]}
        counts = [*leaves.counts[self._order].tolist(), float(leaves.counts[-1])]
        return {**parts, "kind": str(domain.kind), "counts": counts, "sigma": leaves.sigma}

    @property
    def ranges(self) -> list[list[int]]:
        """The first place, and the place after the last, of each bin in the histogram.

        Missing values are a bin of their own if they clearly are there; otherwise it is not told in which bin they are.
        """
        sizes = np.bincount(self.bins[:-1], minlength=self.size)
        first, end = np.cumsum(sizes) - sizes, np.cumsum(sizes)
        alone = sizes == 0  # only missing values
        first[alone], end[alone] = len(self.bins) - 1, len(self.bins)
        return [first.tolist(), end.tolist()]

    def bin_codes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bin of each code."""
        return self.bins[self.leaf_of_code[codes]]

    @property
    def bin_counts(self) -> NDArray[np.float64]:
        """Noisy count of each bin."""
        return np.bincount(self.bins, weights=self.leaves.counts, minlength=self.size).astype(np.float64)

    @property
    def bin_variances(self) -> NDArray[np.float64]:
        """Variance of the noise of each bin."""
        return self.leaves.sigma**2 * np.bincount(self.bins, minlength=self.size).astype(np.float64)


def measure_column(
    attribute: Attribute,
    codes: NDArray[np.int64],
    spending: Spending,
    rho: float,
    classes: NDArray[np.int64] | None = None,
) -> Leaves:
    """Measure one column with the budget ρ; codes of different declared classes are not counted together."""
    counts = np.bincount(codes, minlength=attribute.values + 1)
    if isinstance(attribute, GridAttribute) and attribute.values > FINE_CELLS:
        changes = np.flatnonzero(np.diff(np.zeros(0) if classes is None else classes[:-1])) + 1
        return _measure_by_blocks(counts, np.union1d(np.arange(0, len(counts) - 1, BLOCK), changes), spending, rho)
    answer = spending.measure(counts, rho)
    places = np.arange(len(counts))
    return Leaves(places, places, answer.numbers.astype(np.float64), answer.sigma)


def _measure_by_blocks(counts: NDArray[np.int64], starts: NDArray[np.int64], spending: Spending, rho: float) -> Leaves:
    """Return the leaves of a large grid: blocks of cells, and the cells of blocks that clearly hold people.

    The cells of a block are moved together to the count of the block, which is known better than their sum (least
    squares). Their errors are then negatively correlated, so that the sum of their variances overstates that of sums.
    """
    cells = len(counts) - 1
    starts = starts.astype(np.int64)
    in_blocks = spending.measure(np.append(np.add.reduceat(counts[:-1], starts), counts[-1]), rho / 2.0)
    split = in_blocks.numbers[:-1] > CLEAR * in_blocks.sigma * np.sqrt(BLOCK) / 2.0  # the noise of half of the cells
    ends = np.append(starts[1:], cells)
    in_cells = spending.measure(np.where(np.repeat(split, ends - starts), counts[:-1], 0), rho / 2.0)
    leaves: list[tuple[int, int, float]] = []
    for block, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        whole = float(in_blocks.numbers[block])
        if split[block]:
            own = in_cells.numbers[start:end]
            moved = own + (whole - float(own.sum())) / (end - start + 1)
            leaves.extend((cell, cell, float(moved[cell - start])) for cell in range(start, end))
        else:
            leaves.append((start, end - 1, whole))
    leaves.append((cells, cells, float(in_blocks.numbers[-1])))
    first, last, noisy = (np.array(one) for one in zip(*leaves, strict=True))
    return Leaves(first, last, noisy, max(in_blocks.sigma, in_cells.sigma))


def bin_column(
    attribute: Attribute, leaves: Leaves, bins: int, classes: NDArray[np.int64] | None = None
) -> MeasuredColumn:
    """Merge leaves of the same declared class into bins: about ``bins`` of them if it is a number."""
    own = np.zeros(len(leaves.first), dtype=np.int64) if classes is None else classes[leaves.first]
    merge = _merge_neighbours if isinstance(attribute, GridAttribute) else _merge_rare
    return MeasuredColumn(attribute, leaves, merge(leaves, bins, own))


def _merge_neighbours(leaves: Leaves, bins: int, classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bin of each leaf of a number; missing values are a bin of their own if there clearly are any."""
    likely = leaves.likely[:-1] if leaves.likely[:-1].any() else leaves.widths[:-1].astype(np.float64)
    reached = np.cumsum(likely) - likely / 2.0  # of the middle of each leaf
    place = np.floor(reached / likely.sum() * bins).astype(np.int64)
    changed = (np.diff(np.minimum(place, bins - 1)) != 0) | (np.diff(classes[:-1]) != 0)
    numbers = np.append(0, np.cumsum(changed))
    if leaves.has_missing:
        return np.append(numbers, numbers[-1] + 1)
    return np.append(numbers, np.argmin(np.bincount(numbers, weights=likely)))


def _merge_rare(leaves: Leaves, bins: int, classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bin of each category: rare ones share a bin if they clearly are people, or else join the smallest."""
    common = np.append(leaves.counts[:-1] > CLEAR * leaves.sigma, leaves.has_missing)
    if not leaves.has_missing and len(classes) > 1:  # not drawn: they may be in the bin of any class
        classes = np.append(classes[:-1], classes[np.argmax(leaves.counts[:-1])])
    merged = np.where(common, np.cumsum(common) - 1, -1)
    for own in np.unique(classes[~common]):
        rare, near = ~common & (classes == own), common & (classes == own)
        if near.any() and leaves.counts[rare].sum() <= CLEAR * leaves.sigma * np.sqrt(rare.sum()):
            merged[rare] = merged[np.argmin(np.where(near, leaves.counts, np.inf))]
        else:
            merged[rare] = merged.max() + 1
    return merged


def count_bins(rows: float, sigma: float) -> int:
    """Return how many bins a number gets, so that noise of all cells of two numbers is a quarter of the people."""
    return int(np.clip(round(np.sqrt(0.3 * max(rows, 1.0) / sigma)), FEWEST_BINS, MOST_BINS))
