"""ℓ-diversity: which columns must be diverse within a box, and which values count as different (XK §IV).

ℓ protects the sensitive columns. In a table without a sensitive column, which is the case of the papers, it protects
every quasi-identifier. A column for which ε is given is always protected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.boxes.axes import Axes, NumberAxis, SetAxis
from sfumato.plan.claims.groups import Diversity
from sfumato.plan.questions import Answers, Distinct, DistinctIn
from sfumato.schema.columns import Role
from sfumato.schema.schema import Schema
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table

DEFAULT_L = 2  # default ℓ if there is a sensitive column
AFFORDABLE = 0.5  # the default ℓ must allow at least this share of the boxes that k alone allows
MOST_FREQUENT = 1000  # most frequent values of a sensitive column that are counted for this check


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


def default_questions(l: int | None, schema: Schema) -> list[DistinctIn]:
    """Return the survey questions about the sensitive columns that are needed if ℓ is not given."""
    return [DistinctIn(name, MOST_FREQUENT) for name in schema.names(Role.SENSITIVE)] if l is None else []


def choose_l(l: int | None, k: int, rows: int, schema: Schema, answers: Answers) -> int:
    """Return ℓ as given or, by default, 2 if there is a sensitive column and 1 otherwise.

    Raise if the default would cost too much: every box then needs a record without the most common value of a sensitive
    column, so there cannot be more boxes than such records.
    """
    if l is not None:
        return l
    for asked in default_questions(l, schema):
        _require_affordable(asked.column, answers[asked], rows, k)
    return DEFAULT_L if schema.names(Role.SENSITIVE) else 1


def require_enough_values(l: int, schema: Schema, table: Table) -> None:
    """Raise if a sensitive column of the whole table has fewer than ℓ values; a missing one is a value."""
    for name in schema.names(Role.SENSITIVE):
        values = table.coded(name).size
        if values < l:
            raise CannotRelease(
                f"l = {l} needs at least {l} different values of {name!r}.",
                found=f"{values}",
                fix=f"--l {max(values, 1)}, or another role for {name!r}",
            )


def _require_affordable(name: str, distinct: Distinct, rows: int, k: int) -> None:
    uncommon = rows - int(distinct.counts.max(initial=0))
    wanted = rows // k
    if uncommon >= AFFORDABLE * wanted:
        return
    alone, two, more = _shares_by_values(distinct.counts, rows, k)
    raise CannotRelease(
        f"With l = {DEFAULT_L}, the default for a sensitive column, every box must have two values of {name!r}. This "
        "would make boxes very wide.",
        found=f"at most {uncommon:,} boxes instead of about {wanted:,}, because only {uncommon:,} of {rows:,} rows "
        f"differ from its most common value; without l, about {alone:.0%} of the people would be in a box with 1 "
        f"value, {two:.0%} with 2 and {more:.0%} with more",
        fix=f"l=1 (--l 1), which does not protect {name!r} within a box, or another role for {name!r}",
    )


def _shares_by_values(counts: NDArray[np.int64], rows: int, k: int) -> tuple[float, float, float]:
    """Estimate the shares of people in boxes of k random records with 1, 2 and more different values."""
    rest = rows - int(counts.sum())  # rows whose values are too rare to be listed
    shares = np.append(counts, rest) / rows
    drawn = np.random.default_rng(0).multinomial(k, shares / shares.sum(), 4096)
    values = (drawn > 0).sum(axis=1)
    return float((values == 1).mean()), float((values == 2).mean()), float((values > 2).mean())


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
