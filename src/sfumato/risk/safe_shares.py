"""Distributions of a column that may be shown to anyone: no cell, and no count of a few people, can be read from them.

Bins of numbers have round ends, which are not taken from the rows, and the first and the last bin are open. Each bin
holds at least ``least`` people. Shares are rounded to a step that stands for at least ``least`` people, so that one
person more or less is not visible. Categories that fewer people have are counted together, and the report numbers the
others, because their names are cells.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from sfumato.table.table import Table

BINS = 8  # at most about this many bins, or categories
LEAST, WITHOUT_K = 5, 10  # smallest number of people in a bin: at least this, and this if a release has no k
STEPS = (0.01, 0.02, 0.05, 0.1)  # of rounded shares
TAIL = 0.03  # share of the numbers that the first and the last bin hold at least, so that the others are not too wide
OTHERS = "other values"
MICROSECONDS = 86_400_000_000  # of a day


@dataclass(frozen=True, kw_only=True, repr=False)
class Bins:
    """Bins of a column of numbers or dates: ``labels[i]`` names the numbers from ``edges[i - 1]`` to ``edges[i]``."""

    edges: tuple[float, ...]  # ascending, between the bins, in the unit of Table.numbers
    labels: tuple[str, ...]  # one more than edges


@dataclass(frozen=True, kw_only=True, repr=False)
class SafeShares:
    """The distribution of one column in a form that may be shown; see the head of this module."""

    column: str
    bins: Bins | None  # of numbers and dates; None for categories
    labels: tuple[str, ...]  # of the bins, or the categories; the last may be OTHERS
    shares: tuple[float, ...]  # of all people, multiples of ``step``
    missing: float  # share of people without a value, a multiple of ``step``
    step: float
    people: int


def least_people(k: object) -> int:
    """Return the smallest number of people that a bin may hold, for a release with this option ``k``, or None.

    >>> least_people(20), least_people(2), least_people(None)
    (20, 5, 10)
    """
    return max(k, LEAST) if isinstance(k, int) else WITHOUT_K


def step_for(people: int, least: int) -> float | None:
    """Return the smallest step of shares that stands for at least ``least`` of the people; None if there are too few.

    >>> step_for(442, 5), step_for(100_000, 5), step_for(40, 5)
    (0.02, 0.01, None)
    """
    return next((step for step in STEPS if step * people >= least), None)


def round_shares(shares: NDArray[np.float64], step: float) -> tuple[float, ...]:
    """Return the nearest multiples of ``step``."""
    places = max(0, -math.floor(math.log10(step)))
    return tuple(round(float(times) * step, places) for times in np.rint(shares / step))


def safe_shares(table: Table, names: Iterable[str], least: int) -> tuple[SafeShares, ...]:
    """Return the distributions of these columns; text, and columns with nothing to show, are left out.

    >>> from sfumato.sources.frames import as_table
    >>> shown = safe_shares(as_table({"age": list(range(100)), "sex": ["f", "m"] * 50}), ["age", "sex"], 5)
    >>> shown[0].labels[:3], shown[0].shares[:3], shown[0].step
    (('under 20', '20 – 39', '40 – 59'), (0.2, 0.2, 0.2), 0.05)
    >>> shown[1].labels, shown[1].shares
    (('f', 'm'), (0.5, 0.5))
    """
    step = step_for(table.rows, least)
    if step is None:
        return ()
    shown = (
        _of_numbers(table, name, least, step)
        if table.kinds[name].is_numeric
        else _of_categories(table, name, least, step)
        for name in names
        if table.kinds[name] is not Kind.TEXT
    )
    return tuple(one for one in shown if one is not None)


def _of_numbers(table: Table, name: str, least: int, step: float) -> SafeShares | None:
    numbers = table.numbers(name)
    present = np.sort(numbers[~np.isnan(numbers)])
    bins = bins_of(present, least, whole=table.kinds[name] is Kind.WHOLE, per_day=per_day(table, name))
    if bins is None:
        return None
    counts = np.diff(np.searchsorted(present, bins.edges), prepend=0, append=present.size)
    return SafeShares(
        column=name,
        bins=bins,
        labels=bins.labels,
        shares=round_shares(counts / table.rows, step),
        missing=_missing(table.rows - present.size, table.rows, least, step),
        step=step,
        people=table.rows,
    )


def _of_categories(table: Table, name: str, least: int, step: float) -> SafeShares | None:
    coded = table.coded(name)
    counts = np.bincount(coded.codes, minlength=coded.size)
    values = category_names(coded.values)
    present = [place for place, value in enumerate(values) if value is not None]
    frequent = sorted((place for place in present if counts[place] >= least), key=lambda place: -counts[place])[:BINS]
    total = int(sum(counts[place] for place in present))
    others = total - int(counts[frequent].sum())
    while frequent and 0 < others < least:  # the others must not be a few people either
        others += int(counts[frequent.pop()])
    if not frequent:
        return None
    shown = sorted(frequent) if table.kinds[name] is Kind.ORDERED else frequent
    parts = [*counts[shown], *([others] if others else [])]
    return SafeShares(
        column=name,
        bins=None,
        labels=(*(str(values[place]) for place in shown), *([OTHERS] if others else [])),
        shares=round_shares(np.array(parts) / table.rows, step),
        missing=_missing(table.rows - total, table.rows, least, step),
        step=step,
        people=table.rows,
    )


def category_names(values: pa.Array) -> list[str | None]:
    """Return categories as text, spelled as released sets spell them, so that both are found by the same name."""
    names: list[str | None] = values.cast(pa.string()).to_pylist()
    return names


def _missing(count: int, rows: int, least: int, step: float) -> float:
    return 0.0 if count < least else round_shares(np.array([count / rows]), step)[0]


def per_day(table: Table, name: str) -> float | None:
    """Return how many units of its numbers make a day, or None if the column has no dates."""
    if table.kinds[name] is not Kind.DATE:
        return None
    return 1.0 if pt.is_date(table.arrow.schema.field(name).type) else float(MICROSECONDS)


def bins_of(present: NDArray[np.float64], least: int, *, whole: bool, per_day: float | None) -> Bins | None:
    """Return bins with round ends that hold at least ``least`` of these numbers each; None if there is only one.

    The numbers must be sorted.
    """
    if present.size < 2 * least:
        return None
    beyond = max(least, math.ceil(TAIL * present.size))
    low, high = float(present[beyond - 1]), float(present[present.size - beyond])
    if not (math.isfinite(low) and math.isfinite(high) and high > low):
        return None
    edges = _round_edges(low, high, whole=whole) if per_day is None else _calendar_edges(low, high, per_day)
    kept = _keep_filled(edges, present, least)
    if not kept:
        return None
    places = _places(kept, (high - low) / BINS)
    texts = [_date(edge, per_day) if per_day else _number(edge, places) for edge in kept]
    lasts = [_number(edge - 1.0, places) for edge in kept] if whole and not per_day else texts
    ranges = (
        texts[place] if texts[place] == lasts[place + 1] else f"{texts[place]} – {lasts[place + 1]}"
        for place in range(len(kept) - 1)
    )
    first, last = ("before {}", "from {}") if per_day else ("under {}", "{} or more")
    return Bins(edges=tuple(kept), labels=(first.format(texts[0]), *ranges, last.format(texts[-1])))


def _keep_filled(edges: NDArray[np.float64], present: NDArray[np.float64], least: int) -> list[float]:
    """Return the edges between which there are enough sorted numbers; from the left, the others are left out."""
    below = np.searchsorted(present, edges)
    kept, before = [], 0
    for edge, count in zip(edges.tolist(), below.tolist(), strict=True):
        if count - before >= least and present.size - count >= least:
            kept.append(edge)
            before = count
    return kept


def round_step(width: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not below ``width``."""
    power = 10.0 ** math.floor(math.log10(max(width, sys.float_info.min)))
    return next(times * power for times in (1.0, 2.0, 5.0, 10.0) if times * power >= width * (1.0 - 1e-9))


