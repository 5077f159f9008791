"""One currency for private measurements: zero-concentrated differential privacy (Bun and Steinke 2016), ρ-zCDP.

Budgets of measurements of the same people add up. What is said to a reader is (ε, δ), converted by the tightest known
bound (Canonne, Kamath and Steinke 2020, proposition 12): ρ-zCDP is (ε, δ)-differentially private with

    δ = min over α > 1 of e^((α − 1)(αρ − ε)) ÷ (α − 1) · (1 − 1/α)^α.

Every α gives a true bound, so that an α found in floating point loses nothing but tightness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from sfumato.plan.plan import Claim, ClaimKind, Evidence, Finding, format_count, format_names
from sfumato.plan.recount_sql import ReleasedRows, SqlRecount, literal

ROUNDS = 90  # halvings of an interval: more than the bits of a number

UNSEEN = "; that the noise was drawn so is stated, the rows alone cannot show it"


def delta_of(rho: float, epsilon: float) -> float:
    """Return a δ with which ρ-zCDP is (ε, δ)-differentially private.

    Examples
    --------
    >>> f"{delta_of(0.05, 1.0):.1e}"
    '3.9e-04'
    """
    if rho <= 0.0:
        return 0.0
    low, high = 1.0 + 1e-12, (epsilon + 1.0) / (2.0 * rho) + 2.0
    for _ in range(ROUNDS):  # the derivative of the logarithm grows with α
        middle = (low + high) / 2.0
        if (2.0 * middle - 1.0) * rho - epsilon + math.log1p(-1.0 / middle) < 0.0:
            low = middle
        else:
            high = middle
    alpha = (low + high) / 2.0
    logarithm = (alpha - 1.0) * (alpha * rho - epsilon) + alpha * math.log1p(-1.0 / alpha) - math.log(alpha - 1.0)
    return min(1.0, math.exp(min(logarithm, 0.0)) * (1.0 + 1e-9))


@lru_cache(maxsize=64)
def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest ρ, rounded down, with which ρ-zCDP is (ε, δ)-differentially private.

    Examples
    --------
    >>> round(rho_of(1.0, 1e-6), 5)
    0.02436
    """
    low, high = 0.0, epsilon + 1.0
    for _ in range(ROUNDS):
        middle = (low + high) / 2.0
        if delta_of(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low


def epsilon_of(rho: float, delta: float) -> float:
    """Return the smallest ε, rounded up, with which ρ-zCDP is (ε, δ)-differentially private.

    Examples
    --------
    >>> round(epsilon_of(rho_of(1.0, 1e-6), 1e-6), 9)
    1.0
    """
    if rho <= 0.0:
        return 0.0
    low, high = 0.0, rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))  # Bun and Steinke, proposition 1.3
    for _ in range(ROUNDS):
        middle = (low + high) / 2.0
        if delta_of(rho, middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def rho_of_pure(epsilon: float) -> float:
    """Return the ρ of a measurement that is ε-differentially private: ε²/2 (Bun and Steinke, proposition 1.4)."""
    return epsilon * epsilon / 2.0


def rho_of_choice(epsilon: float) -> float:
    """Return the ρ of a choice by the exponential mechanism with ε: ε²/8 (Cesar and Rogers 2021)."""
    return epsilon * epsilon / 8.0


@dataclass(frozen=True, repr=False)
class ReleasedForm:
    """The columns and the number of released rows: all that can be seen of a release that was drawn from noise."""

    names: frozenset[str]
    rows: int

    def merge(self, other: ReleasedForm) -> ReleasedForm:
        """Put two sets of blocks together."""
        return ReleasedForm(self.names | other.names, self.rows + other.rows)


@dataclass(frozen=True, kw_only=True)
class MeasuredPrivacy(Claim[ReleasedForm]):
    """(ε, δ)-differential privacy: everything released was computed from noisy measurements of cost ρ in total.

    The unit is one person with at most ``rows_per_person`` rows, or one row if that is None: whether she is in the
    table changes the probability of any release by a factor of at most e^ε, except with probability δ. What a reader
    can recount is the form: only these columns are released, and ρ and ``chance`` give no more than δ. That the noise
    was drawn as the theory asks cannot be seen in a release; it is the method's part, which its tests audit.
    """

    kind: ClassVar[ClaimKind] = "privacy"
    recountable: ClassVar[bool] = True
    covers_every_output: ClassVar[bool] = True

    epsilon: float
    delta: float
    rho: float
    columns: tuple[str, ...]
    rows_per_person: int | None = None
    chance: float = 0.0  # of δ: with which categories that were found privately may show a single person

    @classmethod
    def of(
        cls, *, epsilon: float, delta: float, columns: tuple[str, ...], rows_per_person: int | None, chance: float = 0.0
    ) -> MeasuredPrivacy:
        """Return the promise with the largest budget that (ε, δ) allows."""
        rho = rho_of(epsilon, delta - chance)
        return cls(
            epsilon=epsilon, delta=delta, rho=rho, columns=columns, rows_per_person=rows_per_person, chance=chance
        )

    @property
    def _measured(self) -> str:
        delta = delta_of(self.rho, self.epsilon) + self.chance
        return f"measurements of rho = {self.rho:.4g}, which is delta {delta:.3g} at this epsilon"

    def tally(self, evidence: Evidence) -> ReleasedForm:
        return ReleasedForm(frozenset(evidence.released.names), evidence.released.rows)

    def finding(self, tally: ReleasedForm) -> Finding:
        others = sorted(tally.names.difference(self.columns))
        delta = delta_of(self.rho, self.epsilon) + self.chance
        unit = "row"
        if self.rows_per_person is not None:
            unit = f"person with at most {format_count(self.rows_per_person, 'row')}"
        return self.report(
            claim=f"({self.epsilon:g}, {self.delta:g})-differentially private for one {unit}",
            held=not others and delta <= self.delta * (1.0 + 1e-9),
            found=self._measured + (f"; also {format_names(others)}" if others else "") + UNSEEN,
            fix="report this: the method has a fault",
        )

    def recount_in_sql(self, rows: ReleasedRows) -> SqlRecount:
        """Return the recount of the form; δ follows from ρ and ε alone, and the noise cannot be seen."""
        delta = delta_of(self.rho, self.epsilon) + self.chance
        others = f"NOT name IN ({', '.join(map(literal, self.columns))})"
        return SqlRecount(
            required=f"no other column than these {len(self.columns):,}, and delta at most {self.delta:g}",
            counted=f"{literal(self._measured)} || coalesce({literal('; also ')} || string_agg(name, ', ' "
            f"ORDER BY name) FILTER (WHERE {others}), '') || {literal(UNSEEN)}",
            holds=f"count(*) FILTER (WHERE {others}) = 0 AND {delta!r} <= {self.delta * (1.0 + 1e-9)!r}",
            queries={"names": rows.schema_names()},
        )

    def count_people(self, person: str) -> MeasuredPrivacy:
        """Return the promise itself: it counts people already, if a column tells them apart."""
        return self

    @property
    def protects(self) -> tuple[str, ...]:
        return self.columns
