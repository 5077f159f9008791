"""What is compared: methods, each at several strengths that its class declares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from sfumato.errors import OptionError
from sfumato.methods.base import Method
from sfumato.methods.registry import METHODS, make_method, method_class
from sfumato.params import options_of, require_int, strength_of
from sfumato.release.plain_values import plain


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A method with all its options, and the one option by which trials of this method differ."""

    method: Method
    strength: str  # such as "k = 5"; empty for a method of one strength

    @property
    def name(self) -> str:
        """Method and strength, as text."""
        return f"{self.method.name}, {self.strength}" if self.strength else self.method.name

    @property
    def options(self) -> dict[str, object]:
        """Options that may be reported and differ from their defaults."""
        given = ((one, getattr(self.method, one.name)) for one in options_of(type(self.method)))
        return {one.name: plain(value) for one, value in given if one.declared.reported and value != one.default}

    @property
    def identity(self) -> str:
        """A text that differs for different trials; for hashes only, because it may quote what options hold."""
        return repr(
            (self.method.name, [(field.name, getattr(self.method, field.name)) for field in fields(self.method)])
        )


def trials_of(methods: Iterable[str | Method] | None, strengths: int) -> tuple[Trial, ...]:
    """Return the trials of methods, given by name (at several strengths) or as objects (as they are).

    None stands for all methods. A name at the end of another's list is not repeated.
    """
    require_int(strengths, name="strengths", at_least=1)
    if isinstance(methods, str):
        raise OptionError("methods must be a list of methods.", found="a text", fix=f"methods=[{methods!r}]")
    trials: dict[str, Trial] = {}
    for given in METHODS if methods is None else methods:
        for trial in [_as_given(given)] if isinstance(given, Method) else _at_strengths(given, strengths):
            trials.setdefault(trial.identity, trial)
    if not trials:
        raise OptionError("At least one method must be given to compare.", found="none", fix="sfumato methods")
    return tuple(trials.values())


def chosen_strengths(values: tuple[object, ...], count: int) -> tuple[object, ...]:
    """Return ``count`` of the values that a method declares, evenly spaced from the first to the last, or all of them.

    >>> chosen_strengths((3, 5, 10, 20, 50), 3)
    (3, 10, 50)
    >>> chosen_strengths((3, 5, 10, 20, 50), 1)
    (10,)
    """
    if count == 1:
        return values[len(values) // 2 :][:1]
    last = len(values) - 1
    return tuple(values[position] for position in sorted({round(step * last / (count - 1)) for step in range(count)}))


def _at_strengths(name: str, count: int) -> list[Trial]:
    if not isinstance(name, str):
        raise OptionError("A method must be a name or a method such as sf.Noise().", found=type(name).__name__)
    option = strength_of(method_class(name))
    if option is None:
        return [Trial(method=make_method(name), strength="")]
    values = chosen_strengths(option.declared.strengths, count)
    return [
        Trial(method=make_method(name, **{option.name: value}), strength=_text(option.name, value)) for value in values
    ]


def _as_given(method: Method) -> Trial:
    option = strength_of(type(method))
    return Trial(method=method, strength="" if option is None else _text(option.name, getattr(method, option.name)))


def _text(name: str, value: object) -> str:
    return f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"
