"""Sensitivities of kept statistics that are no functions of moments: differences, ratios, groups, models.

A statistic changes by the influence ψ of a record. How much an axis matters for a record is how much ψ changes if the
record is moved along it, with everything else as it is: by a small step in both directions for a number, and to other
values for a category. ψ is computed from a sample of the rows (:mod:`sfumato.statistics.point_rows`): rows of weight 0
that are added to it have an influence, but no effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import StatisticError
from sfumato.methods.boxes.axes import Axes, SetAxis
from sfumato.statistics.combined import Combination, ShareMeeting
from sfumato.statistics.model_fit import Model
from sfumato.statistics.point_rows import PointRows, evaluate, fit_rows
from sfumato.statistics.tallies import Count
from sfumato.table.kinds import Kind
from sfumato.table.table import Table, replace_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.sensitivities import Kept
    from sfumato.statistics.statistic import Statistic

    Array = NDArray[np.float64]

SAMPLE = 20_000  # rows from which influences are computed; evenly spaced in a larger table
STEP = 0.1  # of a number, in standard deviations
VALUES = 12  # of a category that are tried
CAN_BE_KEPT = (
    "a mean, variance, sd, covariance, correlation or regression; a count, sum, share or mean with a condition; "
    "difference(…), ratio(…), oddsratio(…) or relativerisk(…) of them; logistic(y ~ x), poisson(y ~ x)"
)


@dataclass(frozen=True, eq=False, repr=False)
class Aim:
    """A kept statistic: its numbers, and the importance of each divided by its wanted accuracy."""

    statistic: Statistic
    shares: Array
    weight: float  # of all its numbers, as the weights of other statistics

    @classmethod
    def of(cls, kept: Kept, sample: Table, weights: Array) -> Aim:
        """Take the natural scale from the spread of the influences, which is the standard deviation for a mean."""
        names = kept.statistic.columns
        rows = PointRows.of(sample, names, weights)
        wanted = kept.statistic.resolve(rows.cells)
        found = influences(wanted, rows)
        scales = np.sqrt(np.maximum((weights[:, None] * found**2).sum(axis=0) * weights.sum(), 0.0))
        aims = 0.1 * scales if kept.accuracy is None else np.full(len(scales), kept.accuracy)
        usable = np.isfinite(scales) & (scales > 0.0)
        shares = np.where(usable, kept.importance / np.where(usable, aims, 1.0) / len(scales), 0.0)
        return cls(wanted, shares * weights.sum(), float((shares * np.where(usable, scales, 0.0)).sum()))


def influences(wanted: Statistic, rows: PointRows) -> Array:
    """Return the influence of each row on each number of a statistic."""
    if isinstance(wanted, Model):
        return fit_rows(wanted, rows).influence
    found = [evaluate(part, rows) for part in wanted.parts()]
    if not found or any(one is None for one in found):
        raise StatisticError(
            f"Boxes cannot be cut for {wanted}: it is not known how a record changes it.",
            fix=f"keep {CAN_BE_KEPT}; others can still be estimated from the release",
        )
    return np.column_stack([one.influence for one in found if one is not None])


@dataclass(frozen=True, eq=False, repr=False)
class AimedStatistics:
    """The function from a row to the weights that the aims give its axes."""

    aims: tuple[Aim, ...]
    sample: Table
    sampled: Array  # sampling weights of the sample
    steps: Mapping[str, float]  # of the axes of numbers
    values: Mapping[str, pa.Array]  # of the other axes, and of numbers that have few
    position: Mapping[str, int]

    @classmethod
    def of(cls, kept: Sequence[Kept], axes: Axes, sample: Table, weight: str | None) -> AimedStatistics:
        """Compute what the aims need from a sample of the rows."""
        used = [name for one in kept for name in one.statistic.columns]
        sample = sample.thinned(list(dict.fromkeys([*used, *([weight] if weight else [])])), SAMPLE)
        weights = np.ones(sample.rows) if weight is None else np.nan_to_num(sample.numbers(weight))
        numbers = {axis.name: sample.arrow.column(axis.name).unique() for axis in axes.numbers if axis.name in used}
        few = {name: pc.drop_null(own) for name, own in numbers.items() if len(own) <= VALUES}
        return cls(
            tuple(Aim.of(one, sample, weights) for one in kept),
            sample,
            weights,
            {name: STEP * (float(np.nanstd(sample.numbers(name))) or 1.0) for name in numbers if name not in few},
            few | {axis.name: axis.values for axis in axes.all if isinstance(axis, SetAxis) and axis.name in used},
            {axis.name: number for number, axis in enumerate(axes.all)},
        )

    @property
    def columns(self) -> set[str]:
        """The columns of numbers that the aims use outside of conditions: these give them a weight in every row."""
        return {name for one in self.aims for name in one.statistic.columns if name in self.steps} - self._conditions

    @property
    def _conditions(self) -> set[str]:
        return {name for aim in self.aims for part in aim.statistic.parts() for name in _compared(part)}

    @property
    def weight(self) -> float:
        """The weight of all aims, as those of other statistics."""
        return sum(one.weight for one in self.aims)

    def add_to(self, weights: NDArray[np.float32], rows: Table) -> None:
        """Add to the weight of each axis (columns) for each row."""
        for aim in self.aims:
            names = aim.statistic.columns
            for name in names:
                if name in self.position:
                    weights[:, self.position[name]] += self._slopes(aim, name, rows.select(names)) @ aim.shares

    def _slopes(self, aim: Aim, name: str, rows: Table) -> Array:
        """Return how much each number of a statistic changes per unit of an axis."""
        moved = list(self._move(name, rows))
        tables = [_as_numbers(one, self.steps) for one in (self.sample.select(rows.names), *moved)]
        joined = pa.concat_tables([one.arrow.cast(tables[0].arrow.schema) for one in tables])
        weight = np.concatenate([self.sampled, np.zeros(rows.rows * len(moved))])
        found = influences(aim.statistic, PointRows.of(Table(joined, tables[0].kinds), rows.names, weight))
        parts = found[len(self.sampled) :].reshape(len(moved), rows.rows, -1)
        distance = 2.0 * self.steps[name] if name in self.steps else self._width(name, rows)
        return np.asarray(np.nan_to_num((parts.max(axis=0) - parts.min(axis=0)) / distance))

    def _width(self, name: str, rows: Table) -> float:
        """Return the width of a box with all values of a column: their number, or the range of numbers."""
        values = self.values[name]
        if not rows.kinds[name].is_numeric:
            return float(max(len(values), 1))
        ends = pc.min_max(values).as_py()
        return float(ends["max"] - ends["min"]) or 1.0

    def _move(self, name: str, rows: Table) -> Iterator[Table]:
        """Yield the rows with other cells of one column."""
        at = rows.names.index(name)
        if name in self.steps:
            numbers, kinds = rows.numbers(name), {**rows.kinds, name: Kind.CONTINUOUS}
            for side in (-1.0, 1.0):
                cells = pa.array(numbers + side * self.steps[name], from_pandas=True)
                yield Table(rows.arrow.set_column(at, name, cells), kinds)
            return
        values, kind = self.values[name], rows.arrow.schema.field(name).type
        for place in np.unique(np.linspace(0, len(values) - 1, VALUES).astype(int)):
            cells = pa.repeat(values[int(place)], rows.rows)
            yield Table(rows.arrow.set_column(at, name, cells.cast(kind) if cells.type != kind else cells), rows.kinds)


def _as_numbers(table: Table, names: Mapping[str, float]) -> Table:
    """Return the table with these columns as numbers with fractions."""
    changed = [name for name, kind in table.kinds.items() if name in names and kind is not Kind.CONTINUOUS]
    cells = {name: pa.array(table.numbers(name), from_pandas=True) for name in changed}
    return Table(replace_columns(table.arrow, cells), {**table.kinds, **dict.fromkeys(changed, Kind.CONTINUOUS)})


def _compared(part: Statistic) -> tuple[str, ...]:
    """Return the columns that conditions compare."""
    inner = part.unconditional
    if isinstance(inner, Combination):
        return (*_compared(inner.first), *_compared(inner.second))
    return (*part.where.columns, *(inner.columns if isinstance(inner, ShareMeeting | Count) else ()))
