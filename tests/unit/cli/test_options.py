"""The flags of commands: those of methods are what the methods declare, and groups of options become flags."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import pytest
import typer
from typer.main import get_command

from sfumato.cli import options
from sfumato.methods.base import METHODS, method_class
from sfumato.methods.command_flags import COMMAND_FLAGS
from sfumato.params import Choice, Number, OrNone, Probability, Share, Whole, options_of

DECLARED = [(name, one) for name in METHODS for one in options_of(method_class(name))]
TAKES = {"whole": (Whole,), "number": (Number, Share, Probability, Whole), "text": (Choice,)}


@pytest.mark.parametrize("flag", COMMAND_FLAGS, ids=lambda flag: flag.option)
def test_a_flag_is_an_option_of_a_method_with_such_values(flag):
    ranges = [one.declared.range for _, one in DECLARED if one.name == flag.option]
    ranges = [one.range if isinstance(one, OrNone) else one for one in ranges]
    assert ranges
    known = [one for one in ranges if type(one) in (Whole, Number, Share, Probability, Choice)]
    if flag.value in TAKES and known:
        assert any(isinstance(one, TAKES[flag.value]) for one in known)
    for one in known:
        if isinstance(one, Choice):
            assert all(word in flag.help for word in one.choices), "the help names every choice"


def test_a_flag_that_no_method_has_would_be_found():
    assert not [one for _, one in DECLARED if one.name == "nothing"]


@dataclass(frozen=True, kw_only=True)
class Inner:
    many: list[str] = typer.Option([], "--many")  # noqa: RUF009


@dataclass(frozen=True, kw_only=True)
class Outer:
    one: int | None = typer.Option(None, "--one")
    inner: Inner


def test_options_of_groups_become_flags_and_arrive_as_groups():
    arrived = []

    def command(*, group: Outer, last: bool = typer.Option(False, "--last")) -> None:
        """Do nothing."""
        arrived.append((group, last))

    app = typer.Typer()
    app.command()(options.with_groups(command))
    assert list(inspect.signature(options.with_groups(command)).parameters) == ["one", "many", "last"]
    get_command(app).main(["--many", "a", "--one", "3", "--many", "b", "--last"], standalone_mode=False)
    assert arrived == [(Outer(one=3, inner=Inner(many=["a", "b"])), True)]
