"""Plans and claims: what a method decides and an engine carries out, and promises that are recounted.

    survey → Method.plan → Plan.route → Plan.transform → rows
    evidence of a block → Claim.tally → merge with the tallies of other blocks → finding
    with many groups:  tally → split into shares → merge each share → settle → merge → finding

A plan routes rows to blocks and transforms each block independently. No engine depends on a method. A tally is counted
from the released cells themselves, never from the labels of the method. A finding speaks of columns and counts and
quotes no cell. What a method reports about its work (searches, expert rules, the distance to the optimum) is for the
custodian and never written to a release.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np

from sfumato.errors import CannotRelease
from sfumato.table.groups import KeyedGroups, column_hashes
from sfumato.table.intervals import BOX, original_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.earlier_releases import EarlierReleases
    from sfumato.plan.recount_sql import ReleasedRows, SqlRecount
    from sfumato.table.table import Table


@dataclass(frozen=True, kw_only=True)
class Width:
    """The width of the interval of a kept statistic."""

    name: str
    width: float  # in the unit of the statistic


@dataclass(frozen=True, kw_only=True)
class SearchTrace:
    """A summary of a search.

    The costs of boxes are Σ_C (p_C / Δ0_C) · (half-width of C) over the kept statistics; those of groups of
    microaggregation are squared errors.
    """

    overlap: str
    rounds: int
    seconds: float
    stop: str  # "budget" or "interrupted"
    before: float
    after: float
    widths_before: tuple[Width, ...]  # of the kept statistics whose exact widths were tracked
    widths_after: tuple[Width, ...]
    cost: str = "weighted width"  # what the costs are

    @property
    def gain(self) -> float:
        """Share of the cost that was saved, from 0 to 1."""
        return 1.0 - self.after / self.before if self.before > 0.0 else 0.0


@dataclass(frozen=True, kw_only=True)
class RuleEffect:
    """The effect of one expert rule. Widths are means over the records, weighted by the truth of the rule."""

    rule: str
    column: str
    records: int
    truth: float  # sum over the records of the truth of the rule for each, from 0 to 1
    mean_factor: float  # mean over all records of the factor of this rule alone
    touched: float  # share of the records for which the rule is true to some degree, from 0 to 1
    width_without: float  # of the column's boxes without any rule, in its unit (categories: number of values − 1)
    width_with: float

    @property
    def change(self) -> float:
        """Relative change of the width of the column's boxes where the rule is true; negative if they are narrower."""
        return self.width_with / self.width_without - 1.0 if self.width_without > 0.0 else 0.0

    def merge(self, other: RuleEffect) -> RuleEffect:
        """Return the effect of the same rule on the records of both."""
        records, truth = self.records + other.records, self.truth + other.truth

        def mean(one: float, two: float, weight: float, other_weight: float) -> float:
            total = weight + other_weight
            return (one * weight + two * other_weight) / total if total > 0.0 else 0.0

        return replace(
            self,
            records=records,
            truth=truth,
            mean_factor=mean(self.mean_factor, other.mean_factor, self.records, other.records),
            touched=mean(self.touched, other.touched, self.records, other.records),
            width_without=mean(self.width_without, other.width_without, self.truth, other.truth),
            width_with=mean(self.width_with, other.width_with, self.truth, other.truth),
        )

    def __str__(self) -> str:
        direction = "wider" if self.change > 0.0 else "narrower"
        return (
            f"{self.rule}: mean factor {self.mean_factor:.2f}; applies to {self.touched:.0%} of the records, where the "
            f"boxes are {abs(self.change):.0%} {direction} in {self.column}"
        )


