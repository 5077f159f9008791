"""Every public name has an example, and every example does what it says."""

from __future__ import annotations

import doctest
import inspect

import pytest

import sfumato

PUBLIC = sorted(sfumato.public_names())
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples_of(name: str) -> list[doctest.DocTest]:
    found = doctest.DocTestFinder(exclude_empty=True).find(getattr(sfumato, name), name, globs={})
    return [one for one in found if one.examples]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_an_example(name):
    thing = getattr(sfumato, name)
    if inspect.isclass(thing) and issubclass(thing, Exception):
        pytest.skip("an error is raised, not called")
    assert examples_of(name), f"{name} has no example in its docstring"


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_do_what_they_say(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for example in examples_of(name):
        said: list[str] = []
        failures = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=said.append)
        assert not failures.failed, "".join(said)


def test_a_wrong_example_would_be_seen():
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "control", None, None)
    assert doctest.DocTestRunner(optionflags=FLAGS).run(wrong, out=lambda text: None).failed
