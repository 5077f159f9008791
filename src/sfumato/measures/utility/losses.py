"""Classical losses of a release: errors of numbers, sizes of groups, and how much of its domain a cell covers.

Errors of numbers and the lost entropy compare each released row with its original, so they need to know which one that
is (``origin``). The other losses compare tables, or look at the release only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sfumato.disclosure.recoding_losses import average_class_size, discernibility, granularity_loss
from sfumato.measures.measured_release import midpoints
from sfumato.measures.utility.coverage import entropy_lost, mean_shares, rows_not_released
from sfumato.release.assessment import Better, Score
from sfumato.table.encoded_columns import finite
from sfumato.table.groups import group_sizes
from sfumato.table.intervals import interval_names, is_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease


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
    before, after = (
        np.linalg.eigvalsh(np.atleast_2d(np.cov(one[:, varying] / spread[varying], rowvar=False)))
        for one in (original, released)
    )
    return float(np.abs(after - before).sum() / before.sum())


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
    before = np.column_stack([finite(subject.original, name) for name in names])
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
