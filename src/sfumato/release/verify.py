"""A promise is measured again on the rows that leave; a broken one raises, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from sfumato.errors import GuaranteeNotMet
from sfumato.methods.claims import Containment

if TYPE_CHECKING:
    from sfumato.methods.claims import Claim, Evidence, Finding
    from sfumato.table.table import Table


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


def altered_columns(evidence: Evidence) -> tuple[str, ...]:
    """Columns that leave under their own name with cells that do not hold what they held: swapped, noisy or recoded.

    No interval computed from such a column is certain. It is measured, not asked: a method cannot forget to say so.
    """
    shared = [name for name in evidence.released.names if name in evidence.original.kinds]
    before = evidence.original.select(shared).take(evidence.origin)
    return tuple(name for name in shared if not _holds(name, before, evidence))


def _holds(name: str, before: Table, evidence: Evidence) -> bool:
    if before.arrow.column(name).equals(evidence.released.arrow.column(name)):
        return True
    if before.kinds[name].is_numeric:
        return False
    return Containment(columns=(name,)).measure(evidence).held
