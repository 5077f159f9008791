"""Verify a release: recount every claim on the released rows, and find out which columns were altered."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import GuaranteeNotMet
from sfumato.formats.raw_files import read_frame, write_frames
from sfumato.plan.claims.containment import Containment
from sfumato.plan.plan import Claim
from sfumato.private_folder import PrivateFolder
from sfumato.table.group_counts import GroupCounts
from sfumato.table.intervals import high_name, is_interval, low_name, original_names

if TYPE_CHECKING:
    from sfumato.plan.plan import Evidence, Finding
    from sfumato.plan.questions import Question
    from sfumato.table.table import Table


T = TypeVar("T")

THREADED_ROWS = 10_000  # starting threads takes longer than counting fewer rows


def verify(claims: Iterable[Claim[Any]], evidences: Iterable[Evidence]) -> tuple[Finding, ...]:
    """Recount every claim on the released rows and raise if one does not hold.

    Each evidence is one block, and together they are the whole release. They may come from a generator: each block is
    counted and freed before the next one is requested.
    """
    recounts = [Recount(claim) for claim in claims]
    with ThreadPoolExecutor() as pool:
        for evidence in evidences:
            block = replace(evidence)  # a copy, so that groups cached in it are freed with it
            each = pool.map if block.released.rows >= THREADED_ROWS else map
            for _ in each(Recount.add, recounts, repeat(block)):
                pass
            del evidence, block  # before the next one is made
        findings = tuple(map(Recount.finding, recounts))
    require_held(findings)
    return findings


def require_held(findings: Sequence[Finding]) -> None:
    """Raise unless every claim holds."""
    broken = [finding for finding in findings if not finding.held]
    if broken:
        raise GuaranteeNotMet(
            f"The release does not keep its promises: {'; '.join(finding.claim for finding in broken)}.",
            found="; ".join(finding.found for finding in broken),
            fix="; ".join(dict.fromkeys(finding.fix for finding in broken if finding.fix)),
        )


class Recount(Generic[T]):
    """The recount of one claim, block by block.

    Tallies of equally many blocks are merged with each other, as in a merge sort: with n blocks each tally is merged
    log₂ n times.
    """

    def __init__(self, claim: Claim[T]) -> None:
        self.claim = claim
        self._blocks: list[int] = []  # number of blocks in each tally, in decreasing order
        self._tallies: list[T] = []

    def add(self, evidence: Evidence) -> None:
        """Count one more block."""
        self.include(self.claim.tally(evidence))

    def include(self, tally: T) -> None:
        """Add the tally of one more block."""
        blocks = 1
        while self._blocks and self._blocks[-1] <= blocks:
            blocks += self._blocks.pop()
            tally = self.claim.merge(self._tallies.pop(), tally)
        self._blocks.append(blocks)
        self._tallies.append(tally)

    def settled(self, gist: Any) -> tuple[T, ...]:
        """Return what the finding needs of these blocks, if no other block has their groups; nothing without blocks."""
        return (self.claim.settle(self.merged(), gist),) if self._tallies else ()

    def merged(self) -> T:
        """Return the tally of all blocks."""
        if not self._tallies:
            raise GuaranteeNotMet("Promises can only be verified on released rows.", found="no block of rows")
        return reduce(self.claim.merge, reversed(self._tallies))

    def finding(self) -> Finding:
        """Return the finding for all blocks together."""
        return self.claim.finding(self.merged())


# Tallies of very many groups: split into shares, in files of a private folder, and merged one share at a time.


SHARE_ROWS = 2_000_000  # released rows whose groups are merged together; a group has a few dozen bytes
MOST_SHARES = 256  # every share is read from every part, so that the reads of more shares would grow with the square


@dataclass(frozen=True, repr=False)
class PartTallies:
    """The tallies of all claims on one part, and its comparison with the original rows, if there are any."""

    tallies: tuple[Any, ...]
    compared: ColumnChanges | None = None

    @classmethod
    def of(cls, claims: Sequence[Claim[Any]], evidence: Evidence) -> PartTallies:
        """Count one part as it was written, with the original rows of its block."""
        return cls(tuple(claim.tally(evidence) for claim in claims), ColumnChanges.of(evidence))


@dataclass(frozen=True, repr=False)
class TallyFiles:
    """The tallies of the parts of a release, in files of a private folder that several processes may share.

    Each file has the shares of one part, one after the other. A group is in the same share of every file, so that
    shares are merged and settled apart from each other, and memory and messages are bounded however many groups there
    are. The first share also has what does not grow.
    """

    folder: Path
    claims: tuple[Claim[Any], ...]
    shares: int

    @classmethod
    def create(cls, folder: Path, claims: Sequence[Claim[Any]], rows: int) -> TallyFiles:
        """Make the folder for the tallies of a release with so many rows."""
        folder.mkdir(mode=0o700)
        return cls(folder, tuple(claims), min(max(-(-rows // SHARE_ROWS), 1), MOST_SHARES))

    def write(self, part: int, counted: PartTallies) -> Gists:
        """Write the tallies of a part, and return what all shares must know of it; a part may be written twice."""
        pairs = list(zip(self.claims, counted.tallies, strict=True))
        split = [claim.split(tally, self.shares) for claim, tally in pairs]
        frames = [
            pickle.dumps(([own[share : share + 1] for own in split], None if share else counted.compared), protocol=5)
            for share in range(self.shares)
        ]
        write_frames(self.folder / f"{part}.tallies", frames)
        return Gists(tuple(claim.gist(tally) for claim, tally in pairs))

    def settle(self, gists: Gists, shares: Sequence[int]) -> SettledTallies:
        """Merge these shares of all parts, one after the other, and return what the findings need of them."""
        return reduce(partial(SettledTallies.merge, claims=self.claims), (self._settle(gists, one) for one in shares))

    def _settle(self, gists: Gists, share: int) -> SettledTallies:
        frames = [pickle.loads(read_frame(file, share)) for file in sorted(self.folder.glob("*.tallies"))]
        changes = None if share else reduce(lambda one, other: one and one.merge(other), (one for _, one in frames))
        settled = []
        for place, (claim, gist) in enumerate(zip(self.claims, gists.of_claims, strict=True)):
            recount, own = Recount(claim), [tally for tallies, _ in frames for tally in tallies[place]]
            if all(isinstance(tally, GroupCounts) for tally in own) and len(own) > 1:
                own = [own[0].merge(*own[1:])]
            for tally in own:
                recount.include(tally)
            settled.append(recount.settled(gist))
        return SettledTallies(tuple(settled), changes)


@dataclass(frozen=True, repr=False)
class Gists:
    """What a share of each claim must know of the whole table; None for most claims."""

    of_claims: tuple[Any, ...]

    def merge(self, other: Gists) -> Gists:
        """Return what is known of the parts of both."""
        pairs = zip(self.of_claims, other.of_claims, strict=True)
        return Gists(tuple(None if one is None else one.merge(another) for one, another in pairs))


@dataclass(frozen=True, repr=False)
class SettledTallies:
    """What is left of the tallies of some shares: each is empty if the claim has no such share."""

    of_claims: tuple[tuple[Any, ...], ...]
    compared: ColumnChanges | None

    def merge(self, other: SettledTallies, claims: Sequence[Claim[Any]]) -> SettledTallies:
        """Return what is left of the shares of both."""
        both = (
            (*one, *another)[:1] if len(one) + len(another) < 2 else (claim.merge(one[0], another[0]),)
            for claim, one, another in zip(claims, self.of_claims, other.of_claims, strict=True)
        )
        return SettledTallies(tuple(both), self.compared or other.compared)

    def findings(self, claims: Sequence[Claim[Any]]) -> tuple[Finding, ...]:
        """Judge the claims, if these are all shares."""
        return tuple(claim.finding(own[0]) for claim, own in zip(claims, self.of_claims, strict=True))


def count_in_shares(claims: Sequence[Claim[Any]], counted: Iterable[PartTallies], rows: int) -> SettledTallies:
    """Merge the tallies of parts through temporary files, so that memory does not grow with the groups."""
    private = PrivateFolder.create("sfumato-recount-")
    try:
        files = TallyFiles.create(private.path / "tallies", claims, rows)
        gists = [files.write(number, part) for number, part in enumerate(counted)]
        return files.settle(reduce(Gists.merge, gists), range(files.shares))
    finally:
        private.remove()


@dataclass(frozen=True)
class AskedOfRelease(Claim[Any]):
    """A question about the released rows, which is answered part by part as promises are counted."""

    question: Question[Any]

    def tally(self, evidence: Evidence) -> Any:
        return self.question.of(evidence.released)

    def merge(self, one: Any, other: Any) -> Any:
        return self.question.merge(one, other)

    def settle(self, share: Any, gist: Any) -> Any:
        return self.question.settle(share)

    def finding(self, tally: Any) -> Finding:
        """Return that there is no promise: the answer is not judged."""
        return self.report(claim="asked, not promised", held=True, found="an answer")


# Compare released cells with the original ones: which columns were altered, and which left exactly as they were.
#
# This is measured, not declared: a method cannot forget to report it. Blocks are compared one by one and merged.


ENOUGH = 2  # different values that show that a column is not constant


@dataclass(frozen=True, repr=False)
class ColumnComparison:
    """The cells of one column, released and original; values are kept only to tell whether there is more than one."""

    contains: bool  # every cell is equal to the original one or, for categories and ranges, contains it
    same: bool  # every cell is exactly the original one
    values: frozenset[Any]  # up to two original values, the missing one too

    def merge(self, other: ColumnComparison) -> ColumnComparison:
        """Put the comparisons of two sets of rows together."""
        values = frozenset(list(self.values | other.values)[:ENOUGH])
        return ColumnComparison(self.contains and other.contains, self.same and other.same, values)


ALTERED = ColumnComparison(False, False, frozenset())


@dataclass(frozen=True, repr=False)
class ColumnChanges:
    """The columns that keep their name or are released as ranges, each compared with the original."""

    columns: Mapping[str, ColumnComparison]

    @classmethod
    def of(cls, evidence: Evidence) -> ColumnChanges:
        """Compare one block."""
        released = evidence.released.kinds
        if (evidence.origin < 0).any():  # rows that stand for nobody: no cell is that of a person
            known = original_names(evidence.released.names, evidence.original.names)
            return cls({name: ALTERED for name in known if name in evidence.original.kinds})
        shared = [name for name in evidence.released.names if name in evidence.original.kinds]
        before = evidence.original.select(shared).take(evidence.origin)
        ranges = [name for name in evidence.original.names if is_interval(name, released)]
        return cls(
            {name: _compare_column(name, before, evidence) for name in shared}
            | {
                name: ColumnComparison(not _has_rows_without_range(name, evidence), False, frozenset())
                for name in ranges
            }
        )

    def merge(self, other: ColumnChanges) -> ColumnChanges:
        """Put the comparisons of two sets of blocks together."""
        return ColumnChanges({name: one.merge(other.columns[name]) for name, one in self.columns.items()})

    @property
    def altered(self) -> tuple[str, ...]:
        """Columns whose cells were changed: swapped, noisy, recoded, or left empty. They guarantee no interval."""
        return tuple(name for name, one in self.columns.items() if not one.contains)

    @property
    def unaltered(self) -> tuple[str, ...]:
        """Columns with more than one value whose released cells are exactly the original ones."""
        return tuple(name for name, one in self.columns.items() if one.same and len(one.values) > 1)

    @property
    def constant(self) -> tuple[str, ...]:
        """Unaltered columns with a single value."""
        return tuple(name for name, one in self.columns.items() if one.same and len(one.values) <= 1)


def _compare_column(name: str, before: Table, evidence: Evidence) -> ColumnComparison:
    column = before.arrow.column(name)
    same = column.equals(evidence.released.arrow.column(name))
    contains = same or (not before.kinds[name].is_numeric and Containment(columns=(name,)).measure(evidence).held)
    return ColumnComparison(contains, same, _first_values(column) if same else frozenset())


def _has_rows_without_range(name: str, evidence: Evidence) -> bool:
    """Whether both ends are missing in a row that has a value, so that the value could be taken for a missing one."""
    ends = [evidence.released.arrow.column(end).is_null() for end in (low_name(name), high_name(name))]
    has_no_range = pc.and_(*ends)
    if not pc.any(has_no_range).as_py():
        return False
    has_value = evidence.original.arrow.column(name).take(pa.array(evidence.origin)).is_valid()
    return bool(pc.any(pc.and_(has_no_range, has_value)).as_py())


def _first_values(column: Any) -> frozenset[Any]:
    """Return up to two different values; a constant column is told by its smallest and largest value."""
    if column.null_count == len(column):
        return frozenset([None]) if len(column) else frozenset()
    values = pc.unique(column.slice(0, 1000))
    if len(values) < ENOUGH:
        values = pc.unique(column)
    return frozenset(values.slice(0, ENOUGH).to_pylist())
