"""The positions of the faces of a box, and what they disclose.

*Hulls* are shrunk to the records: they are as narrow as possible, but each face is the value of a record. *Cells* are a
true subdivision: faces are half-way between records, and the outermost faces are at the declared domain (or, without
one, at round numbers outside the data), so no face is the value of a record. Both can be rounded outward to a given
precision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.boxes.axes import NumberAxis
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.partition import Leaves

ROUND_STEPS = 50  # without a declared domain the outer faces are multiples of a step of at least range ÷ this


@dataclass(frozen=True, repr=False)
class Faces:
    """Lower and upper face of each box along each numeric axis; NaN if all its values are missing."""

    low: NDArray[np.float64]  # (boxes, axes)
    high: NDArray[np.float64]
    missing: NDArray[np.int64]  # number of rows of the box without a value


@dataclass(frozen=True, kw_only=True)
class Edges:
    """How faces are placed."""

    kind: str  # "hull" or "cells"
    snap: float | Mapping[str, float] | None
    domain: Mapping[str, tuple[float, float]]

    def faces(self, leaves: Leaves, values: NDArray[np.float64], axes: tuple[NumberAxis, ...]) -> Faces:
        """Return the faces of all boxes; ``values`` are the coordinates of the numeric axes, one row per record."""
        from sfumato.kernels import faces as kernel

        for axis in axes:
            self.declared(axis)  # a declared domain must hold the data, wherever faces are placed
        missing = np.zeros((leaves.count, len(axes)), dtype=np.int64)
        numbers = values
        for position, axis in enumerate(axes):
            if axis.has_missing:
                is_missing = values[:, position] == axis.missing_place
                missing[:, position] = np.add.reduceat(is_missing[leaves.order], leaves.starts[:-1])
        if missing.any():
            numbers = np.where(values == np.array([axis.missing_place for axis in axes]), np.nan, values)
        low, high = hull_low, hull_high = kernel.hulls(numbers, leaves.order, leaves.starts)
        empty = missing == leaves.sizes[:, None]
        if self.kind == "cells":
            outer = np.array([self._outer(axis) for axis in axes]).reshape(-1, 2)
            low, high = np.tile(outer[:, 0], (leaves.count, 1)), np.tile(outer[:, 1], (leaves.count, 1))
            kernel.cells(leaves.cuts, leaves.starts, low, high)
            low, high = np.minimum(low, hull_low), np.maximum(high, hull_high)  # rounding must not exclude a record
        for position, axis in enumerate(axes):
            if axis.nodes is not None:
                ranks = (np.where(empty, 0.0, hull)[:, position].astype(np.int64) for hull in (hull_low, hull_high))
                low[:, position], high[:, position] = axis.nodes.intervals(*ranks)
            self._snap(axis, low[:, position], high[:, position])
        low[empty], high[empty] = np.nan, np.nan
        return Faces(low, high, missing)

    def _outer(self, axis: NumberAxis) -> tuple[float, float]:
        """Return the outermost faces of an axis."""
        declared = self.declared(axis)
        if declared is not None:
            return declared
        if np.isnan(axis.low):
            return 0.0, 0.0  # all values are missing, so no face is released
        span = axis.high - axis.low
        step = 10.0 ** math.ceil(math.log10(span / ROUND_STEPS)) if span > 0.0 else 1.0
        return math.floor(axis.low / step) * step, math.ceil(axis.high / step) * step

    def declared(self, axis: NumberAxis) -> tuple[float, float] | None:
        """Return the declared domain of an axis, checked against the data."""
        domain = self.domain.get(axis.name) or axis.domain
        if domain is not None and (axis.low < domain[0] or axis.high > domain[1]):
            raise CannotRelease(
                f"Every value of {axis.name!r} must be in its declared domain.",
                found="values outside it",
                fix="widen the domain, or leave those rows out",
            )
        return domain

    def _snap(self, axis: NumberAxis, low: NDArray[np.float64], high: NDArray[np.float64]) -> None:
        """Move faces in place: to integers if the column has only integers, and outward to the given precision."""
        if axis.kind is not Kind.CONTINUOUS and self.kind == "cells":
            np.ceil(low, out=low)  # inward, but there is no integer in between
            np.floor(high, out=high)
        step = self.snap.get(axis.name) if isinstance(self.snap, Mapping) else self.snap
        if step:
            for face, outward in ((low, np.floor), (high, np.ceil)):
                moved = np.round(outward(face / step) * step, _decimals(step))
                np.copyto(face, np.minimum(moved, face) if face is low else np.maximum(moved, face))
            declared = self.declared(axis)
            if declared is not None:
                np.copyto(low, np.maximum(low, declared[0]))
                np.copyto(high, np.minimum(high, declared[1]))


def _decimals(step: float) -> int:
    """Return the number of decimals of a step as it is written: 1 for 0.1."""
    return max(0, -int(Decimal(repr(float(step))).normalize().as_tuple().exponent))


def require_snap(snap: object, name: str = "snap") -> None:
    """Raise unless ``snap`` is a positive number, for all columns or by column name."""
    steps = list(snap.values()) if isinstance(snap, Mapping) else [snap]
    for step in steps:
        if step is not None and not (isinstance(step, int | float) and math.isfinite(step) and step > 0):
            raise OptionError(f"{name} must be a positive number, or a positive number for each named column.")
