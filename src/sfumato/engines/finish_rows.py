"""The last step of every engine: rows in random order, random numbers of groups, and the types of the original."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.plan.plan import Evidence
from sfumato.table.groups import mix_bits
from sfumato.table.kinds import Kind
from sfumato.table.table import Table, take_rows

Renumber = Callable[[str, NDArray[np.int64]], NDArray[np.int64]]  # name, groups 0, 1, … in any order → their numbers


def finish_rows(
    evidence: Evidence, numbered: Sequence[str], order: np.random.Generator, renumber: Renumber
) -> Evidence:
    """Put the rows of a block in random order, and give new numbers to the groups in ``numbered`` columns.

    ``order`` and ``renumber`` must not depend on the seed of the release: whoever knew it could otherwise undo them and
    read the order of the original.
    """
    arrow = evidence.released.arrow
    for name in numbered:
        groups = pa.array(arrow.column(name).to_numpy()).dictionary_encode().indices.to_numpy()
        shuffled = order.permutation(int(groups.max(initial=-1)) + 1)  # they appear in the order of their rows
        numbers = pa.array(renumber(name, shuffled)[groups])
        arrow = arrow.set_column(arrow.column_names.index(name), name, numbers)
    rows = order.permutation(arrow.num_rows)
    released = with_original_types(Table(take_rows(arrow, rows), evidence.released.kinds), evidence.original)
    return Evidence(cells_only(released), evidence.original, evidence.origin[rows])


def with_original_types(released: Table, original: Table) -> Table:
    """Give columns that were released as text the order of their categories, or booleans, back.

    Only where each released cell is a single value of the original: sets and words of a tree stay text.
    """
    columns, kinds = {}, dict(released.kinds)
    for one in released.arrow.schema:
        column = columns[one.name] = released.arrow.column(one.name)
        kind = original.kinds.get(one.name)
        if kind in (Kind.ORDERED, Kind.BOOLEAN) and pt.is_string(one.type):
            typed = _cast_back(column, _possible_values(original, one.name), kind)
            if typed is not None:
                columns[one.name], kinds[one.name] = typed, kind
    return Table(pa.table(columns), kinds)


def _possible_values(original: Table, name: str) -> pa.Array:
    """Return the values that the column can have, also those that other blocks hold."""
    column = original.arrow.column(name)
    if pt.is_boolean(column.type):
        return pa.array([False, True])
    if original.kinds[name] is Kind.BOOLEAN and pt.is_integer(column.type):
        return pa.array([0, 1], column.type)
    if pt.is_dictionary(column.type):
        return column.unify_dictionaries().chunk(0).dictionary
    return original.coded(name).values.drop_null()


def _cast_back(column: pa.ChunkedArray, values: pa.Array, kind: Kind) -> pa.ChunkedArray | pa.Array | None:
    """Return the column with the type of the original, or None if a cell is not one of its values."""
    words = values.cast(pa.string())
    codes = pc.index_in(column, value_set=words)
    if codes.null_count > column.null_count or pc.any(pc.match_substring_regex(words, r"[|\\]")).as_py():
        return None
    if kind is Kind.BOOLEAN:
        return values.take(codes.combine_chunks())
    return pa.DictionaryArray.from_arrays(codes.combine_chunks().cast(pa.int32()), words, ordered=True)


def cells_only(released: Table) -> Table:
    """Drop metadata and unused dictionary values, which may come from suppressed rows."""
    columns = dict(zip(released.names, released.arrow.columns, strict=True))
    for one in released.arrow.schema:
        if pt.is_dictionary(one.type):
            coded = released.coded(one.name)
            values = coded.values.drop_null()
            codes = pa.array(coded.codes, mask=coded.codes == len(values))
            columns[one.name] = pa.DictionaryArray.from_arrays(codes, values, ordered=one.type.ordered)
    return Table(pa.table(columns), released.kinds)


# Random numbers for groups that are made in separate blocks: a random permutation that is never written down.
#
# A permutation of 0 … n − 1 must be applied by workers that know nothing of each other. A balanced Feistel network
# with random keys is one on 0 … 2^b − 1, whatever its rounds compute; walking along its cycle until the number is
# below n makes one of 0 … n − 1 (Black and Rogaway 2002).


ROUNDS = 6


def _keys() -> tuple[int, ...]:
    return tuple(secrets.randbits(64) for _ in range(ROUNDS))


@dataclass(frozen=True, repr=False)
class RandomNumbering:
    """A random permutation of 0 … size − 1, from keys of the operating system."""

    size: int
    keys: tuple[int, ...] = field(default_factory=_keys)

    def of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number that each of these numbers is exchanged for."""
        half = max((max(self.size - 1, 1)).bit_length() + 1, 2) // 2
        exchanged = numbers.astype(np.uint64)
        outside = np.arange(len(exchanged))
        while outside.size:
            exchanged[outside] = self._exchange(exchanged[outside], half)
            outside = outside[exchanged[outside] >= self.size]
        return exchanged.astype(np.int64)

    def _exchange(self, numbers: NDArray[np.uint64], half: int) -> NDArray[np.uint64]:
        mask, shift = np.uint64((1 << half) - 1), np.uint64(half)
        left, right = numbers >> shift, numbers & mask
        for key in self.keys:
            left, right = right, left ^ (mix_bits(right ^ np.uint64(key)) & mask)
        return (left << shift) | right
