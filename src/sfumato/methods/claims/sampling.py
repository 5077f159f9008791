"""The claim of differential privacy by random sampling and data-independent generalization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sfumato.disclosure.sampling_privacy import sampling_delta
from sfumato.methods.claims.base import Claim, ClaimKind, Evidence, Finding, counted
from sfumato.table.group_counts import GroupCounts


@dataclass(frozen=True, eq=False, repr=False)
class SampledGroups:
    """The sizes of the released groups, and the released columns."""

    groups: GroupCounts
    names: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class SampledPrivacy(Claim[SampledGroups]):
    """(ε, δ)-differential privacy: each row was kept with probability ``beta`` and generalized by fixed levels.

    What the rows can show is recounted: all released columns form the groups, every group has at least ``k`` rows, and
    k and β give at most δ. That rows were drawn at random, and that the levels were chosen without looking at the
    table, cannot be seen in a release: the first is the method's, the second the user's part.
    """

    kind: ClassVar[ClaimKind] = "privacy"
    recountable: ClassVar[bool] = True
    covers_every_output: ClassVar[bool] = True

    epsilon: float
    delta: float
    beta: float
    k: int
    columns: tuple[str, ...]

    def tally(self, evidence: Evidence) -> SampledGroups:
        return SampledGroups(GroupCounts.of(evidence.groups(self.columns)), frozenset(evidence.released.names))

    def merge(self, one: SampledGroups, other: SampledGroups) -> SampledGroups:
        return SampledGroups(one.groups.merge(other.groups), one.names | other.names)

    def finding(self, tally: SampledGroups) -> Finding:
        smallest = int(tally.groups.counts.min(initial=tally.groups.rows))
        delta = sampling_delta(self.k, self.beta, self.epsilon)
        others = len(tally.names.difference(self.columns))
        return Finding(
            claim=f"({self.epsilon:g}, {self.delta:g})-differentially private by sampling, if the levels were chosen "
            "without looking at the table",
            held=smallest >= self.k and delta <= self.delta * (1.0 + 1e-9) and not others,
            found=f"smallest group {smallest:,}, delta {delta:.3g}"
            + (f"; {counted(others, 'column')} outside the groups" if others else ""),
            fix="a larger epsilon or delta, or coarser levels",
            kind=self.kind,
        )

    @property
    def protects(self) -> tuple[str, ...]:
        return self.columns