@dataclass(frozen=True, kw_only=True)
class Optimality:
    """The first-order width that was reached and the smallest that theory allows, in units of the wanted accuracies.

    Each is Σ_C (p_C / Δ0_C) · (half-width of C): with one kept statistic, 1 means that it is as accurate as wanted.
    ``asymptotic`` is the optimum for boxes that fill the space, ``shrunk`` the optimum for boxes shrunk to their
    records, which are narrower by (k − 1)/(k + 1) per side on average. Both are estimates, because they depend on an
    estimated density. A large table is represented by ``records`` of its records, evenly spaced.
    """

    achieved: float
    asymptotic: float  # NaN if no optimum is known
    shrunk: float
    reason: str = ""  # why no optimum is known: values repeat or are missing; empty if one is known
    records: int = 0  # number of records for which all of this was computed: all of a small table, or a sample

    @property
    def ratio(self) -> float:
        """Achieved width ÷ the optimum for shrunk boxes; near 1 if the density can be estimated well."""
        return self.achieved / self.shrunk if self.shrunk > 0.0 else math.nan


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The diagnostics of one block, or of several."""

    searches: tuple[SearchTrace, ...] = ()  # one per searched block
    rules: tuple[RuleEffect, ...] = ()

    @classmethod
    def merged(cls, traces: Iterable[Trace]) -> Trace:
        """Merge the traces of all blocks."""
        searches: tuple[SearchTrace, ...] = ()
        rules: dict[str, RuleEffect] = {}
        for trace in traces:
            searches += trace.searches
            for effect in trace.rules:
                rules[effect.rule] = rules[effect.rule].merge(effect) if effect.rule in rules else effect
        return cls(searches=searches, rules=tuple(rules.values()))


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """What a method reports about a release to the custodian; it is not part of the release.

    ``compare_with_optimum`` computes the optimality when it is first asked for. It holds sampled rows of the original,
    so it is forgotten afterwards and never pickled: a pickled object has the computed optimality in its place.
    """

    searches: tuple[SearchTrace, ...] = ()
    rules: tuple[RuleEffect, ...] = ()
    compare_with_optimum: Callable[[], Optimality | None] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def optimality(self) -> Optimality | None:
        """The width that was reached and the smallest that theory allows; None if the method has no such theory."""
        found = None if self.compare_with_optimum is None else self.compare_with_optimum()
        object.__setattr__(self, "compare_with_optimum", None)
        return found

    def __getstate__(self) -> dict[str, Any]:
        computed = self.optimality
        return {**self.__dict__, "optimality": computed}


NOTHING_HAPPENED = Trace()


@dataclass(frozen=True, repr=False)
class Outcome:
    """A transformed block: its released rows, a trace of the work and, for verification only, the origin of each row.

    ``origin[i]`` is the position in the block of released row i. Rows in = rows out + suppressed rows.
    """

    released: Table
    origin: NDArray[np.int64]
    trace: Trace = NOTHING_HAPPENED

    @property
    def rows(self) -> int:
        """Number of released rows."""
        return self.released.rows


class Plan(ABC):
    """What is done to every row, decided from the survey alone: frozen and picklable.

    ``route`` and ``transform`` are pure: they may be called in any process, in any order and repeatedly, and the same
    rows give the same result. Diagnostics are returned in the outcome's trace, and random numbers come from streams
    named after the block.
    """

    @property
    @abstractmethod
    def claims(self) -> tuple[Claim[Any], ...]:
        """The promises of the release, as code."""

    @property
    def blocks(self) -> int:
        """Number of blocks; 1 unless the plan splits the table."""
        return 1

    @property
    def needs_whole_table(self) -> bool:
        """Whether the plan can only be run on all rows at once."""
        return False

    @property
    def bytes_per_row(self) -> int:
        """Memory that one row takes while it is transformed and verified, beyond the table itself; 0: not known."""
        return 0

    @property
    def numbered(self) -> tuple[str, ...]:
        """Released columns of integer labels that the plan itself made, such as ``box``; renumbered at random."""
        return ()

    def route(self, rows: Table, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the block of each row, from 0 to blocks − 1.

        A pure function of a row's content and of its key, a number that identifies the row for every reader. Rows may
        therefore be routed in any batches.
        """
        return np.zeros(rows.rows, dtype=np.int64)

    @abstractmethod
    def transform(self, block: Table, number: int) -> Outcome:
        """Return the released rows of one block, in any order; ``number`` is the number of the block."""

    @property
    def keeps_only_values(self) -> bool:
        """Whether everybody shall keep l values, and not also k people, who fit all releases of a ledger."""
        return False

    def keep_together(self, earlier: EarlierReleases) -> Plan:
        """Return the plan with those in one group who were in one group of earlier releases; by default as it is.

        The promise over all releases is recounted whatever the method does.
        """
        return self

    def show_in_cells(self, rows: Table, released: Table) -> Table | None:
        """Return new rows in the cells of a release of this plan; None if its cells depend on all rows."""
        return None

    def diagnostics(self, trace: Trace, evidence: Evidence) -> Diagnostics:
        """Return what to report to the custodian: the merged trace and, if known, the distance to the optimum."""
        return Diagnostics(searches=trace.searches, rules=trace.rules)

    @property
    def notes(self) -> Mapping[str, Any]:
        """What the manifest may report about the method's choices: text and aggregate numbers, never a cell.

        Only names that the method declares in ``manifest_notes`` are written.
        """
        return {}


