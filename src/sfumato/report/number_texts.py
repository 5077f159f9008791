"""Numbers as text, in reports and on pages; those of an estimate are in `statistics/quantities.py`."""

from __future__ import annotations

import datetime
import math
from typing import Any

from sfumato.statistics.estimate import COUNT, DAYS, SQUARE_DAYS, quantity


def number(value: float, digits: int = 6) -> str:
    """Return a number with some digits, or "not defined".

    >>> number(-1.5), number(float("inf")), number(float("nan"))
    ('−1.5', '∞', 'not defined')
    """
    if math.isnan(value):
        return "not defined"
    return f"{value + 0.0:.{digits}g}".replace("inf", "∞").replace("-", "−")


def quantity_text(value: Any, unit: str) -> str:
    """Return a date or a count as text, and any other number with five digits."""
    if isinstance(value, datetime.date) or (unit == COUNT and math.isfinite(value)):
        return quantity(value, unit)
    return number(value, 5) + (f" {unit}" if unit in (DAYS, SQUARE_DAYS) else "")


def decimals(value: float | None, unknown: str = "–") -> str:
    """Return a share with three digits, or the text for one that is not known."""
    return unknown if value is None else f"{value:.3f}"


def amount(size: float) -> str:
    """Return a number of bytes as text.

    >>> amount(2.5e9), amount(3_000_000)
    ('2.5 GB', '3 MB')
    """
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def percent(share: float, step: float = 0.0) -> str:
    """Return a share as a percentage: whole if it is rounded to whole ones, otherwise with two digits.

    >>> percent(0.12, 0.02), percent(0.0, 0.02), percent(0.0123), percent(0.5)
    ('12 %', '0 %', '1.2 %', '50 %')
    """
    if step:
        return f"{100 * share:.0f} %"
    return f"{100 * share:.2g} %" if abs(share) < 0.995 else f"{100 * share:.0f} %"
