"""Suggest generalization trees: the calendar for dates, and prefixes for codes such as postal codes and ICD-10."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.schema.columns import Column, Role
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from sfumato.schema.schema import Schema
    from sfumato.table.table import Table

# 01067, E11.9, M54.16, S72.00XA: digits, or letters and digits, without a space
CODE = r"^(\d{3,10}|[A-Za-z]{1,3}\d{2,8}([.-][A-Za-z0-9]{1,5})?)$"
NEARLY_ALL = 0.95  # share of the values that must be codes
FEWEST = 8  # values; fewer need no groups
SHARED = 0.5  # values per prefix: some length of prefix must leave at most this share of the values distinct


def suggest_tree_kind(kind: Kind, values: pa.Array) -> str | None:
    """Return the tree that fits the distinct values of a column, as a schema file names it; None if there is none.

    >>> codes = pa.array(["01067", "01069", "01099", "04103", "04105", "04109", "10115", "10117"])
    >>> suggest_tree_kind(Kind.NOMINAL, codes)
    'prefix'
    """
    if kind is Kind.DATE:
        return "calendar"
    present = values.drop_null()
    if kind is not Kind.NOMINAL or not pa.types.is_string(present.type) or len(present) < FEWEST:
        return None
    if pc.mean(pc.match_substring_regex(present, CODE).cast(pa.float64())).as_py() < NEARLY_ALL:
        return None
    return "prefix" if _share_prefixes(present) else None


def with_suggested_trees(schema: Schema, sample: Table) -> Schema:
    """Return the schema with a tree for each quasi-identifier that has none and that one fits."""
    return type(schema)(tuple(_add_tree(column, sample) for column in schema.columns))


def _add_tree(column: Column, sample: Table) -> Column:
    if column.role is not Role.QUASI or column.tree:
        return column
    kind = column.kind or sample.kinds[column.name]
    if kind not in (Kind.DATE, Kind.NOMINAL):
        return column
    return replace(column, tree=suggest_tree_kind(kind, sample.coded(column.name).values))


def _share_prefixes(values: pa.Array) -> bool:
    """Return whether some prefixes stand for several values, but not one for all."""
    longest = int(pc.max(pc.utf8_length(values)).as_py())
    counts = [len(pc.unique(pc.utf8_slice_codeunits(values, 0, kept))) for kept in range(1, longest)]
    return any(1 < count <= SHARED * len(values) for count in counts)
