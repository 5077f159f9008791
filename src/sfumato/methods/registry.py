"""All methods by name: those of this package, and those that other packages declare as entry points.

A method of this package is one line in ``BUILT_IN``. Another package adds one by an entry point of the group
``sfumato.methods``, whose name is the method's and whose object is its class. Nothing is imported before it is used.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.errors import OptionError, warn
from sfumato.params import options_of

if TYPE_CHECKING:
    from sfumato.methods.base import Method

GROUP = "sfumato.methods"  # of entry points
CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")  # where a word begins in the name of a class


class Place(NamedTuple):
    """Where a method is defined."""

    module: str
    class_name: str


BUILT_IN = {
    "boxes": Place("sfumato.methods.boxes.method", "Boxes"),
    "mdav": Place("sfumato.methods.microaggregate.method", "Microaggregate"),
    "noise": Place("sfumato.methods.noise", "Noise"),
    "pram": Place("sfumato.methods.pram", "Pram"),
    "private-sample": Place("sfumato.methods.private_sample", "PrivateSample"),
    "recode": Place("sfumato.methods.recode.method", "Recode"),
    "shuffle": Place("sfumato.methods.shuffle", "Shuffle"),
    "suppress": Place("sfumato.methods.suppress", "Suppress"),
    "swap": Place("sfumato.methods.swap", "Swap"),
    "synthesize": Place("sfumato.methods.synthesize.method", "Synthesize"),
    "top-bottom": Place("sfumato.methods.top_bottom", "TopBottom"),
    "generalize": Place("sfumato.methods.generalize.method", "Generalize"),
    "optimal-groups": Place("sfumato.methods.optimal_groups", "OptimalGroups"),
    "quantiles": Place("sfumato.methods.quantiles", "Quantiles"),
    "safe-harbor": Place("sfumato.methods.safe_harbor.method", "SafeHarbor"),
    "rhs": Place("sfumato.methods.spectral.histograms", "RecursiveHistogram"),
    "spectral-rhs": Place("sfumato.methods.spectral.histograms", "SpectralHistogram"),
    "pica": Place("sfumato.methods.spectral.pica", "PartitionedIca"),
    "svd-swap": Place("sfumato.methods.spectral.svd_swap", "SvdSwap"),
}


def _find_added() -> dict[str, Place]:
    """Return the methods of other packages; none replaces a method of this one, or of a package found before."""
    added: dict[str, Place] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.value):
        if point.name in BUILT_IN or point.name in added:
            warn(f"There is already a method {point.name!r}; that of {point.module!r} is not used.")
        else:
            added[point.name] = Place(point.module, point.attr)
    return added


METHODS = BUILT_IN | _find_added()


def method_class(name: str) -> type[Method]:
    """Return the class of the method with this name; the name of the class is accepted too, also in kebab case."""
    by_class = {place.class_name: method_name for method_name, place in reversed(METHODS.items())}  # the first is used
    by_class |= {CAPITAL.sub("-", word).lower(): method_name for word, method_name in by_class.items()}
    name = name if name in METHODS else by_class.get(name, name)
    if name not in METHODS:
        near = get_close_matches(name, [*METHODS, *by_class], n=1)
        fix = f"{near[0]!r}; `sfumato methods` lists them" if near else "`sfumato methods` lists them"
        raise OptionError(f"There is no method {name!r}.", found=f"methods {', '.join(METHODS)}", fix=fix)
    place = METHODS[name]
    kind: type[Method] = getattr(import_module(place.module), place.class_name)
    return kind


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
