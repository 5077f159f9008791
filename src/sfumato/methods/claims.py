"""Promises that a method makes, each of which can be measured again on the rows that leave.

A claim is a frozen record with one verb: ``measure(evidence)`` recounts from the released cells themselves (never from
the labels of the method) and answers with a Finding, which speaks of columns and counts and quotes no cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from sfumato.table.groups import group_labels, group_sizes, refine
from sfumato.table.intervals import parse_set

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Coded, Table

MISSING = "(missing)"  # how a released set names a missing member
PARTS = ("_low", "_high", "_missing")  # of a column that leaves as an interval
SEPARATOR = "|"  # what stands between the members of a released set


@dataclass(frozen=True, repr=False)
class Evidence:
    """What a claim may look at: what leaves, and what it was made from.

    ``origin[i]`` is the row of ``original`` that released row i stands for. It never leaves the verification.
    """

    released: Table
    original: Table
    origin: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A claim, measured."""

    claim: str  # in words, e.g. "5-anonymous in age, sex"
    held: bool
    found: str  # in words and counts, e.g. "smallest group 5, 6,512 groups"
    fix: str = ""  # what to try when it was not held


class Claim(Protocol):
    """A promise that can be measured."""

    def measure(self, evidence: Evidence) -> Finding:
        """Recount on the released rows."""
        ...


@dataclass(frozen=True, kw_only=True)
class KAnonymity:
    """Every row is equal to at least k − 1 others in the released ``columns``."""

    k: int
    columns: tuple[str, ...]

    def measure(self, evidence: Evidence) -> Finding:
        """Count the groups of equal released cells."""
        sizes = group_sizes(evidence.released, self.columns)
        smallest = int(sizes.min(initial=evidence.released.rows))
        return Finding(
            claim=f"{self.k}-anonymous in {_listed(self.columns)}",
            held=not sizes.size or smallest >= self.k,
            found=f"smallest group {smallest:,}, {sizes.size:,} groups",
            fix="allow some suppression, or protect fewer columns",
        )


@dataclass(frozen=True, kw_only=True)
class Diversity:
    """Every group of rows that are equal in the released ``columns`` holds l values of ``column``.

    Two numbers count as two values where they are at least ``epsilon`` apart, two others where they differ; a missing
    value is one value. ``hidden`` says that the column leaves as a box only, so that its original values are counted.
    """

    l: int
    columns: tuple[str, ...]
    column: str
    epsilon: float | None = None
    hidden: bool = False

    def measure(self, evidence: Evidence) -> Finding:
        """Count the values in each group of equal released cells."""
        labels = group_labels(evidence.released, self.columns)
        source = evidence.original.select([self.column]).take(evidence.origin) if self.hidden else evidence.released
        if self.epsilon:
            values = values_apart(labels, source.numbers(self.column), epsilon=self.epsilon, at_most=self.l)
        else:
            values = values_distinct(labels, source.coded(self.column))
        poor = int((values < self.l).sum())
        return Finding(
            claim=f"{self.l} values of {self.column!r}{self._apart} in each group of rows",
            held=poor == 0,
            found=f"{poor:,} groups with fewer, of {values.size:,}" if poor else f"all of {values.size:,} groups",
            fix=f"a smaller l, a smaller epsilon for {self.column!r}, or some suppression",
        )

    @property
    def _apart(self) -> str:
        return f" at least {self.epsilon:g} apart" if self.epsilon else ""


@dataclass(frozen=True, kw_only=True)
class Containment:
    """Every original value of ``columns`` lies in what was released for it, and so does a missing one.

    A number lies between ``x_low`` and ``x_high``; where some are missing, ``x_missing`` is how many rows of the box
    lack it. A category is a member of its set, or of what a released word ``covers`` (column → word → members). A
    column that leaves under its own name as a number or a day leaves as it is.
    """

    columns: tuple[str, ...]
    covers: Mapping[str, Mapping[str, frozenset[str | None]]] = field(default_factory=dict, repr=False)

    def measure(self, evidence: Evidence) -> Finding:
        """Hold every original value against its released cell."""
        original = evidence.original.select(self.columns).take(evidence.origin)
        outside = {name: self._outside(name, evidence.released, original) for name in self.columns}
        broken = [f"{name!r} ({count:,} rows)" for name, count in outside.items() if count]
        return Finding(
            claim=f"every value lies in what was released for it, in {_listed(self.columns)}",
            held=not broken,
            found=f"values outside in {', '.join(broken)}" if broken else f"{evidence.released.rows:,} rows inside",
            fix="report this: the method has a fault",
        )

    def _outside(self, name: str, released: Table, original: Table) -> int:
        """Number of rows whose original value is not in the released cell."""
        if f"{name}_low" in released.kinds:
            return _outside_interval(name, released, original.numbers(name))
        if original.kinds[name].is_numeric:
            before, after = original.numbers(name), released.numbers(name)
            return int((~((before == after) | (np.isnan(before) & np.isnan(after)))).sum())
        return _outside_set(original.coded(name), released.coded(name), self.covers.get(name, {}))


