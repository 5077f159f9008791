"""The columns of a released table, as an analyst finds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.types as pt

from sfumato.errors import StatisticError, TableError
from sfumato.table.kinds import Kind
from sfumato.table.sets import parse_set
from sfumato.table.table import Coded, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class ReadColumn:
    """A column of a release: interval ends of every row, or for categories the set of every code."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    keys: tuple[Coded, ...]  # what tells rows apart
    missing: NDArray[np.int64] | None = None  # missing rows of the box, where the release counts them
    calendar: str = ""  # "days" or "microseconds" since 1970
    sets: tuple[tuple[str | None, ...], ...] | None = None  # by the codes of the only key


def read_column(released: Table, name: str) -> ReadColumn:
    """Read ``x_low`` and ``x_high`` (and ``x_missing``), or ``x`` itself: numbers without width, or sets."""
    low, high, missing = f"{name}_low", f"{name}_high", f"{name}_missing"
    if low in released.names and high in released.names:
        ends = released.numbers(low), released.numbers(high)
        keys = (released.coded(low), released.coded(high))
        calendar = _calendar(released, low)
        if missing not in released.names:
            return ReadColumn(*ends, keys, calendar=calendar)
        counts = np.nan_to_num(released.numbers(missing)).astype(np.int64)
        return ReadColumn(*ends, (*keys, released.coded(missing)), counts, calendar)
    if name not in released.names:
        names = ", ".join(map(repr, released_names(released)))
        raise StatisticError(f"The release has no column {name!r}.", found=f"columns {names}")
    coded = released.coded(name)
    if released.kinds[name].is_numeric:
        numbers = released.numbers(name)
        return ReadColumn(numbers, numbers, (coded,), calendar=_calendar(released, name))
    nothing = np.empty(0)
    return ReadColumn(nothing, nothing, (coded,), sets=_sets(released, name, coded))


def _sets(released: Table, name: str, coded: Coded) -> tuple[tuple[str | None, ...], ...]:
    values = coded.values.to_pylist()
    if released.kinds[name] is Kind.BOOLEAN:
        return tuple((None if value is None else str(value).lower(),) for value in values)
    return tuple(parse_set(None if value is None else str(value)) for value in values)


def _calendar(released: Table, name: str) -> str:
    kind = released.arrow.column(name).type
    if pt.is_date(kind):
        return "days"
    return "microseconds" if pt.is_timestamp(kind) else ""


def released_names(released: Table) -> tuple[str, ...]:
    """The columns of the original that a release shows: ``x`` for ``x_low`` and ``x_high``, else the column itself."""
    present = set(released.names)

    def base_of(name: str) -> str | None:
        """The original column that this one belongs to."""
        for suffix in ("_low", "_high", "_missing"):
            base = name.removesuffix(suffix)
            if base != name and {f"{base}_low", f"{base}_high"} <= present:
                return base
        return None

    return tuple(dict.fromkeys(base_of(name) or name for name in released.names))


def box_keys(released: Table) -> tuple[str, ...]:
    """The columns that tell released boxes apart."""
    if "box" in released.names:
        return ("box",)
    bases = [name for name in released_names(released) if f"{name}_low" in released.names]
    keys = [f"{base}{suffix}" for base in bases for suffix in ("_low", "_high", "_missing")]
    return tuple(key for key in keys if key in released.names)


def read_weights(released: Table, weight: str) -> NDArray[np.float64]:
    """The sampling weights of the rows."""
    row_weight = released.numbers(weight)
    if not np.isfinite(row_weight).all() or (row_weight < 0.0).any():
        raise TableError(f"The weights in {weight!r} must be finite, not negative and not missing.")
    return row_weight
