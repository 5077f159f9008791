"""The vocabulary is data: every entry must be a pattern that can be used, and refer to nothing that is not there."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sfumato.schema.recognition.names import divide_words, identifier_patterns, topics, words_of, written_words

OF_NAMES = [*identifier_patterns("removed"), *identifier_patterns("doubtful")]
OF_CELLS = [*identifier_patterns("whole_cells"), *identifier_patterns("contained")]


@pytest.mark.parametrize("topic", topics())
def test_no_reference_of_a_topic_is_left_and_no_alternative_is_empty(topic):
    assert not re.search(r"\{[a-z_]+\}", topics()[topic])
    assert not re.search(r"^\||\|\||\|$", topics()[topic])


def test_patterns_of_names_are_regular_expressions_and_those_of_cells_are_of_re2():
    for _, pattern in OF_NAMES:
        assert re.compile(pattern)
    for _, pattern in OF_CELLS:
        assert pc.match_substring_regex(pa.array(["x"]), pattern).null_count == 0


def test_a_name_is_split_in_the_same_places_by_both_readings():
    assert written_words("admissionDate 2") == "admission_date_2"
    assert divide_words("admissionDate 2") == divide_words("admissiondate2") == "admission_date"


def test_lists_of_words_contain_no_patterns():
    listed = words_of("joined", "plurals", "endings", "short_endings", "undivided", "given_names", "surnames")
    assert all(word.isalpha() for word in listed)
