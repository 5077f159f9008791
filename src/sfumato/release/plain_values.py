"""Values that JSON can represent."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

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
