"""The privacy–utility curve of one column: error against the number of buckets (LT §5.2, Figure 7)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sfumato.errors import TableError
from sfumato.methods.recodings.buckets import Buckets, quantile_ends
from sfumato.params import require_choice, require_int
from sfumato.table.frames import as_table

BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500)

Centre = Literal["mean", "median"]


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One point of the curve, for one number of buckets.

    Attributes
    ----------
    buckets : int
        Number of buckets (b).
    k : int
        Rows of the smallest bucket.
    error : float
        Σ(x' − x)² ÷ Σ(x − mean)², at least 0; 1 if every value is replaced by the mean.
    law : float
        1/b², the error of evenly spread values.
    rank_difference : int
        Sum of the differences between the ranks of rows and the median ranks of their buckets (LT Definition 8).
    """

    buckets: int
    k: int
    error: float
    law: float
    rank_difference: int

    @property
    def privacy(self) -> float:
        """1 − 1/k: one minus the probability of guessing the right one of k rows (LT §5.2)."""
        return 1.0 - 1.0 / self.k

    @property
    def utility(self) -> float:
        """1 − error (LT §5.2)."""
        return 1.0 - self.error


@dataclass(frozen=True, kw_only=True)
class PrivacyUtilityCurve:
    """The privacy–utility curve of one column.

    Attributes
    ----------
    column : str
        Name of the column.
    rows : int
        Rows with a value.
    points : tuple of CurvePoint
        The points, by increasing number of buckets.
    """

    column: str
    rows: int
    points: tuple[CurvePoint, ...]

    @property
    def slope(self) -> float:
        """Slope of log error over log buckets, from 2 buckets on: −2 if the error is proportional to 1/b².

        NaN with fewer than two points.
        """
        used = [point for point in self.points if point.buckets > 1 and point.error > 0.0]
        if len(used) < 2:
            return math.nan
        return float(np.polyfit([math.log(p.buckets) for p in used], [math.log(p.error) for p in used], 1)[0])


def privacy_utility_curve(
    table: Any, column: str, buckets: Sequence[int] = BUCKETS, *, represent: Centre = "mean"
) -> PrivacyUtilityCurve:
    """Compute error, privacy and utility of one numeric column for several numbers of buckets.

    The column is grouped into buckets of equal size (the quantile transformation), and each value is replaced by the
    mean or median of its bucket. Rows without a value are ignored.

    Parameters
    ----------
    table : Table, path or data frame
        Anything that :func:`sfumato.read` accepts or returns, or a pandas, polars or Arrow table.
    column : str
        Name of the numeric column; its values must be finite.
    buckets : sequence of int, default (1, 2, 5, 10, 20, 50, 100, 200, 500)
        Numbers of buckets, each at least 1. Numbers above the number of rows are skipped.
    represent : {"mean", "median"}, default "mean"
        What a value is replaced by.

    Returns
    -------
    PrivacyUtilityCurve
        One point per number of buckets, and the slope of the error.

    Examples
    --------
    >>> import sfumato as sf
    >>> curve = sf.privacy_utility_curve({"age": range(100)}, "age", buckets=[2, 5, 10])
    >>> [(point.buckets, point.k, round(point.utility, 2)) for point in curve.points]
    [(2, 50, 0.75), (5, 20, 0.96), (10, 10, 0.99)]
    >>> round(curve.slope, 1)
    -2.0
    """
    source = as_table(table)
    require_choice(represent, name="represent", choices=("mean", "median"))
    wanted = sorted({require_int(number, name="buckets", at_least=1) for number in buckets})
    numbers = source.numbers(column)
    present = np.sort(numbers[~np.isnan(numbers)])
    if not len(present) or not np.isfinite(present).all():
        raise TableError(f"Column {column!r} must contain finite numbers.", found=f"{len(present):,} rows with a value")
    spread = float(((present - present.mean()) ** 2).sum())
    points = []
    for number in (number for number in wanted if number <= len(present)):
        groups = Buckets.of_ranks(source, column, quantile_ends(np.ones(len(present)), number), shown="mean")
        shown = np.repeat(groups.mean if represent == "mean" else groups.median, groups.sizes.astype(np.int64))
        points.append(
            CurvePoint(
                buckets=number,
                k=int(groups.sizes.min()),
                error=float(((shown - present) ** 2).sum()) / spread if spread else 0.0,
                law=1.0 / number**2,
                rank_difference=groups.rank_difference,
            )
        )
    return PrivacyUtilityCurve(column=column, rows=len(present), points=tuple(points))
