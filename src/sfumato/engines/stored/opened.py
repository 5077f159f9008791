"""Open rows in files: the kinds of their columns, and the schema that fits them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.types as pt

from sfumato.engines.base import without_identifiers
from sfumato.engines.stored.relation import Relation, StoredRows
from sfumato.errors import TableError
from sfumato.schema.columns import Role
from sfumato.schema.schema import Schema
from sfumato.table.facts import ColumnFacts, is_text
from sfumato.table.kinds import TEXT_ROWS, TEXT_SHARE, Kind
from sfumato.table.table import Table

EXACTLY_COUNTED = 5_000_000  # rows up to which distinct values are counted exactly; more are estimated within about 3 %


@dataclass(frozen=True, repr=False)
class OutOfCoreTable:
    """Rows in files with their schema."""

    stored: StoredRows
    schema: Schema

    @property
    def kinds(self) -> Mapping[str, Kind]:
        return self.stored.kinds

    @property
    def rows(self) -> int:
        return self.stored.rows

    @property
    def with_all_columns(self) -> OutOfCoreTable:
        return replace(self, schema=without_identifiers(self.schema))

    @property
    def releasable(self) -> StoredRows:
        """All columns except identifiers."""
        return self.stored.select([column.name for column in self.schema.without(Role.IDENTIFIER).columns])


class FactsOfColumns(Protocol):
    """A function that counts columns of a relation."""

    def __call__(self, names: Sequence[str], count_distinct: bool = False) -> Mapping[str, ColumnFacts]:
        """Return the facts of these columns."""
        ...


def rows_of(relation: Relation, facts_of: FactsOfColumns, given: Mapping[str, Kind] | None = None) -> StoredRows:
    """Return the rows of a relation with the kinds of all columns, ``given`` or by their types and cells."""
    rows = relation.rows
    if not rows:
        raise TableError("A table must have rows to be released.", found="no rows")
    return StoredRows(relation, kinds_of(relation, facts_of) if given is None else dict(given), rows)


def kinds_of(relation: Relation, facts_of: FactsOfColumns) -> dict[str, Kind]:
    """Return the kinds of all columns, by the rules of :func:`sfumato.table.kinds.kind_of`."""
    empty = Table.from_arrow(pa.table({name: pa.array([], kind) for name, kind in relation.types.items()}))
    integers = [name for name, kind in relation.types.items() if pt.is_integer(kind)]
    texts = [name for name, kind in relation.types.items() if is_text(kind) and name not in relation.orders]
    facts = {**facts_of(integers), **facts_of(texts, count_distinct=True)}
    return dict(empty.kinds) | {name: _kind(name, relation, facts.get(name)) for name in relation.types}


def _kind(name: str, relation: Relation, facts: ColumnFacts | None) -> Kind:
    kind = relation.types[name]
    if name in relation.orders or pt.is_dictionary(kind):
        return Kind.ORDERED if name in relation.orders else Kind.NOMINAL
    if facts is None:
        return _kind_of_type(kind)
    if pt.is_integer(kind):
        return Kind.BOOLEAN if (facts.low, facts.high) == (0.0, 1.0) else Kind.WHOLE
    free = facts.present >= TEXT_ROWS and facts.distinct_values >= TEXT_SHARE * facts.present
    return Kind.TEXT if free else Kind.NOMINAL


def _kind_of_type(kind: pa.DataType) -> Kind:
    if pt.is_boolean(kind):
        return Kind.BOOLEAN
    if pt.is_date(kind) or pt.is_timestamp(kind):
        return Kind.DATE
    return Kind.NOMINAL if pt.is_null(kind) else Kind.CONTINUOUS


def column_facts(counts: Mapping[str, Any], position: int, kind: Kind, stored: pa.DataType) -> ColumnFacts:
    """Return the facts of a column from the row of a query, in which the names of counts end with its position."""
    low, high = (counts.get(f"{end}{position}") for end in ("low", "high"))
    present = counts[f"present{position}"]
    distinct = counts.get(f"distinct{position}")
    return ColumnFacts(
        kind=kind,
        rows=counts["rows"],
        missing=counts["rows"] - present,
        is_floating=bool(pt.is_floating(stored)),
        low=math.nan if low is None else low,
        high=math.nan if high is None else high,
        infinite=counts.get(f"infinite{position}") or 0,
        distinct=None if distinct is None else min(distinct, present),
        blanks=int(counts.get(f"blanks{position}") or 0),
    )


def require_finite(facts: Mapping[str, ColumnFacts]) -> None:
    """Raise if a column has infinite numbers."""
    infinite = [f"{one.infinite:,} in {name!r}" for name, one in facts.items() if one.infinite]
    if infinite:
        raise TableError(
            "Numbers must be finite.",
            found=f"infinite numbers, {', '.join(infinite)}",
            fix="make them missing, or remove these rows",
        )
