"""Claims about what was done before the method: pseudonyms by a secret key, and dates shifted by person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow.compute as pc

from sfumato.methods.claims.base import FAULT, Claim, Evidence, Finding, counted
from sfumato.table.secret_keys import PSEUDONYM, collision_probability


@dataclass(frozen=True, repr=False)
class PseudonymCounts:
    """The pseudonyms of a column; never shown."""

    rows: int
    missing: int
    strange: int  # cells that are no pseudonyms
    values: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Pseudonyms(Claim[PseudonymCounts]):
    """A column holds pseudonyms and nothing else; with ``one_row_each``, no pseudonym is in two rows."""

    recountable: ClassVar[bool] = True

    column: str
    one_row_each: bool

    def tally(self, evidence: Evidence) -> PseudonymCounts:
        cells = evidence.released.arrow.column(self.column)
        fits = pc.match_substring_regex(cells, f"^{PSEUDONYM.pattern}$")
        strange = len(cells) - cells.null_count - (pc.sum(fits).as_py() or 0)
        return PseudonymCounts(len(cells), cells.null_count, strange, frozenset(cells.unique().drop_null().to_pylist()))

    def merge(self, one: PseudonymCounts, other: PseudonymCounts) -> PseudonymCounts:
        return PseudonymCounts(
            one.rows + other.rows,
            one.missing + other.missing,
            one.strange + other.strange,
            one.values | other.values,
        )

    def finding(self, tally: PseudonymCounts) -> Finding:
        people, named = len(tally.values), tally.rows - tally.missing
        found = f"{counted(people, 'pseudonym')} in {counted(named, 'row')}, {tally.missing:,} missing"
        found += f", {tally.strange:,} other cells" if tally.strange else ""
        chance = collision_probability(people)
        each = "one row for each" if self.one_row_each else "several rows of a person share one"
        return Finding(
            claim=f"{self.column} holds only pseudonyms by a secret key, {each}; this is no anonymity",
            held=not tally.strange and (people == named or not self.one_row_each),
            found=f"{found}; probability that any two people share one below {max(chance, 1e-30):.1g}",
            fix=FAULT,
            kind=self.kind,
        )


@dataclass(frozen=True, kw_only=True)
class DatesShifted(Claim[None]):
    """All dates of a person were shifted by the same days; made only after this was verified on the original."""

    columns: tuple[str, ...]
    by: str
    days: int
    people: int

    def tally(self, evidence: Evidence) -> None:
        return None

    def merge(self, one: None, other: None) -> None:
        return None

    def finding(self, tally: None) -> Finding:
        return Finding(
            claim=f"all dates of a person in {', '.join(self.columns)} are shifted by the same 1 to {self.days:,} days "
            "to either side, and all promises speak of the shifted dates; the shift guarantees no privacy",
            held=True,
            found=f"distances between the dates of {counted(self.people, 'person').replace('persons', 'people')} kept, "
            "compared before the method",
            kind=self.kind,
        )
