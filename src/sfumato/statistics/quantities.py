"""Numbers of an estimate as text: dates as dates, counts as counts, other numbers with five digits."""

from __future__ import annotations

import datetime
import html
import math
from collections.abc import Sequence
from typing import Any

COUNT, DATE, DAYS, SQUARE_DAYS = "count", "date", "days", "days²"  # units; "" is the unit of the columns


def quantity(value: Any, unit: str = "") -> str:
    """Return a number or date as text; a dash if it is not defined."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if unit == COUNT:
        return f"{value:,.1f}".removesuffix(".0")
    return f"{value:.5g}"


def interval(low: Any, high: Any, unit: str = "") -> str:
    """Return the two ends of an interval as text, with the unit of time if there is one."""
    suffix = f" {unit}" if unit in (DAYS, SQUARE_DAYS) else ""
    return f"{quantity(low, unit)} … {quantity(high, unit)}{suffix}"


def write_html_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table of texts."""
    lines = ["".join(f"<th>{heading}</th>" for heading in headings)]
    lines += ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
