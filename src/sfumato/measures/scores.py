"""One number about a release, and how far it can be trusted."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Literal

Family = Literal["privacy", "utility"]
Better = Literal["higher", "lower"]


@dataclass(frozen=True, kw_only=True)
class Score:
    """A measured number with its interval, its direction and the rows used.

    ``passed`` is the verdict against the reference, where there is one: a release is private when it tells no more of
    its people than a sample without them would, and faithful when it differs no more than such a sample does.
    """

    name: str
    family: Family
    value: float
    better: Better  # higher or lower is better
    rows: int  # rows the number comes from
    low: float | None = None  # 95 % interval of the value; None where there is none to give
    high: float | None = None
    passed: bool | None = None
    gain: float | None = None  # of an attack: what it surely gains over blind guessing (95 %), from 0 to 1
    note: str = ""  # in words: unit, subject, assumption

    def to_plain(self) -> dict[str, object]:
        """The score as JSON knows it: a number that is none becomes null."""
        return {name: _finite_or_none(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class Omitted:
    """A measure that could not be taken, and why."""

    name: str
    reason: str


def _finite_or_none(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
