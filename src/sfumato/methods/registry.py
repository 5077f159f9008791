"""All methods by name. A method is discovered from its source file: a class with a ``name`` in one of the families."""

from __future__ import annotations

import re
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.errors import OptionError
from sfumato.params import options_of

if TYPE_CHECKING:
    from sfumato.methods.base import Method

NAMED_CLASS = re.compile(r'^class (\w+)\([^\n]*\):\n(?:(?!^class ).*\n)*?    name: ClassVar\[str\] = "([\w-]+)"', re.M)
CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")  # where a word begins in the name of a class


class Place(NamedTuple):
    """Where a method is defined."""

    module: str
    class_name: str


def _found() -> dict[str, Place]:
    """Return name → place. Files are read, not imported, so that listing the methods is fast."""
    here = Path(__file__).parent
    methods: dict[str, Place] = {}
    for file in sorted(here.glob("*/**/*.py")):
        for class_name, name in NAMED_CLASS.findall(file.read_text(encoding="utf-8")):
            module = ".".join(("sfumato.methods", *file.relative_to(here).with_suffix("").parts))
            methods[name] = Place(module, class_name)
    return methods


METHODS = _found()


def method_class(name: str) -> type[Method]:
    """Return the class of the method with this name; the name of the class is accepted too, also in kebab case."""
    by_class = {place.class_name: method_name for method_name, place in METHODS.items()}
    by_class |= {CAPITAL.sub("-", word).lower(): method_name for word, method_name in by_class.items()}
    name = name if name in METHODS else by_class.get(name, name)
    if name not in METHODS:
        near = get_close_matches(name, [*METHODS, *by_class], n=1)
        fix = f"{near[0]!r}; `sfumato methods` lists them" if near else "`sfumato methods` lists them"
        raise OptionError(f"There is no method {name!r}.", found=f"methods {', '.join(METHODS)}", fix=fix)
    place = METHODS[name]
    found: type[Method] = getattr(import_module(place.module), place.class_name)
    return found


def make_method(name: str, **options: Any) -> Method:
    """Create the method with these options; raise if an option is unknown, or if a required one is not given."""
    method = method_class(name)
    known = {option.name: option for option in options_of(method)}
    for given in options:
        if given not in known:
            near = get_close_matches(given, known, n=1)
            fix = f"`sfumato methods {name}` explains them"
            raise OptionError(
                f"The method {name!r} has no option {given!r}.",
                found=f"options {', '.join(known)}",
                fix=f"{near[0]!r}; {fix}" if near else fix,
            )
    for option in known.values():
        if option.is_required and option.name not in options:
            usual = option.declared.strengths[1:2] or ("VALUE",)
            raise OptionError(
                f"The method {name!r} needs a value for {option.name!r}.",
                found="no value",
                fix=f"--{option.name} {usual[0]}, or in Python {option.name}={usual[0]}",
            )
    return method(**options)
