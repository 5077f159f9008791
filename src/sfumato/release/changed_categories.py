"""Estimates from categories that changed at random, with known probabilities (Gouweleeuw et al. 1998)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import StatisticError
from sfumato.statistics.conditions import base_columns
from sfumato.statistics.model_fit import Model
from sfumato.statistics.point_rows import Correction, PointRows, evaluate, fit_rows
from sfumato.table.table import CountedRows, Table, replace_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.release.manifest import Manifest
    from sfumato.statistics.estimate import RecoveredEstimate
    from sfumato.statistics.estimate_records import FittedCoefficient
    from sfumato.statistics.statistic import Statistic

    Array = NDArray[np.float64]

MOST_CELLS = 20_000_000  # records times combinations of categories
CHANGES = "the random changes"
CHANGED = "an estimate, no guarantee: corrected for the random changes of categories by their probabilities"


# A cell u became v with probability P_uv. For any function h of a cell and of columns that did not change,
# Σ_u (P⁻¹)_vu h(u, z) is right on average: a record of v stands for rows of all categories u with these weights, of
# which some are negative. Sums, means, moments and the score equations of models (Akazawa et al. 1998) are computed
# from these rows. Several columns multiply their weights (the Kronecker product of their matrices).
#
# ψ(u, z) is the influence of a row. With φ(v, z) the part of the estimate that depends on the released cell v, and
# η(u, z) its mean over v, the changes cause the variance Σ (φ² − Σ_u w_u η²), and the sample Σ_u w_u ψ². For a matrix
# that is given, η = ψ. The shares of an invariant matrix P = k I + (1 − k) 1 πᵀ are those of the released column, and φ
# contains their effect.


@dataclass(frozen=True, eq=False, repr=False)
class ChangedColumn:
    """The categories of a column, and the probabilities of their changes; the missing one never changes."""

    name: str
    values: pa.Array
    codes: NDArray[np.int64]  # of the released rows
    chances: Array  # (before, after)
    drawn: float  # probability of a draw from the column's own shares; 0 if the matrix is given

    @classmethod
    def read(cls, rows: CountedRows, name: str, keep: float, given: Mapping[str, Any] | None) -> ChangedColumn:
        """Read the released cells of a column and what the manifest says of them."""
        cells = rows.table.arrow.column(name).combine_chunks()
        cells = cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells
        values = pc.unique(cells.drop_null())
        if given is not None:
            named = [*given, *(one for row in given.values() for one in row)]
            values = pc.unique(pa.concat_arrays([values, pa.array(named, pa.string()).cast(values.type)]))
        size = len(values)
        place = pc.fill_null(pc.index_in(cells, value_set=values), size).to_numpy().astype(np.int64)
        chances = np.eye(size + 1)
        if given is None:
            counts = np.bincount(place, weights=rows.count, minlength=size + 1)[:size]
            chances[:size, :size] = keep * np.eye(size) + (1.0 - keep) * counts / max(counts.sum(), 1.0)
        else:
            at = {text: number for number, text in enumerate(values.cast(pa.string()).to_pylist())}
            for value, row in given.items():
                chances[at[value]] = 0.0
                chances[at[value], [at[one] for one in row]] = list(row.values())
        used = size + int((place == size).any())
        values = pa.concat_arrays([values, pa.nulls(used - size, values.type)])
        return cls(name, values, place, chances[:used, :used], 1.0 - keep if given is None else 0.0)

    @cached_property
    def undone(self) -> Array:
        """The inverse of the matrix."""
        if np.linalg.cond(self.chances) > 1e8:
            raise StatisticError(
                f"The changes of {self.name!r} cannot be undone: several categories have the same probabilities.",
                fix="a release with a larger probability of keeping",
            )
        return np.asarray(np.linalg.inv(self.chances), dtype=np.float64)

    @property
    def weights(self) -> Array:
        """The weight of each category in each released row."""
        return np.asarray(self.undone[self.codes])


@dataclass(frozen=True, eq=False, repr=False)
class ChangedRows:
    """Released rows, and the rows of all categories that they stand for."""

    counted: CountedRows
    changed: tuple[ChangedColumn, ...]
    sampling: Array  # the sampling weight of each released row

    @classmethod
    def of(cls, table: Table, manifest: Manifest, columns: Sequence[str], weight: str | None) -> ChangedRows:
        """Read the columns of a statistic."""
        names = list(dict.fromkeys([*base_columns(columns), *([weight] if weight else [])]))
        counted = CountedRows.of(table, names)
        given: Any = manifest.notes.get("transitions") or {}
        keep = float(str(manifest.options["keep"]))
        changed = [name for name in names if name in manifest.altered]
        read = tuple(ChangedColumn.read(counted, name, keep, given.get(name)) for name in changed)
        rows = counted.table.rows * math.prod(len(one.values) for one in read)
        if rows > MOST_CELLS:
            raise StatisticError(
                "A corrected estimate needs fewer categories or rows.",
                found=f"{rows:,} rows of all categories",
                fix="a statistic of fewer changed columns",
            )
        sampling = np.ones(counted.table.rows) if weight is None else counted.table.numbers(weight)
        return cls(counted, read, sampling)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of released rows, and of categories of each changed column."""
        return (self.counted.table.rows, *(len(one.values) for one in self.changed))

    @cached_property
    def weights(self) -> Array:
        """The weight of each combination of categories in each released row."""
        return reduce(np.multiply, [_along(one.weights, at, len(self.shape)) for at, one in enumerate(self.changed)])

    def expand(self, columns: Sequence[str]) -> PointRows:
        """Return the rows of all categories, with their weights."""
        size, table = math.prod(self.shape[1:]), self.counted.table
        arrow = table.arrow.take(pa.array(np.repeat(np.arange(table.rows), size)))
        grid = np.indices(self.shape[1:]).reshape(len(self.changed), -1)
        cells = {
            one.name: one.values.take(pa.array(np.tile(places, table.rows)))
            for one, places in zip(self.changed, grid, strict=True)
        }
        weights = self.weights * _along((self.counted.count * self.sampling)[:, None], None, len(self.shape))
        return PointRows.of(Table(replace_columns(arrow, cells), table.kinds), columns, weights.reshape(-1))

    def as_released(self, columns: Sequence[str]) -> PointRows:
        """Return the released rows as they are."""
        return PointRows.of(self.counted.table, columns, self.counted.count * self.sampling)

    def variances(self, influence: Array) -> tuple[float, float]:
        """Return the variance that the changes cause, and that of the sample."""
        psi = influence.reshape(self.shape)
        count = self.counted.count.astype(np.float64)
        phi = psi * _along(self.sampling[:, None], None, psi.ndim)
        for at, one in enumerate(self.changed):
            phi = _apply(one.undone, phi, at)
        for at, one in enumerate(self.changed):
            phi = phi + _along(self._shift(psi, at, one, count)[None, :], at, psi.ndim)
        eta = reduce(lambda values, at: _apply(self.changed[at].chances, values, at), range(len(self.changed)), phi)
        own = phi[(np.arange(len(count)), *(one.codes for one in self.changed))]
        spread = count @ own**2 - count @ (self.weights * eta**2).reshape(len(count), -1).sum(axis=1)
        sample = (count * self.sampling**2) @ (self.weights * psi**2).reshape(len(count), -1).sum(axis=1)
        return max(float(spread), 0.0), max(float(sample), 0.0)

    def _shift(self, psi: Array, at: int, column: ChangedColumn, count: Array) -> Array:
        """Return how a released category changes the estimate through the shares of the invariant matrix."""
        if column.drawn in (0.0, 1.0):  # without a draw there is no change, and with draws only, there is one category
            return np.zeros(len(column.values))
        for other in reversed(range(len(self.changed))):
            if other != at:
                psi = (psi * _along(self.changed[other].weights, other, psi.ndim)).sum(axis=other + 1, keepdims=True)
        mean = (count * self.sampling) @ psi.reshape(len(count), -1)
        present = column.values.is_valid().to_numpy(zero_copy_only=False)
        total = count[present[column.codes]].sum()
        shift = np.where(present, -column.drawn / (1.0 - column.drawn) * mean / max(total, 1.0), 0.0)
        shares = np.bincount(column.codes, weights=count, minlength=len(shift)) * present / max(total, 1.0)
        return np.asarray(np.where(present, shift - shares @ shift, 0.0))


