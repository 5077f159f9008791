"""Risk above control: what an attack gains on people inside that it does not gain on people outside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.measures.confidence import Z
from sfumato.measures.scores import Score


@dataclass(frozen=True, kw_only=True)
class Risk:
    """Success of an attack inside and outside, and what of it is the release's doing (Giomi et al., 2023).

    ``value`` is (inside − outside)/(1 − outside), from 0 (no gain) to 1 (all that could be gained was), with a 95 %
    interval by propagation of the two rates' errors.
    """

    inside: float  # rate of success on people of the original
    outside: float  # rate of success on people of the reference
    value: float
    low: float
    high: float
    attacks: int

    @classmethod
    def of(cls, inside: int, inside_trials: int, outside: int, outside_trials: int) -> Risk:
        """From successes and trials on both sides, by Wilson's estimates of the two rates."""
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
    def caught(self) -> bool:
        """Whether the attack surely gains something: the interval lies above 0."""
        return self.low > 0.0

    def score(self, name: str, note: str) -> Score:
        """The risk as a score; it passes when no gain is sure."""
        return Score(
            name=name,
            family="privacy",
            value=self.value,
            low=self.low,
            high=self.high,
            better="lower",
            rows=self.attacks,
            passed=not self.caught,
            gain=self.low,
            note=f"{note}; {self.inside:.1%} succeed inside, {self.outside:.1%} outside",
        )


@dataclass(frozen=True)
class _Rate:
    rate: float
    error: float


def _wilson(successes: int, trials: int) -> _Rate:
    if not trials:
        return _Rate(0.0, 0.5)
    spread = np.sqrt(successes * (trials - successes) / trials + Z**2 / 4.0)
    return _Rate((successes + Z**2 / 2.0) / (trials + Z**2), float(Z / (trials + Z**2) * spread))
