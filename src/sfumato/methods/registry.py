"""Every method by its word. A new method is one new file and one line here."""

from __future__ import annotations

from dataclasses import MISSING, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.errors import OptionError

if TYPE_CHECKING:
    from sfumato.methods.base import Method

# word → module and class; imported when asked for, so that listing them costs nothing
METHODS: dict[str, tuple[str, str]] = {
    "boxes": ("sfumato.methods.boxes", "Boxes"),
    "generalize": ("sfumato.methods.probabilistic.generalize", "Generalize"),
    "quantiles": ("sfumato.methods.probabilistic.quantiles", "Quantiles"),
    "optimal-groups": ("sfumato.methods.probabilistic.optimal_groups", "OptimalGroups"),
    "safe-harbor": ("sfumato.methods.probabilistic.safe_harbor", "SafeHarbor"),
    "svd-swap": ("sfumato.methods.spectral.svd_swap", "SvdSwap"),
    "rhs": ("sfumato.methods.spectral.histograms", "RecursiveHistogram"),
    "spectral-rhs": ("sfumato.methods.spectral.histograms", "SpectralHistogram"),
    "pica": ("sfumato.methods.spectral.pica", "PartitionedIca"),
    "noise": ("sfumato.methods.classical.noise", "Noise"),
}


def method_class(word: str) -> type[Method]:
    """The class of the method called ``word``."""
    if word not in METHODS:
        raise OptionError(f"There is no method {word!r}.", found=f"methods {', '.join(METHODS)}")
    module, name = METHODS[word]
    found: type[Method] = getattr(import_module(module), name)
    return found


def make_method(word: str, **options: Any) -> Method:
    """The method called ``word`` with these options; one that it does not have, or needs and lacks, is named."""
    method = method_class(word)
    known = {field.name: field for field in fields(method) if field.init}
    for name in options:
        if name not in known:
            raise OptionError(f"The method {word!r} has no option {name!r}.", found=f"options {', '.join(known)}")
    for name, field in known.items():
        if name not in options and field.default is MISSING and field.default_factory is MISSING:
            raise OptionError(f"The method {word!r} needs a value for {name!r}.", found="none")
    return method(**options)
