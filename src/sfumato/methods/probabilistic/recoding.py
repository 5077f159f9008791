"""Methods that recode each column by itself: what one recoding is, and the plan that carries them all out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import SchemaError
from sfumato.methods.base import Outcome, Plan
from sfumato.methods.claims import ColumnsAllowed, RowsAccountedFor
from sfumato.survey.questions import Distinct
from sfumato.table.groups import group_labels
from sfumato.table.hashing import column_hashes, combination_hashes, mixed_bits
from sfumato.table.intervals import MISSING
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.claims import Claim


@dataclass(frozen=True, repr=False)
class Recoded:
    """A released column."""

    name: str
    cells: pa.Array
    kind: Kind


class Recoding(Protocol):
    """What is done to the cells of one column, by their values alone or by their ranks."""

    @property
    def name(self) -> str:
        """The column."""
        ...

    @property
    def values(self) -> int:
        """Number of different cells that can be shown, a missing one included."""
        ...

    @property
    def released_names(self) -> tuple[str, ...]:
        """Names of the columns that leave for it."""
        ...

    def codes(self, table: Table) -> NDArray[np.int64]:
        """A number for what is shown in each row, equal where the same is shown, from 0 to below ``code_size``."""
        ...

    @property
    def code_size(self) -> int:
        """Above every code."""
        ...

    @property
    def by_rank(self) -> bool:
        """Whether what is shown depends on the other rows too, and not on the row's own value alone."""
        ...

    def show(self, codes: NDArray[np.int64]) -> tuple[Recoded, ...]:
        """The columns that leave, from the codes."""
        ...

    @property
    def note(self) -> Mapping[str, Any]:
        """What was done, in words and aggregates."""
        ...


@dataclass(frozen=True, kw_only=True, repr=False)
class ValueMap:
    """A column in which each value is shown as another cell, usually a coarser one for several values."""

    name: str
    kind: Kind  # of what is shown
    distinct: Distinct  # the values, a missing one among them, and the rows that hold each
    cells: pa.Array  # what is shown for each value
    how: str

    @cached_property
    def _encoded(self) -> pa.DictionaryArray:
        return self.cells.dictionary_encode(null_encoding="encode")

    @property
    def values(self) -> int:
        """Number of different cells that can be shown, a missing one included."""
        return len(self._encoded.dictionary)

    @property
    def code_size(self) -> int:
        return self.values

    @property
    def by_rank(self) -> bool:
        return False

    @property
    def released_names(self) -> tuple[str, ...]:
        return (self.name,)

    def codes(self, table: Table) -> NDArray[np.int64]:
        """What is shown in each row, numbered."""
        coded = table.coded(self.name)
        known = pc.index_in(coded.values, value_set=self.distinct.values).to_numpy(zero_copy_only=False)
        codes: NDArray[np.int64] = self._encoded.indices.to_numpy()[known.astype(np.int64)][coded.codes]
        return codes

    def show(self, codes: NDArray[np.int64]) -> tuple[Recoded, ...]:
        return (Recoded(self.name, self._encoded.dictionary.take(pa.array(codes)), self.kind),)

    @property
    def is_unchanged(self) -> bool:
        """Whether every value is shown as it is."""
        return bool(self._as_they_are.all())

    @property
    def covers(self) -> dict[str | None, frozenset[str | None]]:
        """The values that each cell stands for, all as text, None for a missing one."""
        covered: dict[str | None, set[str | None]] = {}
        shown_texts, value_texts = (part.cast(pa.string()).to_pylist() for part in (self.cells, self.distinct.values))
        for shown, value in zip(shown_texts, value_texts, strict=True):
            covered.setdefault(shown, set()).add(value)
        return {shown: frozenset(members) for shown, members in covered.items()}

    @property
    def note(self) -> dict[str, object]:
        """What was done, in words and aggregates."""
        changed = int(self.distinct.counts[~self._as_they_are].sum())
        return {"how": self.how, "values after": self.values, "rows coarsened": changed}

    @property
    def _as_they_are(self) -> NDArray[np.bool_]:
        pairs = zip(texts(self.cells), texts(self.distinct.values), strict=True)
        return np.array([shown == value for shown, value in pairs], dtype=bool)


def texts(values: pa.Array) -> list[str]:
    """Values as text, the missing one by its word."""
    return [MISSING if text is None else text for text in values.cast(pa.string()).to_pylist()]


@dataclass(frozen=True, kw_only=True, repr=False)
class RecodingPlan(Plan):
    """Recode some columns and keep the others.

    ``within`` is the least number of released rows that must look alike in the released quasi-identifiers: smaller
    groups are left out. Blocks, where an engine wants them, hold whole groups.
    """

    columns: tuple[str, ...]  # all that may leave, in order
    quasi: tuple[str, ...]
    recodings: tuple[Recoding, ...]
    promises: tuple[Claim[Any], ...] = ()
    said: Mapping[str, Any] = field(default_factory=dict)
    within: int = 1
    suppressed_at_most: float = 0.0  # share of rows
    parts: int = 1

    def __post_init__(self) -> None:
        names = self.released_names(self.columns)
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise SchemaError(
                "A range leaves as two columns, x_low and x_high, and these names must be free.",
                found=f"{', '.join(map(repr, repeated))} already there",
                fix="rename the columns, or show something else than a range",
            )

    def released_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Names of the columns that leave for these."""
        by_name = {recoding.name: recoding.released_names for recoding in self.recodings}
        return tuple(released for name in names for released in by_name.get(name, (name,)))

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        rows = RowsAccountedFor(suppressed_at_most=self.suppressed_at_most)
        return (*self.promises, rows, ColumnsAllowed(names=self.released_names(self.columns)))

    @property
    def notes(self) -> Mapping[str, Any]:
        kept: dict[str, Any] = {name: {"how": "kept as it is"} for name in self.quasi}
        return {**self.said, "columns": kept | {recoding.name: dict(recoding.note) for recoding in self.recodings}}

    @property
    def blocks(self) -> int:
        return self.parts

    @property
    def needs_whole_table(self) -> bool:
        """Whether a column is grouped by rank, so that equal values may fall into two groups."""
        return any(recoding.by_rank for recoding in self.recodings)

    def route(self, rows: Table, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Rows that will look alike in the quasi-identifiers go to one block, whatever their other columns are."""
        by_name = {recoding.name: recoding for recoding in self.recodings}
        shown = [
            mixed_bits(by_name[name].codes(rows).astype(np.uint64) + np.uint64(place))
            if name in by_name
            else column_hashes(rows, name)
            for place, name in enumerate(self.quasi)
        ]
        mixed = combination_hashes(shown) if shown else mixed_bits(keys)
        return (mixed % np.uint64(self.parts)).astype(np.int64)

    def transform(self, block: Table, number: int) -> Outcome:
        by_name = {recoding.name: recoding for recoding in self.recodings}
        columns: list[Recoded] = []
        for name in self.columns:
            if name in by_name:
                columns += by_name[name].show(by_name[name].codes(block))
            else:
                columns.append(Recoded(name, block.arrow.column(name), block.kinds[name]))
        cells = pa.table({column.name: column.cells for column in columns})
        released = Table(cells, {column.name: column.kind for column in columns})
        if self.within <= 1:
            return Outcome(released, np.arange(block.rows))
        labels = group_labels(released, self.released_names(self.quasi))
        kept = np.flatnonzero(np.bincount(labels)[labels] >= self.within)
        return Outcome(released.take(kept), kept)
