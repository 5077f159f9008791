"""What one column loses by anonymity: error against the number of buckets (LT §5.2, Figure 7)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sfumato.errors import TableError
from sfumato.methods.probabilistic.buckets import Buckets, quantile_ends
from sfumato.params import require_choice, require_int
from sfumato.table.frames import as_table

BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500)

Shown = Literal["mean", "median"]


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One number of buckets."""

    buckets: int
    k: int  # rows of the smallest bucket
    error: float  # Σ(x' − x)² ÷ Σ(x − mean)², from 0; 1 when everyone is shown as the mean
    law: float  # 1/b², which the error of evenly spread values follows
    rank_difference: int  # LT Definition 8

    @property
    def privacy(self) -> float:
        """p = 1 − 1/k: one minus the chance of the right one of k (LT §5.2)."""
        return 1.0 - 1.0 / self.k

    @property
    def utility(self) -> float:
        """u = 1 − error."""
        return 1.0 - self.error


@dataclass(frozen=True, kw_only=True)
class PrivacyUtilityCurve:
    """The points of a column's curve, few buckets first."""

    column: str
    rows: int
    points: tuple[CurvePoint, ...]

    @property
    def slope(self) -> float:
        """Slope of log error over log buckets, from 2 on: −2 where the error follows 1/b²; nan under two points."""
        used = [point for point in self.points if point.buckets > 1 and point.error > 0.0]
        if len(used) < 2:
            return math.nan
        return float(np.polyfit([math.log(p.buckets) for p in used], [math.log(p.error) for p in used], 1)[0])


def privacy_utility_curve(
    table: Any, column: str, buckets: Sequence[int] = BUCKETS, *, represent: Shown = "mean"
) -> PrivacyUtilityCurve:
    """The quantile transformation of one numeric column, tried with several numbers of buckets.

    Rows without a value are left out; numbers of buckets above the number of rows are left out too.
    """
    source = as_table(table)
    require_choice(represent, name="represent", choices=("mean", "median"))
    wanted = sorted({require_int(number, name="buckets", at_least=1) for number in buckets})
    numbers = source.numbers(column)
    present = np.sort(numbers[~np.isnan(numbers)])
    if not len(present) or not np.isfinite(present).all():
        raise TableError(f"Column {column!r} must hold finite numbers.", found=f"{len(present):,} rows with a value")
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
