"""Verify a release: recount every claim on the released rows. If one does not hold, nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import reduce
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sfumato.errors import GuaranteeNotMet

if TYPE_CHECKING:
    from sfumato.methods.claims import Claim, Evidence, Finding


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

    def finding(self) -> Finding:
        """Return the finding for all blocks together."""
        if not self._tallies:
            raise GuaranteeNotMet("Promises can only be verified on released rows.", found="no block of rows")
        return self.claim.finding(reduce(self.claim.merge, reversed(self._tallies)))
