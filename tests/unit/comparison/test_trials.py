"""What is compared: the strengths that methods declare, and those that are chosen of them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.comparison.attempts import chosen_strengths, trials_of
from sfumato.errors import OptionError
from sfumato.methods.base import METHODS, make_method, method_class
from sfumato.params import strength_of

WITHOUT = {"shuffle", "safe-harbor"}  # methods of one strength


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_method_declares_strengths_that_it_accepts_and_may_report(name):
    option = strength_of(method_class(name))
    assert (option is None) == (name in WITHOUT), "give one option of the method strengths=(…), from weak to strong"
    if option is not None:
        values = option.declared.strengths
        assert len(values) >= 3
        assert list(values) in (sorted(set(values)), sorted(set(values), reverse=True))
        assert option.declared.reported
        for value in values:
            assert getattr(make_method(name, **{option.name: value}), option.name) == value


@given(count=st.integers(1, 12), size=st.integers(1, 9))
def test_chosen_strengths_are_spread_over_all(count, size):
    values = tuple(range(size))
    chosen = chosen_strengths(values, count)
    assert len(chosen) == min(count, size)
    assert list(chosen) == sorted(set(chosen))
    if count > 1 and size > 1:
        assert (chosen[0], chosen[-1]) == (values[0], values[-1])
        assert max(b - a for a, b in itertools.pairwise(chosen)) <= -(-(size - 1) // (min(count, size) - 1))


def test_names_are_tried_at_strengths_and_methods_as_they_are():
    trials = trials_of(["noise", "Shuffle", sf.Noise(level=0.3), sf.Noise(level=0.05)], 2)
    assert [trial.name for trial in trials] == [
        "noise, level = 0.05",
        "noise, level = 1",
        "shuffle",
        "noise, level = 0.3",
    ]
    assert trials[0].options == {"level": 0.05}


def test_all_methods_by_default():
    assert {trial.method.name for trial in trials_of(None, 1)} == set(METHODS)


@pytest.mark.parametrize("methods", ["noise", [], ["nothing"], [3]])
def test_what_is_no_list_of_methods_is_refused(methods):
    with pytest.raises(OptionError):
        trials_of(methods, 2)
