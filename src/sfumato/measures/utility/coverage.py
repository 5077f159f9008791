"""How many values of the original a released cell may stand for: one value, an interval, a set, or a node of a tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.disclosure.recoding_losses import non_uniform_entropy
from sfumato.table.intervals import Intervals, is_interval, parse_set

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.table.table import Coded


@dataclass(frozen=True, kw_only=True)
class MeanShares:
    """Mean share of the domain that a cell covers, of each column for which it is known."""

    known: tuple[str, ...]
    unknown: tuple[str, ...]  # columns with labels of which it is not known what they cover
    shares: tuple[float, ...]
    domains: tuple[float, ...]  # number of values; infinite for numbers, whose cells may cover nothing but a point


def mean_shares(subject: MeasuredRelease) -> MeanShares:
    """Return what the cells of each column cover: shares of the range of numbers, and of the number of categories.

    A released label that is neither a value nor a set of values covers what the original rows show, if these are known.
    """
    found = {name: _mean_share(subject, name) for name in subject.names}
    known = [name for name, one in found.items() if one is not None]
    return MeanShares(
        known=tuple(known),
        unknown=tuple(name for name in found if name not in known),
        shares=tuple(one[0] for one in found.values() if one is not None),
        domains=tuple(one[1] for one in found.values() if one is not None),
    )


def entropy_lost(subject: MeasuredRelease) -> float:
    """Return the non-uniform entropy that recoding loses, from 0 to 1, given the original of each row."""
    lost = most = 0.0
    for name in subject.names:
        own, covered, total = _rows_covered(subject, name)
        lost += non_uniform_entropy(own, covered)
        most += non_uniform_entropy(own, np.full(len(own), total))
    return lost / most if most else 0.0


def _mean_share(subject: MeasuredRelease, name: str) -> tuple[float, float] | None:
    if subject.original.kinds[name].is_numeric and _has_ends(subject, name):
        numbers, ends = subject.original.numbers(name), Intervals.of(subject.released, name)
        span = np.nanmax(numbers) - np.nanmin(numbers) if not np.isnan(numbers).all() else 0.0
        widths = np.clip((ends.high - ends.low) / span, 0.0, 1.0) if span else np.zeros(subject.released.rows)
        return float(np.where(np.isnan(widths), _missing_share(numbers), widths).mean()), np.inf
    coded = subject.original.coded(name)
    fits = _fitting(subject, name, coded)
    if fits is None:
        return None
    cells = subject.released.coded(name).codes
    return float(fits.sum(axis=1)[cells].mean()) / coded.size, coded.size


def _missing_share(numbers: NDArray[np.float64]) -> float:
    """A missing number was suppressed if no number of the original is missing; otherwise it is a value as it is."""
    return 0.0 if np.isnan(numbers).any() else 1.0


def _has_ends(subject: MeasuredRelease, name: str) -> bool:
    released = subject.released.kinds
    return is_interval(name, released) or (name in released and released[name].is_numeric)


def _fitting(subject: MeasuredRelease, name: str, coded: Coded) -> NDArray[np.bool_] | None:
    """Return which original values (columns) each released cell (rows) covers; None if that is not known."""
    shown = subject.released.coded(name)
    values = {value: place for place, value in enumerate(pc.cast(coded.values, pa.string()).to_pylist())}
    fits = np.zeros((shown.size, coded.size), dtype=bool)
    unknown = []
    for number, cell in enumerate(pc.cast(shown.values, pa.string()).to_pylist()):
        members = (cell,) if cell in values else parse_set(cell)
        if cell in (None, "*") and cell not in values:
            fits[number] = True  # suppressed
        elif all(member in values for member in members):
            fits[number, [values[member] for member in members]] = True
        else:
            unknown.append(number)
    if unknown and subject.origin is None:
        return None
    if unknown and subject.origin is not None:
        placed = np.flatnonzero((subject.origin >= 0) & np.isin(shown.codes, unknown))
        fits[shown.codes[placed], coded.codes[subject.origin[placed]]] = True
    return fits


def _rows_covered(subject: MeasuredRelease, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return, for each released row with an original: the rows with its original value, and those that its cell covers.

    Also the number of rows with a value. Rows without one are left out.
    """
    assert subject.origin is not None
    placed = np.flatnonzero(subject.origin >= 0)
    origin = subject.origin[placed]
    if subject.original.kinds[name].is_numeric and _has_ends(subject, name):
        numbers, ends = subject.original.numbers(name), Intervals.of(subject.released, name)
        ordered = np.sort(numbers[~np.isnan(numbers)])
        with_value = ~np.isnan(numbers[origin]) & ~np.isnan(ends.low[placed])
        value, place = numbers[origin[with_value]], placed[with_value]
        own = np.searchsorted(ordered, value, "right") - np.searchsorted(ordered, value, "left")
        last, first = np.searchsorted(ordered, ends.high[place], "right"), np.searchsorted(ordered, ends.low[place])
        return own, np.maximum(last - first, own), len(ordered)
    coded, shown = subject.original.coded(name), subject.released.coded(name)
    fits, counts = _fitting(subject, name, coded), np.bincount(coded.codes, minlength=coded.size)
    assert fits is not None
    own = counts[coded.codes[origin]]
    return own, np.maximum((fits @ counts)[shown.codes[placed]], own), len(coded.codes)
