"""A release beside the table that it was made from, with what both show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tests.fuzz.cells import is_number, numbers_of, texts_of
from tests.fuzz.tables import FIRST, TRACER, Original

RECODING = ("generalize", "optimal-groups", "quantiles", "recode")  # categories become words that cover several values
# every column is changed, whatever its role
PERTURBING = ("curves", "noise", "rhs", "shuffle", "spectral-rhs", "pica", "svd-swap", "swap", "synthesize")


@dataclass(frozen=True, repr=False)
class Case:
    """One release to be judged."""

    original: Original
    method: Any  # with its options
    release: Any

    @cached_property
    def released(self) -> dict[str, pa.ChunkedArray]:
        arrow = self.release.table.arrow
        return dict(zip(arrow.column_names, arrow.columns, strict=True))

    @cached_property
    def rows(self) -> int:
        return int(self.release.table.arrow.num_rows)

    @cached_property
    def roles(self) -> dict[str, str]:
        """Roles as the manifest tells them; those that were given must be among them."""
        return {column.name: str(column.role) for column in self.release.manifest.columns}

    def named(self, *roles: str) -> list[str]:
        return [name for name, role in self.roles.items() if role in roles]

    @cached_property
    def intervals(self) -> list[str]:
        """Quasi-identifiers that are released as two ends."""
        return [name for name in self.named("quasi") if self.is_interval(name)]

    @property
    def releases_boxes(self) -> bool:
        """Whether groups are released as ranges and sets, with their number."""
        return self.method.name == "boxes" or (self.method.name == "mdav" and self.method.values == "range")

    @cached_property
    def words(self) -> list[str]:
        """Quasi-identifiers that are released under their own name."""
        return [name for name in self.named("quasi") if name in self.released and name not in self.intervals]

    @cached_property
    def passed(self) -> list[str]:
        """Columns that are released as they are by methods that protect quasi-identifiers."""
        return [name for name in self.named("sensitive", "other") if name in self.released]

    def is_interval(self, name: str) -> bool:
        return name not in self.released and {f"{name}_low", f"{name}_high"} <= set(self.released)

    def shown(self, name: str) -> list[str]:
        """The released columns of an original one."""
        parts = [f"{name}_low", f"{name}_high", f"{name}_missing"] if self.is_interval(name) else [name]
        return [part for part in parts if part in self.released]

    @cached_property
    def origin(self) -> NDArray[np.int64] | None:
        """Position of the original row of each released one; None where the tracer was not released as it is."""
        if TRACER not in self.released or self.method.name in PERTURBING or not is_number(self.released[TRACER].type):
            return None
        tracer = numbers_of(self.released[TRACER])
        is_place = np.isin(tracer, np.arange(FIRST, FIRST + self.original.rows))
        if not is_place.all() or len(np.unique(tracer)) < len(tracer):
            return None
        return tracer.astype(np.int64) - FIRST

    def numbers(self, name: str) -> NDArray[np.float64]:
        return numbers_of(self.original.cells[name])

    def texts(self, name: str) -> list[str | None]:
        return texts_of(self.original.cells[name])

    def groups(self, names: list[str]) -> NDArray[np.int64]:
        """A number for each released row: rows that are equal in these columns share it."""
        columns = [texts_of(self.released[name]) for name in names]
        keys: dict[tuple[str | None, ...], int] = {}
        rows = zip(*columns, strict=True) if columns else iter([()] * self.rows)
        return np.array([keys.setdefault(key, len(keys)) for key in rows], dtype=np.int64)
