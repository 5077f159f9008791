"""A table of people with its schema, made from one whole number.

Most tables are small and ordinary; some have odd names, cells of every kind that a library may stumble over, roles that
do not fit, or a form (pandas, polars, a mapping) that is not Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from tests.fuzz.columns import CANARY, MadeColumn, made_column, weights

TRACER = "tracer"  # an `other` column with the number of each row: it tells which row a released one was made from
FIRST = 10_000  # number of the first row in the tracer

PLAIN_NAMES = ("age", "income", "city", "zip", "born", "sex", "bmi", "diagnosis", "height", "job", "x", "y", "z")
ODD_NAMES = ("box", "age_low", "age_high", "x_missing", "x_low", "", " ", "a b", "é|,", "=1+1", "mean(x)", "count",
             "and", "`tick", 'quo"te', "\\", "a\nb", "名前", "a" * 300, "None", "0", "patient_id")  # fmt: skip
ROLES = ("quasi", "sensitive", "other", "identifier", None)
ROLE_SHARES = (0.62, 0.12, 0.15, 0.05, 0.06)


@dataclass(frozen=True, repr=False)
class Original:
    """A generated table: its cells, the roles that its schema gives, and the form in which it is handed over."""

    seed: int
    columns: tuple[str, ...]  # names, possibly repeated
    made: tuple[MadeColumn, ...]
    roles: Mapping[str, str]  # of the columns that the schema names
    form: str  # "arrow", "chunks", "mapping", "pandas" or "polars"

    @cached_property
    def rows(self) -> int:
        return len(self.made[0].cells)

    @cached_property
    def cells(self) -> dict[str, pa.Array]:
        return {name: made.cells for name, made in zip(self.columns, self.made, strict=True)}

    @cached_property
    def arrow(self) -> pa.Table:
        return pa.table([made.cells for made in self.made], names=list(self.columns))

    def frame(self) -> Any:
        """The table in its form."""
        if self.form == "pandas":
            return self.arrow.to_pandas()
        if self.form == "polars" and "" not in self.columns:  # which it would rename
            import polars

            return polars.from_arrow(self.arrow)
        if self.form == "mapping":
            return {name: cells.to_pylist() for name, cells in self.cells.items()}
        if self.form == "chunks" and self.rows > 3:
            return pa.concat_tables([self.arrow.slice(0, self.rows // 3), self.arrow.slice(self.rows // 3)])
        return self.arrow

    def entries(self, name: str) -> dict[str, Any]:
        """What the schema says about a column besides its role."""
        return dict(self.made[self.columns.index(name)].entry) if name in self.roles else {}

    def schema(self, folder: Path) -> dict[str, Any]:
        """The schema as a mapping; generalization trees are written into ``folder``."""
        schema: dict[str, Any] = {}
        for place, (name, role) in enumerate(self.roles.items()):
            entry = self.entries(name)
            if isinstance(entry.get("tree"), tuple):
                path = folder / f"tree {self.seed} {place}.csv"
                path.write_text("".join(";".join(line) + "\n" for line in entry["tree"]))
                entry["tree"] = str(path)
            schema[name] = {"role": role, **entry} if entry else role
        return schema

    @property
    def identifying(self) -> frozenset[str]:
        """Cells of identifiers, as text, that are long enough not to occur elsewhere by chance."""
        names = [name for name, role in self.roles.items() if role == "identifier"]
        texts = [text for name in names for text in self.cells[name].to_pylist() if isinstance(text, str)]
        return frozenset(text for text in texts if text.startswith(f"{CANARY}id"))


def original(seed: int) -> Original:
    """Make the table of a seed."""
    numbers = np.random.default_rng([2026, seed])
    rows = _rows(numbers)
    width = int(numbers.choice([1, 2, 3, 4, 5, 8], p=[0.08, 0.2, 0.27, 0.2, 0.15, 0.1]))
    names = _names(numbers, width)
    made = [made_column(numbers, rows) for _ in names]
    roles = {name: str(role) for name in names if (role := numbers.choice(ROLES, p=ROLE_SHARES)) is not None}
    if numbers.random() < 0.97:
        roles[names[0]] = "quasi"
    names, made, roles = _with_identifier(numbers, rows, names, made, roles)
    if numbers.random() < 0.12:
        names, made = [*names, "weight"], [*made, weights(numbers, rows)]
        roles["weight"] = "weight"
    if numbers.random() < 0.6:
        names = [*names, TRACER]
        made = [*made, MadeColumn("tracer", pa.array(np.arange(FIRST, FIRST + rows)))]
        roles[TRACER] = "other"
    form = str(numbers.choice(["arrow", "chunks", "mapping", "pandas", "polars"], p=[0.7, 0.08, 0.08, 0.08, 0.06]))
    is_plain = len(set(names)) == len(names) and not any(_has_other_units(one.cells.type) for one in made)
    return Original(seed, tuple(names), tuple(made), roles, form if is_plain else "arrow")


def _has_other_units(type_: pa.DataType) -> bool:
    """Whether frames keep cells of this type in another unit: times of day, dates in milliseconds, nanoseconds."""
    in_nanoseconds = pt.is_timestamp(type_) and type_.unit == "ns"
    return bool(pt.is_time(type_) or pt.is_date64(type_) or in_nanoseconds)


def _rows(numbers: np.random.Generator) -> int:
    kind = numbers.random()
    if kind < 0.03:
        return int(numbers.integers(0, 3))
    if kind < 0.99:
        return int(numbers.integers(3, 80))
    return int(numbers.integers(80, 2000))


def _names(numbers: np.random.Generator, width: int) -> list[str]:
    pool = PLAIN_NAMES if numbers.random() < 0.85 else (*PLAIN_NAMES[:4], *ODD_NAMES)
    names = [str(name) for name in numbers.choice(np.array(pool, dtype=object), width, replace=False)]
    if width > 1 and numbers.random() < 0.005:
        names[1] = names[0]
    return names


def _with_identifier(
    numbers: np.random.Generator, rows: int, names: list[str], made: list[MadeColumn], roles: dict[str, str]
) -> tuple[list[str], list[MadeColumn], dict[str, str]]:
    """Often, a column of names of people, each planted so that it can be searched for."""
    if numbers.random() < 0.5:
        cells = pa.array([f"{CANARY}id{numbers.integers(10**9)}x{row}" for row in range(rows)], pa.string())
        names, made = ["person", *names], [MadeColumn("identifier", cells), *made]
        roles = {"person": "identifier", **roles}
    return names, made, roles
