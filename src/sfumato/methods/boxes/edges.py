"""The positions of the faces of a box, and what they disclose.

*Hulls* are shrunk to the records: they are as narrow as possible, but each face is the value of a record. *Cells*
subdivide the space: their faces lie between records, at values that at least k records (or people) share, or at the
declared domain (see ``cell_faces``). Both can be rounded outward to a given precision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.boxes.axes import NumberAxis
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.cut_kernels import CellFaces
    from sfumato.methods.partition import BoxPartition
    from sfumato.randomness import Randomness


NOBODY = np.zeros(0, np.int64)  # people are not told apart: every record is another person


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
    randomness: Randomness
    block: int = 0  # faces of cells are drawn for each block: the same ones whenever the same records are cut

    def cell_faces(
        self, values: NDArray[np.float64], axes: tuple[NumberAxis, ...], people: NDArray[np.int64]
    ) -> CellFaces | None:
        """Return where cells may end, given the coordinates of the records; None for hulls.

        ``people`` is the person of each record, if people are told apart, and then a value is common that k of them
        have. Axes with a tree come last and have no cells: their faces are those of nodes.
        """

        declared = [self.domain_of(axis) for axis in axes]  # a domain must hold the data, wherever faces are placed
        plain = tuple(axis for axis in axes if axis.nodes is None)
        if self.kind == "hull" or not plain:
            return None
        generators = [self.randomness.stream(f"faces {self.block} {axis.name}") for axis in plain]
        return cell_faces(values[:, : len(plain)], plain, declared[: len(plain)], self.k, generators, people)

    def faces(
        self,
        boxes: BoxPartition,
        values: NDArray[np.float64],
        axes: tuple[NumberAxis, ...],
        people: NDArray[np.int64] = NOBODY,
    ) -> Faces:
        """Return the faces of all boxes; ``values`` are the coordinates of the numeric axes, one row per record."""
        from sfumato.methods.boxes import cut_kernels as kernel

        missing = np.zeros((boxes.count, len(axes)), dtype=np.int64)
        numbers = values.copy() if any(axis.has_missing for axis in axes) else values
        for position, axis in enumerate(axes):
            if axis.has_missing:
                is_missing = values[:, position] == axis.missing_place
                missing[:, position] = np.add.reduceat(is_missing[boxes.order], boxes.starts[:-1])
                numbers[is_missing, position] = np.nan
        empty = missing == boxes.sizes[:, None]
        low, high = kernel.hulls(numbers, boxes.order, boxes.starts)
        cells = self.cell_faces(values, axes, people)
        if cells is not None:
            whole = kernel.whole_space(cells)
            ends = kernel.cells(cells, values, boxes.order, boxes.starts, boxes.cuts, whole)
            plain = whole.shape[1]
            low[:, :plain] = np.maximum(ends[:, 0], kernel.smallest_faces(cells))  # of boxes with missing numbers, too
            high[:, :plain] = ends[:, 1]
        for position, axis in enumerate(axes):
            if axis.nodes is not None:
                ranks = (np.where(empty, 0.0, hull)[:, position].astype(np.int64) for hull in (low, high))
                low[:, position], high[:, position] = axis.nodes.intervals(*ranks)
            self._snap(axis, low[:, position], high[:, position])
        low[empty], high[empty] = np.nan, np.nan
        return Faces(low, high, missing)

    def domain_of(self, axis: NumberAxis) -> tuple[float, float] | None:
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
            declared = self.domain_of(axis)
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


# Where the cells of a subdivision may end along an axis.
#
# A face must say nothing about a single record. It lies at one of these places:
#
# - at a *common* value, which at least k records share. Between two neighbouring common values, one cell ends at the
#   one and the next begins at the other, so equal values in a box cost no width;
# - at random between two neighbouring values of the column: half-way, or at any other known share of the way, either
#   value and the face would tell the other. Cells of whole numbers and dates are sets of consecutive whole numbers: 20
#   to 24, then 25 to 29. Neither end is one of the two values, if there are whole numbers enough between them;
# - at the end of the declared domain or, without one, at a round number outside the data.
#
# If a cut separates records with the same value and that value is not common, both cells reach beyond it, to the next
# of these places, and overlap there. (In a column of whole numbers, they share the value.)


ROUND_STEPS = 50  # without a declared domain the outer faces are multiples of a step of at least range ÷ this
LEAST_WHOLE_STEP = 10.0  # for whole numbers, so that a round number does not tell the value next to it
MOST = float(np.finfo(np.float64).max)

Declared = tuple[float, float] | None


def cell_faces(
    values: NDArray[np.float64],
    axes: Sequence[NumberAxis],
    declared: Sequence[Declared],
    k: int,
    generators: Sequence[np.random.Generator],
    people: NDArray[np.int64] = NOBODY,
) -> CellFaces:
    """Return the places of the faces of all axes; ``values`` are the coordinates of the records (records, axes)."""
    from sfumato.methods.boxes.cut_kernels import CellFaces

    parts, offset = [np.empty((5, 0))], [0]
    first_number = np.zeros(len(axes), dtype=np.int64)
    for position, (axis, domain) in enumerate(zip(axes, declared, strict=True)):
        support, place, counts = np.unique(values[:, position], return_inverse=True, return_counts=True)
        if len(people):
            pairs = np.unique(np.stack([place, people]), axis=1)
            counts = np.bincount(pairs[0], minlength=len(support))
        first_number[position] = int(axis.has_missing and support[0] == axis.missing_at)
        missing, numbers = np.split(support, first_number[position : position + 1])
        is_common = counts[len(missing) :] >= k
        shares = generators[position].random(max(len(numbers) - 1, 0))
        parts += [np.tile(missing, (5, 1)), _places(numbers, is_common, axis, domain, shares)]
        offset.append(offset[-1] + len(support))
    return CellFaces(np.array(offset), first_number, *np.ascontiguousarray(np.concatenate(parts, axis=1)))


def _places(
    numbers: NDArray[np.float64],
    is_common: NDArray[np.bool_],
    axis: NumberAxis,
    declared: Declared,
    shares: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return for each number: itself, the faces of boxes that end and begin with it, and the same if it is split."""
    if not len(numbers):
        return np.empty((5, 0))
    is_whole = axis.kind is not Kind.CONTINUOUS
    low, high = _outer(numbers, is_common, axis, declared)
    end, begin = (_between_whole if is_whole else _between)(numbers, is_common, shares)
    upper, lower = np.append(end, high), np.insert(begin, 0, low)
    for place in np.flatnonzero(np.isnan(end))[::-1]:  # no number in between: the boxes overlap
        upper[place] = upper[place + 1]
    for place in np.flatnonzero(np.isnan(begin)):
        lower[place + 1] = lower[place]
    shared = is_common | is_whole
    return np.stack([numbers, upper, lower, np.where(shared, numbers, upper), np.where(shared, numbers, lower)])


