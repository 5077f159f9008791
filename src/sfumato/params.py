"""Declare options and check their values.

An option is a field of a frozen dataclass, created by :func:`option`. It declares its meaning, unit, range and default,
and whether a manifest may show its value. ``help()``, the command line, the manifest and the reference pages all use
this declaration.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import numbers
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from difflib import get_close_matches
from typing import Any, Protocol

from sfumato.errors import OptionError

KEY = "option"  # key in the metadata of a field
GROUP_SIZES = (3, 5, 10, 20, 50)  # the strengths of an option k
LARGEST = 2**63  # whole numbers of options must fit into 64 bits


def is_finite(number: Any) -> bool:
    """Return whether a number is finite as a float; whole numbers can be too large for one."""
    try:
        return math.isfinite(float(number))
    except OverflowError:
        return False


TYPES = ((bool, "yes or no"), (str, "a text"), (int, "a whole number"), (float, "a number"), (type(None), "nothing"))


def type_in_words(value: Any) -> str:
    """Return what a value is, for people who do not program; the name of a type that is none of the usual ones.

    >>> type_in_words("five"), type_in_words(2.5), type_in_words({})
    ('a text', 'a number', 'dict')
    """
    return next((words for kind, words in TYPES if isinstance(value, kind)), type(value).__name__)


def require_int(value: Any, *, name: str, at_least: int | None = None, below: int | None = LARGEST) -> int:
    """Return the value if it is a whole number, not a boolean, at least ``at_least`` and below ``below``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise OptionError(f"{name} must be a whole number.", found=type_in_words(value))
    if below is not None and abs(int(value)) >= below:
        raise OptionError(f"{name} must be below 2⁶³.", found="a larger number")
    if at_least is not None and value < at_least:
        raise OptionError(f"{name} must be at least {at_least}.", found=str(int(value)), fix=f"{at_least} or more")
    return int(value)


def require_number(value: Any, *, name: str, above: float | None = None, at_least: float | None = None) -> float:
    """Return the value as a float if it is finite and above (or at least) a bound; else raise."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not is_finite(value):
        raise OptionError(f"{name} must be a finite number.", found=type_in_words(value))
    number = float(value)
    if above is not None and not number > above:
        raise OptionError(f"{name} must be above {above:g}.", found=f"{number:g}")
    if at_least is not None and number < at_least:
        raise OptionError(f"{name} must be at least {at_least:g}.", found=f"{number:g}")
    return number


def require_share(value: Any, *, name: str) -> float:
    """Return the value as a float if it is from 0 to 1; else raise."""
    number = require_number(value, name=name, at_least=0.0)
    if number > 1.0:
        raise OptionError(f"{name} must be a share from 0 to 1.", found=f"{number:g}")
    return number


def require_probability(value: Any, *, name: str) -> float:
    """Return the value as a float if it is strictly between 0 and 1; else raise."""
    number = require_number(value, name=name, above=0.0)
    if number >= 1.0:
        raise OptionError(f"{name} must be below 1.", found=f"{number:g}")
    return number


def require_choice(value: Any, *, name: str, choices: Collection[str]) -> str:
    """Return the value if it is one of the choices; else raise."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        near = get_close_matches(value, list(choices), n=1) if isinstance(value, str) else []
        raise OptionError(
            f"{name} must be one of {listed}.",
            found=repr(value) if isinstance(value, str) else type_in_words(value),
            fix=repr(near[0]) if near else None,
        )
    return value


