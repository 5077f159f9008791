"""Scores: single numbers about a release, with their uncertainty."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Literal

Family = Literal["privacy", "utility"]
Better = Literal["higher", "lower"]


@dataclass(frozen=True, kw_only=True)
class Score:
    """A measured number with its interval, its direction and the number of rows used.

    Attributes
    ----------
    name : str
        Name of the score.
    family : {"privacy", "utility"}
        What it measures.
    value : float
        The measured number.
    better : {"higher", "lower"}
        Whether higher or lower values are better.
    rows : int
        Number of rows from which the value is computed.
    low, high : float or None
        Ends of the 95 % interval of the value; None if there is no interval.
    p_value : float or None
        Probability of such a bad value by chance, for a sample without the people of the original: it is adjusted for
        the number of tests of the same measure. None if there is no test.
    passed : bool or None
        Result of the test: a release is private if it reveals no more about its people than a sample without them, and
        accurate if it differs no more from the original than such a sample. :func:`sfumato.assess` sets it, so that
        such a sample fails any of the tests with a probability of at most 5 %. None if there is no test.
    gain : float or None
        For attacks: the gain over guessing, from 0 to 1, at the lower end of its 95 % interval. None otherwise.
    note : str
        Unit, details and assumptions, as text.
    """

    name: str
    family: Family
    value: float
    better: Better
    rows: int
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    passed: bool | None = None
    gain: float | None = None
    note: str = ""

    def to_plain(self) -> dict[str, object]:
        """Return the score as a dictionary that can be written as JSON; numbers that are not finite become None."""
        return {name: _finite_or_none(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class Omitted:
    """A measure that could not be taken, with the reason."""

    name: str
    reason: str


def _finite_or_none(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
