"""Risk relative to a control group: how much more often an attack succeeds on people inside than on people outside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.measures.confidence import Interval, Z
from sfumato.release.assessment import Score


@dataclass(frozen=True, kw_only=True)
class AttackRisk:
    """The success rates of an attack inside and outside, and the risk that the release causes (Giomi et al., 2023).

    ``value`` is (inside − outside)/(1 − outside), from 0 (no gain) to 1 (every attack succeeds). Its 95 % interval
    comes from propagation of the errors of the two rates.
    """

    inside: float  # success rate on people of the original
    outside: float  # success rate on people of the reference
    value: float
    low: float
    high: float
    attacks: int

    @classmethod
    def of(cls, inside: int, inside_trials: int, outside: int, outside_trials: int) -> AttackRisk:
        """Compute the risk from successes and trials on both sides, with Wilson's estimates of the two rates."""
        main, control = _wilson(inside, inside_trials), _wilson(outside, outside_trials)
        left = max(1.0 - control.rate, 1e-12)
        value = (main.rate - control.rate) / left
        margin = float(np.hypot(main.error / left, (main.rate - 1.0) / left**2 * control.error))
        return cls(
            inside=inside / max(1, inside_trials),
            outside=outside / max(1, outside_trials),
            value=min(1.0, max(0.0, value)),
            low=min(1.0, max(0.0, value - margin)),
            high=min(1.0, max(0.0, value + margin)),
            attacks=inside_trials,
        )

    @property
    def is_significant(self) -> bool:
        """Whether the interval is above 0, so that the attack gains something with 95 % confidence."""
        return self.low > 0.0

    def score(self, name: str, note: str, p_value: float | None = None) -> Score:
        """Return the risk as a score; ``p_value`` is the probability of such a risk by chance."""
        note += f"; success rate {self.inside:.1%} inside the table, {self.outside:.1%} outside"
        interval = Interval(self.value, self.low, self.high)
        return interval.score(name, rows=self.attacks, note=note, p_value=p_value, gain=self.low)


@dataclass(frozen=True)
class _Rate:
    rate: float
    error: float


def _wilson(successes: int, trials: int) -> _Rate:
    if not trials:
        return _Rate(0.0, 0.5)
    spread = np.sqrt(successes * (trials - successes) / trials + Z**2 / 4.0)
    return _Rate((successes + Z**2 / 2.0) / (trials + Z**2), float(Z / (trials + Z**2) * spread))
