"""What recoded columns promise, measured again on the rows that leave."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.claims import Evidence, Finding
from sfumato.methods.probabilistic.population_matches import ShownColumn, expected_matches
from sfumato.methods.probabilistic.recoding import texts
from sfumato.table.groups import group_labels, group_sizes

if TYPE_CHECKING:
    from sfumato.table.table import Table


@dataclass(frozen=True, kw_only=True)
class EachColumnAnonymous:
    """Whatever is shown in a column by itself is shown in at least k rows (LT Definition 6).

    It says nothing of columns together: a row may still be the only one with its combination.
    """

    k: int
    columns: Mapping[str, tuple[str, ...]]  # original column → the columns that leave for it

    def measure(self, evidence: Evidence) -> Finding:
        """Count the rows of each shown value."""
        smallest = {
            name: int(group_sizes(evidence.released, released).min()) for name, released in self.columns.items()
        }
        short = [f"{name!r} ({size:,} rows)" for name, size in smallest.items() if size < self.k]
        return Finding(
            claim=f"every value of {', '.join(self.columns)} by itself stands in at least {self.k:,} rows",
            held=not short,
            found=f"rarer values in {', '.join(short)}"
            if short
            else f"the rarest stands in {min(smallest.values()):,}",
            fix="a smaller k, or all rows in one block",
        )


@dataclass(frozen=True, kw_only=True)
class AtMostValues:
    """No column shows more than this many different values, a missing one apart."""

    most: int
    columns: Mapping[str, tuple[str, ...]]  # original column → the columns that leave for it

    def measure(self, evidence: Evidence) -> Finding:
        """Count the different values."""
        shown = {name: _values_shown(evidence.released, released) for name, released in self.columns.items()}
        over = [f"{name!r} ({values:,})" for name, values in shown.items() if values > self.most]
        return Finding(
            claim=f"at most {self.most:,} values in each of {', '.join(self.columns)}",
            held=not over,
            found=f"more in {', '.join(over)}" if over else f"at most {max(shown.values()):,}",
        )


@dataclass(frozen=True, kw_only=True)
class ProbabilisticAnonymity:
    """Every row matches at least k people of the population with probability 1 − β (LT Definition 4).

    Measured twice: the product of the numbers of different values is within the budget ``most`` (LT Theorem 4), and the
    share of rows that find k people alike, estimated from the released rows themselves, is at least 1 − β. A budget for
    ``any_distribution`` needs no estimate: the share is then expected, over all rows, whatever the distribution is.
    """

    k: int
    population: int
    beta: float
    most: int
    any_distribution: bool
    columns: Mapping[str, tuple[str, ...]]  # original column → the columns that leave for it

    def measure(self, evidence: Evidence) -> Finding:
        """Count what is shown in each column, and how many rows look alike in all of them."""
        shown = [_shown(evidence.released, names) for names in self.columns.values()]
        combinations = math.prod(column.size for column in shown)
        found = expected_matches(shown, evidence.released.rows, self.population, self.k)
        return Finding(
            claim=f"every row matches at least {self.k:,} of {self.population:,} people in {', '.join(self.columns)} "
            f"with probability {1.0 - self.beta:g}",
            held=combinations <= self.most and (self.any_distribution or found.share >= 1.0 - self.beta),
            found=f"{combinations:,} combinations of at most {self.most:,}; {found.share:.1%} of the rows expected to "
            f"match so many; at least {found.smallest_group:,} alike in the table itself",
            fix="a larger beta, a smaller k, or fewer quasi-identifiers",
        )


@dataclass(frozen=True, kw_only=True)
class Truthful:
    """Every original value is one of those that the released cell stands for.

    ``ranges`` are numeric columns that leave as x_low and x_high; ``covers`` says what each word of the other columns
    stands for. A missing value leaves as a missing one, or under a word that covers it.
    """

    ranges: tuple[str, ...] = ()
    covers: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict, repr=False)

    def measure(self, evidence: Evidence) -> Finding:
        """Hold every original value against its released cell."""
        names = (*self.ranges, *self.covers)
        original = evidence.original.select(names).take(evidence.origin)
        outside = {name: _outside_range(name, original, evidence.released) for name in self.ranges}
        for name, covered in self.covers.items():
            outside[name] = _outside_words(name, original, evidence.released, covered)
        broken = [f"{name!r} ({rows:,} rows)" for name, rows in outside.items() if rows]
        return Finding(
            claim=f"every value lies in what was released for it, in {', '.join(names)}",
            held=not broken,
            found=f"values outside in {', '.join(broken)}" if broken else f"{evidence.released.rows:,} rows inside",
            fix="report this: the method has a fault",
        )


def _shown(released: Table, names: tuple[str, ...]) -> ShownColumn:
    labels = group_labels(released, names)
    return ShownColumn(labels.astype(np.int32), int(labels.max(initial=-1)) + 1)


def _values_shown(released: Table, names: tuple[str, ...]) -> int:
    shown = len(group_sizes(released, names))
    return shown - int(released.arrow.column(names[0]).null_count > 0)


def _outside_range(name: str, original: Table, released: Table) -> int:
    numbers = original.numbers(name)
    low, high = released.numbers(f"{name}_low"), released.numbers(f"{name}_high")
    unknown = np.isnan(low) & np.isnan(high)  # says nothing, so nothing false
    return int((~unknown & ~((low <= numbers) & (numbers <= high))).sum())


def _outside_words(name: str, original: Table, released: Table, covers: Mapping[str, frozenset[str]]) -> int:
    """Every pair of value and word is judged once, with its count."""
    before, after = original.coded(name), released.coded(name)
    pairs, counts = np.unique(before.codes.astype(np.int64) * after.size + after.codes, return_counts=True)
    members, words = texts(before.values), texts(after.values)
    return sum(
        int(count)
        for pair, count in zip(pairs.tolist(), counts, strict=True)
        if members[pair // after.size] not in covers.get(words[pair % after.size], ())
    )
