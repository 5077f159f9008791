"""Checks shared by all options: one sentence a rule, the same words everywhere."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection
from typing import Any

from sfumato.errors import OptionError


def require_int(value: Any, *, name: str, at_least: int | None = None) -> int:
    """A whole number, not a boolean, at least ``at_least``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise OptionError(f"{name} must be a whole number.", found=type(value).__name__)
    if at_least is not None and value < at_least:
        raise OptionError(f"{name} must be at least {at_least}.", found=str(int(value)))
    return int(value)


def require_number(value: Any, *, name: str, above: float | None = None, at_least: float | None = None) -> float:
    """A finite number, above (or at least) a bound."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(float(value)):
        raise OptionError(f"{name} must be a finite number.", found=type(value).__name__)
    number = float(value)
    if above is not None and not number > above:
        raise OptionError(f"{name} must be above {above:g}.", found=f"{number:g}")
    if at_least is not None and number < at_least:
        raise OptionError(f"{name} must be at least {at_least:g}.", found=f"{number:g}")
    return number


def require_share(value: Any, *, name: str) -> float:
    """A number from 0 to 1."""
    number = require_number(value, name=name, at_least=0.0)
    if number > 1.0:
        raise OptionError(f"{name} must be a share from 0 to 1.", found=f"{number:g}")
    return number


def require_choice(value: Any, *, name: str, choices: Collection[str]) -> str:
    """One of a few words."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise OptionError(
            f"{name} must be one of {listed}.", found=repr(value) if isinstance(value, str) else type(value).__name__
        )
    return str(value)
