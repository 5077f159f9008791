"""Codes of strings, against a dictionary of Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfumato.table.text_kernels import MOST, text_codes

# few letters and lengths around multiples of a word, so that strings share their first and last words
strings = st.lists(st.text("ab", max_size=26) | st.text(max_size=9) | st.sampled_from("ab").map(lambda c: c * 24))


def encoded(texts: list[str], before: bytes = b"") -> list[int]:
    parts = [text.encode() for text in texts]
    offsets = len(before) + np.cumsum([0, *map(len, parts)])
    return text_codes(np.frombuffer(before + b"".join(parts), np.uint8), offsets.astype(np.int32)).tolist()


def obvious(texts: list[str]) -> list[int]:
    seen: dict[str, int] = {}
    return [seen.setdefault(text, len(seen)) for text in texts]


@given(strings.filter(lambda texts: len(set(texts)) <= MOST), st.binary(max_size=9))
def test_equal_strings_have_equal_codes_in_the_order_of_first_appearance(texts, before):
    assert encoded(texts, before) == obvious(texts)


def test_strings_that_differ_in_one_byte_anywhere_have_different_codes():
    long = "x" * 33
    texts = [long, *(long[:place] + "y" + long[place + 1 :] for place in range(33))]
    assert encoded(texts * 2) == [*range(34)] * 2


def test_strings_with_zero_bytes_at_the_end_differ_from_shorter_ones():
    assert encoded(["a", "a\0", "", "\0", "a"]) == [0, 1, 2, 3, 0]


def test_codes_end_where_there_are_too_many_distinct_strings():
    assert encoded([*map(str, range(MOST))]) == [*range(MOST)]
    assert len(encoded([*map(str, range(MOST + 40))])) == MOST
