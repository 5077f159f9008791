"""Compare released tables as their contract says: rows in any order, and boxes under any numbers."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa


def canonical(arrow: pa.Table, numbered: tuple[str, ...] = ("box",)) -> list[str]:
    """All rows as sorted texts; the number of a box is replaced by the rows that share it."""
    numbered = tuple(name for name in numbered if name in arrow.column_names)
    rows = [repr(row) for row in arrow.drop_columns(list(numbered)).to_pylist()]
    for name in numbered:
        members: dict[object, list[str]] = defaultdict(list)
        for number, row in zip(arrow.column(name).to_pylist(), rows, strict=True):
            members[number].append(row)
        order = sorted(members, key=lambda number: sorted(members[number]))
        places = {number: place for place, number in enumerate(order)}
        rows = [f"{row} {places[number]}" for number, row in zip(arrow.column(name).to_pylist(), rows, strict=True)]
    return sorted(rows)


def same_rows(first: pa.Table, again: pa.Table) -> bool:
    """Whether two released tables hold the same rows in the same boxes."""
    return first.schema.equals(again.schema) and canonical(first) == canonical(again)
