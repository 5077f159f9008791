"""Every option explains itself: meaning, range, unit and default, in help() and wherever options are shown."""

from __future__ import annotations

import dataclasses
import inspect
import re

import pytest

import sfumato
from sfumato.methods.base import METHODS, method_class
from sfumato.params import KEY, Choice, Flag, options_of

FUNCTIONS = [name for name in sorted(sfumato.public_names()) if inspect.isfunction(getattr(sfumato, name))]


@pytest.mark.parametrize("name", sorted(METHODS))
class TestOptionsOfMethods:
    def test_every_field_is_a_declared_option(self, name):
        undeclared = [field.name for field in dataclasses.fields(method_class(name)) if KEY not in field.metadata]
        assert undeclared == []

    def test_meaning_range_and_default_are_in_the_docstring(self, name):
        kind = method_class(name)
        text = inspect.getdoc(kind)
        for one in options_of(kind):
            assert one.declared.meaning.endswith((".", ")")), one.name
            assert f"{one.name} : {one.range_and_default}" in text
            assert re.search(r"\((required|default .+)\)$", one.range_and_default), one.name
            words = one.declared.meaning.split()
            assert " ".join(words[:5]) in " ".join(text.split())

    def test_a_number_has_a_unit_or_says_what_it_is_relative_to(self, name):
        for one in options_of(method_class(name)):
            range_words = one.declared.range.describe(one.declared.unit)
            plain = isinstance(one.declared.range, Choice | Flag) or "list" in range_words or '"' in range_words
            relative = re.search(
                r"relative|share|correlation|calendar year|unit|importance|probability|codes|corners|people|each|times",
                (range_words + one.declared.meaning).lower(),
            )
            assert plain or one.declared.unit or relative, one.name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_of_a_public_function_is_explained(name):
    function = getattr(sfumato, name)
    text = inspect.getdoc(function) or ""
    missing = [
        parameter
        for parameter in inspect.signature(function).parameters
        if not re.search(rf"^\**{re.escape(parameter)}\b", text, flags=re.M)
    ]
    assert missing == []


def test_an_option_without_a_meaning_would_be_seen():
    @dataclasses.dataclass(frozen=True)
    class Silent:
        k: int = 3

    assert [field.name for field in dataclasses.fields(Silent) if KEY not in field.metadata] == ["k"]
