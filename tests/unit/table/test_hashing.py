"""Hashes depend on the content of cells alone: not on order, chunks, dictionaries, processes or machines."""

from __future__ import annotations

import datetime
import hashlib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.table.groups import column_hashes, combination_hashes, row_keys
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

MASK = 2**64 - 1
KEYS = [
    [0x9B5EF595E091A646, 0x52187F6969A563B0],
    [0x41D2F622A395FA5B, 0x2CC94F37FE507A0B],
    [0x0AB758508324CA34, 0xCD9E5A82821C7775],
]


def hashes(column: pa.Array | pa.ChunkedArray, name: str = "c", salt: bytes = b"") -> list[int]:
    table = Table(pa.table({name: column}), {name: Kind.NOMINAL})
    return column_hashes(table, name, salt).tolist()


def mixed(number: int) -> int:
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & MASK
    return number ^ (number >> 31)


def obvious_hash(text: str, seed: int) -> int:
    """The hash of one string, word after word."""
    data = text.encode()
    total = len(data)
    for place in range(max(1, -(-len(data) // 8))):
        word = int.from_bytes(data[8 * place : 8 * place + 8], "little")
        total += mixed(word ^ mixed((seed + place * 0x9E3779B97F4A7C15) & MASK))
    return mixed(total & MASK)


words = st.lists(st.one_of(st.none(), st.text(max_size=20)), min_size=1, max_size=12)


@given(words)
def test_strings_are_hashed_as_their_obvious_twin_does(texts):
    seed = int.from_bytes(hashlib.blake2b(b"c", digest_size=8).digest(), "little")
    none = int.from_bytes(hashlib.blake2b(b"c\0", digest_size=8).digest(), "little")
    expected = [none if text is None else obvious_hash(text, seed) for text in texts]
    assert hashes(pa.array(texts, pa.string())) == expected


@given(words, st.integers(0, 12), st.integers(0, 12))
def test_neither_slices_nor_chunks_nor_dictionaries_matter(texts, first, second):
    plain = pa.array(texts, pa.string())
    expected = hashes(plain)
    start, end = sorted((min(first, len(texts)), min(second, len(texts))))
    assert hashes(plain.slice(start, end - start)) == expected[start:end]
    assert hashes(pa.chunked_array([plain.slice(0, start), plain.slice(start)], pa.string())) == expected
    assert hashes(plain.dictionary_encode()) == expected
    assert hashes(plain.cast(pa.large_string())) == expected
    reversed_codes = pa.array(texts[::-1], pa.string()).dictionary_encode()
    assert hashes(reversed_codes) == expected[::-1]


@pytest.mark.parametrize(
    "cells",
    [
        [1, 2, 3, -1, None],
        [0.5, 1.0, -1.5, 1e300, None],
        [True, False, None],
        [Decimal("1.50"), Decimal("2.25"), Decimal("-1.50"), None],
        [datetime.date(2020, 1, 1), datetime.date(1960, 1, 1), None],
        [datetime.datetime(2020, 1, 1, 3), datetime.datetime(2020, 1, 1, 4), None],
        ["a", "b", "", "\0", None],
    ],
)
def test_different_cells_of_any_type_differ_and_parts_agree(cells):
    column = pa.array(cells)
    found = hashes(column)
    assert len(set(found)) == len(cells)
    assert hashes(column.slice(1)) == found[1:]
    assert hashes(pa.array(cells[::-1])) == found[::-1]


def test_zeros_are_one_number_and_nothing_is_one_value():
    assert len(set(hashes(pa.array([0.0, -0.0])))) == 1
    assert len(set(hashes(pa.array([None, float("nan")])))) == 1
    assert (
        hashes(pa.nulls(2)) == hashes(pa.array([None, None], pa.string())) == hashes(pa.array([None] * 2, pa.int64()))
    )


def test_columns_and_salts_have_numbers_of_their_own():
    column = pa.array(["a"])
    assert len({hashes(column)[0], hashes(column, "d")[0], hashes(column, salt=b"s")[0]}) == 3


def test_empty_columns_have_no_hashes():
    for kind in (pa.string(), pa.int64(), pa.dictionary(pa.int32(), pa.string()), pa.null()):
        assert hashes(pa.chunked_array([], kind)) == []


class TestKeys:
    table = Table.from_arrow(
        pa.table(
            {"w": ["Ulm", "a word of more than eight bytes", ""], "n": [1, -2, None], "x": [0.5, -0.0, None]},
        )
    )

    def test_are_the_same_on_every_machine(self):
        """Computed once, written down here."""
        assert row_keys(self.table).tolist() == KEYS

    def test_belong_to_rows_and_not_to_the_order_of_columns(self):
        chosen = self.table.select(["x", "w", "n"]).take(np.array([2, 0]))
        assert row_keys(chosen).tolist() == [KEYS[2], KEYS[0]]

    def test_do_not_confuse_combinations_of_the_same_values(self):
        crossed = Table.from_arrow(pa.table({"a": ["u", "u", "v", "v"], "b": ["u", "v", "u", "v"]}))
        assert len(np.unique(row_keys(crossed), axis=0)) == 4
        columns = [column_hashes(crossed, name) for name in "ab"]
        assert len(np.unique(combination_hashes(columns))) == 4

    def test_of_many_rows_hardly_collide_even_in_one_half(self):
        draw = np.random.default_rng(1)
        large = Table.from_arrow(
            pa.table({"x": np.arange(200_000) % 450, "w": [f"w{n // 450}" for n in range(200_000)]}).take(
                pa.array(draw.permutation(200_000))
            )
        )
        keys = row_keys(large)
        assert all(len(np.unique(keys[:, half])) == 200_000 for half in (0, 1))
