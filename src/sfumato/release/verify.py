"""A promise is measured again on the rows that leave; a broken one raises, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from sfumato.errors import GuaranteeNotMet

if TYPE_CHECKING:
    from sfumato.methods.claims import Claim, Evidence, Finding


def verify(claims: Iterable[Claim], evidence: Evidence) -> tuple[Finding, ...]:
    """Measure every claim on the released rows; raise where one is not held."""
    with ThreadPoolExecutor() as pool:
        findings = tuple(pool.map(lambda claim: claim.measure(evidence), claims))
    broken = [finding for finding in findings if not finding.held]
    if broken:
        raise GuaranteeNotMet(
            f"The release was to be: {'; '.join(finding.claim for finding in broken)}.",
            found="; ".join(finding.found for finding in broken),
            fix="; ".join(dict.fromkeys(finding.fix for finding in broken if finding.fix)),
        )
    return findings