def _between(
    numbers: NDArray[np.float64], is_common: NDArray[np.bool_], shares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return where a box ends and the next begins: at a share of the way between two numbers; NaN if none is there."""
    left, right = numbers[:-1], numbers[1:]
    face = (1.0 - shares) * left + shares * right
    face = np.where((left < face) & (face < right), face, 0.5 * left + 0.5 * right)
    face = np.where((left < face) & (face < right), face, np.nan)
    face = np.where(is_common[:-1], left, np.where(is_common[1:], right, face))
    return face, np.where(is_common[:-1] & is_common[1:], right, face)


def _between_whole(
    numbers: NDArray[np.float64], is_common: NDArray[np.bool_], shares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return where a box of whole numbers ends and the next begins between neighbouring numbers."""
    left, right = numbers[:-1], numbers[1:]
    gap = right - left
    inside = np.where(gap > 2.0, 1.0 + np.floor(shares * (gap - 2.0)), np.floor(shares * gap))
    end = np.minimum(left + inside, right - 1.0)
    left_is_common, right_is_common = is_common[:-1], is_common[1:]
    return (
        np.where(left_is_common, left, np.where(right_is_common, right - 1.0, end)),
        np.where(right_is_common, right, np.where(left_is_common, left + 1.0, end + 1.0)),
    )


def _outer(
    numbers: NDArray[np.float64], is_common: NDArray[np.bool_], axis: NumberAxis, declared: Declared
) -> tuple[float, float]:
    """Return the outermost faces of an axis."""
    if declared is not None:
        return declared
    width = min(axis.high - axis.low, MOST)  # the difference may overflow
    step = 10.0 ** math.ceil(math.log10(max(width / ROUND_STEPS, 1e-300)))
    if axis.kind is not Kind.CONTINUOUS:
        step = max(step, LEAST_WHOLE_STEP)
    return (
        axis.low if is_common[0] and numbers[0] == axis.low else -_above(-axis.low, step),
        axis.high if is_common[-1] and numbers[-1] == axis.high else _above(axis.high, step),
    )


def _above(value: float, step: float) -> float:
    """Return the smallest multiple of a power of ten above a value, of a larger power if the step is too small."""
    while step < MOST / 10.0:
        steps = value / step
        if math.isfinite(steps):
            face = float(np.round((math.floor(steps) + 1) * step, max(0, -round(math.log10(step)))))
            if value < face < MOST:
                return face
        step *= 10.0
    return MOST
