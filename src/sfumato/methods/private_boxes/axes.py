"""Axes of private boxes: a column cut into bins of its declared domain, and the noisy count of each bin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.methods.discrete_noise import NoisyNumbers, measure
from sfumato.methods.private_columns import Domain, NumberDomain
from sfumato.table.intervals import format_set, high_name, low_name
from sfumato.table.kinds import Kind, number_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table

BINS = 64  # of a column of numbers, fewer if it has fewer whole numbers
CLEAR = 4.0  # standard deviations of the noise from which missing values are taken for real


@dataclass(frozen=True, eq=False, repr=False)
class BinnedColumn:
    """A column as bins: ranges of equal width of its domain, or its categories. The last code stands for missing."""

    domain: Domain
    edges: NDArray[np.float64] | None  # of the bins of numbers

    @classmethod
    def of(cls, domain: Domain) -> BinnedColumn:
        """Cut the domain of a column."""
        if not isinstance(domain, NumberDomain):
            return cls(domain, None)
        if domain.kind is Kind.CONTINUOUS:
            edges = np.unique(np.linspace(domain.low, domain.high, BINS + 1))
            return cls(domain, edges if len(edges) > 1 else np.repeat(edges, 2))
        first, end = np.floor(domain.low), np.floor(domain.high) + 1.0
        return cls(domain, np.unique(np.floor(np.linspace(first, end, int(min(BINS, end - first)) + 1))))

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.domain.name

    @property
    def bins(self) -> int:
        """Number of bins, without the one of missing values."""
        return len(self.edges) - 1 if self.edges is not None else len(self.domain.categories)  # type: ignore[union-attr]

    def codes(self, table: Table) -> NDArray[np.int64]:
        """Return the bin of each row."""
        if not isinstance(self.domain, NumberDomain) or self.edges is None:
            return self.domain.codes(table)  # type: ignore[union-attr]
        numbers = self.domain.numbers(table)
        inside = np.clip(np.searchsorted(self.edges, numbers, side="right") - 1, 0, self.bins - 1)
        return np.where(np.isnan(numbers), self.bins, inside)

    def show(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> dict[str, tuple[pa.Array, Kind]]:
        """Return the released columns of boxes from bin ``low`` to just before ``high``."""
        kind = self.domain.kind
        if self.edges is None:
            words = (*self.domain.categories, None)  # type: ignore[union-attr]
            sets = [format_set(words[one:two]) for one, two in zip(low, high, strict=True)]
            return {self.name: (pa.array(sets, pa.string()), Kind.NOMINAL)}
        step = 0.0 if kind is Kind.CONTINUOUS else 1.0
        empty = low >= self.bins  # only missing values
        first = np.where(empty, np.nan, self.edges[np.minimum(low, self.bins)])
        last = np.where(empty, np.nan, self.edges[np.minimum(high, self.bins)] - step)
        type_of = pa.date32() if kind is Kind.DATE else pa.float64()
        ends = {low_name(self.name): first, high_name(self.name): last}
        return {name: (number_column(numbers, kind, type_of), kind) for name, numbers in ends.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Histogram:
    """The noisy counts of the bins of a column; the last one counts missing values."""

    axis: BinnedColumn
    noisy: NoisyNumbers

    @classmethod
    def measure(cls, axis: BinnedColumn, table: Table, *, rho: float, rows_per_person: int) -> Histogram:
        """Count the rows of each bin, with noise.

        A row is in one bin, so one person changes the counts by at most her number of rows: all may be in one bin.
        """
        counts = np.bincount(axis.codes(table), minlength=axis.bins + 1)
        return cls(axis, measure(counts, squared_sensitivity=rows_per_person**2, rho=rho))

    @property
    def weights(self) -> NDArray[np.float64]:
        """How many rows each bin probably has: never below a small number, so that every range can be cut."""
        return np.maximum(self.noisy.numbers[:-1], 0.05 * self.noisy.sigma).astype(np.float64)

    @property
    def has_missing(self) -> bool:
        """Whether clearly some values are missing, or there is nothing else to show."""
        return self.axis.bins == 0 or bool(self.noisy.numbers[-1] > CLEAR * self.noisy.sigma)

    @property
    def note(self) -> dict[str, Any]:
        """What the manifest tells."""
        axis = self.axis
        ends = {"categories": list(axis.domain.categories)} if axis.edges is None else {"edges": axis.edges.tolist()}  # type: ignore[union-attr]
        return {**ends, "kind": str(axis.domain.kind), "counts": self.noisy.numbers.tolist(), "sigma": self.noisy.sigma}