class RowwisePlan(Plan):
    """A plan that transforms each row by itself, so that any row may be in any block."""

    parts: int  # number of blocks

    @property
    def blocks(self) -> int:
        return self.parts

    def route(self, rows: Table, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        return (keys % np.uint64(self.parts)).astype(np.int64)


ClaimKind = Literal["privacy", "integrity"]
T = TypeVar("T")  # the tally

FAULT = "report this: the method has a fault"


@dataclass(frozen=True, repr=False)
class Evidence:
    """Released rows and the original rows that they were made from: one block, or the whole table.

    ``origin[i]`` is the position in ``original`` of the row that released row i stands for. Blocks share no original
    row. None of this leaves the verification.
    """

    released: Table
    original: Table
    origin: NDArray[np.int64]
    _groups: dict[tuple[str, ...], KeyedGroups] = field(default_factory=dict, init=False, compare=False)
    _lock: Lock = field(default_factory=Lock, init=False, compare=False)

    def groups(self, columns: tuple[str, ...]) -> KeyedGroups:
        """The groups of released rows that are equal in these columns, found once for all claims that ask for them."""
        with self._lock:
            if columns not in self._groups:
                self._groups[columns] = KeyedGroups.of(self.released, columns)
            return self._groups[columns]

    def people(self, person: str) -> NDArray[np.uint64]:
        """The hash of the person of each released row, from the column of the original that tells people apart."""
        return column_hashes(self.original, person)[self.origin]

    def __reduce__(self) -> tuple[type[Evidence], tuple[Any, ...]]:
        return Evidence, (self.released, self.original, self.origin)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of recounting a claim."""

    claim: str  # in words, e.g. "5-anonymous in age, sex"
    held: bool
    found: str  # in words and counts, e.g. "smallest group 5, 6,512 groups"
    fix: str = ""  # what to try when the claim does not hold
    kind: ClaimKind = "integrity"


class Claim(ABC, Generic[T]):
    """A promise about a release. A *privacy* claim protects people; an *integrity* claim says that the rows are right.

    A tally is a frozen record that can be pickled. Its blocks may be merged in any order and in any grouping: the
    finding is the same as that of the whole table. A tally may hold hashes or values of cells and is never shown.

    A tally that grows with the groups of a table has ``split`` and ``settled``. It is split into shares, so that a
    group is in the same share of every block; a merged share is complete, and only its extremes are kept. The finding
    of merged settled shares is that of the whole table, too.
    """

    kind: ClassVar[ClaimKind] = "integrity"
    recountable: ClassVar[bool] = False  # whether whoever has the released rows can recount it, without the original
    covers_every_output: ClassVar[bool] = False  # whether it holds only if nothing else about the original is published

    @abstractmethod
    def tally(self, evidence: Evidence) -> T:
        """Count one block."""

    def merge(self, one: T, other: T) -> T:
        """Put the tallies of two sets of blocks together; by default the tally itself knows how."""
        merged: T = one.merge(other)  # type: ignore[attr-defined]
        return merged

    def split(self, tally: T, shares: int) -> list[T]:
        """Return the shares of a tally; one that does not grow with the rows is the first share as a whole."""
        split: Callable[[int], list[T]] | None = getattr(tally, "split", None)
        return [tally] if split is None else split(shares)

    def gist(self, tally: T) -> Any:
        """Return what a share must know of the whole table before it is settled: small, with ``merge``, or None."""
        return None

    def settle(self, share: T, gist: Any) -> T:
        """Return what the finding needs of a share whose blocks are all merged; ``gist`` is that of the whole table."""
        settled: Callable[[], T] | None = getattr(share, "settled", None)
        return share if settled is None else settled()

    @abstractmethod
    def finding(self, tally: T) -> Finding:
        """Judge the claim by the tally of all blocks, settled or not."""

    def recount_in_sql(self, rows: ReleasedRows) -> SqlRecount | None:
        """Return the recount as SQL over the released rows, or None: then promises.sql says that verify computes it.

        It counts what ``tally`` counts and finds what ``finding`` says.
        """
        return None

    def report(self, *, claim: str, held: bool, found: str, fix: str = "") -> Finding:
        """Return a finding of the claim's kind."""
        return Finding(claim=claim, held=held, found=found, fix=fix, kind=self.kind)

    def measure(self, evidence: Evidence) -> Finding:
        """Count and judge rows that are all in one block."""
        return self.finding(self.tally(evidence))

    def count_people(self, person: str) -> Claim[Any]:
        """Return the same promise about people instead of rows, told apart by this column of the original.

        A privacy claim that cannot count people is refused: k rows may be those of one person.
        """
        if self.kind == "integrity":
            return self
        raise CannotRelease(
            "Every promise must count people where a column tells them apart.",
            found=f"{type(self).__name__}, which counts rows",
            fix="another method, such as boxes, mdav or recode, or a table with one row for each person",
        )

    @property
    def needs_original(self) -> bool:
        """Whether the original is needed to recount the claim."""
        return not self.recountable or getattr(self, "person", None) is not None

    @property
    def protects(self) -> tuple[str, ...]:
        """The released columns in which the claim guarantees that people share their values with others."""
        return ()


def format_names(released: Sequence[str]) -> str:
    """The names of these released columns as a sentence lists them: ``x`` for the ends and the count of ``x``."""
    return ", ".join(original_names(released)) or "no column"


def format_names_without_box(released: Sequence[str]) -> str:
    """The same without the number of the box, unless it is the only column."""
    return format_names([name for name in released if name != BOX] or released)


def format_count(number: int, unit: str) -> str:
    """A number of things: ``1 row``, ``2,000 rows``, ``5 people``."""
    return f"{number:,} {unit}" if number == 1 else f"{number:,} {'people' if unit == 'person' else f'{unit}s'}"


def format_counts(numbers: dict[str, int], unit: str) -> str:
    """Columns with a number of things each: ``'age' (3 rows), 'sex' (1 row)``."""
    return ", ".join(f"{name!r} ({format_count(number, unit)})" for name, number in numbers.items())
