"""ℓ-diversity: which columns must be diverse within a box, and which values count as different (XK §IV).

ℓ protects the sensitive columns. In a table without a sensitive column, which is the case of the papers, it protects
every quasi-identifier. A column for which ε is given is always protected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import OptionError
from sfumato.methods.boxes.axes import Axes, NumberAxis, SetAxis
from sfumato.plan.claims.groups import Diversity
from sfumato.schema.columns import Role
from sfumato.schema.schema import Schema
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table


@dataclass(frozen=True, repr=False)
class Protected:
    """The protected columns of some rows as numbers (categories as codes), and the smallest distance that counts."""

    l: int
    values: NDArray[np.float64]
    separation: NDArray[np.float64]
    apart: NDArray[np.float64]  # least distance of different values along each axis; 0: the axis is not protected

    @property
    def is_needed(self) -> bool:
        """Whether boxes must be diverse in some column."""
        return self.l > 1 and self.values.shape[1] > 0


@dataclass(frozen=True)
class DiversityRule:
    """At least ℓ values of each of these columns in every box, ε apart."""

    l: int
    columns: tuple[str, ...]
    epsilon: Mapping[str, float]

    @classmethod
    def of(
        cls, l: int, epsilon: float | Mapping[str, float] | None, schema: Schema, kinds: Mapping[str, Kind]
    ) -> DiversityRule:
        """Return the rule that ℓ and ε give for a table."""
        if l < 2:
            return cls(l, (), {})
        columns = schema.names(Role.SENSITIVE) or schema.names(Role.QUASI)
        given = dict(epsilon) if isinstance(epsilon, Mapping) else {}
        absent = [name for name in given if name not in schema]
        if absent:
            raise OptionError("epsilon must name columns of the table.", found=", ".join(map(repr, absent)))
        non_numeric = [name for name in given if not kinds[name].is_numeric]
        if non_numeric:
            raise OptionError(
                "epsilon is a distance between numbers, so it must name numeric columns.",
                found=", ".join(map(repr, non_numeric)),
                fix="leave it out: two different categories always count as different",
            )
        columns = tuple(dict.fromkeys([*columns, *given]))
        everywhere = float(epsilon) if isinstance(epsilon, int | float) else 0.0
        return cls(l, columns, {name: given.get(name, everywhere) for name in columns if kinds[name].is_numeric})

    def protect(self, rows: Table, axes: Axes) -> Protected:
        """Return the protected columns of these rows."""
        hidden = {axis.name: axis for axis in axes.all}
        values = np.empty((rows.rows, len(self.columns)))
        for position, name in enumerate(self.columns):
            if name in hidden:
                values[:, position] = hidden[name].coordinates(rows)
            elif rows.kinds[name].is_numeric:
                numbers = rows.numbers(name)
                least = np.nanmin(numbers) if not np.isnan(numbers).all() else 0.0
                apart = 1.0 + self.epsilon.get(name, 0.0) + abs(least)
                values[:, position] = np.where(np.isnan(numbers), least - apart, numbers)
            else:
                values[:, position] = rows.coded(name).codes
        return Protected(
            self.l,
            values,
            np.array([self.epsilon.get(name, 0.0) for name in self.columns]),
            np.array([self._apart(axis) for axis in axes.all]),
        )

    def _apart(self, axis: NumberAxis | SetAxis) -> float:
        """Return the least distance of different values along an axis; 0 if any will do."""
        if axis.name not in self.columns:
            return 0.0
        if isinstance(axis, NumberAxis) and axis.kind is Kind.CONTINUOUS:
            return self.epsilon.get(axis.name, 0.0)
        return max(self.epsilon.get(axis.name, 0.0), 1.0)

    def claims(self, group: tuple[str, ...], axes: Axes) -> tuple[Diversity, ...]:
        """Return the promises about these columns."""
        return tuple(
            Diversity(
                l=self.l, columns=group, column=name, epsilon=self.epsilon.get(name) or None, hidden=name in axes.names
            )
            for name in self.columns
        )