def _round_edges(low: float, high: float, *, whole: bool) -> NDArray[np.float64]:
    step = round_step(min(high - low, sys.float_info.max) / BINS)  # the difference may overflow
    step = max(step, 1.0) if whole else step
    first, last = math.floor(low / step) + 1, math.floor(high / step)
    return np.arange(first, last + 1, dtype=np.float64) * step if last - first < 4 * BINS else np.array([])


def _calendar_edges(low: float, high: float, units: float) -> NDArray[np.float64]:
    """Return the first days of years, months or, in short spans, single days, in the unit of the numbers."""
    first, last = (np.datetime64(round(end / units), "D") for end in (low, high))
    days = float((last - first).astype(int))
    unit, length = ("Y", 365.25) if days > 3 * 365 else ("M", 30.44) if days > 90 else ("D", 1.0)
    steps = max(1, int(round_step(max(days / length / BINS, 1.0))))
    numbers = np.arange(first.astype(f"M8[{unit}]").astype(int) + 1, last.astype(f"M8[{unit}]").astype(int) + 1)
    starts = numbers[numbers % steps == 0].astype(f"M8[{unit}]").astype("M8[D]")
    return np.asarray(starts.astype(np.float64) * units)


def _date(edge: float, units: float) -> str:
    day = str(np.datetime64(round(edge / units), "D"))
    return day.removesuffix("-01").removesuffix("-01")


def _number(edge: float, places: int | None = None) -> str:
    short = f"{edge:,.6g}" if abs(edge) < 1e6 else f"{edge:.3g}"
    return (short if places is None else f"{edge:,.{places}f}").replace("-", "−")


def _places(edges: list[float], width: float) -> int | None:
    """Return how many decimal places tell the edges of bins of this width apart; None if a few digits do.

    >>> _places([1000.0, 1100.0], 100.0), _places([20_240_100.0, 20_240_200.0], 100.0), _places([1e6 + 0.2], 0.2)
    (None, 0, 1)
    """
    digits = (float(f"{edge:.{6 if abs(edge) < 1e6 else 3}g}") for edge in edges)
    if all(abs(digit - edge) <= width / 10.0 for digit, edge in zip(digits, edges, strict=True)):
        return None
    return max(0, -math.floor(math.log10(width)))
