"""Recodings of single columns, and the plan that applies them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import SchemaError
from sfumato.methods.partition import HashedGroups
from sfumato.methods.recodings.group_rules import GroupRules
from sfumato.plan.claims.rows import ColumnsAllowed, RowsAccountedFor
from sfumato.plan.plan import Claim, Outcome, Plan
from sfumato.plan.questions import Distinct
from sfumato.plan.survey import count_blocks
from sfumato.table.groups import column_hashes, combination_hashes, group_labels, mix_bits
from sfumato.table.intervals import interval_names, low_name
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.survey import Survey


@dataclass(frozen=True, repr=False)
class Recoded:
    """A released column."""

    name: str
    cells: pa.Array
    kind: Kind


class Released(Protocol):
    """What is released as one or more columns."""

    @property
    def name(self) -> str: ...
    @property
    def released_names(self) -> tuple[str, ...]: ...


class Recoding(ABC):
    """A change of the cells of one column, by their values or by their ranks."""

    name: str  # of the column

    @property
    @abstractmethod
    def values(self) -> int:
        """Number of different cells that can be released, including a missing one."""

    @property
    def released_names(self) -> tuple[str, ...]:
        """Names of the columns that are released for it."""
        return (self.name,)

    @property
    def code_size(self) -> int:
        """Upper bound of the codes, exclusive."""
        return self.values

    @property
    def by_rank(self) -> bool:
        """Whether the released cell depends on other rows, and not only on the row's own value."""
        return False

    @abstractmethod
    def codes(self, table: Table) -> NDArray[np.int64]:
        """Return an integer code of the released cell of each row, from 0 to ``code_size`` − 1."""

    @abstractmethod
    def show(self, codes: NDArray[np.int64]) -> tuple[Recoded, ...]:
        """Return the released columns for these codes."""

    @property
    @abstractmethod
    def note(self) -> Mapping[str, Any]:
        """A description of the recoding, in text and aggregate numbers."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ValueMap(Recoding):
    """A recoding that maps each value to a released cell, usually a coarser one that several values share."""

    name: str
    kind: Kind  # of the released column
    distinct: Distinct  # the original values, including a missing one, with their numbers of rows
    cells: pa.Array  # released cell of each value
    how: str  # description for the manifest

    @cached_property
    def _encoded(self) -> pa.DictionaryArray:
        return self.cells.dictionary_encode(null_encoding="encode")

    @property
    def values(self) -> int:
        return len(self._encoded.dictionary)

    def codes(self, table: Table) -> NDArray[np.int64]:
        coded = table.coded(self.name)
        known = pc.index_in(coded.values, value_set=self.distinct.values).to_numpy(zero_copy_only=False)
        return np.asarray(self._encoded.indices.to_numpy()[known.astype(np.int64)][coded.codes])

    def show(self, codes: NDArray[np.int64]) -> tuple[Recoded, ...]:
        return (Recoded(self.name, self._encoded.dictionary.take(pa.array(codes)), self.kind),)

    @property
    def is_unchanged(self) -> bool:
        """Whether every value is released as it is."""
        return bool(self._as_they_are.all())

    @property
    def covers(self) -> dict[str | None, frozenset[str | None]]:
        """The original values of each released cell, all as text; None for a missing one."""
        return covered_values([texts(self.cells)], self.distinct.values)

    @property
    def note(self) -> dict[str, object]:
        changed = int(self.distinct.counts[~self._as_they_are].sum())
        return {"how": self.how, "values after": self.values, "rows coarsened": changed}

    @property
    def _as_they_are(self) -> NDArray[np.bool_]:
        pairs = zip(texts(self.cells), texts(self.distinct.values), strict=True)
        return np.array([shown == value for shown, value in pairs], dtype=bool)


def texts(values: pa.Array) -> list[str | None]:
    """Return values as text; a missing value is None, because any text may be a value of the column."""
    found: list[str | None] = values.cast(pa.string()).to_pylist()
    return found


def covered_values(words: Iterable[Sequence[str | None]], values: pa.Array) -> dict[str | None, frozenset[str | None]]:
    """Return the original values of each released word, as text; ``words`` has one or more words for each value."""
    covered: dict[str | None, set[str | None]] = {}
    for shown in words:
        for word, value in zip(shown, texts(values), strict=True):
            covered.setdefault(word, set()).add(value)
    return {word: frozenset(members) for word, members in covered.items()}


@dataclass(frozen=True, kw_only=True, repr=False)
class RecodingPlan(Plan):
    """Recode some columns and release the others as they are.

    ``rules`` say which groups of rows that are equal in the released quasi-identifiers may be released; the others are
    suppressed. If the engine works in blocks, each block contains whole groups, or large parts of a very large one.
    """

    columns: tuple[str, ...]  # original columns that may be released, in order
    quasi: tuple[str, ...]
    recodings: tuple[Recoding, ...]
    promises: tuple[Claim[Any], ...] = ()
    method_notes: Mapping[str, Any] = field(default_factory=dict)  # notes for the manifest
    rules: GroupRules = field(default_factory=GroupRules)
    suppressed_at_most: float = 0.0  # share of rows
    groups: HashedGroups = field(default_factory=HashedGroups)

    def __post_init__(self) -> None:
        require_unused(released_columns(self.columns, self.recodings))

    def released_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the columns that are released for these."""
        return tuple(chain.from_iterable(released_columns(names, self.recodings).values()))

    @property
    def _by_name(self) -> dict[str, Recoding]:
        return {recoding.name: recoding for recoding in self.recodings}

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        rows = RowsAccountedFor(suppressed_at_most=self.suppressed_at_most)
        return (*self.promises, rows, ColumnsAllowed(names=self.released_names(self.columns)))

    @property
    def notes(self) -> Mapping[str, Any]:
        kept: dict[str, Any] = {name: {"how": "kept as it is"} for name in self.quasi}
        return {
            **self.method_notes,
            "columns": kept | {recoding.name: dict(recoding.note) for recoding in self.recodings},
        }

    @property
    def blocks(self) -> int:
        return self.groups.blocks

    @property
    def needs_whole_table(self) -> bool:
        """Whether a column is grouped by rank, so that equal values may be in different groups."""
        return any(recoding.by_rank for recoding in self.recodings)

    def in_blocks(self, survey: Survey) -> Self:
        """Return the plan with as many blocks as the engine prefers, which are about equally large by the sample.

        A very large group is divided if the rules allow parts of it that are smaller still.
        """
        few = count_blocks(survey)
        if few == 1 or not self.quasi or self.needs_whole_table or survey.block_rows is None:
            return replace(self, groups=HashedGroups(few))
        rows = survey.sample.table
        released = recode_table(rows, self.quasi, self._by_name)

        def can_stand(part: NDArray[np.int64]) -> bool:
            return bool(self.rows_to_keep(released.take(part), rows.take(part)).all())

        most = survey.block_rows * survey.sample.share
        return replace(self, groups=HashedGroups.of(few, self._hashes(rows), most, can_stand))

    def route(self, rows: Table, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the block of each row: rows that will be equal in the quasi-identifiers go to the same block."""
        return self.groups.route(self._hashes(rows) if self.quasi else mix_bits(keys), keys)

    def _hashes(self, rows: Table) -> NDArray[np.uint64]:
        """Return a hash of each row that is the same for rows that will be equal in the quasi-identifiers."""
        by_name = self._by_name
        shown = [
            mix_bits(by_name[name].codes(rows).astype(np.uint64) + np.uint64(place))
            if name in by_name
            else column_hashes(rows, name)
            for place, name in enumerate(self.quasi)
        ]
        return combination_hashes(shown)

    def transform(self, block: Table, number: int) -> Outcome:
        released = recode_table(block, self.columns, self._by_name)
        kept = np.flatnonzero(self.rows_to_keep(released, block))
        return Outcome(released if len(kept) == released.rows else released.take(kept), kept)

    def show_in_cells(self, rows: Table, released: Table) -> Table | None:
        return None if self.needs_whole_table else recode_table(rows, self.columns, self._by_name)

    def rows_to_keep(self, released: Table, block: Table) -> NDArray[np.bool_]:
        """Mark the rows that are released: those in groups that the rules allow."""
        if self.rules.allow_all:
            return np.ones(released.rows, dtype=bool)
        return self.rules.mark_rows(group_labels(released, self.released_names(self.quasi)), block)


def recode_table(table: Table, names: Sequence[str], by_name: Mapping[str, Recoding]) -> Table:
    """Return these columns of a table; those that have a recoding are recoded."""
    columns: list[Recoded] = []
    for name in names:
        if name in by_name:
            columns += by_name[name].show(by_name[name].codes(table))
        else:
            columns.append(Recoded(name, table.arrow.column(name), table.kinds[name]))
    cells = pa.table({column.name: column.cells for column in columns})
    return Table(cells, {column.name: column.kind for column in columns})


def released_columns(names: Sequence[str], recodings: Iterable[Released]) -> dict[str, tuple[str, ...]]:
    """Return the names of the columns that are released for each of these columns."""
    recoded = {one.name: one.released_names for one in recodings}
    return {name: recoded.get(name, (name,)) for name in names}


def require_unused(released: Mapping[str, Sequence[str]]) -> None:
    """Raise if a range would be released under the name of another column; ``released`` are the names for each column.

    A column called ``x_missing`` beside the range of ``x`` would be read as the number of its missing values.
    """
    ranges = [name for name, parts in released.items() if low_name(name) in parts]
    needed = {part for name in ranges for part in interval_names(name, counts_missing=True)}
    taken = sorted(name for name in released if name in needed)
    if taken:
        raise SchemaError(
            "The range of x is released as x_low and x_high, so these names, and x_missing, must not be in use.",
            found=f"{', '.join(map(repr, taken))} already in the table",
            fix="rename the columns, or release something other than a range",
        )
