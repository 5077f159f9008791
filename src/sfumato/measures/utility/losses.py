"""Classical losses of a release: errors of numbers, sizes of groups, and how much of its domain a cell covers.

Errors of numbers and the lost entropy compare each released row with its original, so they need to know which one that
is (``origin``). The other losses compare tables, or look at the release only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.kernels.eigenvectors import principal_axes
from sfumato.measures.measured_release import midpoints
from sfumato.methods.recodings.losses import (
    average_class_size,
    discernibility,
    granularity_loss,
    mean_covered,
    non_uniform_entropy,
)
from sfumato.release.assessment import Better, Score
from sfumato.table.encoded_columns import finite_numbers
from sfumato.table.groups import group_sizes
from sfumato.table.intervals import Intervals, interval_names, is_interval, parse_set

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.table.coding import Coded


# How many values of the original a released cell may stand for: one value, an interval, a set, or a node of a tree.


SUPPRESSED = (None, "*")  # cells that cover the whole domain, unless they are values of the original


@dataclass(frozen=True, kw_only=True)
class MeanShares:
    """Mean share of the domain that a cell covers, of each column for which it is known."""

    known: tuple[str, ...]
    unknown: tuple[str, ...]  # columns with labels of which it is not known what they cover
    shares: tuple[float, ...]
    domains: tuple[float, ...]  # number of values; infinite for numbers, whose cells may cover nothing but a point


@dataclass(frozen=True, eq=False, repr=False)
class Covered:
    """What each different released cell of a column covers."""

    values: NDArray[np.int64]  # number of original values
    rows: NDArray[np.int64]  # number of original rows with these values


def mean_shares(subject: MeasuredRelease) -> MeanShares:
    """Return what the cells of each column cover: shares of the range of numbers, and of the number of categories.

    A released label that is neither a value nor a set of values covers what the original rows show, if these are known.
    The cells of a row that is not released cover everything.
    """
    shares = {name: _mean_share(subject, name) for name in subject.names}
    known = [name for name, one in shares.items() if one is not None]
    gone = rows_not_released(subject) / max(subject.original.rows, subject.released.rows)
    return MeanShares(
        known=tuple(known),
        unknown=tuple(name for name in shares if name not in known),
        shares=tuple((1.0 - gone) * one[0] + gone for one in shares.values() if one is not None),
        domains=tuple(one[1] for one in shares.values() if one is not None),
    )


def rows_not_released(subject: MeasuredRelease) -> int:
    """Return how many rows fewer than the original the release has: those that were suppressed, or not drawn."""
    return max(0, subject.original.rows - subject.released.rows)


def entropy_lost(subject: MeasuredRelease) -> float:
    """Return the non-uniform entropy that recoding loses, from 0 to 1, given the original of each row.

    A row that is not released loses everything.
    """
    lost = most = 0.0
    gone = _find_suppressed(subject)
    for name in subject.names:
        own, covered, total = _count_covered_rows(subject, name)
        left_out = _rows_with_value(subject, name)[gone]
        hidden = non_uniform_entropy(left_out[left_out > 0], np.full(int((left_out > 0).sum()), total))
        lost += non_uniform_entropy(own, covered) + hidden
        most += non_uniform_entropy(own, np.full(len(own), total)) + hidden
    return lost / most if most else 0.0


def _find_suppressed(subject: MeasuredRelease) -> NDArray[np.int64]:
    """Return the original rows that are not released; none if some released row has no original."""
    assert subject.origin is not None
    if not rows_not_released(subject) or (subject.origin < 0).any():
        return np.empty(0, dtype=np.int64)
    return np.setdiff1d(np.arange(subject.original.rows), subject.origin)


def _rows_with_value(subject: MeasuredRelease, name: str) -> NDArray[np.int64]:
    """Return how many original rows have the value of each original row; 0 for a number that is missing."""
    coded = subject.original.coded(name)
    rows = np.bincount(coded.codes, minlength=coded.size)
    if subject.original.kinds[name].is_numeric and _has_ends(subject, name):
        rows[coded.values.is_null().to_numpy(zero_copy_only=False)] = 0
    return np.asarray(rows[coded.codes], dtype=np.int64)


def _mean_share(subject: MeasuredRelease, name: str) -> tuple[float, float] | None:
    if subject.original.kinds[name].is_numeric and _has_ends(subject, name):
        numbers, ends = subject.original.numbers(name), Intervals.of(subject.released, name)
        span = np.nanmax(numbers) - np.nanmin(numbers) if not np.isnan(numbers).all() else 0.0
        widths = np.clip((ends.high - ends.low) / span, 0.0, 1.0) if span else np.zeros(subject.released.rows)
        return float(np.where(np.isnan(widths), _missing_share(numbers), widths).mean()), np.inf
    coded = subject.original.coded(name)
    covered = _count_covered(subject, name, coded)
    if covered is None:
        return None
    return mean_covered(covered.values[subject.released.coded(name).codes], coded.size), coded.size


def _missing_share(numbers: NDArray[np.float64]) -> float:
    """A missing number was suppressed if no number of the original is missing; otherwise it is a value as it is."""
    return 0.0 if np.isnan(numbers).any() else 1.0


def _has_ends(subject: MeasuredRelease, name: str) -> bool:
    released = subject.released.kinds
    return is_interval(name, released) or (name in released and released[name].is_numeric)


def _count_covered(subject: MeasuredRelease, name: str, coded: Coded) -> Covered | None:
    """Return how many original values, and how many rows with them, each released cell covers; None if not known."""
    shown, counts = subject.released.coded(name), np.bincount(coded.codes, minlength=coded.size)
    places = {value: place for place, value in enumerate(pc.cast(coded.values, pa.string()).to_pylist())}
    values, rows, unknown = np.full(shown.size, coded.size), np.full(shown.size, len(coded.codes)), []
    for number, cell in enumerate(pc.cast(shown.values, pa.string()).to_pylist()):
        members = [places.get(member, -1) for member in ((cell,) if cell in places else parse_set(cell))]
        if min(members) >= 0:
            values[number], rows[number] = len(members), counts[members].sum()
        elif cell not in SUPPRESSED:
            unknown.append(number)
    if not unknown:
        return Covered(values, rows)
    if subject.origin is None:
        return None
    placed = np.flatnonzero((subject.origin >= 0) & np.isin(shown.codes, unknown))
    seen = np.unique(shown.codes[placed].astype(np.int64) * coded.size + coded.codes[subject.origin[placed]])
    cell, value = seen // coded.size, seen % coded.size
    values[unknown] = np.maximum(np.bincount(cell, minlength=shown.size)[unknown], 1)
    rows[unknown] = np.bincount(cell, weights=counts[value], minlength=shown.size)[unknown]
    return Covered(values, rows)


def _count_covered_rows(subject: MeasuredRelease, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
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
    counts = _count_covered(subject, name, coded)
    assert counts is not None
    own = np.bincount(coded.codes)[coded.codes[origin]]
    return own, np.maximum(counts.rows[shown.codes[placed]], own), len(coded.codes)


def squared_error_share(original: NDArray[np.float64], released: NDArray[np.float64]) -> float:
    """Return SSE/SST of standardised columns: Σ (x′ − x)² / Σ (x − mean)², averaged over the columns.

    Rows are compared one by one. It is 0 if nothing changed and 1 if every number became the mean. Rows without a
    number are left out of their column, and constant columns are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> squared_error_share(np.array([[1.0], [3.0], [5.0]]), np.array([[2.0], [2.0], [5.0]]))
    0.25
    """
    both = ~np.isnan(released - original)
    gaps, values = np.where(both, released - original, 0.0), np.where(both, original, 0.0)
    centred = np.where(both, values - values.sum(axis=0) / np.maximum(both.sum(axis=0), 1), 0.0)
    errors, totals = (gaps**2).sum(axis=0), (centred**2).sum(axis=0)
    return float(np.mean(errors[totals > 0.0] / totals[totals > 0.0])) if (totals > 0.0).any() else 0.0


def absolute_error(original: NDArray[np.float64], released: NDArray[np.float64]) -> float:
    """Return the mean of |x′ − x| / (√2 s) over all numbers, with the standard deviation s of the original column.

    This is IL1s (Yancey, Winkler and Creecy 2002) as a mean, so that it does not grow with the number of rows. Two
    random rows differ by about 0.8 in a normal column.

    Examples
    --------
    >>> import numpy as np
    >>> round(absolute_error(np.array([[1.0], [3.0], [5.0]]), np.array([[2.0], [2.0], [5.0]])), 4)
    0.2357
    """
    given = ~np.isnan(original)
    rows, values = given.sum(axis=0), np.where(given, original, 0.0)
    centred = np.where(given, values - values.sum(axis=0) / np.maximum(rows, 1), 0.0)
    spread = np.sqrt((centred**2).sum(axis=0) / np.maximum(rows - 1, 1))
    gaps = np.abs(released - original)[:, spread > 0.0] / (np.sqrt(2.0) * spread[spread > 0.0])
    return float(gaps[~np.isnan(gaps)].mean()) if (~np.isnan(gaps)).any() else 0.0


def eigenvalue_loss(original: NDArray[np.float64], released: NDArray[np.float64]) -> float:
    """Return Σ |λ′ − λ| / Σ λ of the covariances of columns in units of the original's standard deviations.

    It is relative to the whole variance, because single eigenvalues are close to 0 if columns are totals of others.

    Examples
    --------
    >>> import numpy as np
    >>> table = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(eigenvalue_loss(table, 2.0 * table), 6)
    3.0
    """
    spread = original.std(axis=0)
    varying = spread > 0.0
    if not varying.any():
        return 0.0
    before, after = (_eigenvalues(one[:, varying] / spread[varying]) for one in (original, released))
    width = max(len(before), len(after))  # those that are not computed are 0
    before, after = (np.pad(values, (0, width - len(values))) for values in (before, after))
    return float(np.abs(after - before).sum() / before.sum())


def _eigenvalues(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the eigenvalues of the covariance, largest first."""
    return np.asarray(principal_axes(matrix - matrix.mean(axis=0)).values / max(1, len(matrix) - 1))


