"""The positions of the faces of a box, and what they disclose.

*Hulls* are shrunk to the records: they are as narrow as possible, but each face is the value of a record. *Cells*
subdivide the space: their faces lie between records, at values that at least k records share, or at the declared domain
(see :mod:`sfumato.methods.boxes.cell_faces`). Both can be rounded outward to a given precision.
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

    from sfumato.kernels.faces import CellFaces
    from sfumato.methods.leaves import Leaves


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
    k: int  # number of records that make a value common
    snap: float | Mapping[str, float] | None
    domain: Mapping[str, tuple[float, float]]

    def cell_faces(self, values: NDArray[np.float64], axes: tuple[NumberAxis, ...]) -> CellFaces | None:
        """Return where cells may end, given the coordinates of the records; None for hulls.

        Axes with a tree come last and have no cells: their faces are those of nodes.
        """
        from sfumato.methods.boxes.cell_faces import cell_faces

        declared = [self.declared(axis) for axis in axes]  # a domain must hold the data, wherever faces are placed
        plain = tuple(axis for axis in axes if axis.nodes is None)
        if self.kind == "hull" or not plain:
            return None
        return cell_faces(values[:, : len(plain)], plain, declared[: len(plain)], self.k)

    def faces(self, leaves: Leaves, values: NDArray[np.float64], axes: tuple[NumberAxis, ...]) -> Faces:
        """Return the faces of all boxes; ``values`` are the coordinates of the numeric axes, one row per record."""
        from sfumato.kernels import faces as kernel

        missing = np.zeros((leaves.count, len(axes)), dtype=np.int64)
        numbers = values.copy() if any(axis.has_missing for axis in axes) else values
        for position, axis in enumerate(axes):
            if axis.has_missing:
                is_missing = values[:, position] == axis.missing_place
                missing[:, position] = np.add.reduceat(is_missing[leaves.order], leaves.starts[:-1])
                numbers[is_missing, position] = np.nan
        empty = missing == leaves.sizes[:, None]
        low, high = kernel.hulls(numbers, leaves.order, leaves.starts)
        cells = self.cell_faces(values, axes)
        if cells is not None:
            whole = kernel.whole_space(cells)
            found = kernel.cells(cells, values, leaves.order, leaves.starts, leaves.cuts, whole)
            plain = whole.shape[1]
            low[:, :plain] = np.maximum(found[:, 0], kernel.smallest_faces(cells))  # of boxes with missing numbers, too
            high[:, :plain] = found[:, 1]
        for position, axis in enumerate(axes):
            if axis.nodes is not None:
                ranks = (np.where(empty, 0.0, hull)[:, position].astype(np.int64) for hull in (low, high))
                low[:, position], high[:, position] = axis.nodes.intervals(*ranks)
            self._snap(axis, low[:, position], high[:, position])
        low[empty], high[empty] = np.nan, np.nan
        return Faces(low, high, missing)

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
