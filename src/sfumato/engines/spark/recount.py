"""Verify the written parts on the executors: each task counts its part, and the tallies are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from sfumato.engines.base import Verified
from sfumato.release.comparison import Comparison
from sfumato.release.verify import Recount, require_held

if TYPE_CHECKING:
    from sfumato.engines.spark.cluster import Cluster
    from sfumato.engines.stored.parts import Parts, ReleasedPart
    from sfumato.methods.claims import Claim


@dataclass(frozen=True, repr=False)
class PartTallies:
    """The tallies of all claims on one part, and its comparison with the original rows."""

    tallies: tuple[Any, ...]
    compared: Comparison


@dataclass(frozen=True, repr=False)
class _Recounter:
    """Counts one part as it was written, with the original rows of its block."""

    claims: tuple[Claim[Any], ...]
    parts: Parts

    def tallies(self, part: ReleasedPart) -> PartTallies:
        evidence = self.parts.evidence(part)
        return PartTallies(tuple(claim.tally(evidence) for claim in self.claims), Comparison.of(evidence))


def verify_parts(claims: Sequence[Claim[Any]], parts: Parts, cluster: Cluster) -> Verified:
    """Measure every claim on all parts together; raise if one does not hold."""
    tallied = cluster.each(_Recounter(tuple(claims), parts).tallies, parts.parts, "verifying parts")
    recounts = [Recount(claim) for claim in claims]
    for one in tallied:
        for recount, tally in zip(recounts, one.tallies, strict=True):
            recount.include(tally)
    findings = tuple(recount.finding() for recount in recounts)
    require_held(findings)
    return Verified.of(findings, reduce(Comparison.merge, (one.compared for one in tallied)))