@dataclass(frozen=True, kw_only=True)
class RowsAccountedFor:
    """Every original row is released once or suppressed, and at most this share of them is suppressed."""

    suppressed_at_most: float = 0.0  # share of the original rows, from 0 to 1

    def measure(self, evidence: Evidence) -> Finding:
        """Count the rows and look for repeats among their origins."""
        rows, origin = evidence.original.rows, evidence.origin
        known = bool(origin.size == 0 or (origin.min() >= 0 and origin.max() < rows))
        seen = np.zeros(rows, dtype=bool)
        seen[origin if known else []] = True
        once = known and origin.size == evidence.released.rows and int(seen.sum()) == origin.size
        suppressed = rows - origin.size
        return Finding(
            claim=f"every row released once, or suppressed (at most {self.suppressed_at_most:.2%})",
            held=once and suppressed <= self.suppressed_at_most * rows * (1 + 1e-12),
            found=f"{rows:,} rows in, {evidence.released.rows:,} out, {suppressed:,} suppressed"
            + ("" if once else ", rows that stand for none or for another's"),
            fix="a larger share of suppressed rows" if once else "report this: the method has a fault",
        )


@dataclass(frozen=True, kw_only=True)
class ColumnsAllowed:
    """No other columns leave than these."""

    names: tuple[str, ...]

    def measure(self, evidence: Evidence) -> Finding:
        """Compare the names of what leaves."""
        others = [name for name in evidence.released.names if name not in self.names]
        return Finding(
            claim=f"no column leaves but {_listed(self.names)}",
            held=not others,
            found=f"also {_listed(others)}" if others else f"{len(evidence.released.names)} columns",
            fix="report this: the method has a fault",
        )


def values_distinct(labels: NDArray[np.int64], coded: Coded) -> NDArray[np.int64]:
    """Number of different values in each group, a missing one counted as a value."""
    if not labels.size:
        return np.zeros(0, dtype=np.int64)
    pairs = refine(labels, coded.codes, coded.size)
    group_of_pair = np.empty(int(pairs.max()) + 1, dtype=np.int64)
    group_of_pair[pairs] = labels
    return np.bincount(group_of_pair, minlength=int(labels.max()) + 1)


def values_apart(
    labels: NDArray[np.int64], numbers: NDArray[np.float64], *, epsilon: float, at_most: int
) -> NDArray[np.int64]:
    """How many values of each group are pairwise at least ``epsilon`` apart, counted up to ``at_most``.

    Greedy from the smallest upward, which is the largest such choice on a line. Each round takes one more value in all
    groups at once, so the cost is that of a sort and ``at_most`` passes.
    """
    if not labels.size:
        return np.zeros(0, dtype=np.int64)
    order = np.lexsort((numbers, labels))  # NaN sorts last in its group
    group, value = labels[order], numbers[order]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    is_missing = np.isnan(value)
    chosen = np.full(starts.size, -np.inf)
    values = np.logical_or.reduceat(is_missing, starts).astype(np.int64)
    for _ in range(at_most):
        far_enough = np.where((value - chosen[group] >= epsilon) & ~is_missing, value, np.inf)
        nearest = np.minimum.reduceat(far_enough, starts)
        values += nearest < np.inf
        chosen = nearest  # inf ends the count of a group: nothing is far enough from it
    return np.minimum(values, at_most)


def _outside_interval(name: str, released: Table, numbers: NDArray[np.float64]) -> int:
    """Rows whose number is not in its interval, or whose box miscounts the rows without a number."""
    is_missing = np.isnan(numbers)
    low, high = released.numbers(f"{name}_low"), released.numbers(f"{name}_high")
    outside = ~is_missing & ~((low <= numbers) & (numbers <= high))
    if f"{name}_missing" not in released.kinds:
        return int((outside | is_missing).sum())
    box = group_labels(released, ["box"]) if "box" in released.kinds else group_labels(released, released.names)
    counted = np.bincount(box, weights=is_missing)[box]
    return int((outside | (counted != released.numbers(f"{name}_missing"))).sum())


def _outside_set(original: Coded, released: Coded, covers: Mapping[str, frozenset[str | None]]) -> int:
    """Rows whose category is not in its released set: every pair of set and value is judged once, with its count."""
    pairs = original.codes.astype(np.int64) * released.size + released.codes
    distinct, counts = np.unique(pairs, return_counts=True)
    values = original.values.cast(pa.string()).to_pylist()
    words = released.values.cast(pa.string()).to_pylist()
    members = [frozenset(parse_set(word)) | covers.get(word or "", frozenset()) for word in words]
    outside = 0
    for pair, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        outside += 0 if values[pair // released.size] in members[pair % released.size] else count
    return outside


def _listed(names: Iterable[str]) -> str:
    """Names of released columns, the parts of an interval told as the one column that they are."""
    given = list(names)
    whole = {f"{name.removesuffix('_low')}{part}" for name in given if name.endswith("_low") for part in PARTS}
    told = [
        next(name.removesuffix(part) for part in PARTS if name.endswith(part)) if name in whole else name
        for name in given
    ]
    return ", ".join(dict.fromkeys(told)) or "no column"