def loss_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the losses that can be computed; those of single rows only if their originals are known."""
    rows = subject.released.rows

    def score(name: str, value: float, note: str, better: Better = "lower") -> Score:
        return Score(name=name, family="utility", value=value, better=better, rows=rows, note=note)

    yield from (score(name, value, note) for name, value, note in _group_losses(subject))
    shares = mean_shares(subject)
    if shares.known:
        loss = granularity_loss(shares.shares, shares.domains)
        note = f"share of the domain that a cell does not leave open, over {len(shares.known)} columns"
        unknown = f"; labels of {', '.join(map(repr, shares.unknown))} are not known" if shares.unknown else ""
        yield score("granularity", 1.0 - loss, note + unknown, "higher")
    if subject.origin is not None:
        note = "non-uniform entropy: bits that recoding loses, as a share of those that suppression would lose"
        yield score("entropy lost by recoding", entropy_lost(subject), note)
    yield from (score(name, value, note) for name, value, note in _number_losses(subject))


def _group_losses(subject: MeasuredRelease) -> Iterator[tuple[str, float, str]]:
    released, protected = subject.released, subject.names if subject.quasi is None else subject.quasi
    shown = [
        column
        for name in protected
        for column in (interval_names(name) if is_interval(name, released.kinds) else (name,))
        if column in released.kinds
    ]
    sizes = group_sizes(released, shown)
    gone = rows_not_released(subject)
    note = f"rows that are equal in {len(protected)} quasi-identifiers; {gone:,} rows fewer than in the original"
    yield "rows per group, mean", average_class_size(sizes), f"average class size; {note}"
    resembled = discernibility(sizes, gone) / (released.rows + gone)
    yield "rows that a row resembles, mean", resembled, f"discernibility divided by the rows; {note}"


def _number_losses(subject: MeasuredRelease) -> Iterator[tuple[str, float, str]]:
    released = subject.released.kinds
    names = [
        name
        for name in subject.names
        if subject.original.kinds[name].is_numeric and (is_interval(name, released) or released[name].is_numeric)
    ]
    if not names:
        return
    before = np.column_stack([finite_numbers(subject.original, name) for name in names])
    after = np.column_stack([midpoints(subject.released, name) for name in names])
    note = f"{len(names)} numeric columns"
    complete = [~np.isnan(one).any(axis=1) for one in (before, after)]
    if min(complete[0].sum(), complete[1].sum()) > 1:
        eigen = eigenvalue_loss(before[complete[0]], after[complete[1]])
        yield "change in eigenvalues", eigen, f"of the covariances, relative to the total variance; {note}"
    if subject.origin is None or not (subject.origin >= 0).any():
        return
    placed = subject.origin >= 0
    pairs = before[subject.origin[placed]], after[placed]
    yield "squared error (SSE/SST)", squared_error_share(*pairs), f"share of the variance; {note}"
    yield "absolute error (IL1s)", absolute_error(*pairs), f"mean, in √2 standard deviations; {note}"