def _along(values: Array, at: int | None, dimensions: int) -> Array:
    """Return rows by categories as an array in which the categories are those of one changed column."""
    shape = [1] * dimensions
    shape[0] = values.shape[0]
    if at is not None:
        shape[at + 1] = values.shape[1]
    return values.reshape(shape)


def _apply(matrix: Array, values: Array, at: int) -> Array:
    """Multiply one axis of categories by a matrix."""
    return np.moveaxis(np.tensordot(matrix, values, axes=(1, at + 1)), 0, at + 1)


def correct_changes(
    table: Table, manifest: Manifest, wanted: Statistic, confidence: float | None, weight: str | None
) -> tuple[RecoveredEstimate, ...] | tuple[FittedCoefficient, ...] | None:
    """Correct for changed categories."""
    rows = ChangedRows.of(table, manifest, wanted.columns, weight)
    expanded, plain = rows.expand(wanted.columns), rows.as_released(wanted.columns)
    if isinstance(wanted, Model):
        fitted = fit_rows(wanted, expanded)
        variances = [rows.variances(one) for one in fitted.influence.T]
        return tuple(
            Correction(value=float(value), by_method=by, total=by + of, records=round(fitted.records)).coefficient(
                name, wanted, (CHANGED,)
            )
            for name, value, (by, of) in zip(wanted.terms, fitted.values, variances, strict=True)
        )
    found = []
    for part in wanted.parts():
        one, released = evaluate(part, expanded), evaluate(part, plain)
        if one is None or released is None:
            return None
        by, of = rows.variances(one.influence)
        number = Correction(
            value=one.value, by_method=by, total=by + of, released=released.value, records=round(one.records)
        )
        found.append(replace(number.estimate(str(part), confidence, ()), error_of=CHANGES, weighted_by=weight))
    return tuple(found)
