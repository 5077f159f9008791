"""Verify a release: recount every claim on the released rows. If one does not hold, nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import reduce
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import GuaranteeNotMet
from sfumato.methods.claims import Containment
from sfumato.table.intervals import high_name, is_interval, low_name

if TYPE_CHECKING:
    from sfumato.methods.claims import Claim, Evidence, Finding
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
        blocks, tally = 1, self.claim.tally(evidence)
        while self._blocks and self._blocks[-1] <= blocks:
            blocks += self._blocks.pop()
            tally = self.claim.merge(self._tallies.pop(), tally)
        self._blocks.append(blocks)
        self._tallies.append(tally)

    def finding(self) -> Finding:
        """Return the finding for all blocks together."""
        if not self._tallies:
            raise GuaranteeNotMet("Promises can only be verified on released rows.", found="no block of rows")
        return self.claim.finding(reduce(self.claim.merge, reversed(self._tallies)))


def altered_columns(evidence: Evidence) -> tuple[str, ...]:
    """Return the columns whose released cells do not contain the original value: swapped, noisy or recoded.

    A column that is released as ranges is among them if some value lies in a row without a range. No interval from such
    a column is guaranteed. This is measured, not declared: a method cannot forget to report it.
    """
    released = evidence.released.kinds
    shared = [name for name in evidence.released.names if name in evidence.original.kinds]
    before = evidence.original.select(shared).take(evidence.origin)
    ranges = [name for name in evidence.original.names if name not in released and is_interval(name, released)]
    return (
        *(name for name in shared if not _is_kept(name, before, evidence)),
        *(name for name in ranges if _has_rows_without_range(name, evidence)),
    )


def _has_rows_without_range(name: str, evidence: Evidence) -> bool:
    """Whether both ends are missing in a row that has a value, so that its value could be taken for a missing one."""
    ends = [evidence.released.arrow.column(end).is_null() for end in (low_name(name), high_name(name))]
    has_no_range = pc.and_(*ends)
    if not pc.any(has_no_range).as_py():
        return False
    has_value = evidence.original.arrow.column(name).take(pa.array(evidence.origin)).is_valid()
    return bool(pc.any(pc.and_(has_no_range, has_value)).as_py())


def _is_kept(name: str, before: Table, evidence: Evidence) -> bool:
    """Whether every cell is equal to the original value or, for categories, contains it."""
    if before.arrow.column(name).equals(evidence.released.arrow.column(name)):
        return True
    if before.kinds[name].is_numeric:
        return False
    return Containment(columns=(name,)).measure(evidence).held


def unaltered_columns(evidence: Evidence, altered: Sequence[str], *, constant: bool = False) -> tuple[str, ...]:
    """Return the columns with more than one value (or with one) whose released cells are exactly the original ones."""
    shared = [name for name in evidence.released.names if name in evidence.original.kinds and name not in altered]
    before = evidence.original.select(shared).take(evidence.origin)
    same = [name for name in shared if before.arrow.column(name).equals(evidence.released.arrow.column(name))]
    return tuple(name for name in same if (before.coded(name).size <= 1) == constant)