def require_list(value: object, name: str) -> None:
    """Raise unless the value of an option, such as statistics to keep, is a list or a tuple."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise OptionError(f"{name} must be a list.", found=type_in_words(value), fix="put it in square brackets")


def require_names(value: Any, name: str) -> tuple[str, ...]:
    """Return the value as a tuple if it is a tuple or list of different strings; else raise."""
    if not isinstance(value, tuple | list) or not all(isinstance(one, str) for one in value):
        raise OptionError(
            f"{name} must be a list of column names.", found=type_in_words(value), fix=f'for example {name}=("sex",)'
        )
    if len(set(value)) < len(value):
        raise OptionError(f"{name} must name different columns.", found="a name twice")
    return tuple(value)


def require_name(value: Any, name: str) -> None:
    """Raise unless the value is the name of a column."""
    if not isinstance(value, str) or not value:
        raise OptionError(f"{name} must be the name of a column.", found=type_in_words(value))


class Range(Protocol):
    """The values that an option may have."""

    def check(self, value: Any, name: str) -> None:
        """Raise unless the value is in the range."""

    def describe(self, unit: str) -> str:
        """Describe the range and its unit as text."""


@dataclass(frozen=True)
class Whole:
    """Whole numbers."""

    at_least: int

    def check(self, value: Any, name: str) -> None:
        require_int(value, name=name, at_least=self.at_least)

    def describe(self, unit: str) -> str:
        return f"whole number{f' of {unit}' if unit else ''}, at least {self.at_least}"


@dataclass(frozen=True)
class Number:
    """Finite numbers, optionally with a lower bound."""

    above: float | None = None
    at_least: float | None = None

    def check(self, value: Any, name: str) -> None:
        require_number(value, name=name, above=self.above, at_least=self.at_least)

    def describe(self, unit: str) -> str:
        bound = f", above {self.above:g}" if self.above is not None else ""
        bound = f", at least {self.at_least:g}" if self.at_least is not None else bound
        return f"number{f' of {unit}' if unit else ''}{bound}"


@dataclass(frozen=True)
class Share:
    """Shares from 0 to 1, or to just below 1."""

    below_one: bool = False

    def check(self, value: Any, name: str) -> None:
        if require_share(value, name=name) >= 1.0 and self.below_one:
            raise OptionError(f"{name} must be below 1.", found=f"{value:g}")

    def describe(self, unit: str) -> str:
        return f"share{f' of {unit}' if unit else ''}, {'at least 0 and below 1' if self.below_one else 'from 0 to 1'}"


@dataclass(frozen=True)
class Probability:
    """Probabilities strictly between 0 and 1."""

    def check(self, value: Any, name: str) -> None:
        require_probability(value, name=name)

    def describe(self, unit: str) -> str:
        return f"{unit or 'probability'}, between 0 and 1"


@dataclass(frozen=True)
class Choice:
    """One of several strings."""

    choices: tuple[str, ...]

    def check(self, value: Any, name: str) -> None:
        require_choice(value, name=name, choices=self.choices)

    def describe(self, unit: str) -> str:
        return " or ".join(f'"{choice}"' for choice in self.choices)


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def check(self, value: Any, name: str) -> None:
        if not isinstance(value, bool):
            raise OptionError(f"{name} must be True or False.", found=type_in_words(value))

    def describe(self, unit: str) -> str:
        return "True or False"


@dataclass(frozen=True)
class Checked:
    """Values that a function accepts."""

    description: str
    accept: Callable[[Any, str], object] | None = None  # called with value and name; raises if the value is invalid

    def check(self, value: Any, name: str) -> None:
        if self.accept is not None:
            self.accept(value, name)

    def describe(self, unit: str) -> str:
        return f"{self.description}{f', in {unit}' if unit else ''}"


@dataclass(frozen=True)
class Tabular(Checked):
    """Tables: a Table, a data frame, or the path of a file. The web page does not offer them: it opens no such path."""


@dataclass(frozen=True)
class OrNone:
    """A range, or None."""

    range: Range

    def check(self, value: Any, name: str) -> None:
        if value is not None:
            self.range.check(value, name)

    def describe(self, unit: str) -> str:
        return f"{self.range.describe(unit)}, or None"


@dataclass(frozen=True, kw_only=True)
class Option:
    """The declaration of an option."""

    meaning: str  # one or more sentences
    range: Range
    unit: str  # empty if the range describes it
    reported: bool  # whether a manifest may show it
    strengths: tuple[Any, ...] = ()  # values from the weakest to the strongest protection; empty for most options


def option(
    range: Range,
    meaning: str,
    *,
    default: Any = MISSING,
    unit: str = "",
    reported: bool = False,
    strengths: tuple[Any, ...] = (),
) -> Any:
    """Return a dataclass field that is an option.

    ``reported`` allows a manifest to show the value. It is false by default, because values that may come from the
    original data, such as a declared range, a path or a seed, must never be shown. ``strengths`` makes the option
    the one by which a method protects more or less (:func:`strength_of`): sensible values, from the weakest protection
    to the strongest, that :func:`sfumato.compare` tries.
    """
    declared = Option(meaning=meaning, range=range, unit=unit, reported=reported, strengths=strengths)
    if isinstance(default, Mapping | list):
        raise TypeError("the default of an option must be immutable")
    return dataclasses.field(default=default, metadata={KEY: declared})


@dataclass(frozen=True, kw_only=True)
class NamedOption:
    """An option of a class, with its name and default."""

    name: str
    declared: Option
    default: Any  # MISSING if a value is required

    @property
    def is_required(self) -> bool:
        """Whether a value is required."""
        return self.default is MISSING

    @property
    def range_and_default(self) -> str:
        """Range, unit and default as text."""
        default = "required" if self.is_required else f"default {self.default!r}"
        return f"{self.declared.range.describe(self.declared.unit)} ({default})"


def options_of(kind: type) -> tuple[NamedOption, ...]:
    """Return the options of a class, even while it is being created: its own first, then those of its base classes."""
    options: dict[str, NamedOption] = {}
    for base in kind.__mro__:
        fields = base.__dict__.get("__dataclass_fields__", {})  # does not exist while the class is being created
        for name in inspect.get_annotations(base):
            field = fields.get(name, base.__dict__.get(name))
            if isinstance(field, dataclasses.Field) and KEY in field.metadata and name not in options:
                options[name] = NamedOption(name=name, declared=field.metadata[KEY], default=field.default)
    return tuple(options.values())


def strength_of(kind: type) -> NamedOption | None:
    """Return the option by which a class protects more or less; None if it has none. Its own options come first."""
    return next((named for named in options_of(kind) if named.declared.strengths), None)


def check_options(record: object) -> None:
    """Raise unless the value of every option is in its range."""
    for named in options_of(type(record)):
        named.declared.range.check(getattr(record, named.name), named.name)


def with_options(docstring: str, kind: type) -> str:
    """Return a docstring with a section that explains every option, placed before the examples."""
    text = textwrap.dedent("    " + docstring).strip() if docstring else ""
    body, mark, examples = text.partition("Examples\n--------")
    lines = ["Parameters", "----------"]
    for named in options_of(kind):
        lines.append(f"{named.name} : {named.range_and_default}")
        lines += textwrap.wrap(named.declared.meaning, 110, initial_indent="    ", subsequent_indent="    ")
    section = "\n".join(lines) if len(lines) > 2 else ""
    return "\n\n".join(part for part in (body.strip(), section, (mark + examples).strip()) if part) + "\n"


PLAIN_WORDS = (  # words of Python, and what they mean in a form or a report, where an empty field is None
    (re.compile(r"(?<=; )None\b"), "empty"),
    (re.compile(r"\bNone(?=:| with)"), "Empty"),
    (re.compile(r"\bor None\b"), "or empty"),
    (re.compile(r'\bkind="([^"]+)"'), r"the kind “\1”"),
    (re.compile(r"``?([^`]+)``?"), r"“\1”"),
    (re.compile(r"\bSearchBudget, or a number\b"), "number"),
    (re.compile(r"\bTrue or False\b"), "yes or no"),
    (re.compile(r"\btuple of\b"), "list of"),
)


def in_plain_words(text: str) -> str:
    """Return what a method or an option says about itself, without the words of Python.

    >>> in_plain_words('Time limit, for kind="search". None: no limit.')
    'Time limit, for the kind “search”. Empty: no limit.'
    """
    for word, other in PLAIN_WORDS:
        text = word.sub(other, text)
    return text


Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]


def plain(value: Any) -> Plain:
    """Return a value that JSON can represent; records of this package become their text, other objects their type."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value) if type(value).__module__.startswith("sfumato.") else type(value).__name__
